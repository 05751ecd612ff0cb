//! On which cores a thread may run, and who said so.
//!
//! The kernel keeps one mask for each thread and does not say whose it is. So what a program is about to set is noted first, and a
//! mask that is found later is compared with the note, cut by the thread's cpuset and the cores that are online: [`Mask`].
//!
//! What equality cannot tell: a mask set by another that is exactly the noted one, or all cores, counts as no wish. A mask that is set
//! between a look and the setting that follows it, a microsecond later, is not seen at all.

use crate::CoreSet;
use crate::cpu_clock::ThreadId;
use crate::system::calls;

/// Why a mask was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSet {
    /// The thread has ended.
    Gone,
    /// The thread may use none of these cores: they are not in its cpuset, or not online.
    NoCore,
    /// This program may not set it.
    Refused,
}

/// Confines a thread, of this process or another of the user's, to `cores`. False if that is not to be had ([`NotSet`]).
///
/// 0.8 µs without a change, 11 to 47 µs where the thread has to move.
pub fn confine(thread: ThreadId, cores: CoreSet) -> bool {
    set(thread, cores).is_ok()
}

/// The same, with the reason.
///
/// # Errors
/// If the kernel has set nothing.
pub fn set(thread: ThreadId, cores: CoreSet) -> Result<(), NotSet> {
    if thread.as_raw() <= 0 {
        return Err(NotSet::Gone);
    }
    calls::set_affinity(thread.as_raw(), cores)
}

/// The cores that a thread of any process may run on. None if it is gone.
pub fn of(thread: ThreadId) -> CoreSet {
    if thread.as_raw() <= 0 { CoreSet::EMPTY } else { calls::affinity(thread.as_raw()).unwrap_or(CoreSet::EMPTY) }
}

/// The cores that the system lets a thread use, whatever its mask is: those of its cpuset that are online. The thread may run on all
/// of them afterwards, and on those that are added. None if it is gone, or if this program may not set its mask.
pub fn free(thread: ThreadId) -> CoreSet {
    if confine(thread, CoreSet::ALL) { of(thread) } else { CoreSet::EMPTY }
}

/// The same for the calling thread, whose mask stays as it is.
pub fn granted() -> CoreSet {
    let me = ThreadId::current();
    let before = of(me);
    let granted = free(me);
    if before != granted {
        confine(me, before);
    }
    granted
}

/// One thread's mask as this program knows it. A new one wishes nothing, and nothing was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    /// What the thread's program or an administrator wants; `None`: all cores.
    own: Option<CoreSet>,
    /// What was noted when it was last set, or found; `None`: all cores.
    noted: Option<CoreSet>,
}

impl Mask {
    /// One that was set to `noted` although its program wants `own`.
    pub fn noted(own: Option<CoreSet>, noted: Option<CoreSet>) -> Mask {
        Mask { own, noted }
    }

    /// What the thread's program or an administrator wants; `None`: all cores.
    pub fn own(&self) -> Option<CoreSet> {
        self.own
    }

    /// What was noted: where the thread is to be set to.
    pub fn cores(&self) -> CoreSet {
        self.noted.unwrap_or(CoreSet::ALL)
    }

    /// Whether this program has narrowed it.
    pub fn is_narrow(&self) -> bool {
        self.noted != self.own
    }

    /// Where the thread runs of its own accord.
    pub fn roams(&self, granted: CoreSet) -> CoreSet {
        let cut = self.own.map_or(granted, |own| own.intersection(granted));
        if cut.is_empty() { granted } else { cut }
    }

    /// Whether the kernel gives `found` to a thread that was set to the note.
    pub fn explains(&self, found: CoreSet, granted: CoreSet) -> bool {
        let cut = self.noted.map_or(granted, |noted| noted.intersection(granted));
        found == if cut.is_empty() { granted } else { cut }
    }

    /// Learns from what was found while the system granted `granted`: a mask that the note does not explain is another's, and from
    /// now on the thread's own wish. True if it was.
    pub fn learn(&mut self, found: CoreSet, granted: CoreSet) -> bool {
        let foreign = !self.explains(found, granted);
        if foreign {
            self.own = (found != granted).then_some(found);
            self.noted = self.own;
        }
        foreign
    }

    /// Notes where the thread is to run: on those of `cores` that its own wish has, or where it wishes if that is none of them;
    /// `None`: wherever it wishes. Returns what is to be set, if that is anything new.
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
        // Narrowed, widened, and without a core that is left.
        for (noted, found) in [(None, two), (Some(cores([1, 2])), cores([1])), (Some(cores([2, 3])), two)] {
            let mut mask = Mask::noted(None, noted);
            assert!(!mask.learn(found, two), "{noted:?}");
            assert!(!mask.learn(noted.unwrap_or(all), all), "{noted:?}");
        }
        // A wish outlives it too.
        let mut mask = Mask::noted(Some(cores([2, 3])), Some(cores([2, 3])));
        assert!(!mask.learn(two, two));
        assert_eq!((mask.own(), mask.roams(two), mask.roams(all)), (Some(cores([2, 3])), two, cores([2, 3])));
    }
}
