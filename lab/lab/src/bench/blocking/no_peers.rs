//! The replacement of `peers.rs` without the feature `peers`: the comparison has no executors of other libraries.

use std::fmt;
use std::future::Future;
use std::io;

/// An executor of another library. This type is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {}

/// A started executor of another library. This type is empty.
pub enum Started {}

/// The executors of other libraries in the comparison. This list is empty.
pub const PEERS: &[Peer] = &[];

impl fmt::Display for Peer {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Peer {
    pub fn start(self, _workers: u16) -> io::Result<Started> {
        match self {}
    }
}

impl Started {
    pub fn spawn(&self, _future: impl Future<Output = ()> + Send + 'static) {
        match *self {}
    }
}
