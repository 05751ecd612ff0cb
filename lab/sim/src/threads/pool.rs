//! A program: its tasks, its workers, and what workers do with a task. Workers without a task are thieves
//! (`spell.rs`).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;

use comity_policy::definition::Definition;
use comity_policy::{Policy, WorkerId};
use comity_protocol::dialogue::{Effect, Step};
use comity_protocol::sleep::Sleep;

use super::coordinator::Share;
use super::kernel::Place;
use super::ledger::Ledger;
use super::platform::Cells;
use super::quota::Quota;
use super::table::Part;
use super::worker::{Doing, Rest, Worker};
use super::{Counts, Due, Fate, Host, Switches, Thread};
use crate::conversation::Line;
use crate::network::{Done, Network, Next};
use crate::program::{Program, Strand};
use crate::quanta::job::Cycles;

/// The tasks of a program.
pub(super) enum Work {
    /// A graph of tasks that run until they are done.
    Graph(Box<dyn Program>),
    /// Tasks that block.
    Network(Network),
}

/// A program.
pub(super) struct Pool {
    pub(super) policy: Policy,
    pub(super) work: Work,
    seed: u64,
    /// The number of workers while the program runs.
    size: u32,
    pub(super) workers: Vec<Worker>,
    /// The sleep protocol, while the program runs.
    sleep: Option<Box<Sleep<Cells>>>,
    pub(super) cells: Cells,
    /// The bells of the workers: if a worker's bell was rung, its next push looks for sleepers.
    pub(super) bells: Vec<Cell<bool>>,
    /// Strands that were handed in from outside.
    pub(super) injected: VecDeque<Strand>,
    /// The number of strands in the workers' deques.
    pub(super) queued: u64,
    /// The number of strands that workers have found and not begun.
    pub(super) in_hand: u64,
    /// The number of workers that have found work but whose spell as a thief is not over. Such a worker hands over its
    /// duties to other workers, or takes the task from its own queue.
    pub(super) leaving: u64,
    /// The number of strands that are unblocked and in no queue yet.
    pub(super) carried: u64,
    /// The worker on which each task that can block ran last.
    pub(super) ran_on: Vec<u32>,
    /// The number of thieves with deferred attempts.
    pub(super) deferred: u32,
    pub(super) busy: u32,
    /// Nanoseconds in which workers had a task, on a core or not, and the time until which this sum is computed.
    busy_time: (u64, u64),
    /// The number of workers in each state of [`Rest`] except `Awake`.
    pub(super) asleep: u32,
    pub(super) retired: u32,
    pub(super) rising: u32,
    pub(super) share: Option<Share>,
    pub(super) quota: Option<Quota>,
    /// The nice value of the threads.
    pub(super) nice: i8,
    /// The part of its time in which a strand waits for memory when the program runs alone, in thousandths.
    pub(super) memory: u32,
    /// The socket on which the first task ran that uses memory.
    pub(super) began: OnceCell<usize>,
    /// The number of tasks that wait while workers rest because they have no core, after the last event.
    pub(super) starved: u64,
    pub(super) ledger: Ledger,
    spent: Cycles,
    /// The nanoseconds that former threads waited for a core.
    waited: u64,
    pub(super) counts: Counts,
    /// Switches to the program's threads, and switches from the program's threads to threads of other programs.
    pub(super) switches: Switches,
    /// The time at which the pool's lock will be free, after all workers that hold it or wait for it.
    pub(super) lock_free_at: u64,
    came: bool,
    /// True if the program starts again when it has ended.
    pub(super) repeats: bool,
    /// The times at which executions ended, if the program repeats.
    pub(super) executions: Vec<u64>,
    pub(super) ended: Option<u64>,
    pub(super) died: Option<u64>,
    /// The time at which the first task was begun.
    pub(super) began_at: Option<u64>,
    /// True if threads of the program may be on cores where they may not run.
    pub(super) is_misplaced: Cell<bool>,
    /// Pairs of a worker and a core. The worker was given the core, and the worker's thread moves there.
    pub(super) led: RefCell<Vec<(u32, usize)>>,
}

