//! Locking a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. What is locked here is whole at every step, so the panic of a thread that held the lock concerns no other.
#[cfg(not(tsan))]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for ThreadSanitizer, which cannot see how the standard library waits for a lock, but sees each attempt.
#[cfg(tsan)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    use std::sync::TryLockError;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => crate::yield_core(),
        }
    }
}
