//! The world: a pool whose queues, cores and steps are modelled, and what must hold after each.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_os::affinity;
use comity_os::cpu_clock::ThreadId;
use comity_policy::{Policy, Role, Room, RunStatus, Sleeper, Thief, Victim, Waking, WorkerId};
use comity_protocol::activation::{Pool, State, Terms};
use comity_protocol::dialogue::{Crew, Dialogue, Effect, Hands, Outcome, Take};
use comity_protocol::platform::{Waker, Word};
use comity_protocol::sleep::{Roles, Work};
use comity_table::CoreSet;
use proptest::prelude::TestCaseError;

use super::machine::Machine;
use super::program::{Program, Task, bound_demands};
use crate::cores::activation::{self, Activation};
use crate::raw::sync::{Sleep, Threads};

/// More steps than any pool takes: several times what was seen.
const BOUND: usize = 20_000;

/// Where a worker stands between two steps.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// Tells its dialogue what came of the last effect.
    Tells(Outcome),
    /// Does what the dialogue said.
    Does(Effect),
    /// Waits until its word changes.
    Waits {
        has_timeout: bool,
    },
    /// Looks into its own queues.
    #[default]
    Looks,
    /// Runs the task; this many children are pushed.
    Runs(usize, usize),
    /// Has pushed and not yet listened for the bell.
    Pushed(usize, usize),
    /// Has heard and stopped it, and not yet looked for sleepers.
    Heard(usize, usize),
    /// Has placed at this worker, and not yet looked whether it sleeps.
    Placed(usize, usize, WorkerId),
    /// Others came in the middle of its step.
    WithinAStep,
    Ended,
}

#[derive(Default)]
struct Worker {
    at: At,
    /// Not here in the middle of a step.
    thief: Option<Box<dyn Thief>>,
    dialogue: Option<Dialogue>,
    /// The spell is a rest in a closed pool, with what is queued here.
    rests: bool,
    /// The task in whose middle it rests, with so many children pushed.
    midway: Option<(usize, usize)>,
    /// The task that the spell has found.
    found: Option<usize>,
    owed: u32,
    deque: VecDeque<usize>,
    /// Its inbox, the newest at the back.
    placed: VecDeque<usize>,
    /// Whether its next push looks for sleepers.
    bell: bool,
}

impl Worker {
    fn has_task(&self) -> bool {
        !self.deque.is_empty() || !self.placed.is_empty()
    }
}

/// What changes.
#[derive(Default)]
struct Now {
    workers: Vec<Worker>,
    injector: VecDeque<usize>,
    taken_by: Vec<Option<WorkerId>>,
    done: usize,
    ended: bool,
    /// Tasks that are still to come from outside.
    to_inject: VecDeque<usize>,
    /// A task was injected, or placed at this worker, and its sender has not yet looked for sleepers.
    injecting: Option<Option<WorkerId>>,
    /// The program has rested and is open, and those who rest have not yet been woken.
    reopening: bool,
    /// What was wrong first.
    wrong: Option<String>,
    trace: Vec<String>,
}

pub(super) struct World {
    policy: Policy,
    sleep: Sleep,
    /// If the policy shares cores.
    share: Option<Activation<Machine>>,
    program: Vec<Task>,
    now: RefCell<Now>,
    random: Cell<u64>,
    steps: Cell<usize>,
    /// From which step on the trace is kept, to explain a failure.
    traced_from: usize,
}

/// The pool, as the protocol sees it.
impl Work for World {
    fn deques_have_task(&self) -> bool {
        self.now().workers.iter().any(Worker::has_task)
    }

    fn injector_has_task(&self) -> bool {
        !self.now().injector.is_empty()
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        let is_open = !self.is_closed();
        let has_business = {
            let now = self.now();
            let worker = &now.workers[worker.index()];
            now.ended || (is_open && (worker.rests || !worker.placed.is_empty()))
        };
        self.others_come();
        has_business
    }

    fn ring_bells(&self) {
        self.change().workers.iter_mut().for_each(|worker| worker.bell = true);
    }
}

/// Its workers have no threads.
impl Pool for World {
    type Platform = Threads;

    fn sleep(&self) -> &Sleep {
        &self.sleep
    }

    fn confine(&self, _: WorkerId, _: Option<CoreSet>) -> bool {
        false
    }