impl Pool {
    pub(super) fn new(work: Work, policy: Policy, size: u32, seed: u64) -> Pool {
        Pool {
            policy,
            work,
            seed,
            size,
            workers: Vec::new(),
            sleep: None,
            cells: Cells::default(),
            bells: Vec::new(),
            injected: VecDeque::new(),
            queued: 0,
            in_hand: 0,
            leaving: 0,
            carried: 0,
            ran_on: Vec::new(),
            deferred: 0,
            busy: 0,
            busy_time: (0, 0),
            asleep: 0,
            retired: 0,
            rising: 0,
            share: None,
            quota: None,
            nice: 0,
            memory: 0,
            began: OnceCell::new(),
            starved: 0,
            ledger: Ledger::default(),
            spent: Cycles::default(),
            waited: 0,
            counts: Counts::default(),
            switches: Switches::default(),
            lock_free_at: 0,
            came: false,
            repeats: false,
            executions: Vec::new(),
            ended: None,
            died: None,
            began_at: None,
            is_misplaced: Cell::new(false),
            led: RefCell::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.ended.is_some() || self.died.is_some()
    }

    pub(super) fn is_there(&self) -> bool {
        self.came && !self.is_over()
    }

    /// True if the program never ends.
    pub(super) fn is_endless(&self) -> bool {
        self.repeats || matches!(&self.work, Work::Graph(program) if program.is_endless())
    }

    /// True if the quota is used up, so that the program's threads stop.
    pub(super) fn is_throttled(&self) -> bool {
        self.quota.as_ref().is_some_and(Quota::is_throttled)
    }

    /// True if the pool is closed because the program is paused. It is also closed while the program is out of turn.
    pub(super) fn is_paused(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.activation.is_closed() && share.told.paused_until.is_some())
    }

    /// True if the pool is closed: no worker begins a task.
    pub(super) fn is_closed(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.activation.is_closed())
    }

    /// Called when the pool was closed. A worker that is on its way to a task may still begin that task.
    pub(super) fn has_closed(&mut self) {
        for worker in &mut self.workers {
            let looks = worker.in_spell || matches!(worker.doing, Doing::Taking { .. });
            worker.may_begin = looks && worker.rest == Rest::Awake;
        }
    }

    /// The number of strands that are ready and not begun.
    pub(super) fn waiting(&self) -> u64 {
        self.queued + self.injected.len() as u64 + self.in_hand + self.carried
    }

    /// True if there is a strand that a thief could take.
    pub(super) fn shows_task(&self) -> bool {
        self.queued > 0 || !self.injected.is_empty()
    }

    /// The number of strands that a thief could take.
    pub(super) fn shown(&self) -> u64 {
        self.queued + self.injected.len() as u64
    }

    pub(super) fn sleep(&self) -> &Sleep<Cells> {
        self.sleep.as_deref().expect("a program that is there has workers")
    }

    /// The number of workers that are awake.
    pub(super) fn awake(&self) -> u32 {
        self.workers.len() as u32 - self.asleep - self.retired - self.rising
    }

    pub(super) fn set_busy(&mut self, now: u64, worker: u32, busy: bool) {
        self.busy_time = (self.busy_time(now), now);
        self.busy = self.busy.wrapping_add_signed(if busy { 1 } else { -1 });
        self.workers[worker as usize].set_busy(now, busy);
    }

    /// Returns A-STEAL's usage of the program: the nanoseconds for which workers had a task, preempted or not.
    pub(super) fn busy_time(&self, now: u64) -> u64 {
        let (sum, until) = self.busy_time;
        sum + u64::from(self.busy) * (now - until)
    }

    /// Accounts for `elapsed` nanoseconds of a worker on a core of this speed, but not beyond the end of its action.
    pub(super) fn spend(&mut self, worker: u32, elapsed: u64, speed: u64) {
        let worker = &mut self.workers[worker as usize];
        let elapsed = worker.advance(elapsed, speed);
        worker.times.on_core += elapsed;
        if let Some(quota) = &mut self.quota {
            quota.spend(elapsed);
        }
        match worker.doing {
            Doing::Strand(_) => self.spent.work += elapsed,
            Doing::Acting(Effect::Step(Step::LookForQueue)) => self.spent.mug += elapsed,
            _ => self.spent.steal += elapsed,
        }
    }

    pub(super) fn spent(&self) -> Cycles {
        self.spent
    }

    /// Nanoseconds that the program's threads waited for a core, including former threads.
    pub(super) fn waited(&self) -> u64 {
        self.waited + self.workers.iter().map(|worker| worker.times.for_core).sum::<u64>()
    }

    pub(super) fn fate(&self) -> Fate {
        let traffic = self.cells.traffic();
        let counts = Counts {
            barriers: traffic.barriers(),
            fences: traffic.fences(),
            wakeups: traffic.wakeups(),
            shared_writes: traffic.shared_writes(),
            lost: self.share.as_ref().and_then(|share| share.activation.member()).map_or(0, Part::lost),
            ..self.counts
        };
        Fate { ended: self.ended, died: self.died, began: self.began_at, spent: self.spent, counts }
    }

    pub(super) fn numbers(&self) -> String {
        let Pool { queued, in_hand, carried, busy, asleep, retired, rising, .. } = self;
        format!(
            "{queued} strands queued, {} injected, {in_hand} in hand, {carried} carried; of {} workers {busy} busy, {asleep} asleep, {retired} \
             retired, {rising} rising; {:?}; {}",
            self.injected.len(),
            self.workers.len(),
            self.sleep(),
            self.policy
        )
    }

    /// Returns the rest state of the worker that follows from its rest word and its action.
    pub(super) fn rest_of(&self, worker: u32) -> Rest {
        let me = WorkerId(worker);
        match self.workers[worker as usize].doing {
            Doing::Rising => Rest::Rising,
            Doing::Acting(Effect::Wait { .. }) | Doing::Waiting if self.sleep().is_retired(me) => Rest::Retired,
            Doing::Waiting => Rest::Asleep,
            Doing::Acting(Effect::Wait { .. }) if self.sleep().is_asleep(me) => Rest::Asleep,
            _ => Rest::Awake,
        }
    }

    /// Updates the rest state of a worker whose rest word or action has changed, and the counts of rest states.
    pub(super) fn note_rest(&mut self, worker: u32) {
        let rest = self.rest_of(worker);
        let before = std::mem::replace(&mut self.workers[worker as usize].rest, rest);
        for (rest, change) in [(before, -1), (rest, 1)] {
            let count = match rest {
                Rest::Awake => continue,
                Rest::Asleep => &mut self.asleep,
                Rest::Retired => &mut self.retired,
                Rest::Rising => &mut self.rising,
            };
            *count = count.wrapping_add_signed(change);
        }
    }
}

