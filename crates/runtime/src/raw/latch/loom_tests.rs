//! Latches for which workers wait, together with the sleep protocol. A waiter that sleeps is woken, sees all writes
//! before the latch was set, and may free the latch at once.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::raw::sync::{Threads, explore, park};
use comity_policy::Waking;
use comity_protocol::sleep::{Admission, Work};

const W0: WorkerId = WorkerId(0);

/// A pool in which a worker only waits.
struct Waits<'a>(&'a dyn Probe);

impl Work for Waits<'_> {
    fn deques_have_task(&self) -> bool {
        false
    }

    fn injector_has_task(&self) -> bool {
        false
    }

    fn has_business(&self, _: WorkerId) -> bool {
        self.0.probe()
    }

    fn ring_bells(&self) {}
}

/// Waits like `Worker::wait_until` does in a pool without tasks.
fn wait(sleep: &Sleep, latch: &dyn Probe) {
    let work = Waits(latch);
    while !latch.probe() {
        sleep.announce(W0);
        match sleep.admit(W0, &work) {
            Admission::Refused(_) => drop(sleep.retract(W0)),
            Admission::Park(timeout) => drop(park(&sleep, W0, timeout)),
        }
    }
}

/// A latch, with the cells that its setters write before they set it.
struct Guarded<L> {
    latch: L,
    written: [UnsafeCell<u32>; 2],
}

/// The address of a latch, for another thread. That thread uses it only while the latch is not set.
struct Address<L>(*const Guarded<L>);

// SAFETY: see above. The data behind the address are atomics, and cells with one writer each.
unsafe impl<L> Send for Address<L> {}

fn setters_reach_a_waiter<L: Latch + 'static>(
    waking: Waking,
    setters: usize,
    latch: impl Fn(&Sleep) -> L + Sync + Send + 'static,
    waits_for: fn(&L) -> &dyn Probe,
) {
    explore(3, move || {
        let sleep = Arc::new(Sleep::new(Threads, 1, waking, false));
        sleep.publish_thief(W0);
        let guarded = Box::new(Guarded { latch: latch(&sleep), written: [UnsafeCell::new(0), UnsafeCell::new(0)] });
        let setters: Vec<_> = (0..setters)
            .map(|nth| {
                // The setter keeps the pool alive, as a worker's thread does.
                let (address, sleep) = (Address(&raw const *guarded), sleep.clone());
                thread::spawn(move || {
                    let Address(guarded) = { address };
                    // SAFETY: the latch is not set before this, so its box is alive.
                    unsafe {
                        (*guarded).written[nth].with_mut(|written| *written = 1);
                        L::set(&raw const (*guarded).latch);
                    }
                    drop(sleep);
                })
            })
            .collect();
        wait(&sleep, waits_for(&guarded.latch));
        for written in &guarded.written[..setters.len()] {
            // SAFETY: the latch is set, so the writers have written. loom checks that their writes are ordered
            // before.
            assert_eq!(written.with(|written| unsafe { *written }), 1);
        }
        drop(guarded);
        for setter in setters {
            setter.join().unwrap();
        }
    });
}

const WAKINGS: [Waking; 3] = [Waking::AlwaysAwake, Waking::Watchdog, Waking::Hungry];

#[test]
fn loom_a_latch_reaches_its_worker() {
    for waking in WAKINGS {
        setters_reach_a_waiter(waking, 1, |sleep| WorkerLatch::new(sleep, W0), |latch| latch);
    }
}

#[test]
fn loom_the_last_of_two_counts_reaches_the_worker() {
    struct NoOtherPool;
    impl AsPool for NoOtherPool {
        fn sleep(&self) -> &Sleep {
            unreachable!("the waiter is of the same pool")
        }
    }
    fn inner(latch: &CountLatch<NoOtherPool>) -> &dyn Probe {
        let Waiter::Worker(inner) = &latch.waiter else { unreachable!("made so below") };
        inner
    }
    for waking in WAKINGS {
        let latch = |sleep: &Sleep| CountLatch::new(2, Waiter::Worker(WorkerLatch::new(sleep, W0)));
        setters_reach_a_waiter(waking, 2, latch, inner);
    }
}
