//! `COMITY_WATCH`: a report of which threads wait where, when a pool stands still.
//!
//! Users of rayon know this deadlock. A worker holds a lock, and waits for the other half of a join. Meanwhile it
//! runs another task, which locks the same lock. No scheduler can resolve this deadlock, but a watch can detect it:
//! all workers that have a task are off their cores for long, although there is something to do.

use std::fmt::Write as _;
use std::sync::Weak;
use std::thread;
use std::time::{Duration, Instant};

use comity_os::cpu_clock::ThreadId;
use comity_os::writes::{say, to_stderr};
use comity_os::{fork, stack};
use comity_policy::WorkerId;

use super::activity::Doing;

/// The time that a blocked thread gets to report its own stack.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pool, as its watch sees it.
pub(crate) trait Watched: Send + Sync + 'static {
    fn has_ended(&self) -> bool;

    /// True if the pool may begin no task, because its program is paused or out of turn.
    fn is_closed(&self) -> bool;

    /// The number of tasks that no worker has begun.
    fn queued(&self) -> usize;

    /// The current state of each worker.
    fn workers(&self) -> Vec<WatchedWorker>;
}

/// A worker, as the watch sees it.
pub(crate) struct WatchedWorker {
    pub(crate) id: WorkerId,
    /// The worker's thread. `None`: the worker has not started.
    pub(crate) thread: Option<ThreadId>,
    pub(crate) doing: Doing,
    /// The number of waiting frames: see [`Activity::waits`](super::activity::Activity::waits).
    pub(crate) waits: u32,
    /// The number of tasks that the worker has stolen.
    pub(crate) steals: u64,
}

/// Starts a thread that watches a pool until the pool ends. Called after the pool's threads were started.
pub(crate) fn start(pool: Weak<impl Watched>, period: Duration) {
    let watch = fork::spawn(thread::Builder::new().name("comity-watch".to_owned()), move || watch(&pool, period));
    if let Err(error) = watch {
        say(&format!("could not start the thread of COMITY_WATCH: {error}. The pool is not watched."));
    }
}

fn watch(pool: &Weak<impl Watched>, period: Duration) {
    let mut last = None;
    let mut since = Instant::now();
    let mut said = false;
    loop {
        thread::sleep(period / 8);
        let Some(pool) = pool.upgrade().filter(|pool| !pool.has_ended()) else { return };
        let look = || pool.workers().iter().map(Snapshot::of).collect::<Vec<_>>();
        let now = look();
        if last.as_ref() != Some(&now) {
            (last, since, said) = (Some(now), Instant::now(), false);
        } else if !said && since.elapsed() >= period && has_something_to_do(&*pool) {
            to_stderr(&report(&*pool, since.elapsed()));
            // The state is read again, because the threads used processor time to report their stacks, which is no
            // progress.
            (last, said) = (Some(look()), true);
        }
    }
}

/// The state of a worker that changes when the worker makes progress.
#[derive(PartialEq, Eq)]
struct Snapshot {
    doing: Doing,
    /// The processor time of a worker that has a task. `None` for a worker that looks for work: it uses time without
    /// any progress.
    used: Option<Duration>,
    steals: u64,
}

impl Snapshot {
    fn of(worker: &WatchedWorker) -> Snapshot {
        let WatchedWorker { doing, steals, .. } = *worker;
        let used = worker.thread.filter(|_| doing == Doing::Task).and_then(ThreadId::cpu_time);
        Snapshot { doing, used, steals }
    }
}

/// True if a task is queued, or if a blocked task is on the stack above a frame that waits. Any other task may block
/// for as long as its program wants. A closed pool has nothing to do.
fn has_something_to_do(pool: &impl Watched) -> bool {
    if pool.is_closed() {
        return false;
    }
    pool.queued() > 0 || pool.workers().iter().any(|worker| worker.doing == Doing::Task && worker.waits > 0)
}

fn report(pool: &impl Watched, stands_still: Duration) -> String {
    let workers = pool.workers();
    let mut report = format!(
        "comity: a pool of {} workers has made no progress for {:.1} s; queued tasks: {}\n",
        workers.len(),
        stands_still.as_secs_f64(),
        pool.queued(),
    );
    for WatchedWorker { id, thread, doing, waits, .. } in workers {
        let Some(thread) = thread else {
            let _ = writeln!(report, "comity: worker {} has no thread yet", id.0);
            continue;
        };
        let _ = write!(report, "comity: worker {} (thread {}) ", id.0, thread.as_raw());
        let below = |waits| match waits {
            0 => String::new(),
            1 => ", on top of a waiting frame".to_owned(),
            more => format!(", on top of {more} waiting frames"),
        };
        match doing {
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
        None => "  (the thread did not report its stack)\n".to_owned(),
    }
}
