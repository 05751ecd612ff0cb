//! The atomics that the protocols are written with: the real ones, or loom's, which explore every interleaving.

#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    use std::time::Duration;

    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub(crate) use comity_os::barrier::{heavy, light};

    pub(crate) use comity_os::park::Waker;

    /// Lets another thread finish a step that it is in the middle of.
    pub(crate) fn stall(tries: u32) {
        // If it is not done by now, it was preempted, and needs a core.
        if tries < 200 { std::hint::spin_loop() } else { comity_os::yield_core() }
    }

    /// A 32-bit word that a worker waits on.
    pub(crate) struct FutexWord(comity_os::park::Parker);

    impl FutexWord {
        pub(crate) fn new(value: u32) -> FutexWord {
            FutexWord(comity_os::park::Parker::new(value))
        }

        /// Sleeps while the word holds `expected`, until woken or `timeout`; may return early for no reason.
        pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
            self.0.wait(expected, timeout);
        }

        pub(crate) fn wake(&self, waker: Waker) {
            self.0.wake(waker);
        }
    }

    impl std::ops::Deref for FutexWord {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            self.0.word()
        }
    }
}

#[cfg(loom)]
pub(crate) use modelled::*;

#[cfg(loom)]
mod modelled {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    pub(crate) use comity_os::park::Waker;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// loom knows no asymmetric barrier; the pair is modelled by what it stands for, two full fences.
    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    pub(crate) fn stall(_tries: u32) {
        loom::thread::yield_now();
    }

    /// A futex: the comparison and the going to sleep are one step, as the kernel's bucket lock makes them.
    pub(crate) struct FutexWord {
        word: AtomicU32,
        bucket: Mutex<()>,
        queue: Condvar,
    }

    impl FutexWord {
        pub(crate) fn new(value: u32) -> FutexWord {
            FutexWord { word: AtomicU32::new(value), bucket: Mutex::new(()), queue: Condvar::new() }
        }

        pub(crate) fn wait(&self, expected: u32, _timeout: Option<Duration>) {
            let bucket = self.bucket.lock().unwrap();
            if self.word.load(Ordering::SeqCst) == expected {
                drop(self.queue.wait(bucket).unwrap());
            }
        }

        pub(crate) fn wake(&self, _waker: Waker) {
            drop(self.bucket.lock().unwrap());
            self.queue.notify_one();
        }
    }

    impl std::ops::Deref for FutexWord {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.word
        }
    }
}
