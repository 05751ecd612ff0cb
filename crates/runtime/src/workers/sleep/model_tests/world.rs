//! The world: a pool with model queues and model cores, and the choice of the next step.

mod check;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::mem::take;
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity_os::affinity;
use comity_os::cpu_clock::ThreadId;
use comity_policy::definition::Definition;
use comity_policy::{Level, Policy, Role, Room, RunStatus, Thief, Victim, WorkerId};
use comity_protocol::activation::{Mover, Pool, Terms};
use comity_protocol::dialogue::{Dialogue, Effect, Hands, KEPT_CORE, Outcome, Take};
use comity_protocol::platform::{Waker, Word};
use comity_protocol::sleep::Work;
use comity_protocol::table::Gain;
use comity_table::CoreSet;

use super::machine::Machine;
use super::program::{Program, Task, bound_demands};
use crate::cores::activation::{self, Activation};
use crate::raw::sync::{Sleep, Threads};

pub(super) use check::lives;

/// The next step of a worker.
#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// Tells its dialogue the outcome of the last effect.
    Tells(Outcome),
    /// Carries out the dialogue's effect.
    Does(Effect),
    /// Waits until its word changes.
    Waits {
        has_timeout: bool,
        /// True if the worker looks for tasks after the timeout, and not only at a core that its pool keeps.
        looks: bool,
    },
    /// Looks into its own queues.
    #[default]
    Looks,
    /// Runs the task, and has pushed this many children.
    Runs(usize, usize),
    /// Has pushed a task, and not yet looked at the bell.
    Pushed(usize, usize),
    /// Has found the bell ringing and stopped it, and not yet looked for sleepers.
    Heard(usize, usize),
    /// Has placed a task at this worker, and not yet looked whether that worker sleeps.
    Placed(usize, usize, WorkerId),
    /// Is in the middle of a step, while other threads take steps.
    WithinAStep,
    Ended,
}

#[derive(Default)]
struct Worker {
    at: At,
    /// The policy's thief. `None` in the middle of a step.
    thief: Option<Box<dyn Thief>>,
    dialogue: Option<Dialogue>,
    /// True if the worker sleeps because the pool is closed. Its tasks stay queued.
    rests: bool,
    /// The task in the middle of which the worker sleeps, and the number of children that the task has pushed.
    midway: Option<(usize, usize)>,
    /// The task that the spell has found.
    found: Option<usize>,
    owed: u32,
    deque: VecDeque<usize>,
    /// The worker's inbox, the newest task at the back.
    placed: VecDeque<usize>,
    /// True if the worker's next push looks for sleepers.
    bell: bool,
}

impl Worker {
    fn has_task(&self) -> bool {
        !self.deque.is_empty() || !self.placed.is_empty()
    }
}

/// The mutable state of a world.
#[derive(Default)]
struct Now {
    workers: Vec<Worker>,
    injector: VecDeque<usize>,
    taken_by: Vec<Option<WorkerId>>,
    done: usize,
    ended: bool,
    /// Tasks that threads outside of the pool will inject or place.
    to_inject: VecDeque<usize>,
    /// Set if a task was injected, or placed at this worker, and its sender has not yet looked for sleepers.
    injecting: Option<Option<WorkerId>>,
    /// True if the pool has been opened, and the workers that sleep because it was closed have not been woken yet.
    reopening: bool,
    /// The first violation of an invariant.
    wrong: Option<String>,
    trace: Vec<String>,
}

pub(super) struct World {
    policy: Policy,
    sleep: Sleep,
    /// The pool's activation, if the policy shares cores.
    share: Option<Activation<Machine>>,
    program: Vec<Task>,
    now: RefCell<Now>,
    random: Cell<u64>,
    steps: Cell<usize>,
    /// True if the coordinator is in the middle of a step.
    coordinates: Cell<bool>,
    /// The step from which the trace is kept, to explain a failure.
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

/// A pool of workers without threads.
impl Pool for World {
    type Platform = Threads;
    type Cores = Machine;

