//! A file that observers write during a run. The first error is kept and reported after the run.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use comity_console::Failure;
use comity_os::writes::without_signals;

/// A file in which a write beyond the limit of `ulimit -f` returns an error, instead of ending the process by a
/// signal.
pub struct Quiet(File);

impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        without_signals(|| self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file and the first error of a write to it. A clone refers to the same file.
#[derive(Clone)]
pub struct Lines {
    path: PathBuf,
    file: Rc<RefCell<(BufWriter<Quiet>, io::Result<()>)>>,
}

impl Lines {
    /// Creates a new file. It is an error if the file exists.
    pub fn create(path: &Path) -> Result<Lines, Failure> {
        let file = File::create_new(path).map_err(|error| cannot(path, &error))?;
        Ok(Lines { path: path.to_owned(), file: Rc::new(RefCell::new((BufWriter::new(Quiet(file)), Ok(())))) })
    }

    /// Calls `write` with the file, unless an earlier write has failed.
    pub fn write(&self, write: impl FnOnce(&mut BufWriter<Quiet>) -> io::Result<()>) {
        let (file, result) = &mut *self.file.borrow_mut();
        if result.is_ok() {
            *result = write(file);
        }
    }

    /// Completes the file, and returns the first error.
    pub fn finish(self) -> Result<(), Failure> {
        self.write(|file| file.flush());
        let result = std::mem::replace(&mut self.file.borrow_mut().1, Ok(()));
        result.map_err(|error| cannot(&self.path, &error))
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("cannot write '{}': {error}", path.display()))
}
