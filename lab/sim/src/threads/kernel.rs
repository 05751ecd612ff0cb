//! The kernel: each core has a queue of threads that take turns.
//!
//! [`super::linux`] says which thread has its turn, for how long, and which is moved where, if the host has one of
//! its kernels. Else it is the simplest there is: a turn is one slice, and a queue is served in its order. A thread
//! that wakes goes to an idle core, the one it ran on, if that is idle; or else to the shortest queue. A thread may
//! be confined to some cores. An idle core takes a thread from the longest queue. A newcomer waits until the slice
//! of the thread that runs is over, which is at once if that began long ago.

use std::collections::VecDeque;
use std::iter::Sum;

use comity_protocol::CoreSet;
use comity_protocol::dialogue::{Effect, Step};
use serde::{Deserialize, Serialize};

use super::linux::{Balance, Demand, Joins, Queues};
use super::pool::Pools;
use super::worker::{Doing, Worker};
use super::{Due, Host, Thread};

/// The speed of a core with hardware that is not shared, in thousandths.
pub(super) const WHOLE: u64 = 1_000;

/// One core.
#[derive(Default)]
pub(super) struct Core {
    pub(super) running: Option<Thread>,
    pub(super) queue: VecDeque<Thread>,
    /// Threads that have their place here, and run on another's turn.
    pub(super) away: Vec<Thread>,
    offline: bool,
    /// A virtual CPU that has no physical one: its thread gets no further.
    pub(super) suspended: bool,
    /// Until when the running thread's time is accounted for; later than now while the core switches to it.
    since: u64,
    /// Until when its turn is accounted for, which is from the switch on.
    charged: u64,
    /// When the running thread came.
    pub(super) came: u64,
    /// When its turn is over, if others wait.
    pub(super) slice_end: u64,
    /// The last thread.
    last: Option<Thread>,
    /// Plans that were made for it: only the newest counts.
    plan: u32,
}

impl Core {
    fn plan_nothing(&mut self) {
        self.plan = self.plan.wrapping_add(1);
    }
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

    /// Since when it waits.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.waits_since
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
    /// and how many have one.
    running: u64,
    /// Threads that wait for a core.
    pub(super) queued: usize,
    /// If turns are those of Linux.
    pub(super) linux: Option<Box<Queues>>,
    pub(super) balance: Balance,
    /// Nanoseconds that Linux's queues have accounted for.
    served: u64,
    /// Switches from one thread to another.
    pub(super) switches: Switches,
    /// Of a guest: the cores that have come to have a thread, or to have none.
    pub(super) turned: Option<Vec<usize>>,
}

/// How often a core went from one thread to another, idleness between them or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// All switches.
    pub all: u64,
    /// To a thread without a task.
    pub to_thieves: u64,
    /// From a thread of another program.
    pub between_programs: u64,
}

impl Sum for Switches {
    fn sum<I: Iterator<Item = Switches>>(all: I) -> Switches {
        all.fold(Switches::default(), |sum, one| Switches {
            all: sum.all + one.all,
            to_thieves: sum.to_thieves + one.to_thieves,
            between_programs: sum.between_programs + one.between_programs,
        })
    }
}

