//! The values that the driver of [`comity_protocol::observer`] reads from a pool's workers and from the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comity_os::cpu_clock::{self, ThreadId};
use comity_os::idle_clock;
use comity_os::throttle::Throttle;
use comity_policy::WorkerId;
use comity_protocol::look::Looked;
use comity_protocol::program::{Sample, Times};
use comity_table::Siblings;

use crate::cores::activation::{Activation, Part};
use crate::raw::sync::Threads;
use crate::sharing::program::{PoolId, Program};
use crate::workers::registry::{Peer, Registry};
use crate::workers::view::View;

/// A pool, with the values that one look of the coordinator has read.
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) registry: Arc<Registry>,
    pub(crate) queued: usize,
}

impl Pool {
    fn peer(&self, worker: WorkerId) -> &Peer {
        self.registry.peer(worker)
    }
}

impl Looked for Pool {
    type Platform = Threads;
    type Cores = Part;
    type Pool<'a> = View<'a>;

    fn activation(&self) -> &Activation {
        self.registry.activation.as_ref().expect("a pool of a program shares cores")
    }

    fn pool(&self) -> View<'_> {
        self.registry.view()
    }

    fn queued(&self) -> u64 {
        self.queued as u64
    }

    fn sample(&self, worker: WorkerId, is_awake: bool) -> Sample {
        let peer = self.peer(worker);
        let is_busy = is_awake && self.registry.sleep.is_busy(worker);
        let progress = [peer.queued() as u64, peer.counters.steals.get(), peer.busy_since.load(Ordering::Relaxed)];
        let clock = peer.thread().filter(|_| is_busy).and_then(|thread| thread.cpu_time());
        let busy_ns = peer.busy_ns(self.registry.now());
        Sample { is_awake, is_busy, busy_ns, clock_ns: clock.map(nanos), progress }
    }

    fn times(&self, worker: WorkerId) -> Option<Times> {
        times(self.peer(worker).thread()?)
    }

    fn is_blocked(&self, worker: WorkerId) -> Option<bool> {
        self.peer(worker).thread()?.is_blocked()
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn times(thread: ThreadId) -> Option<Times> {
    let cpu_clock::Times { on_core, for_core } = thread.times()?;
    Some(Times { on_core: nanos(on_core), for_core: nanos(for_core) })
}

/// The times of the process's first thread.
pub(crate) fn first_thread() -> Option<Times> {
    times(first())
}

/// True if the process's first thread waits in a system call, and not for a core.
pub(crate) fn first_thread_is_blocked() -> Option<bool> {
    first().is_blocked()
}

fn first() -> ThreadId {
    ThreadId::from_raw(std::process::id() as i32)
}

/// The processor time that all threads of this process have had.
fn process_clock() -> u64 {
    cpu_clock::of_process(std::process::id()).map_or(0, nanos)
}

/// The processor time of a program since its process began. While the process has other programs in the table, only
/// the time of this program's own workers is added. Otherwise each program would also count the time of the other
/// programs' workers.
pub(crate) struct Clock {
    used: u64,
    /// The time of all threads of the process at the last look.
    process: u64,
    /// The time of the program's workers at the last look, if the process had other programs in the table.
    workers: Option<u64>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let process = process_clock();
        Clock { used: process, process, workers: None }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the time until now. `workers` is the time of the program's workers, if the process has other programs
    /// in the table.
    pub(crate) fn look(&mut self, workers: Option<u64>) -> u64 {
        let before = std::mem::replace(&mut self.workers, workers);
        let process = process_clock();
        let since = process.saturating_sub(std::mem::replace(&mut self.process, process));
        // The difference is limited to `since`: the workers' time also grows by the earlier time of a thread that a
        // pool adopts.
        let own = workers.zip(before).map_or(since, |(now, then)| now.saturating_sub(then).min(since));
        self.used += own;
        self.used
    }
}

/// The processor time that a program publishes in the table. It never falls, so that readers can take differences.
pub(crate) struct Published {
    total: Duration,
    /// The time of all threads of the process at the last look.
    process: Duration,
    /// The time of the program's workers at the last look, if the process had other programs in the table.
    workers: Option<Duration>,
    /// The time that the other programs of the process had published at the last look.
    others: Duration,
}

impl Published {
    /// `before`: the time that the program had used when it joined.
    pub(crate) fn new(before: Duration, siblings: Option<Siblings>) -> Published {
        let (process, others) = (Duration::from_nanos(process_clock()), siblings.map(|siblings| siblings.cpu));
        Published { total: before, process, workers: None, others: others.unwrap_or_default() }
    }

    /// Returns the time until now. Readers add up the times of the programs of a process. So the program that joined
    /// first adds all time that the others do not publish. Every other program adds only the time of its own workers.
    pub(crate) fn look(&mut self, program: &Program, siblings: Option<Siblings>) -> Duration {
        let since = |now: Duration, then: &mut Duration| now.saturating_sub(std::mem::replace(then, now));
        let process = since(Duration::from_nanos(process_clock()), &mut self.process);
        let others = since(siblings.map_or(Duration::ZERO, |siblings| siblings.cpu), &mut self.others);
        let workers = siblings.map(|_| Duration::from_nanos(program.workers_ns()));
        let before = std::mem::replace(&mut self.workers, workers);
        self.total += match siblings {
            None => process,
            Some(siblings) if siblings.joined_first => process.saturating_sub(others),
            Some(_) => workers.zip(before).map_or(Duration::ZERO, |(now, then)| now.saturating_sub(then)),
        };
        self.total
    }
}

/// The time that the machine's cores were idle, in ns, summed over all cores.
pub(crate) fn machine_idle() -> Option<u64> {
    idle_clock::machine().map(nanos)
}

/// Returns the processor time that a quota of `quota` cores granted in `lasted_ns`, if the quota throttles the
/// process.
pub(crate) fn granted(throttle: &mut Throttle, quota: Option<f64>, lasted_ns: u64) -> Option<u64> {
    let is_throttled = throttle.is_active(Instant::now());
    let cores = quota.filter(|_| is_throttled)?;
    Some(nanos(Duration::from_nanos(lasted_ns).mul_f64(cores)))
}
