//! The kernel: each core has a queue of threads that take turns.
//!
//! A *turn* is the time for which a core runs one thread. If the host has a Linux kernel, [`super::linux`] decides
//! which thread has its turn, for how long, and which thread moves to which core. Otherwise the kernel is the simplest
//! possible kernel:
//!
//! - A turn is one slice, and the threads of a queue run in the order of the queue.
//! - A thread that wakes goes to an idle core, preferably the core on which it ran last. If no core is idle, it goes to
//!   the shortest queue. It waits until the slice of the running thread is over, which may already be the case.
//! - An idle core with an empty queue takes a thread from the longest queue.
//! - A thread may be confined to some cores.

use std::collections::VecDeque;
use std::iter::Sum;

use comity_protocol::CoreSet;
use comity_protocol::dialogue::{Effect, Step};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::linux::{Balance, Demand, Joins, Queues};
use super::pool::Pools;
use super::worker::{Doing, Worker};
use super::{Due, Host, Thread};

/// The full speed of a core, in thousandths: the core shares no hardware.
pub(super) const WHOLE: u64 = 1_000;

/// A core.
#[derive(Default)]
pub(super) struct Core {
    pub(super) running: Option<Thread>,
    pub(super) queue: VecDeque<Thread>,
    /// Accelerated threads that keep their place in this queue while they run on another core, on the turn of another
    /// thread.
    pub(super) away: Vec<Thread>,
    offline: bool,
    /// True if the core is a virtual CPU without a physical CPU. Its thread then makes no progress.
    pub(super) suspended: bool,
    /// The time until which the running thread's work is accounted for. It is later than now during a switch to the
    /// thread.
    since: u64,
    /// The time until which the running thread's turn is accounted for. The turn includes the switch.
    charged: u64,
    /// The time at which the core was switched to the running thread.
    pub(super) came: u64,
    /// The time at which the running thread's turn is over, if other threads wait.
    pub(super) slice_end: u64,
    /// The thread that ran last.
    last: Option<Thread>,
    /// The number of plans that were made for the core. Only the newest plan is valid.
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

/// The nanoseconds that a thread has spent since it began: on a core, and waiting for a core.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) on_core: u64,
    /// The time that the thread waited for a core or for its quota's next period. A wait that is not over is not
    /// included, as in the count of a real kernel.
    pub(super) for_core: u64,
    waits_since: Option<u64>,
}

impl Times {
    /// Begins a wait, unless the thread waits already.
    pub(super) fn begin_to_wait(&mut self, now: u64) {
        self.waits_since.get_or_insert(now);
    }

    /// The time since which the thread waits.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.waits_since
    }

    fn has_waited(&mut self, now: u64) {
        self.for_core += self.waits_since.take().map_or(0, |since| now - since);
    }
}

/// The place of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The thread sleeps, or does not exist.
    Nowhere,
    /// The thread has a task, and waits in a system call.
    Blocked,
    /// The thread could run, but its program has used its quota.
    Throttled,
    /// The thread waits for this core.
    Queued(usize),
    /// The thread runs on this core.
    On(usize),
}

/// The cores, and the threads that wait for them.
pub(super) struct Kernel {
    pub(super) cores: Vec<Core>,
    /// The online cores without a thread.
    idle: CoreSet,
    /// The number of online cores without a thread.
    idling: u32,
    /// The number of cores with a thread.
    running: u64,
    /// The number of threads that wait for a core.
    pub(super) queued: usize,
    /// The queues of the Linux kernel, if the host has one.
    pub(super) linux: Option<Box<Queues>>,
    pub(super) balance: Balance,
    /// Nanoseconds of turns that Linux's queues have accounted for, summed over the cores.
    served: u64,
    /// The switches from one thread to another.
    pub(super) switches: Switches,
    /// The cores that got a thread, or lost their thread, since this list was last taken. Only for a guest.
    pub(super) turned: Option<Vec<usize>>,
}