/// All programs, in the order in which they were submitted.
#[derive(Default)]
pub(super) struct Pools(pub(super) Vec<Pool>);

impl Pools {
    pub(super) fn of(&self, program: u32) -> &Pool {
        &self.0[program as usize]
    }

    pub(super) fn worker(&self, Thread { program, worker }: Thread) -> &Worker {
        &self.0[program as usize].workers[worker as usize]
    }

    pub(super) fn worker_mut(&mut self, Thread { program, worker }: Thread) -> &mut Worker {
        &mut self.0[program as usize].workers[worker as usize]
    }
}

impl Host {
    pub(super) fn pool(&self, program: u32) -> &Pool {
        self.pools.of(program)
    }

    pub(super) fn pool_mut(&mut self, program: u32) -> &mut Pool {
        &mut self.pools.0[program as usize]
    }

    pub(super) fn worker(&self, thread: Thread) -> &Worker {
        self.pools.worker(thread)
    }

    pub(super) fn worker_mut(&mut self, thread: Thread) -> &mut Worker {
        self.pools.worker_mut(thread)
    }

    pub(super) fn expect(&mut self, holds: Result<(), String>) {
        if let Err(what) = holds
            && self.wrong.is_none()
        {
            self.wrong = Some(what);
        }
    }

    pub(super) fn comes(&mut self, program: u32) {
        let pool = self.pool_mut(program);
        if pool.is_over() {
            return;
        }
        pool.came = true;
        let roots = match &mut pool.work {
            Work::Graph(program) => [program.root()].into_iter().chain(program.others()).collect(),
            Work::Network(network) => network.start(),
        };
        pool.ran_on = vec![0; roots.len()];
        let created = roots.iter().try_for_each(|root| pool.ledger.create(root.id));
        self.expect(created);
        let Pool { policy, seed, size, nice, .. } = *self.pool(program);
        let cores = self.kernel.len();
        // The workers start on different cores.
        let worker = |nth| Worker::new(policy.thief(WorkerId(nth), size, seed), nth as usize % cores, nice);
        let pool = self.pool_mut(program);
        pool.workers = (0..size).map(worker).collect();
        pool.bells = vec![Cell::new(false); size as usize];
        let definition = Definition::of(&policy);
        pool.sleep = Some(Box::new(Sleep::new(pool.cells.clone(), size, definition.waking, definition.counts_roles)));
        self.begin_to_rest(program);
        for root in roots {
            self.pool_mut(program).injected.push_back(root);
            self.injected(program);
        }
        self.join_table(program);
        self.begin_period(program);
        for worker in 0..size {
            if self.record.is_some() {
                self.tell_record(Line::Thief { program, worker, policy: policy.to_string(), workers: size, seed });
            }
            let thread = Thread { program, worker };
            self.acting = Some(thread);
            let now = self.now;
            self.pool_mut(program).set_busy(now, worker, true);
            self.becomes_thief(thread);
            self.enqueue(thread);
        }
        self.acting = None;
        self.begin_to_share(program);
    }

