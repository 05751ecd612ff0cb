//! The cores on which a thread may run (its affinity mask), and the record of which process chose them.
//!
//! The kernel keeps one mask for each thread and does not record which process set it. A program therefore notes each
//! mask before it sets it. Later it compares the mask that it finds with the noted mask, reduced to the online cores
//! of the thread's cpuset. A different mask was set by another process, or by the thread itself: see [`Mask`].
//!
//! The comparison has two limits. A mask that equals the noted mask, or that contains all cores, is not recognized as
//! the choice of another process. A mask that another process sets between this program's read and its next write, a
//! microsecond later, is overwritten unseen.

use crate::CoreSet;
use crate::cpu_clock::ThreadId;
use crate::system::calls;

/// The reason why a mask was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSet {
    /// The thread has ended.
    Gone,
    /// The thread cannot use any of these cores: they are outside of its cpuset, or offline.
    NoCore,
    /// This program may not set the mask.
    Refused,
}

/// Confines a thread of any process of the user to `cores`. Returns false if the mask was not set; [`set`] returns the
/// reason.
///
/// Takes 0.8 µs without a change, and 11 to 47 µs if the thread has to move.
pub fn confine(thread: ThreadId, cores: CoreSet) -> bool {
    set(thread, cores).is_ok()
}

/// Confines a thread to `cores`, like [`confine`], and returns the reason of a failure.
///
/// # Errors
/// If the kernel has not set the mask.
pub fn set(thread: ThreadId, cores: CoreSet) -> Result<(), NotSet> {
    if thread.as_raw() <= 0 {
        return Err(NotSet::Gone);
    }
    calls::set_affinity(thread.as_raw(), cores)
}

/// Returns the cores that a thread of any process may run on. Empty if the thread is gone.
pub fn of(thread: ThreadId) -> CoreSet {
    if thread.as_raw() <= 0 { CoreSet::EMPTY } else { calls::affinity(thread.as_raw()).unwrap_or(CoreSet::EMPTY) }
}

/// Resets a thread's mask and returns the cores that the system grants the thread: the online cores of its cpuset. The
/// thread may then run on all of these cores, and on cores that its cpuset gets later. Returns the empty set if the
/// thread has ended, or if this program may not set the thread's mask.
pub fn free(thread: ThreadId) -> CoreSet {
    if confine(thread, CoreSet::ALL) { of(thread) } else { CoreSet::EMPTY }
}

/// Returns the cores that the system grants to the calling thread: the online cores of its cpuset. The thread's mask
/// is the same afterwards.
pub fn granted() -> CoreSet {
    let me = ThreadId::current();
    let before = of(me);
    let granted = free(me);
    if before != granted {
        confine(me, before);
    }
    granted
}

/// This program's record of the mask of one thread. By default, the thread may use all cores, and no mask was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// The cores that the thread's program or an administrator chose; `None`: all cores.
    own: Option<CoreSet>,
    /// The mask that was last set or found; `None`: all cores.
    noted: Option<CoreSet>,
}

impl Mask {
    /// Creates the record of a thread whose program chose `own`, and whose mask is now set to `noted`.
    pub fn noted(own: Option<CoreSet>, noted: Option<CoreSet>) -> Mask {
        Mask { own, noted }
    }

    /// Returns the cores that the thread's program or an administrator chose; `None`: all cores.
    pub fn own(&self) -> Option<CoreSet> {
        self.own
    }

    /// Returns the noted mask: the cores to which the thread must be set.
    pub fn cores(&self) -> CoreSet {
        self.noted.unwrap_or(CoreSet::ALL)
    }

    /// True if the noted mask differs from the thread's own choice, because this program has narrowed it.
    pub fn is_narrow(&self) -> bool {
        self.noted != self.own
    }

    /// Returns the cores on which the thread runs when this program does not confine it.
    pub fn roams(&self, granted: CoreSet) -> CoreSet {
        let cut = self.own.map_or(granted, |own| own.intersection(granted));
        if cut.is_empty() { granted } else { cut }
    }

    /// True if `found` is the mask that the kernel reports for a thread that was set to the noted mask.
    pub fn explains(&self, found: CoreSet, granted: CoreSet) -> bool {
        let cut = self.noted.map_or(granted, |noted| noted.intersection(granted));
        found == if cut.is_empty() { granted } else { cut }
    }

