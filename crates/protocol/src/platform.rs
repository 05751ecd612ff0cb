//! What a driver has for the steps: words that several workers share, barriers, a lock, and a cell that is set once.
//!
//! A cell is empty, then set for ever; a lock is free or held; the words have the states that the steps give them.
//!
//! # Invariants
//!
//! - A word is an atomic: its methods have the orders that they are called with.
//! - Of two workers that each write and then look, one after [`light`](Platform::light) and one after a
//!   [`heavy`](Platform::heavy) that is not refused, at least one sees what the other wrote.
//! - What was done under a lock is visible to its next holder, and what was written before a cell was set to each
//!   thread that finds it set.
//! - A wake-up by [`Parker::wake`] that follows a change of the parker's value is not lost: a worker waits only while
//!   the value is the old one.

use core::cell::Cell;
use core::ops::DerefMut;
use core::sync::atomic::{AtomicU64, Ordering};

use comity_policy::WorkerId;

/// One pool's words and barriers. A word is made for its `owner`, the worker that writes it most; `None`: for all
/// alike.
pub trait Platform {
    /// A flag.
    type Bool: Word<bool>;
    /// A word with many values.
    type Word: Word<u32>;
    /// A sum of what workers add and subtract.
    type Counter: Counter;
    /// A word that one worker waits on.
    type Parker: Parker;
    /// A lock around a value.
    type Lock<T>: Lock<T>;
    /// A place for a value that comes later.
    type Once<T>: Once<T>;

    /// A flag with this value.
    fn bool(&self, owner: Option<WorkerId>, value: bool) -> Self::Bool;

    /// A word with this value.
    fn word(&self, owner: Option<WorkerId>, value: u32) -> Self::Word;

    /// A sum that begins with 0.
    fn counter(&self) -> Self::Counter;

    /// What `owner` waits on, with this value.
    fn parker(&self, owner: WorkerId, value: u32) -> Self::Parker;

    /// A lock around this value.
    fn lock<T>(&self, value: T) -> Self::Lock<T>;

    /// A place without a value yet.
    fn once<T>(&self) -> Self::Once<T>;

    /// A fence, as [`core::sync::atomic::fence`].
    fn fence(&self, order: Ordering);

    /// The cheap half of an asymmetric pair of barriers, which keeps no more than the compiler in order.
    fn light(&self);

    /// The other half, which orders the memory of all threads of the program. False: it is refused, and what others
    /// wrote before a [`Platform::light`] may be invisible.
    fn heavy(&self) -> bool;
}

/// A word that workers share.
pub trait Word<T> {
    /// As that of an atomic.
    fn load(&self, order: Ordering) -> T;

    /// As that of an atomic.
    fn store(&self, value: T, order: Ordering);

    /// As that of an atomic: what it held, as `Ok` where that was `current` and is replaced.
    #[expect(clippy::missing_errors_doc, reason = "no failure: the other outcome")]
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T>;
}

impl Word<u64> for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }

    fn compare_exchange(&self, current: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64> {
        AtomicU64::compare_exchange(self, current, new, success, failure)
    }
}

/// Where one thread does all, as in a simulation.
impl<T: Copy + PartialEq> Word<T> for Cell<T> {
    fn load(&self, _: Ordering) -> T {
        self.get()
    }

    fn store(&self, value: T, _: Ordering) {
        self.set(value);
    }

    fn compare_exchange(&self, current: T, new: T, _: Ordering, _: Ordering) -> Result<T, T> {
        let before = self.get();
        if before != current {
            return Err(before);
        }
        self.set(new);
        Ok(before)
    }
}

/// A number that several workers change.
pub trait Counter: Word<i32> {
    /// Adds, wrapping around, and returns what it was.
    fn fetch_add(&self, summand: i32, order: Ordering) -> i32;

    /// Subtracts, wrapping around, and returns what it was.
    fn fetch_sub(&self, summand: i32, order: Ordering) -> i32;

    /// As that of an atomic: replaces the value while `next` has one, and returns what it was.
    #[expect(clippy::missing_errors_doc, reason = "no failure: the other outcome")]
    fn fetch_update(&self, set: Ordering, fetch: Ordering, next: impl FnMut(i32) -> Option<i32>) -> Result<i32, i32>;
}

/// A word that one worker waits on.
pub trait Parker: Word<u32> {
    /// Wakes the worker, which waits or is about to. The word has been set before.
    fn wake(&self, waker: Waker);
}

/// What a waker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// It goes on running: the woken worker needs another core.
    GoesOn,
    /// It makes room: it is about to wait itself.
    MakesRoom,
}

/// A lock around a value.
pub trait Lock<T> {
    /// What a thread holds while it has the lock.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a,
        T: 'a;

    /// Waits for the lock, and keeps it until the guard is dropped.
    fn lock(&self) -> Self::Guard<'_>;

    /// Calls `action` with the lock.
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.lock())
    }
}

/// A place for a value that comes later, and stays.
pub trait Once<T> {
    /// The value, if it has come. What was written before it came is visible then.
    fn get(&self) -> Option<&T>;

    /// Sets the value, unless there is one. Returns the one that is there from now on.
    fn set(&self, value: T) -> &T;
}
