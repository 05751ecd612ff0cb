//! A fork of children that run one after another.

use crate::session::{self, Fork};

/// The children of a fork. It begins with the first of them.
#[derive(Debug, Default)]
pub(crate) struct Children(Option<Fork>);

impl Children {
    /// Those of a fork that has its first child running already.
    pub(crate) fn of(fork: Option<Fork>) -> Children {
        Children(fork)
    }

    /// The next child begins.
    pub(crate) fn next(&mut self) {
        match &self.0 {
            Some(fork) => session::next(fork),
            None => self.0 = Some(session::fork(true)),
        }
    }

    /// All are over.
    pub(crate) fn join(self) {
        if let Some(fork) = self.0 {
            session::join(fork);
        }
    }
}
