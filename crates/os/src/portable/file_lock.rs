//! Locks that end with their process. Comity supports such locks only on Linux.

use std::io;
use std::path::Path;

/// A file on whose bytes this process can hold locks. No value of this type exists.
#[derive(Debug)]
pub enum LockFile {}

impl LockFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Always fails.
    pub fn open(_path: &Path) -> io::Result<LockFile> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Locks a byte.
    ///
    /// # Errors
    /// Never called: no `LockFile` exists.
    pub fn try_lock(&self, _byte: u64) -> io::Result<bool> {
        match *self {}
    }

    /// True if the file is open.
    pub fn is_open(&self) -> bool {
        match *self {}
    }

    /// Returns the identity of the file.
    pub fn identity(&self) -> (u64, u64) {
        match *self {}
    }

    /// Releases a byte.
    pub fn unlock(&self, _byte: u64) {
        match *self {}
    }

    /// True if another open file description has locked the byte.
    ///
    /// # Errors
    /// Never called: no `LockFile` exists.
    pub fn is_locked_by_another(&self, _byte: u64) -> io::Result<bool> {
        match *self {}
    }
}
