//! The simulated platform of the protocol's steps: plain cells, which count the operations on them.
//!
//! A step is one instant of the simulation, so a fence orders nothing and a barrier is never refused. Fences, barriers
//! and writes to a word in the cache of another worker's core are counted, because on a large machine they are the cost
//! of a step.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use comity_policy::WorkerId;
use comity_protocol::platform::{Counter, Lock, Once, Parker, Platform, Waker, Word};

/// Counts of the operations in the steps of one pool. All words of the pool share these counts.
#[derive(Default)]
pub(super) struct Traffic {
    /// True during a step. Accesses at other times are the simulator's own, and are not counted.
    counts: Cell<bool>,
    /// The worker that takes the step. `None` if a thread outside the pool takes it.
    current: Cell<Option<WorkerId>>,
    barriers: Cell<u64>,
    fences: Cell<u64>,
    shared_writes: Cell<u64>,
    wakeups: Cell<u64>,
    /// True if `woken` or `changed` has grown.
    has_news: Cell<bool>,
    /// The workers that the step woke, in order.
    woken: RefCell<VecDeque<WorkerId>>,
    /// The workers whose rest words the step changed.
    changed: RefCell<Vec<WorkerId>>,
}

fn add(count: &Cell<u64>, summand: u64) {
    count.set(count.get() + summand);
}

impl Traffic {
    /// Begins a step.
    pub(super) fn begin(&self, current: Option<WorkerId>) {
        self.counts.set(true);
        self.current.set(current);
    }

    /// Ends the step. Returns true if the step woke a worker or changed a rest word.
    pub(super) fn end(&self) -> bool {
        self.counts.set(false);
        self.has_news.take()
    }

    /// Counts a write to a word of `owner`. `None` stands for a word that all workers write.
    pub(super) fn write(&self, owner: Option<WorkerId>) {
        if self.counts.get() && (owner.is_none() || owner != self.current.get()) {
            add(&self.shared_writes, 1);
        }
    }

    pub(super) fn fence(&self) {
        add(&self.fences, 1);
    }

    /// Takes the next worker that the step woke.
    pub(super) fn next_woken(&self) -> Option<WorkerId> {
        self.woken.borrow_mut().pop_front()
    }

    /// Takes a worker whose rest word the step changed.
    pub(super) fn next_changed(&self) -> Option<WorkerId> {
        self.changed.borrow_mut().pop()
    }

    pub(super) fn barriers(&self) -> u64 {
        self.barriers.get()
    }

    pub(super) fn fences(&self) -> u64 {
        self.fences.get()
    }

    pub(super) fn wakeups(&self) -> u64 {
        self.wakeups.get()
    }

    pub(super) fn shared_writes(&self) -> u64 {
        self.shared_writes.get()
    }
}

/// The platform of one pool.
#[derive(Clone, Default)]
pub(super) struct Cells(Rc<Traffic>);

impl Cells {
    pub(super) fn traffic(&self) -> &Rc<Traffic> {
        &self.0
    }

    fn shared<T>(&self, owner: Option<WorkerId>, value: T) -> Shared<T> {
        Shared { value: Cell::new(value), owner, traffic: Rc::clone(&self.0) }
    }
}

impl Platform for Cells {
    type Bool = Shared<bool>;
    type Word = Shared<u32>;
    type Counter = Shared<i32>;
    type Parker = Rest;
    type Lock<T> = Locked<T>;
    type Once<T> = Later<T>;

    fn bool(&self, owner: Option<WorkerId>, value: bool) -> Shared<bool> {
        self.shared(owner, value)
    }

    fn word(&self, owner: Option<WorkerId>, value: u32) -> Shared<u32> {
        self.shared(owner, value)
    }

    fn counter(&self) -> Shared<i32> {
        self.shared(None, 0)
    }

    fn parker(&self, owner: WorkerId, value: u32) -> Rest {
        Rest { word: self.shared(Some(owner), value), owner }
    }

    fn lock<T>(&self, value: T) -> Locked<T> {
        Locked { value: RefCell::new(value), traffic: Rc::clone(&self.0) }
    }

    fn once<T>(&self) -> Later<T> {
        Later(OnceCell::new())
    }

    fn fence(&self, _: Ordering) {
        self.0.fence();
    }

    fn light(&self) {}

    fn heavy(&self) -> bool {
        add(&self.0.barriers, 1);
        true
    }
}

/// A word that workers share.
pub(super) struct Shared<T> {
    value: Cell<T>,
    owner: Option<WorkerId>,
    traffic: Rc<Traffic>,
}

impl<T: Copy + PartialEq> Word<T> for Shared<T> {
    fn load(&self, order: Ordering) -> T {
        self.value.load(order)
    }

    fn store(&self, value: T, order: Ordering) {
        self.traffic.write(self.owner);
        self.value.store(value, order);
    }

    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T> {
        self.traffic.write(self.owner);
        self.value.compare_exchange(current, new, success, failure)
    }
}

impl Counter for Shared<i32> {
    fn fetch_add(&self, summand: i32, _: Ordering) -> i32 {
        self.traffic.write(self.owner);
        self.value.replace(self.value.get().wrapping_add(summand))
    }

    fn fetch_sub(&self, summand: i32, _: Ordering) -> i32 {
        self.traffic.write(self.owner);
        self.value.replace(self.value.get().wrapping_sub(summand))
    }

    fn fetch_update(&self, _: Ordering, _: Ordering, mut next: impl FnMut(i32) -> Option<i32>) -> Result<i32, i32> {
        let before = self.value.get();
        let Some(after) = next(before) else { return Err(before) };
        self.traffic.write(self.owner);
        self.value.set(after);
        Ok(before)
    }
}

/// A worker's rest word. Each change and each wake-up is recorded in [`Traffic`].
pub(super) struct Rest {
    word: Shared<u32>,
    owner: WorkerId,
}

impl Rest {
    fn has_changed(&self) {
        self.word.traffic.has_news.set(true);
        self.word.traffic.changed.borrow_mut().push(self.owner);
    }
}

impl Word<u32> for Rest {
    fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
        self.has_changed();
    }

    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        let outcome = self.word.compare_exchange(current, new, success, failure);
        if outcome.is_ok() {
            self.has_changed();
        }
        outcome
    }
}

impl Parker for Rest {
    /// Records a wake-up. The simulated kernel ignores what the waker does next when it chooses a core for the worker.
    fn wake(&self, _: Waker) {
        add(&self.word.traffic.wakeups, 1);
        self.word.traffic.has_news.set(true);
        self.word.traffic.woken.borrow_mut().push_back(self.owner);
    }
}

/// A lock around a value. Taking the lock counts as writing a word that all workers write.
pub(super) struct Locked<T> {
    value: RefCell<T>,
    traffic: Rc<Traffic>,
}

impl<T> Lock<T> for Locked<T> {
    type Guard<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    fn lock(&self) -> RefMut<'_, T> {
        self.traffic.write(None);
        self.value.borrow_mut()
    }
}

/// A place for a value that is set later.
pub(super) struct Later<T>(OnceCell<T>);

impl<T> Once<T> for Later<T> {
    fn get(&self) -> Option<&T> {
        self.0.get()
    }

    fn set(&self, value: T) -> &T {
        self.0.get_or_init(|| value)
    }
}
