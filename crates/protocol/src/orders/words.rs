//! Where a program is asked: the words of its slot, to which any process may write.
//!
//! # States
//!
//! A property's word is 0, or holds a request of some tenure. [`Words::begin`] makes it 0; a setter replaces what it
//! holds.
//!
//! # Invariants
//!
//! - The tenure only counts up, and by the holder of the slot's lock alone, while no program has the slot.
//! - *A setter replaces no request of a later tenure than it means.* It reads the word, then the tenure, then whether
//!   a program has the slot, and exchanges what it read in the word. Say that it means tenure t, and that a request of
//!   a later tenure u came before its exchange. That request was written with release, after its setter saw u. Had the
//!   late setter read it, it would have seen u, and given up. So it had read another value, and its exchange fails.
//! - *[`Words::begin`] unmakes no request to the program that begins.* That the slot is taken is read after the
//!   tenure. While the tenure is u and [`Words::begin`] has not ended the slot is free, so each setter that means u
//!   comes after it.
//!
//! A setter of an older build stores what it asks, and may replace a later request. A program of a build without
//! tenures obeys nothing.

use core::sync::atomic::Ordering;

use super::{MOST_PAUSE, Request, RequestWord, Requests};
use crate::platform::Word;

/// Attempts after which a writer of a word stores, whatever others write there. None of ours writes so fast.
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
        // A setter that reads one of these zeros reads this tenure or a later one.
        for word in self.asked {
            replace(word, |_| 0);
        }
        tenure
    }

    /// Asks the program of this tenure at `now_ns` of the machine's monotonic clock. False: it has left the slot, and
    /// nothing is asked. `is_taken`: whether a program has the slot, read with acquire.
    #[must_use]
    pub fn ask(&self, request: Request, tenure: u64, now_ns: u64, is_taken: impl Fn() -> bool) -> bool {
        let mut before = self.seen(request);
        for _ in 0..MOST_TRIES {
            if self.tenure.load(Ordering::Acquire) != tenure || !is_taken() {
                return false;
            }
            match self.exchange(before, request, tenure, now_ns) {
                Ok(()) => return true,
                Err(now) => before = now,
            }
        }
        let (word, asked) = self.meant(request, tenure, now_ns);
        word.store(asked.to_bits(), Ordering::Release);
        true
    }

    /// What stands where the request would: a setter's first step. Then it looks whether its program has the slot.
    pub fn seen(&self, request: Request) -> u64 {
        self.word(request).load(Ordering::Acquire)
    }

    /// A setter's last step, as [`Words::ask`] takes it.
    ///
    /// # Errors
    /// What stands there by now, if it is not what was there `before`.
    pub fn exchange(&self, before: u64, request: Request, tenure: u64, now_ns: u64) -> Result<(), u64> {
        let (word, asked) = self.meant(request, tenure, now_ns);
        word.compare_exchange(before, asked.to_bits(), Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    /// What the program of this tenure is asked, a pause that is over included.
    pub fn read(&self, tenure: u64) -> Requests {
        Requests::read(self.asked.map(|word| word.load(Ordering::Acquire)), tenure)
    }

    fn word(&self, request: Request) -> &W {
        let [weight, cores, pause] = self.asked;
        match request {
            Request::Weight(_) => weight,
            Request::Cores(_) => cores,
            Request::Pause(_) | Request::Resume => pause,
        }
    }

    fn meant(&self, request: Request, tenure: u64, now_ns: u64) -> (&W, RequestWord) {
        let asked = match request {
            Request::Weight(value) | Request::Cores(value) => RequestWord::new(tenure, value.unwrap_or(0).into()),
            Request::Pause(length) => {
                let length = length.min(MOST_PAUSE).as_nanos() as u64;
                RequestWord::pause(tenure, now_ns.saturating_add(length))
            }
            Request::Resume => RequestWord::new(tenure, 0),
        };
        (self.word(request), asked)
    }
}

/// Replaces what a word holds, and returns what it holds then. The words that are asked could be stored; but loom may
/// order a store before a compare-and-swap that missed it.
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
