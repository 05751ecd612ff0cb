//! The mender corrects the affinity masks of threads and processes that a task starts while Comity confines its
//! worker. They inherit the worker's narrow mask. Within a tenth of a second, the mender gives them the mask that the
//! program wants.
//!
//! The mender looks at the process's threads and children every 50 ms while there may be something to correct. It
//! mends (corrects) a thread if three conditions hold:
//!
//! - The thread has exactly a mask that a worker has had.
//! - The thread was started after the worker got that mask.
//! - The thread did not exist at the previous look.
//!
//! The mask of an older thread was set by the thread itself or by an administrator, and is kept. One case is
//! corrected wrongly: a new thread that has bound itself to exactly the cores of a confined worker, before the
//! mender's first look at the thread.
//!
//! Forked children correct their own masks (`masks::in_child`). Children of `posix_spawn` and `vfork`, and processes
//! that these children have started, are found through the kernel's lists of children. Two kinds of process are not
//! found: a process whose parent has ended before the look, and a process that the program starts in its last tenth
//! of a second.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::thread::Thread;
use std::time::Duration;

use comity_os::affinity::Mask;
use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity, lock};

use crate::cores::masks::Spell;

/// The time between two looks at threads and processes. They are mended within two looks, a tenth of a second.
pub(crate) const MEND: Duration = Duration::from_millis(50);
const _: () = assert!(2 * MEND.as_millis() <= 100);

/// The number of looks at each child process. The second look finds a process that the child was about to start at
/// the first look.
const LOOKS: u32 = 2;

/// The state of the mender.
#[derive(Debug)]
pub(crate) struct Mender {
    /// The threads of this process at the last look. A thread that was started since may have the number of a thread
    /// that has ended.
    known: HashSet<u32>,
    /// The time of the last look, from [`census::now`].
    looked: u64,
    /// Child processes by their numbers.
    children: HashMap<u32, Child>,
    /// The [`Spell`]s that the last look used. A thread that was being started at that time is found by the next
    /// look.
    before: Vec<Spell>,
    /// The threads whose children the last look listed. The next look lists them again, because a thread may have
    /// been about to start a child.
    parents: HashSet<u32>,
}

/// A child process.
#[derive(Clone, Copy, Debug)]
struct Child {
    /// The start time of the child. It distinguishes the child from an earlier process with the same number.
    start: u64,
    /// The number of looks at the child.
    looks: u32,
}

/// Returns the children of some threads, and the start times of the children.
fn children(process: u32, threads: impl IntoIterator<Item = u32>) -> impl Iterator<Item = (u32, u64)> {
    let all = threads.into_iter().flat_map(move |thread| census::children(process, thread));
    all.filter_map(|child| Some((child, Stat::of_process(child)?.start)))
}

impl Mender {
    /// Creates a mender. All threads and processes that exist now keep their masks.
    pub(crate) fn new() -> Mender {
        let process = std::process::id();
        let known: HashSet<u32> = census::threads(process).into_iter().collect();
        let looked = census::now();
        let children = children(process, known.iter().copied());
        let children = children.map(|(child, start)| (child, Child { start, looks: LOOKS })).collect();
        Mender { known, looked, children, before: Vec::new(), parents: HashSet::new() }
    }

    /// True if another look is needed: threads that began during the last look may have been missed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.before.is_empty() || self.children.values().any(|child| child.looks < LOOKS)
    }

    /// Looks at all threads and at new child processes, and mends them. `workers`: the program's workers, each with
    /// its [`Spell`]s (times with a narrow mask) since the last look. `ended`: the spells of workers that have ended
    /// since. The kernel moves the children of an ended worker to another thread, so the children of all threads are
    /// listed then.
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

/// Gives a thread the mask that the program wants, if it has the mask of one of these [`Spell`]s. The thread must
/// have been started after the spell began, and not earlier than `not_before`. The comparison allows for a cpuset:
/// while it allows only a part of the mask's cores, the kernel does not report the mask itself.
fn mend(process: u32, thread: u32, spells: &[Spell], granted: CoreSet, not_before: u64) {
    let id = ThreadId::from_raw(thread as i32);
    let found = affinity::of(id);
    let has_its_mask = |spell: &&Spell| Mask::noted(spell.own, Some(spell.cores)).explains(found, granted);
    let mut same = spells.iter().filter(has_its_mask).peekable();
    if same.peek().is_none() {
        return;
    }
    let Some(start) = Stat::of_thread(process, thread).map(|stat| stat.start) else { return };
    // One unit is added, because the kernel rounds start times down.
    if let Some(spell) = same.find(|spell| start + 1 >= spell.since && start >= not_before) {
        affinity::confine(id, spell.own.unwrap_or(CoreSet::ALL));
    }
}

/// Mends all threads of a process, and of the processes that it has started.
fn mend_all(process: u32, spells: &[Spell], granted: CoreSet) {
    for thread in census::threads(process) {
        mend(process, thread, spells, granted, 0);
        for child in census::children(process, thread) {
            mend_all(child, spells, granted);
        }
    }
}

/// The mender thread of a pool without a coordinator. It mends threads and processes that a worker started while a
/// thief pulled it. It sleeps until a thief calls it.
///
/// The thread is called for the last time when the pool ends, perhaps while a thief is starting it. The lock orders
/// these two steps: either the end of the pool finds the thread and calls it, or the thief finds that the pool has
/// ended and calls the thread. Nothing else is done under the lock.
#[derive(Default)]
pub(crate) struct Mending {
    state: Mutex<Mends>,
}

#[derive(Default)]
enum Mends {
    #[default]
    NotYet,
    /// A thief is starting the thread.
    Begins,
    Waits(Thread),
    Ended,
}

impl Mending {
    /// Starts the thread, unless there is one. Returns false if another thief is starting it, if it cannot start, or
    /// if the pool has ended.
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
            // The pool has ended meanwhile. The thread wakes, sees that, and ends.
            (_, Some(thread)) => thread.unpark(),
            (_, None) => {}
        }
        false
    }

    /// Calls the thread, because there is something to mend.
    pub(crate) fn is_called(&self) {
        if let Mends::Waits(thread) = &*lock(&self.state) {
            thread.unpark();
        }
    }

    /// Calls the thread for the last time: it sees that the pool has ended.
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

    /// Ends a pool while a thief begins to pull.
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

        // The pool ends while the thread is started, and another thief needs it.
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

    /// Checks the bound of a tenth of a second, which is two looks. A thread and a child are mended at the next look,
    /// and a process that the child has started since is mended at the look after that.
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
        // The grandchild inherits the mask, as if it had been started before the look.
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

        // A cpuset has none of the inherited cores: the process is on the cores that are left.
        let (left, gone) = (cores, all.iter().filter(|core| !cores.contains(*core)).collect());
        affinity::confine(late[1], left);
        let spell = Spell { cores: gone, own: None, since: 0 };
        mend(other.id(), other.id(), &[spell], all, 0);
        assert_eq!(affinity::of(late[1]), left);
        mend(other.id(), other.id(), &[spell], left, 0);
        assert_eq!(affinity::of(late[1]), all);

        // A thread that existed at the last look keeps its mask.
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
