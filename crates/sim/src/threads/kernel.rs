//! The kernel: each core has a queue of threads that take turns, a slice each.
//!
//! A thread that wakes goes to an idle core, the one it ran on, if that is idle; or else to the shortest queue. A thread may be confined to
//! some cores. An idle core takes a thread from the longest queue. A newcomer waits until the slice of the thread that runs is over, which is at once if that
//! began long ago.

use std::collections::VecDeque;

use comity_protocol::CoreSet;
use comity_protocol::dialogue::{Effect, Step};

use super::pool::Pools;
use super::worker::{Doing, Worker};
use super::{Due, Host, Thread};

/// One core.
#[derive(Default)]
pub(super) struct Core {
    pub(super) running: Option<Thread>,
    pub(super) queue: VecDeque<Thread>,
    offline: bool,
    /// Until when the running thread's time is accounted for; later than now while the core switches to it.
    since: u64,
    /// When its turn is over, if others wait.
    pub(super) slice_end: u64,
    /// The last thread.
    last: Option<Thread>,
    /// Plans that were made for it: only the newest counts.
    plan: u32,
}

#[cfg(test)]
impl Core {
    pub(super) fn set_offline(&mut self) {
        self.offline = true;
    }
}

/// Where a thread's time went since it began, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) on_core: u64,
    /// Waiting for a core or the next period. A wait that is not over is not in it, as in the kernel's own.
    pub(super) for_core: u64,
    waits_since: Option<u64>,
}

impl Times {
    /// Goes on waiting, if it does.
    pub(super) fn begin_to_wait(&mut self, now: u64) {
        self.waits_since.get_or_insert(now);
    }

    fn has_waited(&mut self, now: u64) {
        self.for_core += self.waits_since.take().map_or(0, |since| now - since);
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It sleeps, or is not there.
    Nowhere,
    /// It has a task, and waits in a system call.
    Blocked,
    /// It could run, but its program has used its quota.
    Throttled,
    /// It waits for this core.
    Queued(usize),
    /// It runs.
    On(usize),
}

/// The cores, and the threads that wait for them.
pub(super) struct Kernel {
    pub(super) cores: Vec<Core>,
    /// Those that are there and have no thread,
    idle: CoreSet,
    /// and how many.
    idling: u32,
    /// Threads that wait for a core.
    pub(super) queued: usize,
}

impl Kernel {
    pub(super) fn new(cores: usize) -> Kernel {
        Kernel {
            cores: (0..cores).map(|_| Core::default()).collect(),
            idle: (0..cores).collect(),
            idling: cores as u32,
            queued: 0,
        }
    }

    /// How many cores there are, those that are offline included.
    pub(super) fn len(&self) -> usize {
        self.cores.len()
    }

    /// How many are there and have no thread.
    pub(super) fn idling(&self) -> u32 {
        self.idling
    }

    pub(super) fn is_idle(&self, core: usize) -> bool {
        self.idle.contains(core)
    }

    pub(super) fn is_online(&self, core: usize) -> bool {
        !self.cores[core].offline
    }

    /// Where the worker's thread may run. If all of that is offline, anywhere.
    fn cores_of(&self, worker: &Worker) -> impl Fn(&Kernel, usize) -> bool + use<> {
        let confined = worker.confined.get();
        let confined = confined.filter(|cores| cores.iter().any(|core| core < self.len() && self.is_online(core)));
        move |kernel, core| kernel.is_online(core) && confined.is_none_or(|cores| cores.contains(core))
    }

    /// The core to whose queue a thread goes that can run.
    fn choose_core(&self, worker: &Worker) -> usize {
        let may_run = self.cores_of(worker);
        let cores = self.len();
        let away = |core: &usize| (core + cores - worker.last_core) % cores;
        let idle = self.idle.iter().filter(|core| may_run(self, *core));
        let found = idle.min_by_key(away).or_else(|| {
            let all = (0..cores).filter(|core| may_run(self, *core));
            all.min_by_key(|core| (self.cores[*core].queue.len(), away(core)))
        });
        found.expect("there is always a core")
    }

    pub(super) fn set_idle(&mut self, core: usize) {
        if !self.idle.contains(core) {
            self.idle.insert(core);
            self.idling += 1;
        }
    }

    fn set_running(&mut self, core: usize, thread: Option<Thread>) -> Option<Thread> {
        if thread.is_none() && !self.cores[core].offline {
            self.set_idle(core);
        } else if self.idle.contains(core) {
            self.idle.remove(core);
            self.idling -= 1;
        }
        std::mem::replace(&mut self.cores[core].running, thread)
    }