    pub(super) fn dies(&mut self, program: u32) {
        let now = self.now;
        let pool = self.pool_mut(program);
        if pool.is_there() {
            pool.died = Some(now);
            if let Some(slot) = pool.share.as_ref().map(|share| share.slot) {
                self.table.dies(slot);
            }
        }
    }

    /// Completes an event for a program that the event concerned: removes a program that is over, or moves threads that
    /// are on cores where they may not run.
    pub(super) fn settle(&mut self, program: u32) {
        let pool = self.pool_mut(program);
        if pool.is_over() && !pool.workers.is_empty() {
            let workers = pool.workers.len() as u32;
            self.left -= 1;
            self.endless -= usize::from(self.pool(program).is_endless());
            for worker in 0..workers {
                self.deactivate(Thread { program, worker });
            }
            let pool = self.pool_mut(program);
            pool.waited = pool.waited();
            (pool.workers, pool.sleep, pool.bells) = (Vec::new(), None, Vec::new());
            (0..self.kernel.len()).for_each(|core| self.dispatch(core));
            // A program that has died does not leave the table: other programs remove it.
            if let Some(share) = self.pool(program).share.as_ref().filter(|_| self.pool(program).ended.is_some()) {
                self.table.leave(share.slot);
                self.deliver_bells();
            }
        } else if pool.is_misplaced.take() {
            self.migrate_misplaced(program);
        }
        self.note_starved(program);
    }

    /// Begins a task that the worker has found, or taken from its queue.
    pub(super) fn begin_anew(&mut self, thread: Thread, strand: Strand) {
        if self.pool(thread.program).is_closed() && !std::mem::take(&mut self.worker_mut(thread).may_begin) {
            self.expect(Err(format!("{thread:?} begins strand {} in a closed pool", strand.id)));
        }
        self.begin(thread, strand);
    }

    pub(super) fn begin(&mut self, thread: Thread, strand: Strand) {
        self.run_strand(thread, strand);
        let now = self.now;
        let pool = self.pool_mut(thread.program);
        pool.began_at.get_or_insert(now);
        let begun = pool.ledger.begin(strand.id);
        let sleep = match &pool.work {
            Work::Graph(program) => Some(program.sleep(strand.id)),
            Work::Network(_) => {
                pool.ran_on[strand.id as usize] = thread.worker;
                None
            }
        };
        pool.workers[thread.worker as usize].begun += 1;
        self.expect(begun);
        match sleep {
            None => self.keep_in_kernel(thread, self.costs.switch_task),
            Some(0) => {}
            Some(sleep) => self.block(thread, sleep),
        }
    }

    pub(super) fn run_strand(&mut self, thread: Thread, strand: Strand) {
        let worker = self.worker_mut(thread);
        (worker.doing, worker.left) = (Doing::Strand(strand.id), strand.length.get());
    }

    fn finish(&mut self, thread: Thread, strand: u32) {
        let pool = self.pool_mut(thread.program);
        let mut made = Vec::new();
        match &mut pool.work {
            Work::Graph(program) => program.done(strand, &mut made),
            Work::Network(network) => {
                let done = network.done(strand);
                return self.step_is_done(thread, strand, done);
            }
        }
        let mut noted = pool.ledger.end(strand);
        for strand in &made {
            noted = noted.and(pool.ledger.create(strand.id));
        }
        if pool.ledger.is_empty() {
            self.expect(noted);
            return self.has_ended(thread);
        }
        // The worker continues with the newest strand, which no thief sees.
        let next = made.pop();
        let pushed = made.len() as u64;
        if pushed > 0 {
            self.catch_up(thread.program);
        }
        let pool = self.pool_mut(thread.program);
        pool.queued += pushed;
        pool.workers[thread.worker as usize].ready.extend(made);
        self.expect(noted);
        if pushed > 0 {
            let held = self.lock_queue(thread, pushed) + self.disturbance(thread);
            self.keep_in_kernel(thread, held);
            let met_bell = self.pushed(thread, pushed);
            if self.pool(thread.program).is_closed() {
                if !met_bell {
                    self.expect(Err(format!("{thread:?} forks in a closed pool, but has no bell")));
                }
                next.into_iter().for_each(|next| self.pool_mut(thread.program).find(thread.worker, next));
                return self.rests(thread);
            }
        }
        match next {
            Some(next) => self.begin(thread, next),
            None => self.take_own(thread, false),
        }
    }

