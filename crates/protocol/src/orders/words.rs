//! Where a program is asked: the words of its slot, to which any process may write.
//!
//! # States
//!
//! A property's word is 0, or holds a request of some tenure. [`Words::begin`] makes it 0; [`Words::ask`] replaces what it holds.
//!
//! # Invariants
//!
//! - The tenure only counts up, and by the holder of the slot's lock alone, while no program has the slot.
//! - *A request is replaced by a later one to the same program, or of a later tenure, and by nothing else* but the next program's
//!   [`Words::begin`]. A setter reads the property's word, then the tenure, then whether a program has the slot, and then exchanges what it
//!   read. Say that it meant tenure t, and that a request of a later tenure u came before the exchange. If the setter had read that word,
//!   it would have seen the tenure that this request's setter saw, for the word is written with release and read with acquire: u, and not t.
//!   So it had read another value, and the exchange fails.
//! - *A program's words are 0 before anything is asked of it.* That the slot is taken is read after the tenure. In between the tenure and
//!   [`Words::begin`]'s end it is free, and what the program writes comes before it is taken.

use core::sync::atomic::Ordering;

use super::{MOST_PAUSE, Request, RequestWord, Requests};
use crate::platform::Word;

/// Attempts after which a word changes too fast. No setter of ours comes near.
const MOST_TRIES: u32 = 10_000;

/// The words of one slot.
pub struct Words<'a, W> {
    /// Counts the programs that have had the slot.
    pub tenure: &'a W,
    /// What the program is asked to be: weight, cores, pause. See [`RequestWord`].
    pub asked: [&'a W; 3],
}

impl<W: Word<u64>> Words<'_, W> {
    /// A program takes the slot: what was asked of others binds no longer. Returns its tenure.
    pub fn begin(&self) -> u64 {
        let tenure = replace(self.tenure, |before| before.wrapping_add(1));
        // Who sees one of these sees the tenure.
        for word in self.asked {
            replace(word, |_| 0);
        }
        tenure
    }

    /// Asks the program of this tenure at `now_ns` of the machine's monotonic clock. False: it has left the slot, or the word changes too
    /// fast, and nothing is asked. `is_taken`: whether a program has the slot, read with acquire.
    #[must_use]
    pub fn ask(&self, request: Request, tenure: u64, now_ns: u64, is_taken: impl Fn() -> bool) -> bool {
        let number = |value: Option<u32>| RequestWord::new(tenure, value.unwrap_or(0).into());
        let [weight, cores, pause] = self.asked;
        let (word, asked) = match request {
            Request::Weight(value) => (weight, number(value)),
            Request::Cores(value) => (cores, number(value)),
            Request::Pause(length) => {
                let length = length.min(MOST_PAUSE).as_nanos() as u64;
                (pause, RequestWord::pause(tenure, now_ns.saturating_add(length)))
            }
            Request::Resume => (pause, number(None)),
        };
        let mut before = word.load(Ordering::Acquire);
        for _ in 0..MOST_TRIES {
            if self.tenure.load(Ordering::Acquire) != tenure || !is_taken() {
                return false;
            }
            match word.compare_exchange(before, asked.to_bits(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
        false
    }

    /// What the program of this tenure is asked, a pause that is over included.
    pub fn read(&self, tenure: u64) -> Requests {
        Requests::read(self.asked.map(|word| word.load(Ordering::Acquire)), tenure)
    }
}

/// Replaces what a word holds, and returns what it holds then. By an exchange, where a store would often do: loom may order a store before a
/// compare-and-swap that missed it.
fn replace(word: &impl Word<u64>, next: impl Fn(u64) -> u64) -> u64 {
    let mut before = word.load(Ordering::Relaxed);
    for _ in 0..MOST_TRIES {
        match word.compare_exchange(before, next(before), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return next(before),
            Err(now) => before = now,
        }
    }
    word.store(next(before), Ordering::Release);
    next(before)
}
