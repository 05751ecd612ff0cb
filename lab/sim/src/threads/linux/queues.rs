//! The queues of all cores. A core has a queue of threads for each task group, and a queue of the groups.

use super::super::Thread;
use super::super::kernel::{Core, WHOLE};
use super::super::pool::Pools;
use super::entity::{Entity, UNIT};
use super::memory::{Changed, Demand, Memory};
use super::topology::Topology;
use super::{Constants, Groups, Linux, cfs, eevdf};

/// A group's queue on a core.
pub(super) struct Group {
    /// The scheduling state of the group among the groups of its core.
    pub(super) own: Entity,
    /// The number of threads that wait or run here (`members`), and the sum of their weights (`load`).
    pub(super) members: u32,
    pub(super) load: i64,
    /// The virtual run time from which arriving threads are placed (`min_vruntime`).
    pub(super) floor: i64,
    /// The thread that the next choice skips.
    pub(super) skip: Option<Thread>,
}

impl Group {
    fn new(core: usize, slice: u64) -> Group {
        let own = Entity { slice: slice as i64, home: core, ..Entity::new(0) };
        Group { own, members: 0, load: 0, floor: 0, skip: None }
    }
}

/// A core's queues.
#[derive(Default)]
pub(super) struct Root {
    pub(super) groups: Vec<Group>,
    /// The groups that have threads on this core, in the order in which the groups joined.
    pub(super) present: Vec<usize>,
    pub(super) floor: i64,
    /// The thread that was given the rest of a turn, and the time at which this turn ends.
    pub(super) granted: Option<(Thread, u64)>,
    /// True if the core must choose its next thread at once, before the turn is over.
    pub(super) resched: bool,
}

/// The queues of all cores, under one kernel.
pub(in super::super) struct Queues {
    pub(super) linux: Linux,
    pub(super) topology: Topology,
    pub(super) constants: Constants,
    pub(super) roots: Vec<Root>,
    /// The sum of the weights of each group's threads, on all cores.
    pub(super) loads: Vec<i64>,
    /// The memories, if their bandwidth is limited.
    memory: Option<Memory>,
}

/// The way in which a thread joins a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Joins {
    /// The thread has slept, or is new.
    Wakes,
    /// The thread moves from another queue.
    Moves,
}

impl Queues {
    pub(in super::super) fn new(linux: Linux, processors: usize) -> Queues {
        let topology = Topology::new(&linux, processors);
        let per_socket = topology.socket(0).len();
        Queues {
            linux,
            topology,
            memory: linux.bandwidth.map(|cores| Memory::new(cores.into(), processors, per_socket, linux.first_touch)),
            constants: Constants::of(linux.version, linux.scaled_for.unwrap_or(processors as u32)),
            roots: (0..processors).map(|_| Root::default()).collect(),
            loads: Vec::new(),
        }
    }

    pub(super) fn group_of(&self, thread: Thread) -> usize {
        match self.linux.groups {
            Groups::Same => 0,
            Groups::Separate => thread.program as usize,
        }
    }

    /// Returns the mean time between two wake-ups of the kernel's thread on a core, and its running time.
    pub(in super::super) fn noise(&self) -> (u64, u64) {
        (self.linux.noise_every, self.linux.noise_work)
    }

    pub(in super::super) fn sockets(&self) -> usize {
        self.linux.sockets as usize
    }

    /// Returns the other hardware thread of a core.
    pub(in super::super) fn sibling(&self, core: usize) -> Option<usize> {
        self.topology.sibling(core)
    }

    /// Returns the speed of a core's thread, given the use of the core's other hardware thread, in thousandths of its
    /// speed alone.
    pub(in super::super) fn smt_speed(&self, core: usize, is_used: impl Fn(usize) -> bool) -> u64 {
        let is_shared = self.topology.sibling(core).is_some_and(is_used);
        if is_shared { self.linux.smt_speed.into() } else { WHOLE }
    }

