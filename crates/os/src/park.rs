//! Parking a thread, and waking it on a free core.
//!
//! A thread that wakes another thread and continues to run occupies its own core. The kernel should place the woken
//! thread on an idle core. But in a virtual machine, the kernel may take a halted core for a preempted core, and place
//! the woken thread on the waker's core. There it waits up to 3 ms if it cannot preempt the waker. A waker that
//! continues can therefore *steer*: it removes its own core from the sleeper's affinity mask. The sleeper restores the
//! mask when it runs.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::system::calls::{affinity, core, set_affinity, thread};
use crate::{CoreSet, futex, lock};

/// The number that stands for the calling thread in `affinity` and `set_affinity`.
const THIS: i32 = 0;

/// The next step of a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// The waker continues to run, so the woken thread needs another core.
    GoesOn,
    /// The waker is about to wait, so the woken thread can use the waker's core.
    MakesRoom,
}

/// A 32-bit word on which one thread parks until others wake it. The caller defines the word's values.
#[derive(Debug)]
pub struct Parker {
    word: AtomicU32,
    /// `Some` while the owner is in [`Parker::wait`]. Only then may a waker change the owner's mask.
    bed: Mutex<Option<Bed>>,
}

#[derive(Debug)]
struct Bed {
    owner: i32,
    /// The owner's mask when it began to wait.
    own: CoreSet,
    /// The mask that a waker set, if any.
    steered: Option<CoreSet>,
}

impl Parker {
    /// Creates a parker whose word has this value.
    pub fn new(value: u32) -> Parker {
        Parker { word: AtomicU32::new(value), bed: Mutex::new(None) }
    }

    /// Returns the word.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn bed(&self) -> MutexGuard<'_, Option<Bed>> {
        lock(&self.bed)
    }

    /// Sleeps while the word holds `expected`, until another thread wakes it or `timeout` has passed. May return early
    /// without a reason, so the caller must read the word again. Only one thread may wait at a time.
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let own = affinity(THIS).ok().filter(|mask| mask.len() > 1);
        *self.bed() = own.map(|own| Bed { owner: thread(), own, steered: None });
        futex::wait(&self.word, expected, timeout);
        if let Some(Bed { own, steered: Some(steered), .. }) = self.bed().take() {
            // If the mask is not the steered mask, another thread has set it meanwhile. Keep it.
            if affinity(THIS).is_ok_and(|now| now == steered) {
                restore(own);
            }
        }
    }

    /// Wakes the waiting thread. The caller must have changed the word before the call.
    ///
    /// Takes 7 to 17 µs if a thread waits. Steering adds 2 to 9 µs.
    pub fn wake(&self, waker: Waker) {
        if waker == Waker::GoesOn {
            self.steer_away_from(core());
        }
        futex::wake_one(&self.word);
    }

    /// Removes `core` from the sleeper's mask, unless another thread has set the mask since the sleeper began to wait.
    /// If the kernel refuses the change, the woken thread may run on any core.
    fn steer_away_from(&self, core: usize) {
        if let Some(bed) = &mut *self.bed() {
            let mut mask = bed.own;
            mask.remove(core);
            let is_ours = |now| now == bed.own || Some(now) == bed.steered;
            if mask != bed.own && affinity(bed.owner).is_ok_and(is_ours) && set_affinity(bed.owner, mask).is_ok() {
                bed.steered = Some(mask);
            }
        }
    }
}

/// Restores the mask `own` of the calling thread. If `own` contains all cores that the system grants, sets all cores,
/// so that the thread may also run on cores that its cpuset gets later.
fn restore(own: CoreSet) {
    let _ = set_affinity(THIS, CoreSet::ALL);
    if !affinity(THIS).is_ok_and(|now| now == own) {
        let _ = set_affinity(THIS, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_steered_sleeper_gets_its_mask_back() {
        let parker = Parker::new(0);
        let before = affinity(THIS).unwrap();
        if before.len() < 2 {
            return; // No core is left to steer to.
        }
        let core = core();
        let mask_is_back = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while parker.word().load(Ordering::Acquire) == 0 {
                    parker.wait(0, None);
                }
                mask_is_back.store(affinity(THIS).unwrap() == before, Ordering::SeqCst);
            });
            let owner = loop {
                if let Some(bed) = &*parker.bed() {
                    break bed.owner;
                }
                std::thread::yield_now();
            };
            parker.steer_away_from(core);
            let steered = affinity(owner).unwrap();
            assert!(!steered.contains(core) && steered.len() == before.len() - 1);
            parker.word().store(1, Ordering::Release);
            parker.wake(Waker::MakesRoom);
        });
        assert!(mask_is_back.into_inner());
        assert!(parker.bed().is_none());
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_mask_that_is_set_while_its_thread_sleeps_stays() {
        let all = affinity(THIS).unwrap();
        if all.len() < 2 {
            return; // No core is left to steer to.
        }
        for bound in all.iter() {
            let bound = CoreSet::from_iter([bound]);
            let parker = Parker::new(0);
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| {
                    while parker.word().load(Ordering::Acquire) == 0 {
                        parker.wait(0, None);
                    }
                    affinity(THIS).unwrap()
                });
                let owner = loop {
                    if let Some(bed) = &*parker.bed() {
                        break bed.owner;
                    }
                    std::thread::yield_now();
                };
                set_affinity(owner, bound).unwrap();
                all.iter().for_each(|core| parker.steer_away_from(core));
                parker.word().store(1, Ordering::Release);
                parker.wake(Waker::GoesOn);
                assert_eq!(sleeper.join().unwrap(), bound);
            });
        }
    }

    #[test]
    fn nobody_waits_and_nothing_happens() {
        let parker = Parker::new(0);
        parker.wake(Waker::GoesOn);
        parker.wake(Waker::MakesRoom);
        parker.wait(1, None);
        parker.wait(0, Some(Duration::from_millis(1)));
        assert!(parker.bed().is_none());
    }
}