/// Counts of switches of cores from one thread to another, with or without idle time between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// All switches.
    pub all: u64,
    /// Switches to a thread without a task.
    pub to_thieves: u64,
    /// Switches from a thread of another program.
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

    /// The number of cores, including offline ones.
    pub(super) fn len(&self) -> usize {
        self.cores.len()
    }

    /// The number of online cores without a thread.
    pub(super) fn idling(&self) -> u32 {
        self.idling
    }

    /// The number of cores with a thread.
    pub(super) fn running(&self) -> u64 {
        self.running
    }

    pub(super) fn is_idle(&self, core: usize) -> bool {
        self.idle.contains(core)
    }

    pub(super) fn is_online(&self, core: usize) -> bool {
        !self.cores[core].offline
    }

    /// Returns a predicate for the cores on which the worker's thread may run. If all cores to which the thread is
    /// confined are offline, it may run on any online core.
    pub(super) fn cores_of(&self, worker: &Worker) -> impl Fn(&Kernel, usize) -> bool + use<> {
        let confined = worker.confined.get();
        let confined = confined.filter(|cores| cores.iter().any(|core| core < self.len() && self.is_online(core)));
        move |kernel, core| kernel.is_online(core) && confined.is_none_or(|cores| cores.contains(core))
    }

    /// Returns the core whose queue a thread joins when it becomes runnable.
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

    /// Returns the speed of the core's thread, in thousandths of its speed on a core that shares no hardware.
    fn speed(&self, core: usize) -> u64 {
        let Some(linux) = &self.linux else { return WHOLE };
        (self.smt_speed(linux, core) * linux.memory_speed(core) / WHOLE).max(1)
    }

    fn smt_speed(&self, linux: &Queues, core: usize) -> u64 {
        linux.smt_speed(core, |sibling| self.cores[sibling].running.is_some())
    }

    /// Returns the memory demand of the core's thread.
    pub(super) fn demand(&self, core: usize, pools: &Pools) -> Demand {
        let Core { running, suspended, .. } = &self.cores[core];
        let (Some(linux), Some(thread), false) = (&self.linux, *running, *suspended) else { return Demand::default() };
        let pool = pools.of(thread.program);
        let part = u64::from(pool.memory);
        match pools.worker(thread).doing {
            Doing::Strand(_) if part > 0 => {
                // The first task that asks for memory decides the socket on which the program's memory lies.
                let began = |own: usize| *pool.began.get_or_init(|| own);
                Demand { part, speed: self.smt_speed(linux, core), of: linux.asks(core, began) }
            }
            _ => Demand::default(),
        }
    }

    /// Returns the core time in which a thread ran, including turns that are not accounted for yet. Only with a Linux
    /// kernel.
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

    /// Delays the core's thread by `time` nanoseconds.
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

    /// Takes the thread that runs next on a core out of its queue.
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

    /// Takes a thread from the queue of another core, if the thread may run on this core.
    fn pull(&mut self, core: usize, pools: &Pools) -> Option<Thread> {
        if self.queued == 0 {
            return None;
        }
        let found = |other: usize| {
            let mut queue = self.cores[other].queue.iter();
            let nth = queue.position(|thread| self.cores_of(pools.worker(*thread))(self, core))?;
            Some((self.cores[other].queue.len(), other, nth))
        };
        // Of equally long queues, the one with the highest number is chosen.
        let (_, other, nth) = (0..self.len()).filter_map(found).max_by_key(|(length, ..)| *length)?;
        self.cores[other].queue.remove(nth)
    }
}

impl Host {
    /// Makes the thread wait for this core.
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

    /// Gives a core to a runnable thread, or puts the thread into a core's queue.
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

    /// Lets a thread that has joined the core's queue preempt the running thread, if the kernel's rules allow it.
    fn preempt_for(&mut self, core: usize, thread: Thread) {
        let Host { kernel, pools, .. } = self;
        if let Some(linux) = &mut kernel.linux
            && linux.preempts(core, &kernel.cores[core], pools, thread)
        {
            linux.resched(core);
        }
    }

    /// Gives an idle core a thread. On a busy core, plans the end of the turn, because a thread may wait for the core.
    pub(super) fn attend(&mut self, core: usize) {
        if self.kernel.cores[core].running.is_none() {
            self.dispatch(core);
        } else {
            self.charge(core);
            self.plan_core(core);
        }
    }

    /// Gives a core without a thread the next thread of its queue.
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

    /// Switches the core to a thread, which must be in no queue.
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

    /// Keeps the thread in the kernel for `time` nanoseconds before it continues, if it has a core.
    pub(super) fn keep_in_kernel(&mut self, thread: Thread, time: u64) {
        if let Place::On(core) = self.worker(thread).place {
            self.charge(core);
            self.kernel.delay(core, time);
        }
    }

    /// Makes the thread wait in a system call for `time` nanoseconds, without a core. The wait begins after the time
    /// for which [`Host::keep_in_kernel`] delays the thread.
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

