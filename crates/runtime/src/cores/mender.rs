//! What tasks start while their worker is confined: threads and processes inherit the mask, which is meant for the
//! worker alone. They are let go where the program wants them, within a tenth of a second.
//!
//! A thread is mended if it was started since a worker has had the very mask that it has, and was not there at the
//! look before. One that is older, or was there, has its mask from itself or from an administrator, and that mask
//! wins. What equality cannot tell: a thread that, before the first look, has bound itself to exactly the cores that a
//! worker was confined to roams all the same.
//!
//! Children that were forked set themselves right (`masks::in_child`). Those of `posix_spawn` and `vfork`, and what
//! they have started meanwhile, are found by the kernel's lists of children. Two kinds are not found: a process with a
//! parent that has ended before the look, and all that a program starts in its own last tenth of a second.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::thread::Thread;
use std::time::Duration;

use comity_os::affinity::Mask;
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity, lock};

use crate::cores::masks::Spell;

/// How often what confined workers have started is looked for. It is let go within two looks, and a tenth of a second.
pub(crate) const MEND: Duration = Duration::from_millis(50);
const _: () = assert!(2 * MEND.as_millis() <= 100);

/// At so many looks a child is looked at: it may have been about to start another.
const LOOKS: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mender {
    /// Threads of this process that were there at the last look. One that has begun since has the number of one that
    /// has ended.
    known: HashSet<u32>,
    /// When that was, as [`census::now`] has it.
    looked: u64,
    /// Child processes by their numbers.
    children: HashMap<u32, Child>,
    /// The spells of the last look: their masks may be met now.
    before: Vec<Spell>,
    /// The threads that had their children looked for then. One of them may have been about to start another.
    parents: HashSet<u32>,
}

/// A child process.
#[derive(Clone, Copy, Debug)]
struct Child {
    /// When it began: its number may have been another's.
    start: u64,
    /// How often it has been looked at.
    looks: u32,
}

/// The children that some threads have, and when they began.
fn children(process: u32, threads: impl IntoIterator<Item = u32>) -> impl Iterator<Item = (u32, u64)> {
    let all = threads.into_iter().flat_map(move |thread| census::children(process, thread));
    all.filter_map(|child| Some((child, Stat::of_process(child)?.start)))
}

impl Mender {
    /// All that is there now stays as it is.
    pub(crate) fn new() -> Mender {
        let process = std::process::id();
        let known: HashSet<u32> = census::threads(process).into_iter().collect();
        let looked = census::now();
        let children = children(process, known.iter().copied());
        let children = children.map(|(child, start)| (child, Child { start, looks: LOOKS })).collect();
        Mender { known, looked, children, before: Vec::new(), parents: HashSet::new() }
    }

    /// Whether there is something to be looked at once more: what began as the last look did may have been missed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.before.is_empty() || self.children.values().any(|child| child.looks < LOOKS)
    }

    /// Looks at what is new: with the program's workers, the spells of each since the last time, and those of workers
    /// that have ended since. The children of these are another thread's by now.
    pub(crate) fn look(&mut self, workers: &[(ThreadId, Vec<Spell>)], ended: Vec<Spell>) {
        let any_ended = !ended.is_empty();
        let of_workers = workers.iter().flat_map(|(_, spells)| spells.iter().copied());
        let now: Vec<Spell> = of_workers.chain(ended).collect();
        if now.is_empty() && !self.is_busy() {
            return;
        }
        let spells: Vec<Spell> = self.before.iter().chain(&now).copied().collect();
        self.before = now;
        let process = std::process::id();
        let threads: HashSet<u32> = census::threads(process).into_iter().collect();
        let looked = census::now();
        let is_worker: HashSet<u32> = workers.iter().map(|(thread, _)| thread.as_raw() as u32).collect();
        let (granted, mut new) = (affinity::granted(), Vec::new());
        for id in threads.difference(&is_worker) {
            let is_known = self.known.contains(id);
            mend(process, *id, &spells, granted, if is_known { self.looked + 1 } else { 0 });
            new.extend((!is_known).then_some(*id));
        }
        let narrow = workers.iter().filter(|(_, spells)| !spells.is_empty()).map(|(thread, _)| thread.as_raw() as u32);
        let parents: HashSet<u32> = if any_ended { threads.clone() } else { narrow.chain(new).collect() };
        let before = std::mem::replace(&mut self.parents, parents.clone());
        (self.known, self.looked) = (threads, looked);
        let is_there = |number: u32, child: &Child| {
            Stat::of_process(number).is_some_and(|stat| (stat.parent, stat.start) == (process, child.start))
        };
        self.children.retain(|number, child| is_there(*number, child));
        for (number, start) in children(process, parents.union(&before).copied()) {
            self.children.entry(number).or_insert(Child { start, looks: 0 });
        }
        for (number, child) in self.children.iter_mut().filter(|(_, child)| child.looks < LOOKS) {
            mend_all(*number, &spells, granted);
            child.looks += 1;
        }
    }
}