    fn push_back(&mut self, core: usize, thread: Thread) {
        self.cores[core].queue.push_back(thread);
        self.queued += 1;
    }

    fn remove(&mut self, core: usize, thread: Thread) {
        self.cores[core].queue.retain(|other| *other != thread);
        self.queued -= 1;
    }

    /// The thread that runs next on a core.
    fn take_next(&mut self, core: usize, pools: &Pools) -> Option<Thread> {
        let thread = self.cores[core].queue.pop_front().or_else(|| self.pull(core, pools))?;
        self.queued -= 1;
        Some(thread)
    }

    /// Takes a thread that waits elsewhere and may run here.
    fn pull(&mut self, core: usize, pools: &Pools) -> Option<Thread> {
        if self.queued == 0 {
            return None;
        }
        let found = |other: usize| {
            let mut queue = self.cores[other].queue.iter();
            let nth = queue.position(|thread| self.cores_of(pools.worker(*thread))(self, core))?;
            Some((self.cores[other].queue.len(), other, nth))
        };
        // Of equally long ones the one with the highest number.
        let (_, other, nth) = (0..self.len()).filter_map(found).max_by_key(|(length, ..)| *length)?;
        self.cores[other].queue.remove(nth)
    }
}

impl Host {
    fn push_back(&mut self, core: usize, thread: Thread) {
        self.kernel.push_back(core, thread);
        let now = self.now;
        let worker = self.worker_mut(thread);
        worker.place = Place::Queued(core);
        worker.times.begin_to_wait(now);
    }

    /// A thread can run: it gets a core now, or waits for one.
    pub(super) fn enqueue(&mut self, thread: Thread) {
        if self.pool(thread.program).is_throttled() {
            return self.throttle(thread);
        }
        let core = self.kernel.choose_core(self.worker(thread));
        self.push_back(core, thread);
        self.attend(core);
    }

    /// Gives an idle core a thread; or has the one that runs there end its turn in time for those that wait.
    fn attend(&mut self, core: usize) {
        if self.kernel.cores[core].running.is_none() {
            self.dispatch(core);
        } else {
            self.charge(core);
            self.plan_core(core);
        }
    }

    /// Gives a core without a thread the next.
    pub(super) fn dispatch(&mut self, core: usize) {
        if self.kernel.cores[core].offline || self.kernel.cores[core].running.is_some() {
            return;
        }
        let Some(thread) = self.kernel.take_next(core, &self.pools) else { return };
        self.kernel.set_running(core, Some(thread));
        let state = &mut self.kernel.cores[core];
        let switch = if state.last == Some(thread) { 0 } else { self.costs.switch };
        state.last = Some(thread);
        state.since = self.now + switch;
        state.slice_end = state.since + self.costs.slice;
        let now = self.now;
        let worker = self.worker_mut(thread);
        (worker.place, worker.last_core) = (Place::On(core), core);
        worker.times.has_waited(now);
        self.plan_core(core);
    }

    /// The thread is in the kernel for so long before it goes on, if it has a core.
    pub(super) fn detain(&mut self, thread: Thread, time: u64) {
        if let Place::On(core) = self.worker(thread).place {
            self.charge(core);
            self.kernel.cores[core].since += time;
        }
    }

    /// The thread waits in a system call for so long, without a core. What the kernel keeps it for comes first.
    pub(super) fn block(&mut self, thread: Thread, time: u64) {
        let Place::On(core) = self.worker(thread).place else { return };
        let from = self.kernel.cores[core].since.max(self.now);
        self.take_off(thread);
        self.worker_mut(thread).place = Place::Blocked;
        let latency = self.wake_latency();
        self.plan(from + time + latency, Due::Up(thread));
    }

    pub(super) fn charge_all(&mut self) {
        (0..self.kernel.len()).for_each(|core| self.charge(core));
    }

    /// Brings the time of the thread that runs up to date.
    pub(super) fn charge(&mut self, core: usize) {
        let state = &mut self.kernel.cores[core];
        let Some(thread) = state.running else { return };
        let elapsed = self.now.saturating_sub(state.since);
        state.since = state.since.max(self.now);
        self.pool_mut(thread.program).spend(thread.worker, elapsed);
    }

    fn plan_core(&mut self, core: usize) {
        let Some(thread) = self.kernel.cores[core].running else { return };
        let may_run = self.time_left(thread.program).unwrap_or(u64::MAX);
        let left = self.worker(thread).left.min(may_run);
        let state = &mut self.kernel.cores[core];
        let mut at = state.since.max(self.now) + left;
        if !state.queue.is_empty() {
            at = at.min(state.slice_end.max(self.now));
        }
        state.plan = state.plan.wrapping_add(1);
        let plan = state.plan;
        self.plan(at, Due::Core { core: core as u32, plan });
    }

