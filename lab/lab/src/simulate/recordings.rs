//! The recordings that a scenario names, each read once.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use comity_graph::Graph;

/// A reader that keeps the text that it has read. For an endless file, such as a device, the text stays small,
/// because a file that is not a graph is refused at its first line.
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
    /// The folder that contains the recordings.
    folder: &'a Path,
    found: BTreeMap<String, (u64, Arc<Graph>)>,
}

impl<'a> Recordings<'a> {
    /// Makes an empty set of recordings for a scenario. The recordings are in the folder of the scenario's file.
    pub fn beside(scenario: &'a Path) -> Recordings<'a> {
        let folder = scenario.parent().unwrap_or(Path::new(""));
        Recordings { folder, found: BTreeMap::new() }
    }

    /// Returns the recording with a name. The first call for a name reads the file.
    ///
    /// # Errors
    /// If the file cannot be read or contains no recording. The error is a sentence with the reason.
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

    /// Describes the recordings by name and hash, for the header of a file of runs. If the content of a recording
    /// changes, the description changes. Empty if there are no recordings.
    pub fn told(&self) -> String {
        self.found.iter().map(|(name, (hash, _))| format!(", {name} is {hash:x}")).collect()
    }
}
