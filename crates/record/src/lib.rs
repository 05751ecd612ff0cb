//! What a driver and the protocol say to each other, written down on real threads and held again.
//!
//! `comity_protocol` decides by what it is told through traits: a word that it loads, a lock that it takes, what came
//! of a steal. So a thread's part in a pool is a list of calls, each with its answer, and the same answers must bring
//! the same calls.
//!
//! - [`Recorded`] stands between a driver and the protocol, for each of the traits. It writes down each call with its
//!   arguments and its answer.
//! - [`replay`] gives the answers, in order, to the protocol as it is now, and panics at the first call that is
//!   another.
//!
//! What a driver does inside of such a call is its own, and not in the record: how a task is stolen, or how the table
//! is asked. This crate knows no driver, file or kernel: tests of the drivers file the records. Begin with `tape.rs`,
//! which says what a record looks like.
#![forbid(unsafe_code)]

mod answer;
mod crew;
mod quanta;
pub mod replay;
mod table;
mod tape;
mod words;

use std::ops::{Deref, DerefMut};

pub use crew::{Heard, Script};
pub use quanta::advised;
pub use table::step;
pub use tape::{begin_life, closes, filed, life, opens, record_coordinators, says};
pub use words::{Held, Named, number_words};

/// What a driver has for the protocol, each call of which may be written down.
pub struct Recorded<T>(pub T);

/// The same, as a function.
pub fn seen<T>(driver: T) -> Recorded<T> {
    Recorded(driver)
}

impl<T> Deref for Recorded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Recorded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