    fn workers(&self) -> u32 {
        self.now().workers.len() as u32
    }

    /// Lets other threads take steps. The dialogue calls this before each of its steps, and never while it holds the
    /// lock of the books.
    fn activation(&self) -> Option<&Activation<Machine>> {
        self.others_come();
        self.share.as_ref()
    }

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

    fn caller_runs(&self) -> bool {
        self.below(2) == 0
    }

    fn worker_is_up(&self) {}
}

/// The actions of a thief on the queues.
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

    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        self.world.sleep.wake_peer(self.me, sleeper, appoint)
    }

    fn give_way(&mut self, _: Option<WorkerId>) {}

    fn accelerate(&mut self, _: WorkerId, _: Level) -> bool {
        self.world.below(2) == 0
    }

    fn pause(&mut self, _: u32) {}

    /// Returns true if the word has changed. At random, also returns true if it has not.
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
            share.enter(Box::new(Machine::new(3, seed)));
            share.set_alone(false);
        }
        World {
            sleep: Sleep::new(Threads, workers, Definition::of(&policy).waking, Definition::of(&policy).counts_roles),
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
            coordinates: Cell::new(false),
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

    fn is_closed(&self) -> bool {
        self.share.as_ref().is_some_and(Activation::is_closed)
    }

    fn below(&self, bound: usize) -> usize {
        // xorshift64* reaches all states but zero.
        let mut random = self.random.get().max(1);
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        self.random.set(random);
        (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    /// True if the worker waits, or is about to wait without another look, and its rest word has a resting value.
    fn is_parked(&self, me: WorkerId, at: At) -> bool {
        let waits = matches!(
            at,
            At::Waits { .. } | At::Does(Effect::Wait { .. }) | At::Tells(Outcome::Waited { has_timeout: false })
        );
        waits && self.sleep.is_at_rest(me)
    }

    /// True if the worker's task waits until other workers have taken its children. Such a worker does not look at
    /// its own deque.
    fn is_stuck(&self, now: &Now, at: At) -> bool {
        let At::Runs(task, pushed) = at else { return false };
        let Task { children, needs_thieves } = &self.program[task];
        *needs_thieves && pushed == children.len() && children.iter().any(|child| now.taken_by[*child].is_none())
    }

    fn can_step(&self, now: &Now, worker: usize) -> bool {
        match now.workers[worker].at {
            At::Ended | At::WithinAStep => false,
            At::Waits { has_timeout, .. } => has_timeout || !self.sleep.is_at_rest(WorkerId(worker as u32)),
            at => !self.is_stuck(now, at),
        }
    }

    /// Takes one step, drawn at random. Returns false if no step is possible.
    fn step(&self) -> bool {
        let now = self.now();
        let workers = now.workers.len();
        let outside = usize::from(now.injecting.is_some() || !now.to_inject.is_empty());
        let first = self.below(workers + outside + usize::from(self.share.is_some()));
        let coordinates = first == workers + outside;
        let able = (0..workers).map(|nth| (first + nth) % workers).find(|worker| self.can_step(&now, *worker));
        let ended = now.ended;
        drop(now);
        match able {
            Some(worker) if first < workers => self.step_of(WorkerId(worker as u32)),
            _ if coordinates => self.coordinate(),
            _ if outside == 1 => self.step_outside(),
            // The coordinator can always look again, because other programs may have claimed or released cores.
            _ if self.share.is_some() && !ended => self.coordinate(),
            _ => return false,
        }
        if let Err(what) = self.check() {
            self.change().wrong.get_or_insert(what);
        }
        true
    }

    /// Lets other threads take steps while a worker is in the middle of a step.
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

    // Steps from outside.

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

    /// Draws the worker at which a task from outside is placed. `None`: the task is injected. Like `Registry::place`,
    /// does not choose a retired worker.
    fn lot_of_place(&self) -> Option<WorkerId> {
        let last = WorkerId(self.below(self.now().workers.len()) as u32);
        (self.below(2) == 0 && !self.sleep.is_retired(last)).then_some(last)
    }

    /// Lets another program change cores, and then the coordinator look, with terms that are drawn at random.
    fn coordinate(&self) {
        // The coordinator is one thread. While other threads take steps in the middle of its step, it takes no second
        // one.
        if self.coordinates.replace(true) {
            return;
        }
        self.note(|| "coordinator".to_owned());
        if !self.rest() {
            self.quantum();
        }
        self.coordinates.set(false);
    }

    fn quantum(&self) {
        let (kind, alone) = (self.below(3), self.below(8) == 0);
        // Only the default policy shares time.
        let by_time = self.policy.name() == "comity" && self.below(4) == 0;
        let room = [Room::Workers, Room::Cores, Room::One][self.below(3)];
        let Some(share) = self.share.as_ref().filter(|_| !self.now().ended) else { return };
        let machine = share.member().expect("it has entered");
        machine.another_moves();
        let now = self.now();
        let stuck = now.workers.iter().filter(|worker| self.is_stuck(&now, worker.at)).count() as u32;
        let queued = now.workers.iter().map(|worker| worker.deque.len() + worker.placed.len()).sum::<usize>();
        let queued = queued + now.injector.len();
        drop(now);
        let mut books = share.books();
        if kind == 0 {
            share.rung(&mut books, self, queued);
            return;
        }
        share.note_losses(&mut books, machine);
        share.stand(Terms { alone, by_time, room, usable: u32::MAX });
        books.off_core = stuck;
        share.gain(&mut books, [if kind == 1 { Gain::Claim { own_only: false } } else { Gain::TakeBack }]);
        share.employ(&mut books, self, queued, Mover::Look);
    }

    /// Closes or opens the pool at random, because the program is paused or out of turn. Returns true if this was the
    /// coordinator's step: while the pool is closed, the coordinator does nothing else.
    fn rest(&self) -> bool {
        let (opens, closes) = (self.below(3) == 0, self.below(12) == 0);
        let Some(share) = &self.share else { return false };
        let was_closed = share.is_closed();
        let reopening = self.now().reopening;
        if reopening {
            share.reopen(self);
            self.change().reopening = false;
            return true;
        }
        if self.now().ended || !(was_closed || closes) {
            return false;
        }
        let closed = !was_closed || !opens;
        // A program that is out of turn holds no core, unless it may claim a core that has become free.
        let by_time = closed && (self.policy.name() != "comity" || self.below(2) == 0);
        let machine = share.member().expect("it has entered");
        machine.another_moves();
        share.note_losses(&mut share.books(), machine);
        share.stand(Terms { alone: false, by_time, room: Room::Workers, usable: u32::MAX });
        if !by_time {
            share.gain(&mut share.books(), [Gain::Claim { own_only: false }]);
        }
        share.close(closed);
        self.change().reopening = was_closed && !closed;
        // The coordinator may have counted the waiting tasks before some of them came. So this passes the lowest
        // possible count: the tasks in the middle of which workers sleep.
        let mut books = share.books();
        let midway = books.midway() as usize;
        share.employ(&mut books, self, midway, Mover::Look);
        true
    }

    // Steps of a worker.

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
                None => {
                    let timeout = if let Effect::Wait { timeout, .. } = effect { timeout } else { None };
                    At::Waits { has_timeout: timeout.is_some(), looks: timeout.is_some_and(|time| time != KEPT_CORE) }
                }
            },
            At::Waits { has_timeout, .. } => At::Tells(Outcome::Waited { has_timeout }),
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

    /// Ends the spell: the worker begins the task that it has found, or continues the task in which it slept.
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

    /// Takes a step of a worker without a task, like `Worker::serve`.
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

    /// Queues tasks that the worker has taken from its inbox or from a peer.
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
}
