//! What a driver has for the steps: words that several workers share, barriers, and a lock.

use core::sync::atomic::Ordering;

/// One machine's words and barriers.
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

    /// A fence, as [`core::sync::atomic::fence`].
    fn fence(order: Ordering);

    /// The cheap half of an asymmetric pair of barriers, which keeps no more than the compiler in order.
    fn light();

    /// The other half, which orders the memory of all threads of the program. False: it is refused, and what others wrote before a
    /// [`Platform::light`] may be invisible.
    fn heavy() -> bool;
}

/// A word that workers share.
pub trait Word<T> {
    /// With this value.
    fn new(value: T) -> Self;

    /// As that of an atomic.
    fn load(&self, order: Ordering) -> T;

    /// As that of an atomic.
    fn store(&self, value: T, order: Ordering);

    /// As that of an atomic: what it held, as `Ok` where that was `current` and is replaced.
    #[expect(clippy::missing_errors_doc, reason = "no failure: the other outcome")]
    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T>;
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
    /// Around this value.
    fn new(value: T) -> Self;

    /// Calls `action` while nobody else has the lock.
    fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R;
}
