//! The atomics of the protocols: the real atomics, or loom's atomics, with which loom explores every interleaving.

use comity_policy::WorkerId;
pub(crate) use comity_protocol::platform::Waker;
use comity_protocol::platform::{Counter, Lock, Once, Parker, Platform, Word};

#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    use std::time::Duration;

    use comity_protocol::platform::Waker;

    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub(crate) use std::sync::{Mutex, MutexGuard};

    pub(crate) use comity_os::barrier::{heavy, light};
    pub(crate) use comity_os::lock;

    /// Pauses, so that another thread can finish a step that it has begun.
    pub(crate) fn back_off(tries: u32) {
        // If the other thread has not finished after 200 tries, it was preempted and needs a core.
        if tries < 200 { std::hint::spin_loop() } else { comity_os::yield_core() }
    }

    /// A 32-bit word that a worker waits on.
    pub(crate) struct FutexWord(comity_os::park::Parker);

    impl FutexWord {
        pub(crate) fn new(value: u32) -> FutexWord {
            FutexWord(comity_os::park::Parker::new(value))
        }

        /// Sleeps while the word holds `expected`, until it is woken or `timeout` has passed. May also return
        /// spuriously.
        pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
            self.0.wait(expected, timeout);
        }

        pub(crate) fn wake(&self, waker: Waker) {
            self.0.wake(match waker {
                Waker::GoesOn => comity_os::park::Waker::GoesOn,
                Waker::MakesRoom => comity_os::park::Waker::MakesRoom,
            });
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

    use comity_protocol::platform::Waker;

    use loom::sync::Condvar;
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// loom has no asymmetric barrier. Two full fences model the pair.
    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    pub(crate) fn back_off(_tries: u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("loom ends a model in which a thread panics")
    }

    /// Explores every interleaving of a model's threads with at most `most_preemptions` preemptions.
    #[cfg(test)]
    pub(crate) fn explore(most_preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(most_preemptions);
        builder.check(model);
    }

    /// Runs `what` on a new thread.
    #[cfg(test)]
    pub(crate) fn beside<M: 'static, T: 'static>(
        shared: &loom::sync::Arc<M>,
        what: impl FnOnce(&M) -> T + 'static,
    ) -> loom::thread::JoinHandle<T> {
        let shared = shared.clone();
        loom::thread::spawn(move || what(&shared))
    }

    /// Runs each of `others` on a new thread, and `what` on this thread. Returns when all of these threads have
    /// ended.
    #[cfg(test)]
    pub(crate) fn together<M: 'static>(shared: &loom::sync::Arc<M>, others: &[fn(&M)], what: impl FnOnce()) {
        let others: Vec<_> = others.iter().map(|other| beside(shared, *other)).collect();
        what();
        others.into_iter().for_each(|other| other.join().unwrap());
    }

    /// A model of a futex: comparing the word and going to sleep are one step, as under the kernel's bucket lock.
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

/// The platform that the steps of `comity_protocol` run on: atomics and futexes.
#[derive(Clone, Copy)]
pub(crate) struct Threads;

impl Platform for Threads {
    type Bool = Bool;
    type Word = U32;
    type Counter = I32;
    type Parker = FutexWord;
    type Lock<T> = Locked<T>;
    type Once<T> = SetOnce<T>;

    fn bool(&self, _: Option<WorkerId>, value: bool) -> Bool {
        Bool(AtomicBool::new(value))
    }

    fn word(&self, _: Option<WorkerId>, value: u32) -> U32 {
        U32(AtomicU32::new(value))
    }

    fn counter(&self) -> I32 {
        I32(AtomicI32::new(0))
    }

    fn parker(&self, _: WorkerId, value: u32) -> FutexWord {
        FutexWord::new(value)
    }

    fn lock<T>(&self, value: T) -> Locked<T> {
        Locked(Mutex::new(value))
    }

    fn once<T>(&self) -> SetOnce<T> {
        SetOnce::default()
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }

    #[inline]
    fn light(&self) {
        light();
    }

    fn heavy(&self) -> bool {
        heavy()
    }
}

/// The sleep protocol of one pool.
pub(crate) type Sleep = comity_protocol::sleep::Sleep<Threads>;

/// Parks the worker `me` until it is woken, with the steps of a dialogue. Returns `None` if the timeout has passed.
/// The worker is then still announced as a sleeper.
#[cfg(all(test, loom))]
pub(crate) fn park<P: Platform<Parker = <Threads as Platform>::Parker>>(
    sleep: &comity_protocol::sleep::Sleep<P>,
    me: WorkerId,
    timeout: Option<std::time::Duration>,
) -> Option<comity_protocol::sleep::Woken> {
    use comity_protocol::sleep::Parking;

    let mut is_over = false;
    loop {
        match sleep.park(me) {
            Parking::Over(woken) => return Some(woken),
            Parking::Waits { looks_again: true, .. } if is_over => return None,
            Parking::Waits { at_rest, looks_again } => {
                let timeout = timeout.filter(|_| looks_again);
                sleep.parker(me).wait(at_rest, timeout);
                is_over = timeout.is_some();
            }
        }
    }
}

/// Implements `Word` for an atomic: each method calls the atomic's own method.
macro_rules! word {
    ($name:ident, $atomic:ty, $value:ty) => {
        pub(crate) struct $name($atomic);

        impl Word<$value> for $name {
            #[inline]
            fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            #[inline]
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }

            #[inline]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
}

word!(Bool, AtomicBool, bool);
word!(U32, AtomicU32, u32);
word!(I32, AtomicI32, i32);
#[cfg(all(test, loom))]
word!(U64, AtomicU64, u64);

#[cfg(all(test, loom))]
impl U64 {
    pub(crate) fn new(value: u64) -> U64 {
        U64(AtomicU64::new(value))
    }
}

impl Counter for I32 {
    #[inline]
    fn fetch_add(&self, summand: i32, order: Ordering) -> i32 {
        self.0.fetch_add(summand, order)
    }

    #[inline]
    fn fetch_sub(&self, summand: i32, order: Ordering) -> i32 {
        self.0.fetch_sub(summand, order)
    }

    #[inline]
    fn fetch_update(&self, set: Ordering, fetch: Ordering, next: impl FnMut(i32) -> Option<i32>) -> Result<i32, i32> {
        self.0.fetch_update(set, fetch, next)
    }
}

impl Word<u32> for FutexWord {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        AtomicU32::load(self, order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        AtomicU32::store(self, value, order);
    }

    #[inline]
    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        AtomicU32::compare_exchange(self, current, new, success, failure)
    }
}

impl Parker for FutexWord {
    fn wake(&self, waker: Waker) {
        FutexWord::wake(self, waker);
    }
}

pub(crate) struct Locked<T>(Mutex<T>);

impl<T> Lock<T> for Locked<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.0)
    }
}

/// A cell that is set once. It uses no atomics of loom's, because a model sets it before its threads begin.
pub(crate) struct SetOnce<T> {
    value: std::sync::OnceLock<T>,
    /// True if `value` is set. ThreadSanitizer cannot see the ordering that the lock inside of `OnceLock` provides.
    is_set: std::sync::atomic::AtomicBool,
}

impl<T> Default for SetOnce<T> {
    fn default() -> SetOnce<T> {
        SetOnce { value: std::sync::OnceLock::new(), is_set: std::sync::atomic::AtomicBool::new(false) }
    }
}

impl<T> Once<T> for SetOnce<T> {
    fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    fn set(&self, value: T) -> &T {
        let value = self.value.get_or_init(|| value);
        self.is_set.store(true, Ordering::Release);
        value
    }
}