    /// Updates the record from the mask `found`, which was read while the system granted `granted`. If the noted mask
    /// does not explain `found`, then another process set `found`, and it becomes the thread's own choice. Returns true
    /// in that case.
    pub fn learn(&mut self, found: CoreSet, granted: CoreSet) -> bool {
        let foreign = !self.explains(found, granted);
        if foreign {
            self.own = (found != granted).then_some(found);
            self.noted = self.own;
        }
        foreign
    }

    /// Notes the cores on which the thread must run: `cores ∩ own`, or `own` if the intersection is empty, where `own`
    /// is the thread's own choice. If `cores` is `None`, notes `own`. Returns the mask to set if the note changed.
    pub fn note(&mut self, cores: Option<CoreSet>) -> Option<CoreSet> {
        let noted = match (self.own, cores) {
            (own, None) => own,
            (None, cores) => cores,
            (Some(own), Some(cores)) => Some(own.intersection(cores)).filter(|both| !both.is_empty()).or(Some(own)),
        };
        let before = std::mem::replace(&mut self.noted, noted);
        (before != noted).then(|| self.cores())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(cores: impl IntoIterator<Item = usize>) -> CoreSet {
        cores.into_iter().collect()
    }

    #[test]
    #[cfg_attr(comity_portable, ignore = "of Linux")]
    fn a_confined_thread_stays_there_until_it_is_let_go() {
        std::thread::spawn(|| {
            let me = ThreadId::current();
            let before = of(me);
            let last = before.iter().last().unwrap();
            assert!(confine(me, cores([last])));
            assert_eq!(of(me), cores([last]));
            assert_eq!(calls::core(), last);
            assert_eq!(set(me, CoreSet::EMPTY), Err(NotSet::NoCore));
            assert_eq!(set(ThreadId::from_raw(1 << 23), before), Err(NotSet::Gone));
            let granted = granted();
            assert_eq!(of(me), cores([last]));
            assert_eq!(before.intersection(granted), before);
            assert_eq!(free(me), granted);
            assert!(confine(me, before));
            assert_eq!(of(me), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_mask_that_was_noted_is_no_wish() {
        let all = cores(0..4);
        let mut mask = Mask::default();
        assert!(!mask.learn(all, all));
        assert_eq!(mask.note(Some(cores([1, 2]))), Some(cores([1, 2])));
        assert_eq!(mask.note(Some(cores([1, 2]))), None);
        assert!(!mask.learn(cores([1, 2]), all) && mask.is_narrow());
        assert_eq!(mask.note(None), Some(CoreSet::ALL));
        assert!(!mask.is_narrow());
    }

    #[test]
    fn another_ones_mask_wins_until_it_is_taken_back() {
        let all = cores(0..4);
        let mut mask = Mask::noted(None, Some(cores([1, 2])));
        assert!(mask.learn(cores([0, 1]), all));
        assert_eq!((mask.own(), mask.roams(all)), (Some(cores([0, 1])), cores([0, 1])));
        assert_eq!(mask.note(Some(cores([1, 2]))), Some(cores([1])));
        assert_eq!(mask.note(Some(cores([3]))), Some(cores([0, 1])));
        assert!(mask.learn(all, all));
        assert_eq!((mask.own(), mask.is_narrow()), (None, false));
    }

    #[test]
    fn what_a_cpuset_or_a_core_that_is_gone_explains_is_no_wish() {
        let (all, two) = (cores(0..4), cores(0..2));
        // The cpuset narrows the mask, widens it, or leaves no core of it.
        for (noted, found) in [(None, two), (Some(cores([1, 2])), cores([1])), (Some(cores([2, 3])), two)] {
            let mut mask = Mask::noted(None, noted);
            assert!(!mask.learn(found, two), "{noted:?}");
            assert!(!mask.learn(noted.unwrap_or(all), all), "{noted:?}");
        }
        // The thread's own choice survives a change of the cpuset too.
        let mut mask = Mask::noted(Some(cores([2, 3])), Some(cores([2, 3])));
        assert!(!mask.learn(two, two));
        assert_eq!((mask.own(), mask.roams(two), mask.roams(all)), (Some(cores([2, 3])), two, cores([2, 3])));
    }
}
