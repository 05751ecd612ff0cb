//! A program without the standard library that holds a pool's sleep protocol over plain cells, and asks a policy.
//! `checks/no-std.sh` builds it. It has its own panic handler, so it cannot be built with a crate that links `std`.
#![no_std]

extern crate alloc;

use alloc::rc::Rc;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, OnceCell, RefCell, RefMut};
use core::panic::PanicInfo;
use core::sync::atomic::Ordering;

use comity_policy::{Event, Policy, Waking, WorkerId};
use comity_protocol::platform::{Counter, Lock, Once, Parker, Platform, Waker, Word};
use comity_protocol::sleep::{Sleep, Work};

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {}
}

struct NoMemory;

// SAFETY: no allocation is ever given.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

struct Plain<T>(Cell<T>);

impl<T: Copy + PartialEq> Word<T> for Plain<T> {
    fn load(&self, _: Ordering) -> T {
        self.0.get()
    }

    fn store(&self, value: T, _: Ordering) {
        self.0.set(value);
    }

    fn compare_exchange(&self, current: T, new: T, _: Ordering, _: Ordering) -> Result<T, T> {
        let before = self.0.get();
        if before == current { Ok(self.0.replace(new)) } else { Err(before) }
    }
}

impl Counter for Plain<i32> {
    fn fetch_add(&self, summand: i32, _: Ordering) -> i32 {
        self.0.replace(self.0.get().wrapping_add(summand))
    }

    fn fetch_sub(&self, summand: i32, _: Ordering) -> i32 {
        self.0.replace(self.0.get().wrapping_sub(summand))
    }

    fn fetch_update(&self, _: Ordering, _: Ordering, mut next: impl FnMut(i32) -> Option<i32>) -> Result<i32, i32> {
        let before = self.0.get();
        next(before).map(|after| self.0.replace(after)).ok_or(before)
    }
}

impl Parker for Plain<u32> {
    fn wake(&self, _: Waker) {}
}

struct Locked<T>(RefCell<T>);

impl<T> Lock<T> for Locked<T> {
    type Guard<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    fn lock(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}

struct Later<T>(OnceCell<T>);

impl<T> Once<T> for Later<T> {
    fn get(&self) -> Option<&T> {
        self.0.get()
    }

    fn set(&self, value: T) -> &T {
        self.0.get_or_init(|| value)
    }
}

struct Cells;

impl Platform for Cells {
    type Bool = Plain<bool>;
    type Word = Plain<u32>;
    type Counter = Plain<i32>;
    type Parker = Plain<u32>;
    type Lock<T: 'static> = Locked<T>;
    type Once<T> = Later<T>;

    fn bool(&self, _: Option<WorkerId>, value: bool) -> Plain<bool> {
        Plain(Cell::new(value))
    }

    fn word(&self, _: Option<WorkerId>, value: u32) -> Plain<u32> {
        Plain(Cell::new(value))
    }

    fn counter(&self) -> Plain<i32> {
        Plain(Cell::new(0))
    }

    fn parker(&self, _: WorkerId, value: u32) -> Plain<u32> {
        Plain(Cell::new(value))
    }

    fn lock<T>(&self, value: T) -> Locked<T> {
        Locked(RefCell::new(value))
    }

    fn once<T>(&self) -> Later<T> {
        Later(OnceCell::new())
    }

    fn fence(&self, _: Ordering) {}

    fn light(&self) {}

    fn heavy(&self) -> bool {
        true
    }
}

struct NoWork;

impl Work for NoWork {
    fn deques_have_task(&self) -> bool {
        false
    }

    fn injector_has_task(&self) -> bool {
        false
    }

    fn has_business(&self, _: WorkerId) -> bool {
        false
    }

    fn ring_bells(&self) {}
}

/// Every way of waking, and every policy.
#[unsafe(no_mangle)]
pub extern "C" fn comity_without_std() -> i32 {
    let me = WorkerId(0);
    let mut hunger = 0;
    for waking in [Waking::NobodySleeps, Waking::Watchdog, Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        let sleep = Rc::new(Sleep::new(Cells, 2, waking, true));
        sleep.publish_thief(me);
        sleep.announce(me);
        let _ = sleep.admit(me, &NoWork);
        let _ = sleep.retract(me);
        sleep.publish_busy(me);
        sleep.hand_over(me, &NoWork);
        sleep.after_spawn(me, &NoWork);
        sleep.after_placing(me, None, &NoWork);
        hunger += sleep.hunger();
    }
    for policy in Policy::all() {
        let _ = policy.thief(me, 2, 7).next(Event::DequeEmpty { wakeups_owed: 0 });
    }
    hunger
}
