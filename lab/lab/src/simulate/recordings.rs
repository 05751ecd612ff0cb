//! The recordings that a scenario names, each read once.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use comity_graph::Graph;

/// A reader that keeps what was read. A file without end, as a device, is given up at its first line.
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
    /// In which their names are looked up.
    folder: &'a Path,
    found: BTreeMap<String, (u64, Arc<Graph>)>,
}

impl<'a> Recordings<'a> {
    /// Those of a scenario's file, beside which they lie.
    pub fn beside(scenario: &'a Path) -> Recordings<'a> {
        let folder = scenario.parent().unwrap_or(Path::new(""));
        Recordings { folder, found: BTreeMap::new() }
    }

    /// The one of that name.
    ///
    /// # Errors
    /// Says in a sentence why there is none.
    pub fn read(&mut self, name: &str) -> Result<Arc<Graph>, String> {
        if let Some((_, graph)) = self.found.get(name) {
            return Ok(Arc::clone(graph));
        }
        let from = File::open(self.folder.join(name)).map_err(|error| error.to_string())?;
        let mut from = BufReader::new(Kept { from, text: Vec::new() });
        let graph = Arc::new(Graph::read(&mut from)?);
        // A graph is read to the end of its file.
        let Kept { text, .. } = from.into_inner();
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        self.found.insert(name.to_owned(), (hash.finish(), Arc::clone(&graph)));
        Ok(graph)
    }

    /// For the head of a file of runs: those of another recording with the same name are others. Empty if there are
    /// none.
    pub fn told(&self) -> String {
        self.found.iter().map(|(name, (hash, _))| format!(", {name} is {hash:x}")).collect()
    }
}