    /// Handles the end of the program's last strand. The program ends or repeats, as if the next execution were
    /// handed in from outside.
    fn has_ended(&mut self, thread: Thread) {
        self.catch_up(thread.program);
        let now = self.now;
        let pool = self.pool_mut(thread.program);
        if !pool.repeats {
            pool.ended = Some(now);
            return;
        }
        pool.executions.push(now);
        self.begins_again(thread.program);
        self.take_own(thread, false);
    }

    /// Hands in the next execution of a repeating program, if the program is there.
    pub(super) fn begins_again(&mut self, program: u32) {
        let pool = self.pool_mut(program);
        if !pool.is_there() {
            return;
        }
        let Work::Graph(work) = &mut pool.work else { return };
        let root = work.root();
        let created = pool.ledger.create(root.id);
        pool.injected.push_back(root);
        self.expect(created);
        self.injected(program);
    }

    /// Handles the end of a step of a task that can block.
    fn step_is_done(&mut self, thread: Thread, task: u32, Done { next, unblocked, woken }: Done) {
        let now = self.now;
        let pool = self.pool_mut(thread.program);
        let mut noted = match next {
            Next::GoesOn(_) | Next::Waits => pool.ledger.goes_on(task),
            Next::Blocks => pool.ledger.block(task),
            Next::Ends => pool.ledger.end(task),
        };
        if let Some(other) = unblocked {
            noted = noted.and(pool.ledger.unblock(other.id));
        }
        if pool.ledger.is_empty() {
            pool.ended = Some(now);
            return self.expect(noted);
        }
        self.expect(noted);
        if let Some(other) = woken {
            self.wake_waiting(thread.program, other);
        }
        if next == Next::Waits {
            return self.wait_for_peer(thread, task);
        }
        let next = if let Next::GoesOn(strand) = next { Some(strand) } else { None };
        match unblocked {
            Some(other) => self.carry(thread, other, next),
            None => self.go_on(thread, next),
        }
    }

    /// Makes the thread wait in a system call, with the task in hand, until another task wakes it.
    fn wait_for_peer(&mut self, thread: Thread, task: u32) {
        self.worker_mut(thread).doing = Doing::Strand(task);
        self.deactivate(thread);
        self.worker_mut(thread).place = Place::Blocked;
    }

    /// Wakes the thread that waits with this task. It continues with the task.
    fn wake_waiting(&mut self, program: u32, strand: Strand) {
        let waits = |worker: &Worker| worker.doing == Doing::Strand(strand.id) && worker.place == Place::Blocked;
        let found = self.pool(program).workers.iter().position(waits);
        let Some(worker) = found else {
            return self.expect(Err(format!("no thread waits with task {}", strand.id)));
        };
        let thread = Thread { program, worker: worker as u32 };
        self.run_strand(thread, strand);
        let latency = self.wake_latency();
        self.plan(self.now + latency, Due::Up(thread));
    }

    /// Makes the worker continue with its task. Without a task, it takes the newest task of its queue.
    pub(super) fn go_on(&mut self, thread: Thread, next: Option<Strand>) {
        match next {
            Some(strand) => self.run_strand(thread, strand),
            None => self.take_own(thread, false),
        }
    }

    /// Handles the end of the worker's action.
    pub(super) fn complete(&mut self, thread: Thread) {
        self.acting = Some(thread);
        let worker = self.worker_mut(thread);
        worker.gives_way = false;
        let doing = worker.doing;
        worker.doing = Doing::Nothing;
        match doing {
            Doing::Strand(strand) => self.finish(thread, strand),
            Doing::Acting(effect) => {
                self.note_local(thread, effect);
                self.acted(thread, effect);
                self.defer(thread);
            }
            Doing::Placing { task, at, next } => self.placed(thread, task, at, next),
            Doing::Taking { leaves } => self.taken(thread, leaves),
            Doing::Rising => self.rises(thread),
            Doing::Nothing | Doing::Waiting | Doing::Deferred(..) => {
                self.expect(Err(format!("{thread:?} is on a core and does nothing")))
            }
        }
    }
}