    /// Returns the speed of a core with the limits of memory, in thousandths of its speed without these limits.
    pub(in super::super) fn memory_speed(&self, core: usize) -> u64 {
        self.memory.as_ref().map_or(WHOLE, |memory| memory.speed(core))
    }

    /// Returns the noted memory demand of the core, if memory bandwidth is limited.
    pub(in super::super) fn demand(&self, core: usize) -> Option<Demand> {
        self.memory.as_ref().map(|memory| memory.demand(core))
    }

    /// Notes the core's memory demand. Returns the sockets whose factor changes, with the new factor.
    pub(in super::super) fn note_demand(&mut self, core: usize, demand: Demand) -> Changed {
        self.memory.as_mut().map_or([None, None], |memory| memory.note(core, demand))
    }

    pub(in super::super) fn set_factor(&mut self, socket: usize, factor: u64) {
        if let Some(memory) = &mut self.memory {
            memory.set_factor(socket, factor);
        }
    }

    pub(in super::super) fn check_demand(&self, core: usize, demand: Demand) -> Result<(), String> {
        self.memory.as_ref().map_or(Ok(()), |memory| memory.check(core, demand))
    }

    /// Returns the socket whose memory a core uses. `began` returns the socket on which the core's program began.
    pub(in super::super) fn asks(&self, core: usize, began: impl FnOnce(usize) -> usize) -> usize {
        let own = self.topology.socket_of(core);
        if self.linux.first_touch { began(own) } else { own }
    }

    pub(super) fn has_groups(&self) -> bool {
        self.linux.groups == Groups::Separate
    }

    /// Returns a core's queue of this group. Creates it if necessary.
    fn open(&mut self, core: usize, group: usize) -> &mut Group {
        let slice = self.constants.base_slice;
        if self.loads.len() <= group {
            self.loads.resize(group + 1, 0);
        }
        let groups = &mut self.roots[core].groups;
        while groups.len() <= group {
            groups.push(Group::new(core, slice));
        }
        &mut groups[group]
    }

