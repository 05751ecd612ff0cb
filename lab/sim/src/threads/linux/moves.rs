//! The choice of a core for a thread that becomes runnable, and moves of threads between cores.

use std::ops::Range;

use super::super::kernel::{Kernel, Place};
use super::super::worker::Worker;
use super::super::{Due, Host, Thread};
use super::queues::{Joins, Queues};
use super::{MILLISECOND, Version};

/// The load above which another core pulls threads from a core, in hundredths of the pulling core's load
/// (`imbalance_pct` of cores and sockets).
const IMBALANCE: u32 = 125;
/// A core spares threads whose data is in the cache until more than this number of its attempts in a row have failed
/// (`cache_nice_tries`).
const TRIES: u32 = 1;

/// The state of load balancing.
#[derive(Default)]
pub(in super::super) struct Balance {
    /// The number of ticks until now.
    ticks: u64,
    /// The number of pulls in a row that failed, for each core, because all threads found had just run.
    failed: Vec<u32>,
}

impl Kernel {
    /// Returns the number of threads that run or wait on a core.
    fn threads_on(&self, core: usize) -> u32 {
        self.cores[core].queue.len() as u32 + u32::from(self.cores[core].running.is_some())
    }

    /// Returns the core whose queue a thread joins when it becomes runnable (`select_task_rq_fair`). A new thread goes
    /// to the least loaded core. A thread that wakes goes to its last core, or to the waker's core if that core is
    /// less loaded. If the chosen core is busy, the thread goes to an idle core with the same last-level cache, if
    /// possible.
    pub(in super::super) fn choose_core_as(&self, linux: &Queues, worker: &Worker, waker: Option<usize>) -> usize {
        let may_run = self.cores_of(worker);
        let (topology, last) = (&linux.topology, worker.last_core);
        if worker.entity.is_new() {
            let away = |core: usize| (core + self.len() - last) % self.len();
            let socket = |core: usize| topology.socket(core).map(|core| self.threads_on(core)).sum::<u32>();
            let sibling = |core: usize| topology.sibling(core).map_or(0, |core| self.threads_on(core));
            let all = (0..self.len()).filter(|core| may_run(self, *core));
            let found = all.min_by_key(|core| (self.threads_on(*core), sibling(*core), socket(*core), away(*core)));
            return found.expect("there is always a core");
        }
        let affine = waker.filter(|core| self.threads_on(*core) < self.threads_on(last));
        let target = affine.filter(|core| may_run(self, *core)).unwrap_or(last);
        let is_free = |core: &usize| self.is_idle(*core) && may_run(self, *core);
        if is_free(&target) {
            return target;
        }
        let near = topology.socket(target);
        if near.contains(&last) && is_free(&last) {
            return last;
        }
        if let Some(core) = self.idle_near(linux, near, target, &may_run) {
            return core;
        }
        if may_run(self, target) { target } else { self.choose_core(worker) }
    }

    /// Returns an idle core of `near`, preferably one with both hardware threads idle (`select_idle_sibling`).
    fn idle_near(
        &self,
        linux: &Queues,
        near: Range<usize>,
        target: usize,
        may_run: &impl Fn(&Kernel, usize) -> bool,
    ) -> Option<usize> {
        if self.idling() == 0 {
            return None;
        }
        let (first, count) = (near.start, near.len());
        // The old kernels take the idle core with the lowest number. Newer kernels search from the target on.
        let begin = if linux.linux.version == Version::V6_18 { target - first } else { 0 };
        let idle = (0..count).map(|nth| first + (begin + nth) % count).filter(|core| self.is_idle(*core));
        let mut free = idle.filter(|core| may_run(self, *core)).peekable();
        let any = *free.peek()?;
        let whole = free.find(|core| linux.topology.sibling(*core).is_none_or(|other| self.is_idle(other)));
        Some(whole.unwrap_or(any))
    }
}

/// The result of a search for a thread to pull.
struct Pull {
    thread: Option<Thread>,
    /// True if a core had only threads that had just run.
    hot: bool,
}

impl Host {
    /// Returns the core of the thread that causes the current event.
    pub(in super::super) fn waker_core(&self) -> Option<usize> {
        match self.worker(self.acting?).place {
            Place::On(core) => Some(core),
            _ => None,
        }
    }

    /// Pulls a waiting thread to a core without a thread, from the nearest possible core (`newidle_balance`).
    pub(in super::super) fn pull_to_idle(&mut self, core: usize) {
        let Some(linux) = &self.kernel.linux else { return };
        if self.kernel.queued == 0 {
            return;
        }
        let domains: Vec<_> = linux.topology.domains(core).collect();
        for domain in domains {
            if self.pull(core, domain) {
                return;
            }
        }
    }