/// Lets a thread go that has the mask of one of these spells and was not there before it, nor before `not_before`. A
/// cpuset that has become smaller hides the mask, and shows it again when it grows.
fn mend(process: u32, thread: u32, spells: &[Spell], granted: CoreSet, not_before: u64) {
    let id = ThreadId::from_raw(thread as i32);
    let found = affinity::of(id);
    let has_its_mask = |spell: &&Spell| Mask::noted(spell.own, Some(spell.cores)).explains(found, granted);
    let mut same = spells.iter().filter(has_its_mask).peekable();
    if same.peek().is_none() {
        return;
    }
    let Some(start) = Stat::of_thread(process, thread).map(|stat| stat.start) else { return };
    // The kernel rounds down.
    if let Some(spell) = same.find(|spell| start + 1 >= spell.since && start >= not_before) {
        affinity::confine(id, spell.own.unwrap_or(CoreSet::ALL));
    }
}

/// The same for all threads of a process, and of what it has started.
fn mend_all(process: u32, spells: &[Spell], granted: CoreSet) {
    for thread in census::threads(process) {
        mend(process, thread, spells, granted, 0);
        for child in census::children(process, thread) {
            mend_all(child, spells, granted);
        }
    }
}

/// The thread that mends what workers have started that a thief pulled, in a pool without a coordinator. It waits
/// until it is called.
///
/// It is called for the last time when the pool ends, and may be started at that very moment. The lock orders the two:
/// either the end finds the thread, or the thief that has started it finds that the pool has ended, and calls it.
/// Nothing else is done under the lock.
#[derive(Default)]
pub(crate) struct Mending {
    state: Mutex<Mends>,
}

#[derive(Default)]
enum Mends {
    #[default]
    NotYet,
    /// A thief starts it.
    Begins,
    Waits(Thread),
    Ended,
}

impl Mending {
    /// Starts the thread, unless there is one. False: there is none as yet, or none to be had, or the pool has ended.
    pub(crate) fn begin(&self, start: impl FnOnce() -> Option<Thread>) -> bool {
        {
            let mut state = lock(&self.state);
            match *state {
                Mends::NotYet => *state = Mends::Begins,
                Mends::Waits(_) => return true,
                Mends::Begins | Mends::Ended => return false,
            }
        }
        let started = start();
        let mut state = lock(&self.state);
        match (&*state, started) {
            (Mends::Begins, Some(thread)) => {
                *state = Mends::Waits(thread);
                return true;
            }
            (Mends::Begins, None) => *state = Mends::NotYet,
            // The pool has ended meanwhile, which the thread sees.
            (_, Some(thread)) => thread.unpark(),
            (_, None) => {}
        }
        false
    }

    /// There is something to be mended.
    pub(crate) fn is_called(&self) {
        if let Mends::Waits(thread) = &*lock(&self.state) {
            thread.unpark();
        }
    }

