//! The primitives that a driver provides for the steps: words that several workers share, barriers, a lock, and a
//! cell that is set once.
//!
//! A cell is empty, and after it is set it stays set. A lock is free or held. The steps define the states of the
//! words.
//!
//! # Invariants
//!
//! - A word is an atomic: its methods have the memory orders that they are called with.
//! - Suppose that one worker writes, calls [`light`](Platform::light), and reads; and another writes, calls
//!   [`heavy`](Platform::heavy), which succeeds, and reads. Then at least one of them reads the value that the other
//!   wrote.
//! - Writes under a lock are visible to its next holder. Writes before a cell is set are visible to each thread that
//!   finds the cell set.
//! - After a change of the parker's value, [`Parker::wake`] wakes its worker: the worker waits only while the value is
//!   the old one.

use core::cell::Cell;
use core::ops::DerefMut;
use core::sync::atomic::{AtomicU64, Ordering};

use comity_policy::WorkerId;

/// The words and barriers of one pool. Each word is made for its `owner`, the worker that writes it most. `None`: all
/// workers write it.
pub trait Platform {
    /// A flag.
    type Bool: Word<bool>;
    /// A word with many values.
    type Word: Word<u32>;
    /// A sum that workers add to and subtract from.
    type Counter: Counter;
    /// A word that one worker waits on.
    type Parker: Parker;
    /// A lock around a value.
    type Lock<T>: Lock<T>;
    /// A place for a value that is set later.
    type Once<T>: Once<T>;

    /// Makes a flag with this value.
    fn bool(&self, owner: Option<WorkerId>, value: bool) -> Self::Bool;

    /// Makes a word with this value.
    fn word(&self, owner: Option<WorkerId>, value: u32) -> Self::Word;

    /// Makes a sum that begins with 0.
    fn counter(&self) -> Self::Counter;

    /// Makes the word that `owner` waits on, with this value.
    fn parker(&self, owner: WorkerId, value: u32) -> Self::Parker;

    /// Makes a lock around this value.
    fn lock<T>(&self, value: T) -> Self::Lock<T>;

    /// Makes a place without a value.
    fn once<T>(&self) -> Self::Once<T>;

    /// Executes a fence, see [`core::sync::atomic::fence`].
    fn fence(&self, order: Ordering);

    /// Executes the light half of an asymmetric pair of barriers. It only keeps the compiler from reordering.
    fn light(&self);

    /// Executes the heavy half of the pair, which orders the memory of all threads of the program. Returns false if
    /// the system refuses it: writes of other threads before a [`Platform::light`] may then be invisible.
    fn heavy(&self) -> bool;
}

/// A word that workers share.
pub trait Word<T> {
    /// Loads the value like an atomic.
    fn load(&self, order: Ordering) -> T;

    /// Stores a value like an atomic.
    fn store(&self, value: T, order: Ordering);

    /// Compares and exchanges like an atomic. Returns the old value: `Ok` if it was `current` and was replaced by
    /// `new`, else `Err`.
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

/// A word for programs in which one thread takes all steps, for example a simulation.
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
    /// Adds, wrapping around, and returns the old value.
    fn fetch_add(&self, summand: i32, order: Ordering) -> i32;

    /// Subtracts, wrapping around, and returns the old value.
    fn fetch_sub(&self, summand: i32, order: Ordering) -> i32;

    /// Replaces the value by the result of `next`, like an atomic. Returns the old value: `Err` if `next` returned
    /// `None`.
    #[expect(clippy::missing_errors_doc, reason = "no failure: the other outcome")]
    fn fetch_update(&self, set: Ordering, fetch: Ordering, next: impl FnMut(i32) -> Option<i32>) -> Result<i32, i32>;
}

/// A word that one worker waits on.
pub trait Parker: Word<u32> {
    /// Wakes the worker, which waits or is about to wait. The caller has set the word before.
    fn wake(&self, waker: Waker);
}

/// The waker's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// The waker continues to run, so the woken worker needs another core.
    GoesOn,
    /// The waker is about to wait, so the woken worker can use its core.
    MakesRoom,
}

/// A lock around a value.
pub trait Lock<T> {
    /// The guard that a thread holds while it has the lock.
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

/// A place for a value that is set later and then never changes.
pub trait Once<T> {
    /// Returns the value if it is set. Writes before it was set are then visible.
    fn get(&self) -> Option<&T>;

    /// Sets the value if none is set. Returns the value that is set afterwards.
    fn set(&self, value: T) -> &T;
}