    fn lead(&self, _: WorkerId, _: usize, _: bool) -> bool {
        false
    }

    fn up(&self, _: WorkerId) {}

    fn worker_is_up(&self) {}
}

impl Crew for World {
    type Cores = Machine;

    fn workers(&self) -> u32 {
        self.now().workers.len() as u32
    }

    /// The dialogue asks before each of its steps, and never within the lock of the books.
    fn activation(&self) -> Option<&Activation<Machine>> {
        self.others_come();
        self.share.as_ref()
    }
}

/// What a thief does on the queues.
struct OnQueues<'a> {
    world: &'a World,
    me: WorkerId,
}

impl OnQueues<'_> {
    fn keep(&self, task: usize) {
        let found = self.world.take(self.me, task);
        let before = self.world.worker(self.me).found.replace(found);
        assert_eq!(before, None, "a spell finds one task");
    }
}

impl Hands for OnQueues<'_> {
    fn steal(&mut self, victim: WorkerId) -> Take {
        let world = self.world;
        if world.now().workers[victim.index()].has_task() && world.below(8) == 0 {
            return Take::Missed;
        }
        let stolen = world.worker(victim).deque.pop_front();
        if let Some(task) = stolen {
            self.keep(task);
            return Take::Taken;
        }
        let mut placed = take(&mut world.worker(victim).placed);
        let Some(oldest) = placed.pop_front() else { return Take::Nothing };
        self.keep(oldest);
        if !placed.is_empty() {
            world.others_come();
            world.worker(victim).placed.extend(placed);
            world.others_come();
            world.sleep.after_placing(victim, Some(self.me), world);
        }
        Take::Taken
    }

    fn take_injected(&mut self) -> bool {
        let task = self.world.change().injector.pop_front();
        task.into_iter().for_each(|task| self.keep(task));
        task.is_some()
    }

    fn mug(&mut self, victim: WorkerId) -> bool {
        let (world, me) = (self.world, self.me);
        let mut queue = take(&mut world.worker(victim).deque);
        queue.extend(take(&mut world.worker(victim).placed));
        let Some(oldest) = queue.pop_front() else { return false };
        self.keep(oldest);
        world.carry(me, queue);
        true
    }

    fn inspect(&mut self, victim: WorkerId) -> Victim {
        let (sleep, now) = (&self.world.sleep, self.world.now());
        let worker = &now.workers[victim.index()];
        let role = match () {
            () if sleep.is_asleep(victim) => Role::Sleeper,
            () if !sleep.is_busy(victim) => Role::Thief,
            () if worker.has_task() => Role::Rich,
            () => Role::Poor,
        };
        let run_status = if self.world.below(4) == 0 { RunStatus::Preempted } else { RunStatus::Running };
        Victim { id: victim, role, run_status, wakeups_owed: worker.owed }
    }

    fn claim_wakeup(&mut self, from: WorkerId) -> bool {
        let mut worker = self.world.worker(from);
        let claimed = worker.owed > 0;
        worker.owed -= u32::from(claimed);
        claimed
    }

    fn wake(&mut self, whom: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        self.world.sleep.wake_peer(self.me, whom, appoint)
    }

    fn give_way(&mut self, _: Option<WorkerId>) {}

    fn pause(&mut self, _: u32) {}

    /// Now and then it ends early.
    fn wait(&mut self, at_rest: u32, _: Option<Duration>, _: bool) -> bool {
        self.world.sleep.parker(self.me).load(Ordering::Relaxed) != at_rest || self.world.below(8) == 0
    }
}

impl World {
    pub(super) fn new(policy: Policy, workers: u32, program: &Program, seed: u64) -> World {
        let thief = |me| policy.thief(WorkerId(me), workers, seed);
        World::with(policy, (0..workers).map(thief).collect(), program, seed)
    }

    pub(super) fn with(policy: Policy, thieves: Vec<Box<dyn Thief>>, program: &Program, seed: u64) -> World {
        let workers = thieves.len() as u32;
        let share = activation::of(policy, workers, false, affinity::of(ThreadId::current()));
        if let Some(share) = &share {
            share.enter(Machine::new(3, seed));
            share.set_alone(false);
        }
        World {
            sleep: Sleep::new(Threads, workers, policy.row().waking, policy.row().counts_roles),
            share,
            now: RefCell::new(Now {
                workers: thieves.into_iter().map(|thief| Worker { thief: Some(thief), ..Worker::default() }).collect(),
                taken_by: vec![None; program.tasks.len()],
                to_inject: program.roots.clone().into(),
                ..Now::default()
            }),
            program: bound_demands(&program.tasks, workers),
            policy,
            random: Cell::new(seed),
            steps: Cell::new(0),
            traced_from: usize::MAX,
        }
    }

