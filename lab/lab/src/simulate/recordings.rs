//! The recordings that a scenario names, each read once.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use comity_graph::Graph;

/// A reader that keeps the text that was read. The text stays small even for a file without an end, such as a device,
/// because a graph is refused at its first line.
struct Kept<R> {
    from: R,
    text: Vec<u8>,
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.text.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

/// The recordings of a scenario, each read once.
pub struct Recordings<'a> {
    /// The folder in which the names are looked up.
    folder: &'a Path,
    found: BTreeMap<String, (u64, Arc<Graph>)>,
}

impl<'a> Recordings<'a> {
    /// Makes the set of recordings of a scenario. They are in the folder of the scenario's file.
    pub fn beside(scenario: &'a Path) -> Recordings<'a> {
        let folder = scenario.parent().unwrap_or(Path::new(""));
        Recordings { folder, found: BTreeMap::new() }
    }

    /// Returns the recording of a name, which is read if it has not been.
    ///
    /// # Errors
    /// If the file cannot be read or contains no recording; the error is a sentence that says why.
    pub fn read(&mut self, name: &str) -> Result<Arc<Graph>, String> {
        if let Some((_, graph)) = self.found.get(name) {
            return Ok(Arc::clone(graph));
        }
        let from = File::open(self.folder.join(name)).map_err(|error| error.to_string())?;
        let mut from = BufReader::new(Kept { from, text: Vec::new() });
        let graph = Arc::new(Graph::read(&mut from)?);
        // A graph is read to the end of its file, so `text` is the whole file.
        let Kept { text, .. } = from.into_inner();
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        self.found.insert(name.to_owned(), (hash.finish(), Arc::clone(&graph)));
        Ok(graph)
    }

    /// Describes the recordings for the header of a file of runs. The description changes if a recording of the same
    /// name changes. Empty if there are no recordings.
    pub fn told(&self) -> String {
        self.found.iter().map(|(name, (hash, _))| format!(", {name} is {hash:x}")).collect()
    }
}
