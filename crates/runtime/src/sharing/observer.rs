//! What the driver of [`comity_protocol::observer`] reads of a pool's workers and of the process.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comity_os::cpu_clock::{self, ThreadId};
use comity_os::idle_clock;
use comity_os::throttle::Throttle;
use comity_policy::{Sleeper, WorkerId};
use comity_protocol::observer::{Sample, Times, Workers};

use crate::cores::activation::{Activation, BooksGuard, State};
use crate::workers::registry::{Peer, Registry};

/// A pool's workers, with the lock of its books.
pub(crate) struct Locked<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) activation: &'a Activation,
    pub(crate) books: BooksGuard<'a>,
    /// Tasks that no worker had begun when the look began.
    pub(crate) queued: usize,
}

impl Locked<'_> {
    fn peer(&self, worker: WorkerId) -> &Peer {
        self.registry.peer(worker)
    }
}

impl Workers for Locked<'_> {
    fn workers(&self) -> u32 {
        self.registry.workers()
    }

    fn awake(&self) -> u32 {
        self.books.awake()
    }

    fn retired(&self) -> u32 {
        self.books.retired()
    }

    fn most(&self) -> u32 {
        self.activation.most()
    }

    fn queued(&self) -> u64 {
        self.queued as u64
    }

    fn lends(&self) -> bool {
        self.activation.sharing.sleeper == Sleeper::LendsCore
    }

    fn note_losses(&mut self) {
        if let Some(part) = self.activation.member() {
            self.activation.note_losses(&mut self.books, part);
        }
    }

    fn is_awake(&self, worker: WorkerId) -> bool {
        self.books.is(worker, State::Awake)
    }

    fn sample(&self, worker: WorkerId, is_awake: bool) -> Sample {
        let peer = self.peer(worker);
        let is_busy = is_awake && self.registry.sleep.is_busy(worker);
        let progress = [peer.queued() as u64, peer.counters.steals.get(), peer.busy_since.load(Ordering::Relaxed)];
        let clock = peer.thread().filter(|_| is_busy).and_then(|thread| thread.cpu_time());
        Sample { is_busy, busy_ns: peer.busy_ns(self.registry.now()), clock_ns: clock.map(nanos), progress }
    }

    fn times(&self, worker: WorkerId) -> Option<Times> {
        times(self.peer(worker).thread()?)
    }

    fn is_blocked(&self, worker: WorkerId) -> Option<bool> {
        self.peer(worker).thread()?.is_blocked()
    }

    fn set_off_core(&mut self, workers: u32) {
        self.books.off_core = workers;
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn times(thread: ThreadId) -> Option<Times> {
    let cpu_clock::Times { on_core, for_core } = thread.times()?;
    Some(Times { on_core: nanos(on_core), for_core: nanos(for_core) })
}

/// Where the time of the process's first thread went.
pub(crate) fn first_thread() -> Option<Times> {
    times(ThreadId::from_raw(std::process::id() as i32))
}

/// The processor time that all threads of this process have had.
pub(crate) fn process_clock() -> u64 {
    cpu_clock::of_process(std::process::id()).map_or(0, nanos)
}

/// Time that the machine's cores had nothing to run.
pub(crate) fn machine_idle() -> Option<u64> {
    idle_clock::machine().map(nanos)
}

/// If a quota of so many cores stops the process: what that grants in so much time.
pub(crate) fn granted(throttle: &mut Throttle, quota: Option<f64>, lasted_ns: u64) -> Option<u64> {
    let is_throttled = throttle.is_active(Instant::now());
    let cores = quota.filter(|_| is_throttled)?;
    Some(nanos(Duration::from_nanos(lasted_ns).mul_f64(cores)))
}
