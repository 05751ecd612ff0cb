//! The words of a slot through which any process can send requests to a program.
//!
//! # States
//!
//! The word of a property is 0, or holds a request to the program of some tenure. [`Words::begin`] sets it to 0; a
//! setter replaces its value.
//!
//! # Invariants
//!
//! - The tenure only increases. Only the holder of the slot's lock increments it, while no program has the slot.
//! - *A setter never replaces a request to a later tenure than its own target.* It reads the word, then the tenure,
//!   then whether a program has the slot. Then it exchanges the value that it read in the word. Suppose that its
//!   target is tenure t, and that another setter wrote a request to a later tenure u before the exchange. That request
//!   was written with release, after its setter read u. If the setter for t had read that request, it would then have
//!   read u, and given up. So it read an older value, and its exchange fails.
//! - *[`Words::begin`] never removes a request to the program that begins.* A setter reads the tenure before it reads
//!   that the slot is taken. While the tenure is u and [`Words::begin`] has not ended, the slot is free. So each
//!   setter that targets u writes after [`Words::begin`] has ended.
//!
//! A setter of an older build stores its request without a comparison, so it may replace a later request. A program of
//! a build without tenures follows no request.

use core::sync::atomic::Ordering;

use super::{MOST_PAUSE, Request, RequestWord, Requests};
use crate::platform::Word;

/// The number of attempts after which a writer stores its value, even if other processes keep changing the word. No
/// process of Comity writes that fast.
const MOST_TRIES: u32 = 10_000;

/// The words of one slot.
pub struct Words<'a, W> {
    /// The number of programs that have had the slot.
    pub tenure: &'a W,
    /// The requests to the program: weight, cores, pause. See [`RequestWord`].
    pub asked: [&'a W; 3],
}

impl<W: Word<u64>> Words<'_, W> {
    /// Takes the slot for a program: requests to earlier programs in the slot become invalid. Returns the program's
    /// tenure.
    pub fn begin(&self) -> u64 {
        let tenure = replace(self.tenure, |before| before.wrapping_add(1));
        // A setter that reads one of these zeros reads this tenure or a later one.
        for word in self.asked {
            replace(word, |_| 0);
        }
        tenure
    }

    /// Sends a request to the program of this tenure, at `now_ns` of the machine's monotonic clock. Returns false if
    /// the program has left the slot: the request is then not made. `is_taken` must return true if a program has the
    /// slot, and read that with acquire.
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

    /// Returns the present value of the request's word. This is a setter's first step. It then checks that its
    /// program still has the slot.
    pub fn seen(&self, request: Request) -> u64 {
        self.word(request).load(Ordering::Acquire)
    }

    /// Takes a setter's last step, as [`Words::ask`] does: replaces the word's value `before` by the request.
    ///
    /// # Errors
    /// Returns the present value of the word if it is not `before`.
    pub fn exchange(&self, before: u64, request: Request, tenure: u64, now_ns: u64) -> Result<(), u64> {
        let (word, asked) = self.meant(request, tenure, now_ns);
        word.compare_exchange(before, asked.to_bits(), Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    /// Returns the requests to the program of this tenure, including a pause that is over.
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

/// Replaces the value of a word, and returns the new value. The words of requests could be stored instead, but loom
/// may order a store before a compare-and-swap that missed it.
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
