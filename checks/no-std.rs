//! A program without the standard library that holds a pool's sleep protocol over plain cells, and asks a policy.
//! `checks/no-std.sh` builds it. It has its own panic handler, so it cannot be built with a crate that links `std`.
#![no_std]

extern crate alloc;

use alloc::rc::Rc;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use cells::Cells;
use comity_policy::{Event, Policy, Waking, WorkerId};
use comity_protocol::sleep::{Sleep, Work};

/// The platform of the protocol's tests: one thread's.
#[path = "../crates/protocol/tests/cells/mod.rs"]
mod cells;

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
    for waking in [Waking::AlwaysAwake, Waking::Watchdog, Waking::Hungry, Waking::EveryPush { sleepers: 2 }] {
        let sleep = Rc::new(Sleep::new(Cells::default(), 2, waking, true));
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