    fn now(&self) -> Ref<'_, Now> {
        self.now.borrow()
    }

    fn change(&self) -> RefMut<'_, Now> {
        self.now.borrow_mut()
    }

    fn worker(&self, worker: WorkerId) -> RefMut<'_, Worker> {
        RefMut::map(self.change(), |now| &mut now.workers[worker.index()])
    }

    fn ids(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.now().workers.len() as u32).map(WorkerId)
    }

    fn is_closed(&self) -> bool {
        self.share.as_ref().is_some_and(Activation::is_closed)
    }

    fn below(&self, bound: usize) -> usize {
        // xorshift64*, which goes through all states but zero.
        let mut random = self.random.get().max(1);
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        self.random.set(random);
        (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    /// It waits, or goes on to wait without another look, and its word says that it rests.
    fn is_parked(&self, worker: WorkerId) -> bool {
        let at = self.now().workers[worker.index()].at;
        let waits = matches!(
            at,
            At::Waits { .. } | At::Does(Effect::Wait { .. }) | At::Tells(Outcome::Waited { has_timeout: false })
        );
        waits && self.sleep.is_at_rest(worker)
    }

    /// Its task waits, without a look at its own deque, until others have taken its children.
    fn is_stuck(&self, worker: WorkerId) -> bool {
        let now = self.now();
        let At::Runs(task, pushed) = now.workers[worker.index()].at else { return false };
        let Task { children, needs_thieves } = &self.program[task];
        *needs_thieves && pushed == children.len() && children.iter().any(|child| now.taken_by[*child].is_none())
    }

    fn can_step(&self, worker: WorkerId) -> bool {
        let at = self.now().workers[worker.index()].at;
        match at {
            At::Ended | At::WithinAStep => false,
            At::Waits { has_timeout } => has_timeout || !self.sleep.is_at_rest(worker),
            At::Runs(..) => !self.is_stuck(worker),
            _ => true,
        }
    }

    /// One step that is drawn. False: there is none.
    fn step(&self) -> bool {
        let workers = self.now().workers.len();
        let outside = {
            let now = self.now();
            usize::from(now.injecting.is_some() || !now.to_inject.is_empty())
        };
        let first = self.below(workers + outside + usize::from(self.share.is_some()));
        let coordinates = first == workers + outside;
        let mut from_first = (0..workers).map(|nth| WorkerId(((first + nth) % workers) as u32));
        let able = from_first.find(|worker| self.can_step(*worker));
        match able {
            Some(worker) if first < workers => self.step_of(worker),
            _ if coordinates => self.coordinate(),
            _ if outside == 1 => self.step_outside(),
            // It comes again, and each time the cores may have moved.
            _ if self.share.is_some() && !self.now().ended => self.coordinate(),
            _ => return false,
        }
        if let Err(what) = self.check() {
            self.change().wrong.get_or_insert(what);
        }
        true
    }

    /// A worker is in the middle of a step: others may take some.
    fn others_come(&self) {
        while self.below(8) == 0 && self.step() {}
    }

    fn note(&self, step: impl FnOnce() -> String) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > self.traced_from {
            let step = format!("{}   {:?}", step(), self.sleep);
            self.change().trace.push(step);
        }
    }

    // ---- What comes from outside. ----

    fn step_outside(&self) {
        self.note(|| "outside".to_owned());
        let injecting = self.change().injecting.take();
        match injecting {
            Some(None) => self.sleep.after_injection(Waker::GoesOn, self),
            Some(Some(last)) => self.sleep.after_placing(last, None, self),
            None => {
                let Some(root) = self.change().to_inject.pop_front() else { return };
                let last = self.lot_of_place();
                match last {
                    Some(last) => self.worker(last).placed.push_back(root),
                    None => self.change().injector.push_back(root),
                }
                self.change().injecting = Some(last);
            }
        }
    }

    /// Where a task is placed, if it is: as `Registry::place` does, not at a worker without a core.
    fn lot_of_place(&self) -> Option<WorkerId> {
        let last = WorkerId(self.below(self.now().workers.len()) as u32);
        (self.below(2) == 0 && !self.sleep.is_retired(last)).then_some(last)
    }

    /// The machine's other programs, and then the coordinator, whose orders are drawn.
    fn coordinate(&self) {
        self.note(|| "coordinator".to_owned());
        if self.rest() {
            return;
        }
        let (kind, alone) = (self.below(3), self.below(8) == 0);
        // Only the default shares time.
        let by_time = self.policy.row().name == "comity" && self.below(4) == 0;
        let room = [Room::Workers, Room::Cores, Room::One][self.below(3)];
        let Some(share) = self.share.as_ref().filter(|_| !self.now().ended) else { return };
        let machine = share.member().expect("it has entered");
        machine.another_moves();
        let off_core = self.ids().filter(|worker| self.is_stuck(*worker)).count() as u32;
        let queued = {
            let now = self.now();
            now.workers.iter().map(|worker| worker.deque.len() + worker.placed.len()).sum::<usize>()
                + now.injector.len()
        };
        let mut books = share.books();
        if kind == 0 {
            share.rung(&mut books, self, queued);
            return;
        }
        share.note_losses(&mut books, machine);
        share.stand(Terms { alone, by_time, room, usable: u32::MAX });
        books.off_core = off_core;
        if kind == 1 {
            share.claim(&mut books, machine, false);
        } else {
            share.take_back(&mut books, machine);
        }
        share.employ(&mut books, self, queued);
    }

    /// Now and then the program is asked to rest. Then its coordinator does nothing else until it goes on.
    fn rest(&self) -> bool {
        let (opens, closes) = (self.below(3) == 0, self.below(12) == 0);
        let Some(share) = &self.share else { return false };
        let was_closed = share.is_closed();
        let reopening = take(&mut self.change().reopening);
        if reopening {
            share.reopen(self);
            return true;
        }
        if self.now().ended || !(was_closed || closes) {
            return false;
        }
        let closed = !was_closed || !opens;
        share.stand(Terms { alone: false, by_time: closed, room: Room::Workers, usable: u32::MAX });
        share.close(closed);
        self.change().reopening = was_closed && !closed;
        // What waits was counted before, and more may have come.
        share.employ(&mut share.books(), self, 0);
        true
    }

    // ---- A worker. ----

    fn step_of(&self, me: WorkerId) {
        let at = std::mem::replace(&mut self.worker(me).at, At::WithinAStep);
        self.note(|| format!("worker {}: {at:?}", me.0));
        let next = self.advance(me, at);
        self.worker(me).at = next;
    }

    fn advance(&self, me: WorkerId, at: At) -> At {
        match at {
            At::Tells(outcome) => At::Does(self.tell(me, outcome)),
            At::Does(Effect::Begin { wakeups_owed }) => self.begin(me, wakeups_owed),
            At::Does(effect) => match effect.carry_out(me, &mut OnQueues { world: self, me }) {
                Some(outcome) => At::Tells(outcome),
                None => At::Waits { has_timeout: matches!(effect, Effect::Wait { timeout: Some(_), .. }) },
            },
            At::Waits { has_timeout } => At::Tells(Outcome::Waited { has_timeout }),
            At::Looks => self.look(me),
            At::Runs(task, pushed) if pushed < self.program[task].children.len() => {
                let child = self.program[task].children[pushed];
                if let Some(last) = self.lot_of_place().filter(|last| *last != me) {
                    self.worker(last).placed.push_back(child);
                    return At::Placed(task, pushed + 1, last);
                }
                self.worker(me).deque.push_back(child);
                At::Pushed(task, pushed + 1)
            }
            At::Runs(..) => {
                self.change().done += 1;
                At::Looks
            }
            At::Placed(task, pushed, last) => {
                self.sleep.after_placing(last, Some(me), self);
                At::Runs(task, pushed)
            }
            At::Pushed(task, pushed) => {
                let heard = take(&mut self.worker(me).bell) || !self.sleep.bell_may_stop();
                if heard { At::Heard(task, pushed) } else { At::Runs(task, pushed) }
            }
            At::Heard(task, pushed) => {
                self.sleep.push_met_bell(me, self);
                if self.is_closed() { self.begin_to_rest(me, Some((task, pushed))) } else { At::Runs(task, pushed) }
            }
            At::WithinAStep | At::Ended => unreachable!("such a worker is not stepped"),
        }
    }

    fn tell(&self, me: WorkerId, outcome: Outcome) -> Effect {
        let (mut thief, mut dialogue) = {
            let mut worker = self.worker(me);
            (worker.thief.take().expect("it is put back"), worker.dialogue.take().expect("a thief is in a dialogue"))
        };
        let effect = dialogue.next(&mut *thief, self, outcome);
        let mut worker = self.worker(me);
        (worker.thief, worker.dialogue) = (Some(thief), Some(dialogue));
        effect
    }

    /// The spell is over: the worker begins with what it has found, or goes on where it was.
    fn begin(&self, me: WorkerId, wakeups_owed: u32) -> At {
        let mut worker = self.worker(me);
        if !take(&mut worker.rests) {
            worker.owed = wakeups_owed;
        }
        let dialogue = worker.dialogue.take().expect("a thief is in a dialogue");
        let task = worker.found.take().map(|task| (task, 0)).or(worker.midway.take());
        drop(worker);
        dialogue.finish(self);
        task.map_or(At::Looks, |(task, pushed)| At::Runs(task, pushed))
    }

    /// What the worker does without a task, as in `Worker::serve`.
    fn look(&self, me: WorkerId) -> At {
        if self.is_closed() {
            return self.begin_to_rest(me, None);
        }
        let mut placed = VecDeque::new();
        let own = {
            let mut worker = self.worker(me);
            worker.deque.pop_back().or_else(|| {
                placed = take(&mut worker.placed);
                placed.pop_back()
            })
        };
        self.carry(me, placed);
        match own {
            Some(task) => At::Runs(self.take(me, task), 0),
            None if self.now().ended => At::Ended,
            None => {
                let owed = take(&mut self.worker(me).owed);
                self.worker(me).dialogue = Some(Dialogue::begin(me, owed, self));
                At::Tells(Outcome::Done)
            }
        }
    }

    fn begin_to_rest(&self, me: WorkerId, midway: Option<(usize, usize)>) -> At {
        let dialogue = Dialogue::begin_to_rest(me, self);
        let mut worker = self.worker(me);
        (worker.dialogue, worker.rests, worker.midway) = (Some(dialogue), true, midway);
        At::Tells(Outcome::Done)
    }

    /// The worker has these in its hand, and queues them.
    fn carry(&self, me: WorkerId, tasks: VecDeque<usize>) {
        if !tasks.is_empty() {
            self.others_come();
            self.worker(me).deque.extend(tasks);
            self.others_come();
            self.sleep.after_spawn(me, self);
        }
    }

    fn take(&self, me: WorkerId, task: usize) -> usize {
        assert_eq!(self.change().taken_by[task].replace(me), None, "task {task} runs once");
        task
    }

    // ---- What must hold. ----

    /// DESIGN §2: while a worker is busy, some thief is awake or will wake by itself, or nobody sleeps. Under `Hungry`
    /// and `EveryPush`, where the next push wakes, that holds whenever a task waits.
    fn check(&self) -> Result<(), String> {
        if self.now().ended {
            return Ok(());
        }
        self.check_books()?;
        let Roles { busy, thieves, sleepers } = self.sleep.roles();
        if self.policy.row().counts_roles && (busy + thieves + sleepers) as usize != self.now().workers.len() {
            return Err(format!("{busy} busy, {thieves} thieves and {sleepers} sleepers are not all workers"));
        }
        let is_asleep = |worker| self.is_parked(worker) && self.sleep.is_asleep(worker);
        if self.is_closed() || self.now().reopening || !self.ids().any(is_asleep) {
            return Ok(());
        }
        // It looks for tasks, or is between a change and the wake-up that it causes.
        let attends = |worker: WorkerId| match self.now().workers[worker.index()].at {
            At::Waits { has_timeout: true } | At::Looks | At::WithinAStep => true,
            At::Pushed(..) | At::Heard(..) | At::Placed(..) => true,
            At::Tells(_) | At::Does(_) | At::Waits { has_timeout: false } => !self.is_parked(worker),
            At::Runs(..) | At::Ended => false,
        };
        if self.now().injecting.is_some() || self.ids().any(attends) {
            return Ok(());
        }
        if self.deques_have_task() || self.injector_has_task() {
            return Err("a task waits, a worker sleeps, and nobody looks or will wake".into());
        }
        if self.sleep.anyone_busy() && matches!(self.policy.row().waking, Waking::NobodySleeps | Waking::Watchdog) {
            return Err("a worker is busy, another sleeps, and no thief is awake".into());
        }
        Ok(())
    }

    fn check_books(&self) -> Result<(), String> {
        let Some(share) = &self.share else { return Ok(()) };
        let books = share.books();
        let count = |state| self.ids().filter(|worker| books.is(*worker, state)).count();
        if count(State::Retired) == self.now().workers.len() && !share.is_closed() && !self.now().reopening {
            return Err("all workers have retired, and no task would wake one".into());
        }
        if let Some(worker) = self.ids().find(|worker| self.is_parked(*worker) && books.is(*worker, State::Awake)) {
            return Err(format!("worker {} rests, and the books say that it is awake", worker.0));
        }
        let (awake, retired) = (books.awake(), books.retired());
        if (awake as usize, retired as usize) != (count(State::Awake), count(State::Retired)) {
            return Err(format!("the books say {awake} awake and {retired} retired"));
        }
        let lends = share.sharing.sleeper == Sleeper::LendsCore && !share.is_free();
        let has_room = lends && books.held() < share.most();
        let wants = share.member().is_some_and(|machine| machine.wants.get());
        if has_room && retired > 0 && count(State::Asleep) == 0 && !wants {
            return Err("some have retired for want of a core, and nobody would ring when one becomes free".into());
        }
        if share.is_by_time() && books.held() > 0 {
            return Err("a core is held by a program that shares time".into());
        }
        Ok(())
    }

    /// Runs the program to its end, lets the pool fall asleep, and ends it.
    fn live(&self) -> Result<(), String> {
        let is_over = || self.now().done == self.program.len() && self.ids().all(|worker| self.is_parked(worker));
        while !is_over() {
            if !self.step() {
                return Err("nobody can move, and tasks are left".into());
            }
            self.is_right()?;
            if self.steps.get() > BOUND {
                let left = self.program.len() - self.now().done;
                return Err(format!("{left} tasks are left, or a pool without work stays awake, after {BOUND} steps"));
            }
        }
        if self.now().taken_by.contains(&None) {
            return Err("not every task was taken".into());
        }
        self.end();
        while self.step() {}
        let all_ended = self.now().workers.iter().all(|worker| matches!(worker.at, At::Ended));
        if all_ended { Ok(()) } else { Err("the pool has ended and a worker sleeps".into()) }
    }

    fn is_right(&self) -> Result<(), String> {
        self.change().wrong.take().map_or(Ok(()), Err)
    }

    /// Ends the pool, as `Registry::end` does.
    fn end(&self) {
        if let Some(share) = &self.share {
            share.end();
        }
        self.change().ended = true;
        self.ids().for_each(|worker| self.sleep.wake_for_business(worker));
    }

    fn explain(&self, what: &str) -> TestCaseError {
        let now = self.now();
        let tell = |worker: &Worker| {
            let Worker { at, deque, placed, found, midway, .. } = worker;
            format!("{at:?} with {deque:?}, placed {placed:?}, found {found:?}, midway {midway:?}")
        };
        let workers: Vec<String> = now.workers.iter().map(tell).collect();
        let outside = format!("injector {:?}, to come {:?}", now.injector, now.to_inject);
        let rest = format!("closed {}, reopening {}", self.is_closed(), now.reopening);
        let what = format!("{what}; now\n{}\n{outside}; {rest}; {:?}", workers.join("\n"), self.sleep);
        TestCaseError::fail(format!("{what}\nunder {}, after\n{}", self.policy, now.trace.join("\n")))
    }
}

/// Lives through a world; after a failure through another, to tell how it came to that.
pub(super) fn lives(new: impl Fn() -> World) -> Result<(), TestCaseError> {
    let world = new();
    if world.live().is_ok() {
        return Ok(());
    }
    let world = World { traced_from: world.steps.get().saturating_sub(60), ..new() };
    let what = world.live().expect_err("a world is the same each time");
    Err(world.explain(&what))
}