    /// Accounts for the time of the core's running thread until now.
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

    /// Updates the memory demand of the core's thread. If this changes the speed of other cores, accounts for their
    /// work until now at the old speed, and plans the rest at the new speed.
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

    /// Returns the other hardware thread of the core, if it is in use.
    fn sibling(&self, core: usize) -> Option<usize> {
        let sibling = self.kernel.linux.as_ref()?.sibling(core)?;
        self.kernel.cores[sibling].running.is_some().then_some(sibling)
    }

    /// Accounts for the work of the core's sibling at the old speed, before the core's use changes.
    pub(super) fn charge_sibling(&mut self, core: usize) {
        if let Some(sibling) = self.sibling(core) {
            self.charge(sibling);
        }
    }

    /// Plans the end of the work of the core's sibling at the new speed, after the core's use has changed.
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
        // Without a Linux kernel, an action that takes no time ends even while the core still switches to its thread.
        // The outcomes of existing seeds depend on this.
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

    /// Plans the next wake-up of the kernel's thread on a core.
    pub(super) fn plan_noise(&mut self, core: u32) {
        let Some(linux) = &self.kernel.linux else { return };
        let (every, _) = linux.noise();
        let after = self.random.random_range(1..=2 * every);
        self.plan(self.now + after, Due::Noise(core));
    }

    /// Handles a wake-up of the kernel's thread on a core. The core's thread stops, and the kernel chooses the next
    /// thread as at the end of a turn. This thread continues when the kernel's thread sleeps again.
    pub(super) fn noise(&mut self, core: u32) {
        self.plan_noise(core);
        let core = core as usize;
        let Some(thread) = self.kernel.cores[core].running.filter(|_| !self.kernel.cores[core].suspended) else {
            return;
        };
        self.charge(core);
        let Some(linux) = &mut self.kernel.linux else { return };
        let (_, work) = linux.noise();
        linux.resched(core);
        self.look_at_turn(core, thread);
        self.kernel.delay(core, work);
        self.plan_core(core);
    }

    /// Handles a possible end of the turn of the core's thread: another thread runs, or the same thread continues.
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

    /// Ends the thread's turn: it waits at the end of the queue.
    fn preempt(&mut self, core: usize) {
        self.charge_sibling(core);
        let Some(thread) = self.kernel.set_running(core, None) else { return };
        self.pool_mut(thread.program).counts.preemptions += u64::from(!self.worker(thread).gives_way);
        self.push_back(core, thread);
    }

    /// Removes a thread from its core or queue, if it has one. Accounts for its time on a core until now.
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

    /// Moves the threads of a program that are on cores where they may not run.
    pub(super) fn migrate_misplaced(&mut self, program: u32) {
        self.move_led(program);
        for worker in 0..self.pool(program).workers.len() as u32 {
            let thread = Thread { program, worker };
            let (Place::Queued(core) | Place::On(core)) = self.worker(thread).place else { continue };
            // A thread that is about to wait needs its core only for a short time, so it is not moved.
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

    /// Moves each thread to the core that its worker was given (`Pool::led`). The thread is not confined to this core,
    /// so the kernel may move it again if it must wait there.
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

    /// Offers the core to the threads that wait. With `peer` (BWS's yield to a preempted worker), offers the core to
    /// this thread, if it waits and may run here.
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
            // The running thread is accelerated, so its yield ends the turn that it was given.
            return self.resched(core);
        }
        let peer = peer.filter(|peer| self.may_run_next(core, *peer));
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

    /// True if a yield of the core's thread may make `peer` run next.
    fn may_run_next(&mut self, core: usize, peer: Thread) -> bool {
        let (Some(from), Place::Queued(home)) = (self.kernel.cores[core].running, self.worker(peer).place) else {
            return true;
        };
        self.charge(home);
        let Host { kernel, pools, .. } = self;
        kernel.linux.as_ref().is_none_or(|linux| linux.may_run_next(&kernel.cores[home], pools, from, peer))
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
            // An offline core is not in the set of idle cores.
            self.kernel.set_running(core, None);
            all.iter().for_each(|thread| self.enqueue(*thread));
        }
        for core in 0..cores {
            if self.kernel.cores[core].running.is_none() {
                self.kernel.set_running(core, None);
            }
            self.dispatch(core);
        }
        // While all cores of a confined thread were offline, the thread could run on any core. Move it back.
        (0..self.pools.0.len() as u32).for_each(|program| self.migrate_misplaced(program));
    }
}
