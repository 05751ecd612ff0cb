//! What tasks start while their worker is confined: threads and processes inherit the mask, which is meant for the worker alone. They
//! are let go where the program wants them, within a tenth of a second.
//!
//! A thread is mended once, at the first look that finds it, and only if its mask is one that a worker has had since the look before.
//! One that was there before has its mask from itself or from an administrator, who wins. What equality cannot tell: a thread that in
//! its first tenth of a second has bound itself to exactly the cores that a worker was confined to roams all the same.
//!
//! Children that were forked set themselves right (`share::in_child`); those of `posix_spawn` and `vfork`, and what they have started
//! meanwhile, are found by the kernel's lists of children.

use std::collections::{HashMap, HashSet};

use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity};

use crate::share::Narrow;

/// At so many looks a child is looked at: it may have been about to start another.
const LOOKS: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mender {
    /// Threads of this process that were there at the last look.
    known: HashSet<u32>,
    /// Child processes, and how often they have been looked at.
    children: HashMap<u32, u32>,
    /// Masks that children may still have.
    narrow: Vec<Narrow>,
}

impl Mender {
    /// All that is there now stays as it is.
    pub(crate) fn new() -> Mender {
        let process = std::process::id();
        let known: HashSet<u32> = census::threads(process).into_iter().collect();
        let children = known.iter().flat_map(|thread| census::children(process, *thread));
        Mender { children: children.map(|child| (child, LOOKS)).collect(), known, narrow: Vec::new() }
    }

    /// Whether there are children to be looked at once more.
    pub(crate) fn is_busy(&self) -> bool {
        self.children.values().any(|looks| *looks < LOOKS)
    }

    /// Looks at what is new, with the program's workers and the narrow masks that each has had since the last time.
    pub(crate) fn look(&mut self, workers: &[(ThreadId, Vec<Narrow>)]) {
        let narrow: Vec<Narrow> = workers.iter().flat_map(|(_, narrow)| narrow.iter().copied()).collect();
        if narrow.is_empty() && !self.is_busy() {
            return;
        }
        let process = std::process::id();
        let threads: HashSet<u32> = census::threads(process).into_iter().collect();
        let is_worker: HashSet<u32> = workers.iter().map(|(thread, _)| thread.as_raw() as u32).collect();
        let new: Vec<u32> =
            threads.iter().filter(|id| !self.known.contains(id) && !is_worker.contains(id)).copied().collect();
        for id in &new {
            mend(*id, &narrow);
        }
        self.known = threads;
        let were_narrow =
            workers.iter().filter(|(_, narrow)| !narrow.is_empty()).map(|(thread, _)| thread.as_raw() as u32);
        let starters = were_narrow.chain(new);
        let started: Vec<u32> = starters.flat_map(|thread| census::children(process, thread)).collect();
        // A child of the last look may have started something with what was narrow then.
        let masks: Vec<Narrow> = self.narrow.iter().chain(&narrow).copied().collect();
        self.narrow = narrow;
        self.children.retain(|child, _| Stat::of_process(*child).is_some_and(|stat| stat.parent == process));
        for child in started {
            self.children.entry(child).or_default();
        }
        let due: Vec<u32> =
            self.children.iter().filter(|(_, looks)| **looks < LOOKS).map(|(child, _)| *child).collect();
        for child in due {
            mend_all(child, &masks);
            self.children.entry(child).and_modify(|looks| *looks += 1);
        }
    }
}

/// Lets a thread go that has one of these masks.
fn mend(thread: u32, narrow: &[Narrow]) {
    let thread = ThreadId::from_raw(thread as i32);
    let found = affinity::of(thread);
    if let Some((_, own)) = narrow.iter().find(|(mask, _)| *mask == found) {
        affinity::confine(thread, own.unwrap_or(CoreSet::ALL));
    }
}

/// The same for all threads of a process, and of what it has started.
fn mend_all(process: u32, narrow: &[Narrow]) {
    for thread in census::threads(process) {
        mend(thread, narrow);
        for child in census::children(process, thread) {
            mend_all(child, narrow);
        }
    }
}
