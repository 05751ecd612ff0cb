//! `COMITY_WATCH`: who waits where, when a pool stands still.
//!
//! The deadlock that users of rayon know: a worker waits, with a lock in hand, for the other half of a join; meanwhile it
//! runs another task, which asks for the same lock. No scheduler can undo that. It can be seen: all workers that are in a
//! task are off their cores for long, and there is something to do.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use comity_os::cpu_clock::ThreadId;
use comity_os::{fork, stack};
use comity_policy::WorkerId;

use crate::workers::shared::{Peer, Shared};

/// How long a blocked thread is given to look at its own stack.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a worker is doing. Its owner writes it where it begins to wait and where it takes a queued
/// job, never at a push or a pop.
#[derive(Default)]
pub(crate) struct Activity {
    /// See [`Doing::encode`].
    doing: AtomicU32,
    /// See [`Activity::waits`].
    waits: AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// What a program asked for, or what a program does on a thread that a pool has adopted.
    Task,
    /// Without a task that waits, it looks for one, or sleeps.
    Looking,
    /// It waits for a scope, a broadcast or another pool.
    Waiting,
    /// It waits for the right half of a join, which this worker runs.
    WaitingFor(WorkerId),
}

impl Doing {
    fn encode(self) -> u32 {
        match self {
            Doing::Task => 0,
            Doing::Looking => 1,
            Doing::Waiting => 2,
            Doing::WaitingFor(WorkerId(thief)) => 3 + thief,
        }
    }

    fn decode(code: u32) -> Doing {
        match code {
            0 => Doing::Task,
            1 => Doing::Looking,
            2 => Doing::Waiting,
            thief => Doing::WaitingFor(WorkerId(thief - 3)),
        }
    }
}

impl Activity {
    pub(crate) fn set(&self, doing: Doing) {
        self.doing.store(doing.encode(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Doing {
        Doing::decode(self.doing.load(Ordering::Relaxed))
    }

    /// Frames on its stack that wait for something, the main loop not among them.
    pub(crate) fn waits(&self) -> u32 {
        self.waits.load(Ordering::Relaxed)
    }

    /// One more frame waits, or with `-1` one less.
    pub(crate) fn count_wait(&self, change: i32) {
        self.waits.store(self.waits().wrapping_add_signed(change), Ordering::Relaxed);
    }
}

/// Starts to watch a pool that has its threads, until it ends.
pub(crate) fn start(pool: &Arc<Shared>, period: Duration) {
    let pool = Arc::downgrade(pool);
    let watch = fork::spawn(thread::Builder::new().name("comity-watch".to_owned()), move || watch(&pool, period));
    if let Err(error) = watch {
        say(&format!("comity: COMITY_WATCH is without effect on a pool: it gets no thread: {error}\n"));
    }
}

fn watch(pool: &Weak<Shared>, period: Duration) {
    let mut last = None;
    let mut since = Instant::now();
    let mut said = false;
    loop {
        thread::sleep(period / 8);
        let Some(pool) = pool.upgrade().filter(|pool| !pool.has_ended()) else { return };
        let look = || pool.peers.iter().map(|peer| Snapshot::of(peer)).collect::<Vec<_>>();
        let now = look();
        if last.as_ref() != Some(&now) {
            (last, since, said) = (Some(now), Instant::now(), false);
        } else if !said && since.elapsed() >= period && has_something_to_do(&pool) {
            say(&report(&pool, since.elapsed()));
            // Those who were asked used processor time to answer.
            (last, said) = (Some(look()), true);
        }
    }
}

/// What changes when a worker gets on.
#[derive(PartialEq, Eq)]
struct Snapshot {
    doing: Doing,
    /// The processor time of a worker in a task. One that looks for work may use any, and gets nowhere.
    used: Option<Duration>,
    steals: u64,
}

impl Snapshot {
    fn of(peer: &Peer) -> Snapshot {
        let doing = peer.activity.get();
        let used = peer.thread().filter(|_| doing == Doing::Task).and_then(ThreadId::cpu_time);
        Snapshot { doing, used, steals: peer.counters.read().steals }
    }
}

/// Whether a task is queued, or one that is blocked lies on top of a frame that waits. Else a blocked task is the program's
/// own business; and one that rests as it was asked to stands still.
fn has_something_to_do(pool: &Shared) -> bool {
    if pool.is_closed() {
        return false;
    }
    queued(pool) > 0 || pool.peers.iter().any(|peer| peer.activity.get() == Doing::Task && peer.activity.waits() > 0)
}

fn queued(pool: &Shared) -> usize {
    pool.peers.iter().map(|peer| peer.queued()).sum::<usize>() + pool.injector.len()
}

fn report(pool: &Shared, stands_still: Duration) -> String {
    let mut report = format!(
        "comity: a pool of {} workers has made no progress for {:.1} s; queued tasks: {}\n",
        pool.workers(),
        stands_still.as_secs_f64(),
        queued(pool),
    );
    for peer in &pool.peers {
        let waits = peer.activity.waits();
        let Some(thread) = peer.thread() else {
            let _ = writeln!(report, "comity: worker {} has never got a thread", peer.id.0);
            continue;
        };
        let _ = write!(report, "comity: worker {} (thread {}) ", peer.id.0, thread.as_raw());
        let below = |waits| match waits {
            0 => String::new(),
            1 => ", on top of a frame that waits".to_owned(),
            more => format!(", on top of {more} frames that wait"),
        };
        match peer.activity.get() {
            Doing::Looking => report.push_str("has no task\n"),
            Doing::Waiting => {
                let _ = writeln!(
                    report,
                    "waits for a scope, a broadcast or another pool{}",
                    below(waits.saturating_sub(1))
                );
            }
            Doing::WaitingFor(thief) => {
                let _ = writeln!(
                    report,
                    "waits for a half of a join that worker {} runs{}",
                    thief.0,
                    below(waits.saturating_sub(1))
                );
            }
            Doing::Task => {
                let _ = writeln!(report, "is blocked in a task{}:", below(waits));
                report.push_str(&frames(thread));
            }
        }
    }
    report
}

fn frames(thread: ThreadId) -> String {
    match stack::of_blocked_thread(thread, PATIENCE) {
        Some(frames) => frames + "\n",
        None => "  (it does not say where)\n".to_owned(),
    }
}

/// In one piece, and without a panic where nobody can be told.
fn say(sentence: &str) {
    let _ = std::io::stderr().write_all(sentence.as_bytes());
}
