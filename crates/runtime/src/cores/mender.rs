//! What tasks start while their worker is confined: threads and processes inherit the mask, which is meant for the worker alone. They
//! are let go where the program wants them, within a tenth of a second.
//!
//! A thread is mended if it was started since a worker has had the very mask that it has, and was not there at the look before. One
//! that is older, or was there, has its mask from itself or from an administrator, who wins. What equality cannot tell: a thread that,
//! before the first look, has bound itself to exactly the cores that a worker was confined to roams all the same.
//!
//! Children that were forked set themselves right (`masks::in_child`); those of `posix_spawn` and `vfork`, and what they have started
//! meanwhile, are found by the kernel's lists of children. Two kinds are not found: a process whose parent has ended before the look,
//! and all that a program starts in its own last tenth of a second.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use comity_os::census::{self, Stat};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity};

use comity_protocol::platform::Once as _;

use crate::cores::masks::Spell;
use crate::raw::sync::SetOnce;

/// How often what confined workers have started is looked for. It is let go within two looks, and a tenth of a second.
pub(crate) const MEND: Duration = Duration::from_millis(50);
const _: () = assert!(2 * MEND.as_millis() <= 100);

/// At so many looks a child is looked at: it may have been about to start another.
const LOOKS: u32 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mender {
    /// Threads of this process that were there at the last look.
    known: HashSet<u32>,
    /// Child processes, and how often they have been looked at.
    children: HashMap<u32, u32>,
    /// The spells of the last look, whose masks may be met now.
    before: Vec<Spell>,
}

impl Mender {
    /// All that is there now stays as it is.
    pub(crate) fn new() -> Mender {
        let process = std::process::id();
        let known: HashSet<u32> = census::threads(process).into_iter().collect();
        let children = known.iter().flat_map(|thread| census::children(process, *thread));
        Mender { children: children.map(|child| (child, LOOKS)).collect(), known, before: Vec::new() }
    }

    /// Whether there is something to be looked at once more: what began as the last look did may have been missed.
    pub(crate) fn is_busy(&self) -> bool {
        !self.before.is_empty() || self.children.values().any(|looks| *looks < LOOKS)
    }

    /// Looks at what is new, with the program's workers, the spells of each since the last time, and those of workers that have
    /// ended since, whose children are another thread's by now.
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
        let is_worker: HashSet<u32> = workers.iter().map(|(thread, _)| thread.as_raw() as u32).collect();
        let new: Vec<u32> =
            threads.iter().filter(|id| !self.known.contains(id) && !is_worker.contains(id)).copied().collect();
        for id in &new {
            mend(process, *id, &spells);
        }
        let narrow = workers.iter().filter(|(_, spells)| !spells.is_empty()).map(|(thread, _)| thread.as_raw() as u32);
        let parents: Vec<u32> = if any_ended { threads.iter().copied().collect() } else { narrow.chain(new).collect() };
        self.known = threads;
        self.children.retain(|child, _| Stat::of_process(*child).is_some_and(|stat| stat.parent == process));
        for child in parents.into_iter().flat_map(|thread| census::children(process, thread)) {
            self.children.entry(child).or_default();
        }
        for (child, looks) in self.children.iter_mut().filter(|(_, looks)| **looks < LOOKS) {
            mend_all(*child, &spells);
            *looks += 1;
        }
    }
}

/// Lets a thread go that has the mask of one of these spells and was not there before it.
fn mend(process: u32, thread: u32, spells: &[Spell]) {
    let id = ThreadId::from_raw(thread as i32);
    let found = affinity::of(id);
    let mut same = spells.iter().filter(|spell| spell.cores == found).peekable();
    if same.peek().is_none() {
        return;
    }
    let Some(start) = Stat::of_thread(process, thread).map(|stat| stat.start) else { return };
    // The kernel rounds down.
    if let Some(spell) = same.find(|spell| start + 1 >= spell.since) {
        affinity::confine(id, spell.own.unwrap_or(CoreSet::ALL));
    }
}

/// The same for all threads of a process, and of what it has started.
fn mend_all(process: u32, spells: &[Spell]) {
    for thread in census::threads(process) {
        mend(process, thread, spells);
        for child in census::children(process, thread) {
            mend_all(child, spells);
        }
    }
}

/// The thread that mends what workers have started that a thief pulled, in a pool without a coordinator. It waits until it is called.
#[derive(Default)]
pub(crate) struct Mending {
    /// One thief starts it.
    begins: AtomicBool,
    thread: SetOnce<Thread>,
}

impl Mending {
    /// Starts the thread, unless there is one. `None`: there is none yet, or none to be had.
    pub(crate) fn begin(&self, start: impl FnOnce() -> Option<Thread>) -> Option<&Thread> {
        if self.thread.get().is_none() && !self.begins.swap(true, Ordering::Acquire) {
            match start() {
                Some(thread) => return Some(self.thread.set(thread)),
                None => self.begins.store(false, Ordering::Release),
            }
        }
        self.thread.get()
    }

    /// There is something to be mended, or the pool has ended.
    pub(crate) fn is_called(&self) {
        if let Some(thread) = self.thread.get() {
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

    /// The bound of a tenth of a second is two looks: a thread and a child are let go at the next, and at the one after that what
    /// the child has started since.
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
        assert_eq!(affinity::of(grandchild), cores);
        mender.look(&[(me, Vec::new())], Vec::new());
        assert_eq!(affinity::of(grandchild), all);
        assert!(!mender.is_busy());

        // What is older, or was there at the last look, has its mask from elsewhere.
        affinity::confine(thread_id, cores);
        mender.look(&workers, Vec::new());
        assert_eq!(affinity::of(thread_id), cores);
        writeln!(asks).unwrap();
        child.wait().unwrap();
        drop(end);
        thread.join().unwrap();
    }
}