    /// The pool has ended, which the thread sees when it is called.
    pub(crate) fn end(&self) {
        if let Mends::Waits(thread) = std::mem::replace(&mut *lock(&self.state), Mends::Ended) {
            thread.unpark();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use std::sync::mpsc::channel;

    use super::*;

    /// A pool may end while a thief begins to pull.
    #[test]
    fn no_thread_waits_for_a_pool_that_has_ended() {
        let mending = Mending::default();
        mending.end();
        assert!(!mending.begin(|| unreachable!("it would never be called")));

        let (tell, told) = channel();
        let mending = Mending::default();
        let started = std::thread::spawn(move || {
            std::thread::park();
            tell.send(()).unwrap();
        });
        assert!(!mending.begin(|| None), "there was none to be had");
        assert!(mending.begin(|| Some(started.thread().clone())));
        assert!(mending.begin(|| unreachable!("there is one")));
        mending.end();
        told.recv().expect("it is called when the pool ends");
        assert!(!mending.begin(|| unreachable!("it has been called for the last time")));
        started.join().unwrap();

        // The pool ends while the thread is started, and another thief comes by.
        let mending = Mending::default();
        let mut started = None;
        let begun = mending.begin(|| {
            assert!(!mending.begin(|| unreachable!("another thief starts it")));
            mending.end();
            let handle = started.insert(std::thread::spawn(std::thread::park));
            Some(handle.thread().clone())
        });
        assert!(!begun);
        started.unwrap().join().unwrap();
    }

    /// The bound of a tenth of a second is two looks. A thread and a child are let go at the next, and at the one
    /// after that what the child has started since.
    #[test]
    fn what_was_started_is_let_go_at_the_next_look() {
        let me = ThreadId::current();
        let all = affinity::of(me);
        let cores: CoreSet = all.iter().take(1).collect();
        if cores == all {
            println!("SKIPPED: it takes two cores");
            return;
        }
        let mut mender = Mender::new();
        let workers = [(me, vec![Spell { cores, own: None, since: census::now() }])];
        affinity::confine(me, cores);
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            let _ = ended.recv();
        });
        let script = "echo; read line; sleep 600 <&- >&- 2>&- & echo $!; read line; kill $!";
        let mut child =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        affinity::confine(me, all);
        let (mut asks, mut says) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        let mut says = || says.next().unwrap().unwrap();
        says();
        let (thread_id, child_id) = (told.recv().unwrap(), ThreadId::from_raw(child.id() as i32));
        assert_eq!([thread_id, child_id].map(affinity::of), [cores, cores]);

        mender.look(&workers, Vec::new());
        assert_eq!([thread_id, child_id].map(affinity::of), [all, all]);
        assert!(mender.is_busy(), "the child is looked at once more");
        // As if it had been started before the look.
        affinity::confine(child_id, cores);
        writeln!(asks).unwrap();
        let grandchild = ThreadId::from_raw(says().parse().unwrap());
        affinity::confine(me, cores);
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        affinity::confine(me, all);
        let late = [grandchild, ThreadId::from_raw(other.id() as i32)];
        assert_eq!(late.map(affinity::of), [cores; 2]);
        mender.look(&[(me, Vec::new())], Vec::new());
        assert_eq!(late.map(affinity::of), [all; 2]);
        assert!(mender.is_busy(), "the other child is looked at once more");
        mender.look(&[(me, Vec::new())], Vec::new());
        assert!(!mender.is_busy());

        // A cpuset has none of the cores that it has inherited: it is on those that are left.
        let (left, gone) = (cores, all.iter().filter(|core| !cores.contains(*core)).collect());
        affinity::confine(late[1], left);
        let spell = Spell { cores: gone, own: None, since: 0 };
        mend(other.id(), other.id(), &[spell], all, 0);
        assert_eq!(affinity::of(late[1]), left);
        mend(other.id(), other.id(), &[spell], left, 0);
        assert_eq!(affinity::of(late[1]), all);

        // What is older, or was there at the last look, has its mask from elsewhere.
        affinity::confine(thread_id, cores);
        mender.look(&workers, Vec::new());
        assert_eq!(affinity::of(thread_id), cores);
        writeln!(asks).unwrap();
        child.wait().unwrap();
        drop(other.stdin.take());
        other.wait().unwrap();
        drop(end);
        thread.join().unwrap();
    }
}
