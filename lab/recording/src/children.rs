//! A fork whose children run one after another.

use crate::session::{self, Fork};

/// The children of a fork. The first child begins the fork.
#[derive(Debug, Default)]
pub(crate) struct Children(Option<Fork>);

impl Children {
    /// Creates the children of `fork`, whose first child already runs. With `None`, no fork has begun yet.
    pub(crate) fn of(fork: Option<Fork>) -> Children {
        Children(fork)
    }

    /// Begins the next child.
    pub(crate) fn next(&mut self) {
        match &self.0 {
            Some(fork) => session::next(fork),
            None => self.0 = Some(session::fork(true)),
        }
    }

    /// Ends the last child.
    pub(crate) fn join(self) {
        if let Some(fork) = self.0 {
            session::join(fork);
        }
    }
}