impl Kernel {
    pub(super) fn new(cores: usize) -> Kernel {
        Kernel {
            cores: (0..cores).map(|_| Core::default()).collect(),
            idle: (0..cores).collect(),
            idling: cores as u32,
            running: 0,
            queued: 0,
            linux: None,
            balance: Balance::default(),
            served: 0,
            switches: Switches::default(),
            turned: None,
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

    /// How many have one.
    pub(super) fn running(&self) -> u64 {
        self.running
    }

    pub(super) fn is_idle(&self, core: usize) -> bool {
        self.idle.contains(core)
    }

    pub(super) fn is_online(&self, core: usize) -> bool {
        !self.cores[core].offline
    }

    /// Where the worker's thread may run. If all of that is offline, anywhere.
    pub(super) fn cores_of(&self, worker: &Worker) -> impl Fn(&Kernel, usize) -> bool + use<> {
        let confined = worker.confined.get();
        let confined = confined.filter(|cores| cores.iter().any(|core| core < self.len() && self.is_online(core)));
        move |kernel, core| kernel.is_online(core) && confined.is_none_or(|cores| cores.contains(core))
    }

    /// The core to the queue of which a thread goes that can run.
    pub(super) fn choose_core(&self, worker: &Worker) -> usize {
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

    /// How fast the core's thread is, in thousandths of its speed alone.
    fn speed(&self, core: usize) -> u64 {
        let Some(linux) = &self.linux else { return WHOLE };
        (self.smt_speed(linux, core) * linux.memory_speed(core) / WHOLE).max(1)
    }

    fn smt_speed(&self, linux: &Queues, core: usize) -> u64 {
        linux.smt_speed(core, |sibling| self.cores[sibling].running.is_some())
    }

    /// What the core's thread asks of memory.
    pub(super) fn demand(&self, core: usize, pools: &Pools) -> Demand {
        let Core { running, suspended, .. } = &self.cores[core];
        let (Some(linux), Some(thread), false) = (&self.linux, *running, *suspended) else { return Demand::default() };
        let pool = pools.of(thread.program);
        let part = u64::from(pool.memory);
        match pools.worker(thread).doing {
            Doing::Strand(_) if part > 0 => {
                // Its first task is the first that asks.
                let began = |own: usize| *pool.began.get_or_init(|| own);
                Demand { part, speed: self.smt_speed(linux, core), of: linux.asks(core, began) }
            }
            _ => Demand::default(),
        }
    }

    /// Core time in which a thread ran, with turns that are not accounted for yet. Only where the kernel is one of
    /// Linux.
    pub(super) fn served(&self, now: u64) -> u64 {
        let turns = self.cores.iter().filter(|core| core.running.is_some()).map(|core| now - core.charged);
        self.served + turns.sum::<u64>()
    }

    pub(super) fn set_idle(&mut self, core: usize) {
        if !self.idle.contains(core) {
            self.idle.insert(core);
            self.idling += 1;
        }
    }

    pub(super) fn set_running(&mut self, core: usize, thread: Option<Thread>) -> Option<Thread> {
        if thread.is_none() && !self.cores[core].offline {
            self.set_idle(core);
        } else if self.idle.contains(core) {
            self.idle.remove(core);
            self.idling -= 1;
        }
        let before = std::mem::replace(&mut self.cores[core].running, thread);
        if let Some(turned) = &mut self.turned
            && before.is_some() != thread.is_some()
        {
            turned.push(core);
        }
        self.running = self.running + u64::from(thread.is_some()) - u64::from(before.is_some());
        before
    }

    /// The core's thread gets on so much later.
    pub(super) fn delay(&mut self, core: usize, time: u64) {
        self.cores[core].since += time;
    }

    pub(super) fn push_back(&mut self, core: usize, thread: Thread) {
        self.cores[core].queue.push_back(thread);
        self.queued += 1;
    }

    pub(super) fn remove(&mut self, core: usize, thread: Thread) {
        self.cores[core].queue.retain(|other| *other != thread);
        self.queued -= 1;
    }

    /// The thread that runs next on a core.
    pub(super) fn take_next(&mut self, core: usize, pools: &Pools) -> Option<Thread> {
        let thread = match &mut self.linux {
            None => self.cores[core].queue.pop_front().or_else(|| self.pull(core, pools))?,
            Some(linux) => {
                let thread = linux.choose(core, &self.cores[core], pools)?;
                self.cores[core].queue.retain(|other| *other != thread);
                thread
            }
        };
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
    /// The thread waits for this core from now on.
    pub(super) fn push_back(&mut self, core: usize, thread: Thread) {
        if let Some(running) = self.kernel.cores[core].running {
            self.catch_up_with(running);
        }
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux
            && !pools.worker(thread).entity.is_in_queue()
        {
            linux.join(core, &kernel.cores, pools, thread, Joins::Wakes);
        }
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
        let worker = self.worker(thread);
        let core = match &self.kernel.linux {
            None => self.kernel.choose_core(worker),
            Some(linux) => self.kernel.choose_core_as(linux, worker, self.waker_core()),
        };
        self.charge(core);
        self.push_back(core, thread);
        self.preempt_for(core, thread);
        self.attend(core);
    }

    /// One that has come may take the place of the one that runs.
    fn preempt_for(&mut self, core: usize, thread: Thread) {
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux
            && linux.preempts(core, &kernel.cores[core], pools, thread)
        {
            linux.resched(core);
        }
    }

    /// Gives an idle core a thread; or has the one that runs there end its turn in time for those that wait.
    pub(super) fn attend(&mut self, core: usize) {
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
        if self.kernel.cores[core].queue.is_empty() {
            self.pull_to_idle(core);
        }
        if let Some(thread) = self.kernel.take_next(core, &self.pools) {
            self.switch_to(core, thread);
        }
    }

    /// The core runs a thread from now on, which is in no queue.
    pub(super) fn switch_to(&mut self, core: usize, thread: Thread) {
        self.charge_sibling(core);
        self.kernel.set_running(core, Some(thread));
        let before = self.kernel.cores[core].last.replace(thread);
        let mut switch = 0;
        if before != Some(thread) {
            switch = self.costs.switch;
            let is_between = before.is_some_and(|before| before.program != thread.program);
            if is_between {
                switch += self.costs.refill;
            }
            let switches = &mut self.kernel.switches;
            switches.all += 1;
            switches.between_programs += u64::from(is_between);
            let to_thief = u64::from(!self.pools.worker(thread).is_busy());
            switches.to_thieves += to_thief;
            let own = &mut self.pool_mut(thread.program).switches;
            own.all += 1;
            own.to_thieves += to_thief;
            if let Some(before) = before.filter(|_| is_between) {
                self.pool_mut(before.program).switches.between_programs += 1;
            }
        }
        let now = self.now;
        let state = &mut self.kernel.cores[core];
        (state.since, state.charged, state.came) = (now + switch, now, now);
        state.slice_end = state.since + self.costs.slice;
        let worker = self.worker_mut(thread);
        (worker.place, worker.last_core) = (Place::On(core), core);
        worker.times.has_waited(now);
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux
            && pools.worker(thread).part.home.is_none()
        {
            linux.begin_turn(core, &kernel.cores[core], pools, thread, None);
        }
        self.plan_core(core);
        self.plan_sibling(core);
    }

    /// The thread is in the kernel for so long before it goes on, if it has a core.
    pub(super) fn keep_in_kernel(&mut self, thread: Thread, time: u64) {
        if let Place::On(core) = self.worker(thread).place {
            self.charge(core);
            self.kernel.delay(core, time);
        }
    }

    /// The thread waits in a system call for so long, without a core. What the kernel keeps it for comes first.
    pub(super) fn block(&mut self, thread: Thread, time: u64) {
        let Place::On(core) = self.worker(thread).place else { return };
        let from = self.kernel.cores[core].since.max(self.now);
        self.deactivate(thread);
        self.worker_mut(thread).place = Place::Blocked;
        let latency = self.wake_latency();
        self.plan(from + time + latency, Due::Up(thread));
    }

    pub(super) fn charge_all(&mut self) {
        (0..self.kernel.len()).for_each(|core| self.charge(core));
    }

    /// Brings the time of the thread that runs up to date.
    pub(super) fn charge(&mut self, core: usize) {
        let speed = self.kernel.speed(core);
        let now = self.now;
        let state = &mut self.kernel.cores[core];
        let Some(thread) = state.running else { return };
        let turn = now - std::mem::replace(&mut state.charged, now);
        if state.suspended {
            state.since += turn;
        }
        let elapsed = now.saturating_sub(state.since);
        state.since = state.since.max(now);
        self.pool_mut(thread.program).spend(thread.worker, elapsed, speed);
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux
            && turn > 0
        {
            kernel.served += turn;
            linux.charge(core, &kernel.cores[core], pools, turn, now);
        }
    }

    /// The core's thread may ask another share of its socket's memory. What the others have done until now was done
    /// at the old speed then, and what follows takes as long as it does now.
    pub(super) fn share_memory(&mut self, core: usize) {
        let Host { kernel, pools, .. } = self;
        let demand = kernel.demand(core, pools);
        let Some(linux) = &mut kernel.linux else { return };
        if linux.demand(core).is_none_or(|noted| noted == demand) {
            return;
        }
        let changed = linux.note_demand(core, demand);
        for (socket, factor) in changed.into_iter().flatten() {
            let Some(linux) = &self.kernel.linux else { return };
            let asks = |other: &usize| {
                *other != core && linux.demand(*other).is_some_and(|demand| demand.part > 0 && demand.of == socket)
            };
            let others: Vec<usize> = (0..self.kernel.len()).filter(asks).collect();
            others.iter().for_each(|other| self.charge(*other));
            if let Some(linux) = &mut self.kernel.linux {
                linux.set_factor(socket, factor);
            }
            others.iter().for_each(|other| self.plan_core(*other));
        }
    }

    /// The other hardware thread of the core, if it is in use.
    fn sibling(&self, core: usize) -> Option<usize> {
        let sibling = self.kernel.linux.as_ref()?.sibling(core)?;
        self.kernel.cores[sibling].running.is_some().then_some(sibling)
    }

    /// The core's use changes: what its sibling has done until now was done at the old speed,
    pub(super) fn charge_sibling(&mut self, core: usize) {
        if let Some(sibling) = self.sibling(core) {
            self.charge(sibling);
        }
    }

    /// and what follows takes as long as it does now.
    pub(super) fn plan_sibling(&mut self, core: usize) {
        if let Some(sibling) = self.sibling(core) {
            self.plan_core(sibling);
        }
    }

    pub(super) fn plan_core(&mut self, core: usize) {
        self.share_memory(core);
        let Some(thread) = self.kernel.cores[core].running else { return };
        if self.kernel.cores[core].suspended {
            return self.kernel.cores[core].plan_nothing();
        }
        let may_run = self.time_left(thread.program).unwrap_or(u64::MAX);
        let speed = self.kernel.speed(core);
        let worker = self.worker(thread);
        let left = worker.time_left(speed).min(may_run);
        let Host { kernel, pools, now, .. } = self;
        let state = &kernel.cores[core];
        let mut at = state.since.max(*now).saturating_add(left);
        let ends = pools.worker(thread).part.home.is_some();
        if !state.queue.is_empty() || ends {
            let turn_end = match &kernel.linux {
                None => state.slice_end,
                Some(linux) => linux.turn_end(core, state, pools, *now, at),
            };
            at = at.min(turn_end.max(*now));
        }
        let state = &mut self.kernel.cores[core];
        state.plan_nothing();
        let plan = state.plan;
        self.plan(at, Due::Core { core: core as u32, plan });
    }

    pub(super) fn core_is_due(&mut self, core: usize, plan: u32) {
        if self.kernel.cores[core].plan != plan {
            return;
        }
        self.charge(core);
        let Some(thread) = self.kernel.cores[core].running else { return };
        // The equal turns of old end what takes no time with the turn, even within a switch.
        let has_begun = self.kernel.linux.is_none() || self.kernel.cores[core].since <= self.now;
        if self.worker(thread).left == 0 && has_begun {
            self.complete(thread);
        }
        if self.pool(thread.program).quota.is_some() {
            self.throttle_if_spent(thread.program);
        }
        if self.kernel.cores[core].running != Some(thread) {
            return self.dispatch(core);
        }
        if self.kernel.linux.is_some() {
            return self.look_at_turn(core, thread);
        }
        let state = &self.kernel.cores[core];
        if self.now >= state.slice_end && !state.queue.is_empty() {
            self.preempt(core);
            self.dispatch(core);
        } else {
            self.plan_core(core);
        }
    }

    /// The turn of the core's thread may be over: another runs, or that goes on.
    fn look_at_turn(&mut self, core: usize, thread: Thread) {
        let Host { kernel, pools, now, .. } = self;
        let Some(linux) = &mut kernel.linux else { return };
        let is_over = linux.is_over(core, &kernel.cores[core], pools, *now);
        if self.is_of_acceleration(thread) {
            return if is_over { self.switch_by_acceleration(core, thread) } else { self.plan_core(core) };
        }
        let Host { kernel, pools, .. } = self;
        let Some(linux) = &mut kernel.linux else { return };
        if is_over && let Some(next) = linux.choose(core, &kernel.cores[core], pools) {
            if next != thread {
                self.preempt(core);
                self.kernel.remove(core, next);
                return self.switch_to(core, next);
            }
            linux.begin_turn(core, &kernel.cores[core], pools, thread, Some(thread));
        }
        self.plan_core(core);
    }

    /// The thread's turn is over: it waits at the end of the queue.
    fn preempt(&mut self, core: usize) {
        self.charge_sibling(core);
        let Some(thread) = self.kernel.set_running(core, None) else { return };
        self.pool_mut(thread.program).counts.preemptions += u64::from(!self.worker(thread).gives_way);
        self.push_back(core, thread);
    }

    /// Takes a thread from wherever it is. What it did on a core until now is accounted for.
    pub(super) fn deactivate(&mut self, thread: Thread) {
        self.catch_up_with(thread);
        self.ends_acceleration(thread);
        let place = self.worker(thread).place;
        if let Place::Queued(core) | Place::On(core) = place {
            self.charge(core);
            self.charge_sibling(core);
            let Host { kernel, pools, .. } = self;
            if let Some(linux) = &mut kernel.linux {
                linux.leave(&kernel.cores, pools, thread);
            }
        }
        self.worker_mut(thread).place = Place::Nowhere;
        match place {
            Place::Nowhere | Place::Blocked | Place::Throttled => {}
            Place::Queued(core) => self.kernel.remove(core, thread),
            Place::On(core) => {
                self.kernel.set_running(core, None);
                self.share_memory(core);
                self.plan_sibling(core);
            }
        }
    }

    /// Moves the threads of a program that are where they may not run.
    pub(super) fn migrate_misplaced(&mut self, program: u32) {
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
                self.deactivate(thread);
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
                self.deactivate(thread);
                self.push_back(core, thread);
                self.attend(core);
                self.dispatch(other);
            }
        }
    }

    /// The thread offers its core to those that wait, or to `peer` (BWS's yield to a preempted worker), if that
    /// waits and may run here.
    pub(super) fn yield_core(&mut self, core: usize, peer: Option<Thread>) {
        let peer = peer.filter(|peer| {
            matches!(self.worker(*peer).place, Place::Queued(_))
                && self.worker(*peer).part.initiator.is_none()
                && self.kernel.cores_of(self.worker(*peer))(&self.kernel, core)
        });
        if self.kernel.linux.is_none() {
            if let Some(peer) = peer
                && let Place::Queued(other) = self.worker(peer).place
            {
                self.kernel.remove(other, peer);
                self.kernel.queued += 1;
                self.kernel.cores[core].queue.push_front(peer);
                self.worker_mut(peer).place = Place::Queued(core);
            }
            self.kernel.cores[core].slice_end = self.now;
            return;
        }
        self.charge(core);
        if self.kernel.cores[core].running.is_some_and(|thread| self.worker(thread).part.home.is_some()) {
            // What it has been given is over.
            return self.resched(core);
        }
        if let Some(peer) = peer
            && self.worker(peer).place != Place::Queued(core)
        {
            self.move_to(core, peer);
        }
        let Host { kernel, pools, now, .. } = self;
        if let Some(linux) = &mut kernel.linux {
            linux.yields(core, &kernel.cores[core], pools, peer, *now);
        }
    }

    pub(super) fn go_online(&mut self, cores: usize) {
        for core in 0..self.kernel.len() {
            self.charge(core);
            self.kernel.cores[core].offline = core >= cores;
        }
        for core in cores..self.kernel.len() {
            let running = self.kernel.cores[core].running;
            if let Some(thread) = running {
                self.pool_mut(thread.program).counts.preemptions += 1;
            }
            let queue = self.kernel.cores[core].queue.clone();
            let away = self.kernel.cores[core].away.clone();
            let all: Vec<Thread> = running.into_iter().chain(queue).chain(away).collect();
            all.iter().for_each(|thread| self.deactivate(*thread));
            // It is not idle any more.
            self.kernel.set_running(core, None);
            all.iter().for_each(|thread| self.enqueue(*thread));
        }
        for core in 0..cores {
            if self.kernel.cores[core].running.is_none() {
                self.kernel.set_running(core, None);
            }
            self.dispatch(core);
        }
        // A thread that could run nowhere else may have been on any core.
        (0..self.pools.0.len() as u32).for_each(|program| self.migrate_misplaced(program));
    }
}
