//! Threads and processes that tasks start, with the time until they have the program's own affinity mask.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use comity::ThreadPool;
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity, census};

use crate::forked;

/// The maximum time for which a mask may be wrong. It is long, because it must tell a mask that stays for ever from a
/// slow machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A thread, process or pool that a task has started. It exists until it is told to end.
pub struct Started {
    kind: &'static str,
    began: Instant,
    was_narrow: bool,
    /// Returns its threads. Returns no thread while some of them have not started.
    threads: Box<dyn Fn() -> Vec<ThreadId> + Send>,
    end: Box<dyn FnOnce() + Send>,
}

impl Started {
    fn new(
        kind: &'static str,
        began: Instant,
        threads: impl Fn() -> Vec<ThreadId> + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Started {
        Started { kind, began, was_narrow: false, threads: Box::new(threads), end: Box::new(end) }
    }

    pub fn thread() -> Started {
        let (began, (tell, told), (end, ended)) = (Instant::now(), channel(), channel::<()>());
        let thread = thread::spawn(move || {
            tell.send(ThreadId::current()).unwrap();
            let _ = ended.recv();
        });
        let id = told.recv().unwrap();
        let end = move || {
            drop(end);
            thread.join().unwrap();
        };
        Started::new("a thread", began, move || vec![id], end)
    }

    pub fn pool(build: impl FnOnce() -> ThreadPool) -> Started {
        let began = Instant::now();
        let pool = build();
        let threads = pool.broadcast(|_| ThreadId::current());
        Started::new("a pool", began, move || threads.clone(), move || drop(pool))
    }

    /// Starts a forked process, without an `exec`.
    pub fn fork() -> Started {
        let began = Instant::now();
        let child = forked::leave_a_fork(|| thread::sleep(5 * LIMIT));
        Started::new("a fork", began, move || vec![ThreadId::from_raw(child as i32)], move || forked::kill(child))
    }

    /// Starts a process by `posix_spawn`, like the standard library.
    pub fn spawn() -> Started {
        Started::process("posix_spawn", 1, &mut Command::new("cat"))
    }

    /// Starts a process by `fork` and `exec`.
    pub fn exec() -> Started {
        Started::process("fork and exec", 1, forked::with_a_fork(&mut Command::new("cat")))
    }

    /// Starts a child with children.
    pub fn tree() -> Started {
        Started::process("a child with children", 3, Command::new("sh").args(["-c", "cat | cat; :"]))
    }

    /// Starts a command that waits for its standard input. `processes`: the number of its processes, including
    /// children.
    fn process(kind: &'static str, processes: usize, command: &mut Command) -> Started {
        let began = Instant::now();
        let mut child: Child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let root = child.id();
        let threads = move || {
            let mut all = vec![root];
            all.extend(census::children(root, root));
            let all = all.into_iter().map(|process| ThreadId::from_raw(process as i32));
            Some(all.collect()).filter(|all: &Vec<_>| all.len() == processes).unwrap_or_default()
        };
        // The command is killed, and not ended by its closed input: a forked child may have inherited the other end
        // of that input, and keep it open.
        let end = move || {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        Started::new(kind, began, threads, end)
    }

    /// True if all threads of the started object have that mask.
    fn has(&mut self, mask: CoreSet) -> bool {
        let found: Vec<CoreSet> = (self.threads)().into_iter().map(affinity::of).collect();
        self.was_narrow |= found.iter().any(|found| *found != mask);
        let has = !found.is_empty() && found.iter().all(|found| *found == mask);
        if !has && self.began.elapsed() > LIMIT {
            eprintln!("{} is still on {found:?} of {mask:?}; aborting", self.kind);
            std::process::abort();
        }
        has
    }
}

/// The counts for one kind of started object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub started: u32,
    /// The number of objects that were found with another mask.
    pub narrow: u32,
    /// The longest time from the start of an object to the look at which all its threads had the program's mask.
    pub longest: Duration,
}

/// A watch over the started objects. It ends each object once the object has the program's mask.
pub struct Watch {
    starts: Sender<Started>,
    thread: JoinHandle<BTreeMap<&'static str, Tally>>,
}

impl Watch {
    pub fn start(mask: CoreSet) -> Watch {
        let (starts, started) = channel();
        Watch { starts, thread: thread::spawn(move || watch(&started, mask)) }
    }

    pub fn over(&self, started: Started) {
        self.starts.send(started).unwrap();
    }

    /// Waits until all started objects have ended.
    pub fn finish(self) -> BTreeMap<&'static str, Tally> {
        drop(self.starts);
        self.thread.join().unwrap()
    }
}

fn watch(starts: &Receiver<Started>, mask: CoreSet) -> BTreeMap<&'static str, Tally> {
    let (mut present, mut tallies, mut goes_on) = (Vec::new(), BTreeMap::<_, Tally>::new(), true);
    while goes_on || !present.is_empty() {
        match starts.recv_timeout(Duration::from_millis(1)) {
            Ok(new) => present.push(new),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                goes_on = false;
                thread::sleep(Duration::from_millis(1));
            }
        }
        for mut started in std::mem::take(&mut present) {
            if !started.has(mask) {
                present.push(started);
                continue;
            }
            let tally = tallies.entry(started.kind).or_default();
            tally.started += 1;
            tally.narrow += u32::from(started.was_narrow);
            tally.longest = tally.longest.max(started.began.elapsed());
            (started.end)();
        }
    }
    tallies
}