    /// Returns the threads of a group on a core: the waiting threads in the order of the queue, then the accelerated
    /// threads that run elsewhere, then the running thread.
    pub(super) fn threads<'a>(
        &self,
        core: &'a Core,
        group: usize,
        pools: &'a Pools,
    ) -> impl Iterator<Item = (Thread, &'a Entity)> + Clone + use<'a> {
        let (groups, group) = (self.linux.groups, group as u32);
        // An accelerated thread is in the queue of its home, so it does not count as the running thread here.
        let own = core.running.iter().filter(|thread| pools.worker(**thread).part.home.is_none());
        let all = core.queue.iter().chain(&core.away).chain(own).copied();
        let are = all.filter(move |thread| groups == Groups::Same || thread.program == group);
        are.map(|thread| (thread, &pools.worker(thread).entity))
    }

    /// Returns the groups that have threads on a core.
    fn groups(&self, core: usize) -> impl Iterator<Item = (usize, &Entity)> + Clone {
        let root = &self.roots[core];
        root.present.iter().map(|group| (*group, &root.groups[*group].own))
    }

    /// Adds a thread to a core's queue. The thread must not be in this queue yet.
    pub(in super::super) fn join(
        &mut self,
        core: usize,
        cores: &[Core],
        pools: &mut Pools,
        thread: Thread,
        joins: Joins,
    ) {
        let group = self.group_of(thread);
        self.open(core, group);
        let mut entity = pools.worker(thread).entity;
        let (is_new, home) = (entity.is_new(), if entity.is_new() { core } else { entity.home });
        if is_new {
            entity.slice = self.constants.base_slice as i64;
        }
        self.update(core, &cores[core], pools, group);
        let members = self.roots[core].groups[group].members;
        let floor = self.roots[core].groups[group].floor;
        if self.linux.is_eevdf() {
            let at_home = eevdf::Average::of(self.threads(&cores[home], group, pools));
            let lag = Self::lag_by_now(&entity, at_home.as_ref(), joins);
            let here = eevdf::Average::of(self.threads(&cores[core], group, pools));
            let left = entity.deadline - entity.vruntime;
            eevdf::place(&mut entity, lag, here.as_ref(), floor, is_new);
            if joins == Joins::Moves && !is_new {
                entity.deadline = entity.vruntime + left.max(1);
            }
        } else {
            let from = self.roots[home].groups.get(group).map_or(0, |group| group.floor);
            let load = self.roots[core].groups[group].load + entity.weight;
            let threads = u64::from(members) + 1;
            entity.vruntime = if is_new {
                floor + entity.as_virtual(cfs::slice(&self.constants, threads, &[(entity.weight, load)]) as i64)
            } else {
                floor + entity.vruntime - from
            };
            if joins == Joins::Wakes && !is_new {
                entity.vruntime = entity.vruntime.max(cfs::sleeper_credit(&self.constants, floor));
            }
        }
        (entity.home, entity.queued) = (core, true);
        pools.worker_mut(thread).entity = entity;
        let queue = &mut self.roots[core].groups[group];
        queue.members += 1;
        queue.load += entity.weight;
        self.loads[group] += entity.weight;
        if members == 0 {
            self.group_joins(core, group);
        } else {
            self.reweigh(core, group);
        }
    }

    /// Called before a thread of this group joins or leaves a core's queue. Renews the request of the running thread,
    /// if the request has been served (`update_curr`).
    fn update(&mut self, nth: usize, core: &Core, pools: &mut Pools, group: usize) {
        let Some(running) = core.running else { return };
        if !self.linux.is_eevdf() {
            return;
        }
        let members = self.roots[nth].groups[group].members;
        if self.group_of(running) == group {
            let is_over = eevdf::renew(&mut pools.worker_mut(running).entity);
            self.roots[nth].resched |= is_over && members > 1;
        }
        if members == 0 {
            self.update_groups(nth, running);
        }
    }

    /// Renews the request of the running thread's group, if the request has been served.
    fn update_groups(&mut self, nth: usize, running: Thread) {
        let group = self.group_of(running);
        let root = &mut self.roots[nth];
        let is_over = eevdf::renew(&mut root.groups[group].own);
        root.resched |= is_over && root.present.len() > 1;
    }

    /// Returns the lag with which an entity joins a queue. An entity with a negative lag, which was ahead, loses its
    /// lead as the other entities of its former queue progress (`DELAY_DEQUEUE`).
    fn lag_by_now(entity: &Entity, at_home: Option<&eevdf::Average>, joins: Joins) -> i64 {
        if entity.lag >= 0 || joins == Joins::Moves {
            return entity.lag;
        }
        at_home.map_or(0, |average| (average.value() - entity.vruntime).clamp(entity.lag, 0))
    }

    /// Called when the first thread of a group has joined the group's queue on a core.
    fn group_joins(&mut self, core: usize, group: usize) {
        let weight = self.weight(core, group);
        let root = &self.roots[core];
        let mut own = root.groups[group].own;
        own.weight = weight;
        if self.linux.is_eevdf() {
            let average = eevdf::Average::of(self.groups(core));
            let lag = Self::lag_by_now(&own, average.as_ref(), Joins::Wakes);
            eevdf::place(&mut own, lag, average.as_ref(), root.floor, false);
        } else {
            own.vruntime = own.vruntime.max(cfs::sleeper_credit(&self.constants, root.floor));
        }
        own.queued = true;
        let root = &mut self.roots[core];
        root.groups[group].own = own;
        root.present.push(group);
    }

    /// Returns a group's present weight on a core.
    fn weight(&self, core: usize, group: usize) -> i64 {
        if self.has_groups() { cfs::group_weight(self.roots[core].groups[group].load, self.loads[group]) } else { UNIT }
    }

    /// Updates the group's weight on a core for the threads that the group has there. Scales its lag and its deadline
    /// so that they stay the same in real time.
    fn reweigh(&mut self, core: usize, group: usize) {
        let weight = self.weight(core, group);
        let own = self.roots[core].groups[group].own;
        if own.weight == weight {
            return;
        }
        let mut own = own;
        if self.linux.is_eevdf()
            && let Some(average) = eevdf::Average::of(self.groups(core))
        {
            let scaled = |time: i64| (i128::from(time) * i128::from(own.weight) / i128::from(weight)) as i64;
            let (lag, left, protected) = (
                average.value() - own.vruntime,
                own.deadline - own.vruntime,
                own.protected.saturating_sub(own.vruntime),
            );
            own.vruntime = average.value() - scaled(lag);
            own.deadline = own.vruntime + scaled(left);
            own.protected = own.vruntime.saturating_add(scaled(protected));
        }
        own.weight = weight;
        self.roots[core].groups[group].own = own;
    }

    /// Removes a thread from its queue or core.
    pub(in super::super) fn leave(&mut self, cores: &[Core], pools: &mut Pools, thread: Thread) {
        let (mut entity, group) = (pools.worker(thread).entity, self.group_of(thread));
        if !entity.queued {
            return;
        }
        let core = entity.home;
        if cores[core].running != Some(thread) {
            self.update(core, &cores[core], pools, group);
        }
        let tick = self.linux.tick();
        if self.linux.is_eevdf()
            && let Some(average) = eevdf::Average::of(self.threads(&cores[core], group, pools))
        {
            entity.lag = eevdf::lag(&entity, average.value(), tick);
        }
        entity.queued = false;
        pools.worker_mut(thread).entity = entity;
        let others = self.threads(&cores[core], group, pools).filter(|(other, _)| *other != thread);
        let floor = self.floor(others);
        let is_eevdf = self.linux.is_eevdf();
        let queue = &mut self.roots[core].groups[group];
        queue.members -= 1;
        queue.load -= entity.weight;
        if queue.skip == Some(thread) {
            queue.skip = None;
        }
        match floor {
            Some(floor) => queue.floor = if is_eevdf { floor } else { queue.floor.max(floor) },
            None => queue.floor = queue.floor.max(entity.vruntime),
        }
        self.loads[group] -= entity.weight;
        if self.roots[core].groups[group].members > 0 {
            return self.reweigh(core, group);
        }
        let mut own = self.roots[core].groups[group].own;
        if is_eevdf && let Some(average) = eevdf::Average::of(self.groups(core)) {
            own.lag = eevdf::lag(&own, average.value(), tick);
        }
        own.queued = false;
        let root = &mut self.roots[core];
        root.groups[group].own = own;
        root.present.retain(|other| *other != group);
        match self.floor(self.groups(core)) {
            Some(floor) => {
                let root = &mut self.roots[core];
                root.floor = if is_eevdf { floor } else { root.floor.max(floor) };
            }
            None => self.roots[core].floor = self.roots[core].floor.max(own.vruntime),
        }
    }

    /// Returns the virtual run time from which arriving entities are placed.
    fn floor<'a, K>(&self, entities: impl Iterator<Item = (K, &'a Entity)>) -> Option<i64> {
        if self.linux.is_eevdf() {
            eevdf::Average::of(entities).map(|average| average.value())
        } else {
            cfs::first(entities).map(|(_, entity)| entity.vruntime)
        }
    }

    /// Accounts for `time` nanoseconds of the core's thread.
    pub(in super::super) fn charge(&mut self, nth: usize, core: &Core, pools: &mut Pools, time: u64, now: u64) {
        // An accelerated thread does not pay: the giver of its turn pays when the turn is over.
        let Some(thread) = core.running.filter(|thread| pools.worker(*thread).part.home.is_none()) else { return };
        pools.worker_mut(thread).entity.charge(time, now);
        let group = self.group_of(thread);
        self.roots[nth].groups[group].own.charge(time, now);
        if self.linux.is_eevdf() {
            let tick = self.linux.tick();
            eevdf::renew_at_ticks(&mut pools.worker_mut(thread).entity, time, now, tick);
            eevdf::renew_at_ticks(&mut self.roots[nth].groups[group].own, time, now, tick);
            return;
        }
        // This computes [`Queues::floor`], but stops at the first entity that is not above the floor, because then the
        // floor stays the same.
        let floor = self.roots[nth].groups[group].floor;
        let above = |(_, entity): (Thread, &Entity)| (entity.vruntime > floor).then_some(entity.vruntime);
        if above((thread, &pools.worker(thread).entity)).is_some()
            && let Some(lowest) =
                self.threads(core, group, pools).map(above).try_fold(i64::MAX, |lowest, one| Some(lowest.min(one?)))
        {
            self.roots[nth].groups[group].floor = lowest;
        }
        if self.has_groups()
            && let Some(floor) = self.floor(self.groups(nth))
        {
            self.roots[nth].floor = self.roots[nth].floor.max(floor);
        }
    }

    /// Chooses the thread that runs next on a core, among the waiting threads and the running thread.
    pub(in super::super) fn choose(&mut self, nth: usize, core: &Core, pools: &Pools) -> Option<Thread> {
        if let Some((thread, _)) = self.roots[nth].granted {
            let waits = core.queue.contains(&thread) && pools.worker(thread).part.initiator.is_none();
            if waits || core.running == Some(thread) {
                return Some(thread);
            }
            self.roots[nth].granted = None;
        }
        if self.linux.is_eevdf() {
            self.choose_by_deadline(nth, core, pools)
        } else {
            self.choose_by_run_time(nth, core, pools)
        }
    }

    fn choose_by_run_time(&mut self, nth: usize, core: &Core, pools: &Pools) -> Option<Thread> {
        let group = if self.has_groups() { cfs::first(self.groups(nth))?.0 } else { 0 };
        let is_free = |(thread, _): &(Thread, &Entity)| pools.worker(*thread).part.initiator.is_none();
        let threads = self.threads(core, group, pools).filter(is_free);
        let (mut chosen, entity) = cfs::first(threads.clone())?;
        let skip = self.roots[nth].groups[group].skip;
        if skip == Some(chosen)
            && let Some((other, second)) = cfs::first(threads.filter(|(other, _)| *other != chosen))
            && cfs::second(&self.constants, entity, second)
        {
            chosen = other;
        }
        if skip == Some(chosen) {
            self.roots[nth].groups[group].skip = None;
        }
        Some(chosen)
    }

    /// Chooses by EEVDF's rules. The running thread and its group are protected for a while.
    fn choose_by_deadline(&mut self, nth: usize, core: &Core, pools: &Pools) -> Option<Thread> {
        let running = core.running.map(|thread| (thread, self.group_of(thread)));
        let kept = running.filter(|(_, group)| {
            let own = &self.roots[nth].groups[*group].own;
            eevdf::is_protected(own) && self.is_eligible(self.groups(nth), own)
        });
        let group = match (self.has_groups(), kept) {
            (false, _) => 0,
            (true, Some((_, group))) => group,
            (true, None) => eevdf::first(self.groups(nth))?.0,
        };
        if let Some((thread, _)) = running.filter(|(_, own)| *own == group) {
            let entity = pools.worker(thread).entity;
            if eevdf::is_protected(&entity) && self.is_eligible(self.threads(core, group, pools), &entity) {
                return Some(thread);
            }
        }
        eevdf::first(self.threads(core, group, pools)).map(|(thread, _)| thread)
    }

    fn is_eligible<'a, K>(&self, entities: impl Iterator<Item = (K, &'a Entity)>, entity: &Entity) -> bool {
        eevdf::Average::of(entities).is_some_and(|average| average.is_eligible(entity.vruntime))
    }

    /// Begins the turn of a thread that was chosen for a core. `before` is the thread that ran there until now.
    pub(in super::super) fn begin_turn(
        &mut self,
        nth: usize,
        core: &Core,
        pools: &mut Pools,
        thread: Thread,
        before: Option<Thread>,
    ) {
        let group = self.group_of(thread);
        if self.linux.is_eevdf() {
            if before == Some(thread) {
                return;
            }
            let shortest = self.threads(core, group, pools).map(|(_, entity)| entity.slice).min();
            let entity = &mut pools.worker_mut(thread).entity;
            entity.ran_before = entity.ran;
            eevdf::protect(entity, shortest.unwrap_or(entity.slice).min(entity.slice));
            if before.is_none_or(|before| self.group_of(before) != group) {
                let shortest = self.groups(nth).map(|(_, own)| own.slice).min();
                let own = &mut self.roots[nth].groups[group].own;
                own.ran_before = own.ran;
                eevdf::protect(own, shortest.unwrap_or(own.slice));
            }
        } else {
            let entity = &mut pools.worker_mut(thread).entity;
            entity.ran_before = entity.ran;
            let own = &mut self.roots[nth].groups[group].own;
            own.ran_before = own.ran;
        }
    }

    /// Sets the thread that is given a turn on the core, and the time at which this turn ends.
    pub(in super::super) fn grant(&mut self, core: usize, granted: Option<(Thread, u64)>) {
        self.roots[core].granted = granted;
    }

    /// Charges a thread for the turn that it gave to another thread (`burn_runtime` of Robinhood's Algorithm 3).
    pub(in super::super) fn pays(&mut self, pools: &mut Pools, thread: Thread, time: u64) {
        let entity = &mut pools.worker_mut(thread).entity;
        entity.vruntime += entity.as_virtual(time as i64);
        let (home, group) = (entity.home, self.group_of(thread));
        let own = &mut self.roots[home].groups[group].own;
        own.vruntime += own.as_virtual(time as i64);
    }

    /// Returns the rest of the turn of the core's thread, in nanoseconds.
    pub(in super::super) fn left_of_slice(
        &self,
        nth: usize,
        core: &Core,
        pools: &Pools,
        thread: Thread,
        now: u64,
    ) -> u64 {
        match self.roots[nth].granted {
            Some((to, until)) if to == thread => until.saturating_sub(now),
            _ => self.rest_of_turn(nth, core, pools, thread),
        }
    }

    /// Makes up for a tick that a virtual CPU has missed: the tick comes as soon as the virtual CPU runs.
    pub(in super::super) fn tick_is_late(&mut self, nth: usize, core: &Core, pools: &Pools) {
        let is_granted = self.roots[nth].granted.is_some();
        self.roots[nth].resched |= !core.queue.is_empty() && !is_granted && self.left_of_turn(nth, core, pools) == 0;
    }

    pub(in super::super) fn accelerates(&self) -> bool {
        self.linux.accelerates
    }

    pub(in super::super) fn socket_of(&self, core: usize) -> usize {
        self.topology.socket_of(core)
    }

    /// Makes the core choose its next thread as soon as possible.
    pub(in super::super) fn resched(&mut self, core: usize) {
        self.roots[core].resched = true;
    }

    /// Returns the time at which the turn of the core's thread may be over, if other threads wait for the core. This is
    /// the time of a tick, or now. If this time is not before `at`, the result may be any time that is not before `at`.
    pub(in super::super) fn turn_end(&self, nth: usize, core: &Core, pools: &Pools, now: u64, at: u64) -> u64 {
        let root = &self.roots[nth];
        if root.resched {
            return now;
        }
        if let Some((_, until)) = root.granted {
            return until.max(now);
        }
        if core.queue.is_empty() {
            return u64::MAX;
        }
        let soonest = self.tick_from(nth, now + 1);
        if soonest >= at {
            return soonest;
        }
        let left = self.left_of_turn(nth, core, pools);
        self.tick_from(nth, now + left.max(1))
    }

    /// Returns the core's first tick at `at` or later.
    fn tick_from(&self, core: usize, at: u64) -> u64 {
        let tick = self.linux.tick();
        // Up to 2.6.38 the ticks of the processors are spread over half a period (`tick_setup_sched_timer`).
        let is_spread = self.linux.version <= super::Version::V2_6_36;
        let offset = if is_spread { tick / 2 * core as u64 / self.roots.len() as u64 } else { 0 };
        at.saturating_sub(offset).div_ceil(tick) * tick + offset
    }

    fn left_of_turn(&self, nth: usize, core: &Core, pools: &Pools) -> u64 {
        let Some(thread) = core.running else { return 0 };
        let group = self.group_of(thread);
        let (entity, own) = (pools.worker(thread).entity, self.roots[nth].groups[group].own);
        let queue = &self.roots[nth].groups[group];
        let is_shared = [queue.members > 1, self.has_groups() && self.roots[nth].present.len() > 1];
        if self.linux.is_eevdf() {
            let lefts = [eevdf::left_of_turn(&entity), eevdf::left_of_turn(&own)];
            let least =
                lefts.into_iter().zip(is_shared).filter_map(|(left, is_shared)| is_shared.then_some(left)).min();
            return least.unwrap_or(u64::MAX / 2);
        }
        let mut least = u64::MAX / 2;
        let load: i64 = self.groups(nth).map(|(_, own)| own.weight).sum();
        let above = (own.weight, load);
        if is_shared[0] {
            let parts = [(entity.weight, queue.load), above];
            let ideal = cfs::slice(&self.constants, queue.members.into(), &parts[..1 + usize::from(self.has_groups())]);
            let first = cfs::first(self.threads(core, group, pools).filter(|(other, _)| *other != thread));
            let first = first.map_or(i64::MAX / 4, |(_, entity)| entity.vruntime);
            least = least.min(cfs::left_of_turn(&self.constants, &entity, first, ideal));
        }
        if is_shared[1] {
            let ideal = cfs::slice(&self.constants, self.roots[nth].present.len() as u64, &[above]);
            let first = cfs::first(self.groups(nth).filter(|(other, _)| *other != group));
            let first = first.map_or(i64::MAX / 4, |(_, own)| own.vruntime);
            least = least.min(cfs::left_of_turn(&self.constants, &own, first, ideal));
        }
        least
    }

    /// True if another choice must be made now, because the turn of the core's thread may be over.
    pub(in super::super) fn is_over(&mut self, nth: usize, core: &Core, pools: &mut Pools, now: u64) -> bool {
        let forced = std::mem::take(&mut self.roots[nth].resched);
        let granted = self.roots[nth].granted.filter(|(_, until)| *until > now);
        let had_grant = self.roots[nth].granted.is_some();
        self.roots[nth].granted = granted;
        if granted.is_some() && !forced {
            return false;
        }
        let Some(thread) = core.running else { return forced };
        let over = self.tick_from(nth, now) == now && self.left_of_turn(nth, core, pools) == 0;
        if self.linux.is_eevdf() {
            eevdf::renew(&mut pools.worker_mut(thread).entity);
            let group = self.group_of(thread);
            eevdf::renew(&mut self.roots[nth].groups[group].own);
            self.reweigh(nth, group);
        }
        forced || over || had_grant
    }

    /// True if a thread that has joined the queue preempts the running thread.
    pub(in super::super) fn preempts(&mut self, nth: usize, core: &Core, pools: &mut Pools, thread: Thread) -> bool {
        let Some(running) = core.running else { return false };
        if self.roots[nth].granted.is_some() {
            return false;
        }
        let (group, own) = (self.group_of(thread), self.group_of(running));
        let is_same = group == own;
        if self.linux.is_eevdf() && !is_same && self.roots[nth].groups[group].members > 1 {
            self.update_groups(nth, running);
        }
        let (woken, current) = if is_same {
            (pools.worker(thread).entity, pools.worker(running).entity)
        } else {
            (self.roots[nth].groups[group].own, self.roots[nth].groups[own].own)
        };
        if !self.linux.is_eevdf() {
            return cfs::preempts(&self.constants, &woken, &current);
        }
        let average = if is_same {
            eevdf::Average::of(self.threads(core, group, pools))
        } else {
            eevdf::Average::of(self.groups(nth))
        };
        let Some(average) = average else { return false };
        if eevdf::ends_protection(&woken, &current, &average) {
            let kept =
                if is_same { &mut pools.worker_mut(running).entity } else { &mut self.roots[nth].groups[own].own };
            kept.protected = kept.vruntime;
        }
        self.choose_by_deadline(nth, core, pools) == Some(thread)
    }

    /// Makes the core's thread yield. With `to`, a thread that waits for this core, `to` runs next for the rest of the
    /// turn.
    pub(in super::super) fn yields(
        &mut self,
        nth: usize,
        core: &Core,
        pools: &mut Pools,
        to: Option<Thread>,
        now: u64,
    ) {
        let Some(thread) = core.running else { return };
        let rest = self.rest_of_turn(nth, core, pools, thread);
        let group = self.group_of(thread);
        self.roots[nth].groups[group].skip = None;
        if core.queue.is_empty() {
            return;
        }
        if self.linux.is_eevdf() {
            eevdf::renew(&mut pools.worker_mut(thread).entity);
            if self.roots[nth].groups[group].members > 1
                && let Some(average) = eevdf::Average::of(self.threads(core, group, pools))
            {
                eevdf::yields(&mut pools.worker_mut(thread).entity, &average);
            }
        } else if cfs::skips(self.linux.version) {
            self.roots[nth].groups[group].skip = Some(thread);
        } else {
            let others = self.threads(core, group, pools).filter(|(other, _)| *other != thread);
            let furthest = others.map(|(_, entity)| entity.vruntime).max();
            cfs::yields(self.linux.compat_yield, &mut pools.worker_mut(thread).entity, furthest.unwrap_or(i64::MIN));
        }
        let root = &mut self.roots[nth];
        root.resched = true;
        root.granted = to.map(|to| (to, now + rest));
    }

    /// True if a yield of `from` may make `to` run next. `to` waits for `core`. With [`Linux::fair_yield_to`], `to` must
    /// not be ahead of the first other thread there by more than the wake-up granularity.
    pub(in super::super) fn may_run_next(&self, core: &Core, pools: &Pools, from: Thread, to: Thread) -> bool {
        let others = self.threads(core, self.group_of(to), pools).filter(|(other, _)| *other != from && *other != to);
        let first = cfs::first(others).filter(|_| self.linux.fair_yield_to);
        first.is_none_or(|(_, first)| cfs::second(&self.constants, first, &pools.worker(to).entity))
    }

    /// Returns the rest of the turn that the thread would have if it shared the core, at most one turn.
    fn rest_of_turn(&self, nth: usize, core: &Core, pools: &Pools, thread: Thread) -> u64 {
        let entity = pools.worker(thread).entity;
        if self.linux.is_eevdf() {
            return eevdf::left_of_turn(&Entity { protected: entity.deadline, ..entity });
        }
        let queue = &self.roots[nth].groups[self.group_of(thread)];
        let threads = u64::from(queue.members).max(1 + core.queue.len() as u64);
        let load = queue.load.max(entity.weight);
        cfs::slice(&self.constants, threads, &[(entity.weight, load)]).saturating_sub(entity.turn())
    }

    /// Sets the length of the thread's requests, if the kernel allows it.
    pub(in super::super) fn set_slice(&self, entity: &mut Entity, slice: Option<u64>) {
        if self.linux.is_eevdf() {
            entity.slice = slice.unwrap_or(self.constants.base_slice) as i64;
        }
    }
}