    /// Finds a thread to pull to `core`: the longest-waiting thread of the busiest core that has a thread to pull.
    /// Threads that have just run are left out.
    fn pullable(&self, linux: &Queues, core: usize, from: impl Iterator<Item = usize>) -> Pull {
        let kernel = &self.kernel;
        let own = kernel.threads_on(core);
        let (mut best, mut hot) = (None, false);
        for other in from.filter(|other| *other != core) {
            let threads = kernel.threads_on(other);
            let is_busier = threads > own && 100 * threads > IMBALANCE * own && !kernel.cores[other].queue.is_empty();
            if !is_busier || best.is_some_and(|(most, _)| threads <= most) {
                continue;
            }
            let may = |thread: &&Thread| {
                let worker = self.worker(**thread);
                worker.part.initiator.is_none() && kernel.cores_of(worker)(kernel, core)
            };
            let ran_just_now = |thread: &&Thread| {
                self.now - self.worker(**thread).entity.seen < linux.constants.migration_cost
                    && kernel.balance.failed.get(core).copied().unwrap_or(0) <= TRIES
            };
            match kernel.cores[other].queue.iter().filter(may).find(|thread| !ran_just_now(thread)) {
                Some(thread) => best = Some((threads, *thread)),
                None => hot |= kernel.cores[other].queue.iter().any(|thread| may(&thread)),
            }
        }
        Pull { thread: best.map(|(_, thread)| thread), hot }
    }

    /// Pulls a thread to the core from the busiest core of `from`. Returns true if it found a thread.
    fn pull(&mut self, core: usize, from: Range<usize>) -> bool {
        let Some(linux) = &self.kernel.linux else { return false };
        let Pull { thread, hot } = self.pullable(linux, core, from);
        let failed = &mut self.kernel.balance.failed;
        if failed.len() <= core {
            failed.resize(core + 1, 0);
        }
        failed[core] = if hot && thread.is_none() { failed[core] + 1 } else { 0 };
        let Some(thread) = thread else { return false };
        self.move_to(core, thread);
        true
    }

    /// Moves a waiting thread to another core's queue.
    pub(in super::super) fn move_to(&mut self, core: usize, thread: Thread) {
        let Place::Queued(from) = self.worker(thread).place else { return };
        self.charge(from);
        self.charge(core);
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux {
            linux.leave(&kernel.cores, pools, thread);
        }
        self.kernel.remove(from, thread);
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux {
            linux.join(core, &kernel.cores, pools, thread, Joins::Moves);
        }
        self.push_back(core, thread);
        self.plan_core(from);
    }

    /// Handles a tick of load balancing on all cores (`rebalance_domains`). An idle core pulls a waiting thread at
    /// every tick, and a busy core less often.
    pub(in super::super) fn balance(&mut self) {
        let Some(linux) = &self.kernel.linux else { return };
        let tick = linux.linux.tick();
        self.plan(self.now + tick, Due::Balance);
        self.kernel.balance.ticks += 1;
        if self.kernel.queued == 0 {
            return;
        }
        for core in 0..self.kernel.len() {
            // A virtual CPU that has a thread, but no physical CPU, gets no ticks and does not balance. An idle CPU
            // needs no ticks of its own, because other CPUs balance for it.
            let has_ticks = self.kernel.cores[core].running.is_none() || !self.kernel.cores[core].suspended;
            if self.kernel.is_online(core) && has_ticks {
                self.balance_core(core, tick);
            }
        }
    }

    fn balance_core(&mut self, core: usize, tick: u64) {
        let Some(linux) = &self.kernel.linux else { return };
        if self.kernel.cores[core].running.is_none() {
            self.pull_to_idle(core);
            return self.dispatch(core);
        }
        let (version, socket) = (linux.linux.version, linux.topology.socket(core));
        let domains: Vec<_> = linux.topology.domains(core).collect();
        for domain in domains {
            let spans = domain.len() > socket.len();
            let every = (busy_interval(version, domain.len(), spans) / tick).max(1);
            // Different cores balance at different ticks.
            if !(self.kernel.balance.ticks + core as u64).is_multiple_of(every) {
                continue;
            }
            // Between sockets, only the first core of a socket pulls, and only if its socket has less to do than
            // others.
            if spans && (core != socket.start || !self.is_socket_behind(&domain, &socket)) {
                continue;
            }
            if self.pull(core, domain) {
                self.attend(core);
                return;
            }
        }
    }

    /// True if the socket has less to do than the busiest socket of the domain.
    fn is_socket_behind(&self, domain: &Range<usize>, socket: &Range<usize>) -> bool {
        let load = |cores: Range<usize>| cores.map(|core| self.kernel.threads_on(core)).sum::<u32>();
        let (own, size) = (load(socket.clone()), socket.len());
        let busiest = domain.clone().step_by(size).map(|first| load(first..first + size)).max().unwrap_or(0);
        100 * busiest > IMBALANCE * own
    }
}

/// Returns the nanoseconds between two attempts of a busy core to pull within a domain: `min_interval` · `busy_factor`.
///
/// | version | domain | `min_interval` | `busy_factor` |
/// |---|---|---|---|
/// | 2.6.32 to 3.9 | a socket | 1 ms | 64 |
/// | 2.6.32 to 3.9 | several sockets | 8 ms | 32 |
/// | 6.18 | all | 1 ms per processor | 16 |
///
/// Left out: kernels double the interval while the load is balanced.
fn busy_interval(version: Version, processors: usize, spans_sockets: bool) -> u64 {
    match (version, spans_sockets) {
        (Version::V6_18, _) => 16 * processors as u64 * MILLISECOND,
        (_, false) => 64 * MILLISECOND,
        (_, true) => 256 * MILLISECOND,
    }
}
