//! Locks that end with their process: this system has none that Comity knows of.

use std::io;
use std::path::Path;

/// A file on whose bytes this process can hold locks. There is none.
#[derive(Debug)]
pub enum LockFile {}

impl LockFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Always.
    pub fn open(_path: &Path) -> io::Result<LockFile> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Locks a byte.
    ///
    /// # Errors
    /// None: there is no such file.
    pub fn try_lock(&self, _byte: u64) -> io::Result<bool> {
        match *self {}
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        match *self {}
    }

    /// Which file it is.
    pub fn identity(&self) -> (u64, u64) {
        match *self {}
    }

    /// Releases a byte.
    pub fn unlock(&self, _byte: u64) {
        match *self {}
    }

    /// Whether another has it locked.
    ///
    /// # Errors
    /// None: there is no such file.
    pub fn is_locked_by_another(&self, _byte: u64) -> io::Result<bool> {
        match *self {}
    }
}
