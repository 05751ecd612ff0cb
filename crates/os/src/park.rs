//! Parking a thread, and waking it where there is room for it.
//!
//! A thread that wakes another and goes on running occupies its core. The kernel should then place the woken one on an
//! idle core, but in a virtual machine it takes a halted core for a preempted one, and leaves the woken thread behind
//! its waker, for 3 ms if it cannot preempt it. So a waker that goes on may steer: it takes its own core out of the
//! sleeper's affinity mask, and the sleeper puts the mask back when it runs.

use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::system::calls::{affinity, core, set_affinity, thread};
use crate::{CoreSet, futex, lock};

/// The calling thread, as the calls on masks have it.
const THIS: i32 = 0;

/// What a waker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// It goes on running: the woken thread needs another core.
    GoesOn,
    /// It makes room: it is about to wait itself.
    MakesRoom,
}

/// A 32-bit word on which one thread parks, woken by others. The word's values are the caller's.
#[derive(Debug)]
pub struct Parker {
    word: AtomicU32,
    /// There while the owner is in [`Parker::wait`]: only then may a waker touch its mask.
    bed: Mutex<Option<Bed>>,
}

#[derive(Debug)]
struct Bed {
    owner: i32,
    /// The owner's mask when it came.
    own: CoreSet,
    /// What a waker made of it.
    steered: Option<CoreSet>,
}

impl Parker {
    /// A word with this value.
    pub fn new(value: u32) -> Parker {
        Parker { word: AtomicU32::new(value), bed: Mutex::new(None) }
    }

    /// The word.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn bed(&self) -> MutexGuard<'_, Option<Bed>> {
        lock(&self.bed)
    }

    /// Sleeps while the word holds `expected`, until woken or `timeout`. May return early for no reason: the caller
    /// reads the word again. One thread at a time.
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let own = affinity(THIS).ok().filter(|mask| mask.len() > 1);
        *self.bed() = own.map(|own| Bed { owner: thread(), own, steered: None });
        futex::wait(&self.word, expected, timeout);
        if let Some(Bed { own, steered: Some(steered), .. }) = self.bed().take() {
            // Unless another thread has set another mask meanwhile: that one stays.
            if affinity(THIS).is_ok_and(|now| now == steered) {
                restore(own);
            }
        }
    }

    /// Wakes the thread that waits. The caller has changed the word before.
    ///
    /// 7 to 17 µs when a thread waits; steering adds 2 to 9 µs.
    pub fn wake(&self, waker: Waker) {
        if waker == Waker::GoesOn {
            self.steer_away_from(core());
        }
        futex::wake_one(&self.word);
    }

    /// Takes a core out of the sleeper's mask. If another thread has set a mask since the sleeper came, that mask stays.
    /// If the kernel refuses the change, it places the sleeper as it likes.
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

/// Lets the calling thread run on `own` again. If these are all cores that the system grants, the thread's mask becomes
/// all cores, so that the thread may also run on cores that its cpuset gets later.
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
            return; // There is nowhere to steer to.
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
            return; // There is nowhere to steer to.
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