    pub(super) fn core_is_due(&mut self, core: usize, plan: u32) {
        if self.kernel.cores[core].plan != plan {
            return;
        }
        self.charge(core);
        let Some(thread) = self.kernel.cores[core].running else { return };
        if self.worker(thread).left == 0 {
            self.complete(thread);
        }
        if self.pool(thread.program).quota.is_some() {
            self.throttle_if_spent(thread.program);
        }
        let state = &self.kernel.cores[core];
        if state.running != Some(thread) {
            return self.dispatch(core);
        }
        if self.now >= state.slice_end && !state.queue.is_empty() {
            self.preempt(core);
            self.dispatch(core);
        } else {
            self.plan_core(core);
        }
    }

    /// The thread's turn is over: it waits at the end of the queue.
    fn preempt(&mut self, core: usize) {
        let Some(thread) = self.kernel.set_running(core, None) else { return };
        self.pool_mut(thread.program).counts.preemptions += u64::from(!self.worker(thread).gives_way);
        self.push_back(core, thread);
    }

    /// Takes a thread from wherever it is; who runs goes on accounting for nothing.
    pub(super) fn take_off(&mut self, thread: Thread) {
        match std::mem::replace(&mut self.worker_mut(thread).place, Place::Nowhere) {
            Place::Nowhere | Place::Blocked | Place::Throttled => {}
            Place::Queued(core) => self.kernel.remove(core, thread),
            Place::On(core) => {
                self.charge(core);
                self.kernel.set_running(core, None);
            }
        }
    }

    /// Moves the threads of a program that are where they may not run.
    pub(super) fn move_astray(&mut self, program: u32) {
        self.move_led(program);
        for worker in 0..self.pool(program).workers.len() as u32 {
            let thread = Thread { program, worker };
            let (Place::Queued(core) | Place::On(core)) = self.worker(thread).place else { continue };
            // One that is about to wait needs no core for long.
            if matches!(self.worker(thread).doing, Doing::Acting(Effect::Step(Step::PassOn) | Effect::Wait { .. })) {
                continue;
            }
            if !self.kernel.cores_of(self.worker(thread))(&self.kernel, core) {
                let ran = self.kernel.cores[core].running == Some(thread);
                self.pool_mut(program).counts.preemptions += u64::from(ran);
                self.take_off(thread);
                self.enqueue(thread);
                self.dispatch(core);
            }
        }
    }

    /// Moves the threads that were led to a core. They may run anywhere, and are moved on if they must wait there.
    fn move_led(&mut self, program: u32) {
        for (worker, core) in self.pool(program).led.take() {
            let thread = Thread { program, worker };
            let (Place::Queued(other) | Place::On(other)) = self.worker(thread).place else { continue };
            if other != core && self.kernel.cores_of(self.worker(thread))(&self.kernel, core) {
                self.take_off(thread);
                self.push_back(core, thread);
                self.attend(core);
                self.dispatch(other);
            }
        }
    }

    /// `peer` gets this core next, if it waits for one and may run here (BWS's yield to a preempted worker).
    pub(super) fn give_turn_to(&mut self, core: usize, peer: Thread) {
        if let Place::Queued(other) = self.worker(peer).place
            && self.kernel.cores_of(self.worker(peer))(&self.kernel, core)
        {
            self.kernel.remove(other, peer);
            self.kernel.queued += 1;
            self.kernel.cores[core].queue.push_front(peer);
            self.worker_mut(peer).place = Place::Queued(core);
        }
    }

    pub(super) fn go_online(&mut self, cores: usize) {
        for core in 0..self.kernel.len() {
            self.charge(core);
            self.kernel.cores[core].offline = core >= cores;
        }
        for core in cores..self.kernel.len() {
            let queue = std::mem::take(&mut self.kernel.cores[core].queue);
            self.kernel.queued -= queue.len();
            let running = self.kernel.set_running(core, None);
            if let Some(thread) = running {
                self.pool_mut(thread.program).counts.preemptions += 1;
            }
            for thread in running.into_iter().chain(queue) {
                self.enqueue(thread);
            }
        }
        for core in 0..cores {
            if self.kernel.cores[core].running.is_none() {
                self.kernel.set_running(core, None);
            }
            self.dispatch(core);
        }
        // Who could run nowhere else was anywhere.
        (0..self.pools.0.len() as u32).for_each(|program| self.move_astray(program));
    }
}
