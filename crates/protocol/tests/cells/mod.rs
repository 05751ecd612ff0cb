//! A platform for tests, and for `checks/no-std.rs`.

extern crate alloc;

use core::cell::{Cell, OnceCell, RefCell, RefMut};
use core::sync::atomic::Ordering;

use comity_policy::WorkerId;
use comity_protocol::platform::{Counter, Lock, Once, Parker, Platform, Waker, Word};

use self::alloc::rc::Rc;

/// A platform for one thread, which counts fences and barriers and notes wake-ups.
#[derive(Clone, Default)]
pub struct Cells {
    /// The number of sequentially consistent fences.
    pub fences: Rc<Cell<u32>>,
    pub barriers: Rc<Cell<u32>>,
    /// The next action of the waker of the thread that was woken last.
    pub woken_by: Rc<Cell<Option<Waker>>>,
    /// True if each heavy barrier is refused.
    pub refuses: bool,
}

pub struct One<T>(Cell<T>);

impl<T: Copy + PartialEq> Word<T> for One<T> {
    fn load(&self, order: Ordering) -> T {
        self.0.load(order)
    }

    fn store(&self, value: T, order: Ordering) {
        self.0.store(value, order);
    }

    fn compare_exchange(&self, current: T, new: T, success: Ordering, failure: Ordering) -> Result<T, T> {
        self.0.compare_exchange(current, new, success, failure)
    }
}

impl Counter for One<i32> {
    fn fetch_add(&self, summand: i32, _: Ordering) -> i32 {
        self.0.replace(self.0.get().wrapping_add(summand))
    }

    fn fetch_sub(&self, summand: i32, _: Ordering) -> i32 {
        self.0.replace(self.0.get().wrapping_sub(summand))
    }

    fn fetch_update(&self, _: Ordering, _: Ordering, mut next: impl FnMut(i32) -> Option<i32>) -> Result<i32, i32> {
        let before = self.0.get();
        self.0.set(next(before).ok_or(before)?);
        Ok(before)
    }
}

pub struct Bed {
    word: One<u32>,
    woken_by: Rc<Cell<Option<Waker>>>,
}

impl Word<u32> for Bed {
    fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }

    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        self.word.compare_exchange(current, new, success, failure)
    }
}

impl Parker for Bed {
    fn wake(&self, waker: Waker) {
        self.woken_by.set(Some(waker));
    }
}

pub struct Guarded<T>(RefCell<T>);

impl<T> Lock<T> for Guarded<T> {
    type Guard<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    fn lock(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}

pub struct Later<T>(OnceCell<T>);

impl<T> Once<T> for Later<T> {
    fn get(&self) -> Option<&T> {
        self.0.get()
    }

    fn set(&self, value: T) -> &T {
        self.0.get_or_init(|| value)
    }
}

impl Platform for Cells {
    type Bool = One<bool>;
    type Word = One<u32>;
    type Counter = One<i32>;
    type Parker = Bed;
    type Lock<T> = Guarded<T>;
    type Once<T> = Later<T>;

    fn bool(&self, _: Option<WorkerId>, value: bool) -> One<bool> {
        One(Cell::new(value))
    }

    fn word(&self, _: Option<WorkerId>, value: u32) -> One<u32> {
        One(Cell::new(value))
    }

    fn counter(&self) -> One<i32> {
        One(Cell::new(0))
    }

    fn parker(&self, _: WorkerId, value: u32) -> Bed {
        Bed { word: One(Cell::new(value)), woken_by: Rc::clone(&self.woken_by) }
    }

    fn lock<T>(&self, value: T) -> Guarded<T> {
        Guarded(RefCell::new(value))
    }

    fn once<T>(&self) -> Later<T> {
        Later(OnceCell::new())
    }

    fn fence(&self, order: Ordering) {
        self.fences.set(self.fences.get() + u32::from(order == Ordering::SeqCst));
    }

    fn light(&self) {}

    fn heavy(&self) -> bool {
        self.barriers.set(self.barriers.get() + 1);
        !self.refuses
    }
}
