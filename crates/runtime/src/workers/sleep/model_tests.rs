//! The product's own sleep protocol and policies in a model world: up to four workers whose steps are interleaved at
//! random, with the liveness invariant checked after every step.
//!
//! The world is a second shell: it does what a policy's actions say on model queues, and calls the same steps of
//! [`Sleep`] as the runtime does, one at a time. A parked worker is one whose word says so.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

use comity_os::affinity;
use comity_os::cpu_clock::ThreadId;
use comity_policy::{
    Action, Event, Policy, Role, Room, RunStatus, SleepRefusal, Sleeper, Thief, Victim, WakeReason, Waking, WorkerId,
};
use comity_table::CoreSet;
use proptest::prelude::*;

use super::{Admission, Sleep, Woken, Work, park};
use crate::cores::activation::{self, Activation, Cores, Pool, State, Terms, Up};
use crate::raw::sync::{Threads, Waker};

/// A task of the model program.
#[derive(Clone, Debug)]
struct Task {
    /// Tasks that it pushes, one after the other.
    children: Vec<usize>,
    /// After its last push it keeps its core until somebody else has taken every child: a long serial part.
    needs_thieves: bool,
}

/// Queues and what has become of the tasks.
#[derive(Default)]
struct Queues {
    deques: Vec<VecDeque<usize>>,
    /// The inboxes, the newest at the back.
    placed: Vec<VecDeque<usize>>,
    injector: VecDeque<usize>,
    /// Whose next push looks for sleepers.
    bells: Vec<Cell<bool>>,
    /// The program rests: no task begins.
    closed: bool,
    /// Who rests in the middle of this task, with so many children pushed.
    midway: Vec<Option<(usize, usize)>>,
    ended: bool,
}

/// A worker's view, as `view::View` is in the product.
struct Seen<'a>(&'a Queues);

impl Work for Seen<'_> {
    fn deques_have_task(&self) -> bool {
        self.0.deques.iter().chain(&self.0.placed).any(|deque| !deque.is_empty())
    }

    fn injector_has_task(&self) -> bool {
        !self.0.injector.is_empty()
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        let worker = worker.index();
        // A thief has tasks in its own deque only if it left them there to rest.
        let has_left = self.0.midway.get(worker).is_some_and(Option::is_some) || !self.0.deques[worker].is_empty();
        let waits = has_left || !self.0.placed[worker].is_empty();
        self.0.ended || (waits && !self.0.closed)
    }

    fn ring_bells(&self) {
        self.0.bells.iter().for_each(|bell| bell.set(true));
    }
}

/// The same with the protocol itself, as the pool's share sees it.
struct Staff<'a>(&'a Sleep, &'a Queues);

impl Work for Staff<'_> {
    fn deques_have_task(&self) -> bool {
        Seen(self.1).deques_have_task()
    }

    fn injector_has_task(&self) -> bool {
        Seen(self.1).injector_has_task()
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        Seen(self.1).has_business(worker)
    }

    fn ring_bells(&self) {
        Seen(self.1).ring_bells();
    }
}

/// Its workers have no threads.
impl Pool for Staff<'_> {
    type Platform = Threads;

    fn sleep(&self) -> &Sleep {
        self.0
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

/// A machine's cores: this pool's, those of others, and the rest is free. Whose own they are is decided by lot.
struct Machine {
    cores: usize,
    held: RefCell<CoreSet>,
    others: RefCell<CoreSet>,
    /// Whether the pool has said that it wants one.
    wants: Cell<bool>,
    lot: Cell<u64>,
}

impl Machine {
    fn draw(&self) -> bool {
        self.lot.set(self.lot.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        self.lot.get() >> 63 == 1
    }

    fn free(&self) -> Option<usize> {
        (0..self.cores).find(|core| !self.held.borrow().contains(*core) && !self.others.borrow().contains(*core))
    }

    /// Another program claims a core, takes one back or releases one.
    fn another_moves(&self) {
        let first = |set: &RefCell<CoreSet>| set.borrow().iter().next();
        if self.draw() {
            if let Some(core) = first(&self.others) {
                self.others.borrow_mut().remove(core);
            }
        } else if let Some(core) = self.free().or_else(|| first(&self.held)) {
            self.held.borrow_mut().remove(core);
            self.others.borrow_mut().insert(core);
        }
    }
}

impl Cores for Machine {
    fn held(&self) -> CoreSet {
        *self.held.borrow()
    }

    fn claim(&self, _: bool) -> Option<usize> {
        self.free().inspect(|core| self.held.borrow_mut().insert(*core))
    }

    fn take_back(&self) -> Option<usize> {
        let core = self.others.borrow().iter().next().filter(|_| self.draw())?;
        self.others.borrow_mut().remove(core);
        self.held.borrow_mut().insert(core);
        Some(core)
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        let mut held = self.held.borrow_mut();
        let core = core.or_else(|| held.iter().next()).filter(|core| held.contains(*core))?;
        held.remove(core);
        Some(core)
    }

    fn any_free(&self) -> bool {
        self.free().is_some()
    }

    fn want(&self, wants: bool) {
        self.wants.set(wants);
    }

    fn decline(&self) {}

    fn is_core_wanted(&self) -> bool {
        false
    }

    fn note_lost(&self, _: u32) {}

    fn held_by_program(&self) -> CoreSet {
        self.held()
    }
}

/// Where a worker stands between two steps.
#[derive(Clone, Debug)]
enum At {
    /// Asks its policy what to do about this event.
    Thief(Event),
    /// Does what the policy said.
    Acts(Action),
    /// Announced its sleep.
    Announced,
    /// The look is done.
    Admitted(Admission),
    /// In a pool that shares cores: is in the books as one that rests.
    Rests,
    /// Woken, and not yet in the books.
    Up(Woken),
    /// There is no core for it.
    Leaves,
    /// In the books, and in its word, as one that has retired.
    Retired,
    /// Has passed its duties on.
    Passed,
    /// Took this task; says so next.
    Holds(usize),
    /// Its policy said to run; hands over next.
    HandsOver(usize),
    /// Runs the task; this many children are pushed.
    Runs(usize, usize),
    /// Has pushed and not yet listened for the bell.
    Pushed(usize, usize),
    /// Has heard and stopped it, and not yet looked for sleepers.
    Heard(usize, usize),
    /// Has placed at this worker, and not yet looked whether it sleeps.
    Placed(usize, usize, WorkerId),
    /// Has emptied its inbox, and not yet queued what it found there.
    Carries(VecDeque<usize>),
    /// Has queued it but for this task, and not yet looked for sleepers.
    Carried(usize),
    /// Has taken this task from a worker's inbox, and not yet put the rest back.
    Robs(usize, WorkerId, VecDeque<usize>),
    /// Goes on with a task in whose middle it has rested; hands over next.
    GoesOn(usize, usize),
    /// Has put it back, and not yet looked for sleepers.
    PutBack(usize, WorkerId),
    Ended,
}

struct Worker {
    at: At,
    thief: Box<dyn Thief>,
    /// The task in hand while the policy says farewell.
    held: Option<usize>,
    owed: u32,
}

struct World {
    policy: Policy,
    sleep: Sleep,
    /// If the policy shares cores.
    share: Option<Activation<Machine>>,
    queues: Queues,
    workers: Vec<Worker>,
    program: Vec<Task>,
    taken_by: Vec<Option<usize>>,
    done: usize,
    /// Tasks that are still to come from outside.
    to_inject: VecDeque<usize>,
    /// A task was injected, or placed at this worker, and its sender has not yet looked for sleepers.
    injecting: Option<Option<WorkerId>>,
    /// The program has rested and is open, and those who rest have not yet been woken.
    reopening: bool,
    random: u64,
    /// The last steps, to explain a failure.
    trace: VecDeque<String>,
}

/// The policy as the world runs it: with thresholds small enough that sleep is never far.
fn hasty(policy: Policy) -> Policy {
    match policy.row().name {
        "bws" => "bws:sleep_threshold=2".parse().unwrap(),
        "bws-busy-wakes" => "bws-busy-wakes:sleep_threshold=2".parse().unwrap(),
        "comity" => "comity:rounds=1,pause=0".parse().unwrap(),
        _ => policy,
    }
}

impl World {
    fn new(policy: Policy, workers: u32, program: Vec<Task>, roots: Vec<usize>, seed: u64) -> World {
        let sleep = Sleep::new(Threads, workers, policy.row().waking, policy.row().counts_roles);
        (0..workers).for_each(|me| sleep.publish_thief(WorkerId(me)));
        let share = activation::of(policy, workers, false, affinity::of(ThreadId::current()));
        if let Some(share) = &share {
            share.enter(Machine {
                cores: 3,
                held: RefCell::default(),
                others: RefCell::default(),
                wants: Cell::default(),
                lot: Cell::new(seed),
            });
            share.set_alone(false);
        }
        World {
            sleep,
            share,
            queues: Queues {
                deques: vec![VecDeque::new(); workers as usize],
                placed: vec![VecDeque::new(); workers as usize],
                bells: vec![Cell::new(false); workers as usize],
                midway: vec![None; workers as usize],
                ..Queues::default()
            },
            workers: (0..workers)
                .map(|me| Worker {
                    at: At::Thief(Event::DequeEmpty { wakeups_owed: 0 }),
                    thief: policy.thief(WorkerId(me), workers, seed),
                    held: None,
                    owed: 0,
                })
                .collect(),
            taken_by: vec![None; program.len()],
            program,
            policy,
            done: 0,
            to_inject: roots.into(),
            injecting: None,
            reopening: false,
            random: seed,
            trace: VecDeque::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*, which goes through all states but zero.
        self.random = self.random.max(1);
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn is_parked(&self, worker: usize) -> bool {
        let rests = match self.workers[worker].at {
            At::Admitted(Admission::Park(_)) => self.share.is_none(),
            At::Rests => true,
            _ => false,
        };
        rests && self.sleep.is_at_rest(WorkerId(worker as u32))
    }

    /// Whether a task is to wake it.
    fn is_asleep(&self, worker: usize) -> bool {
        self.is_parked(worker) && self.sleep.is_asleep(WorkerId(worker as u32))
    }

    fn can_step(&self, worker: usize) -> bool {
        match self.workers[worker].at {
            At::Ended => false,
            At::Admitted(Admission::Park(_)) | At::Rests => !self.is_parked(worker),
            At::Runs(task, pushed) if pushed == self.program[task].children.len() => {
                let task = &self.program[task];
                // It waits, without looking at its own deque, until others have taken its children.
                !task.needs_thieves || task.children.iter().all(|child| self.taken_by[*child].is_some())
            }
            _ => true,
        }
    }

    /// One step of somebody. False: nobody can move.
    fn step(&mut self) -> bool {
        let workers = self.workers.len();
        let outside = usize::from(self.injecting.is_some() || !self.to_inject.is_empty());
        let first = self.below(workers + outside + usize::from(self.share.is_some()));
        if first == workers + outside {
            self.coordinate();
            return true;
        }
        if first == workers {
            self.step_outside();
            return true;
        }
        let Some(worker) = (0..workers).map(|nth| (first + nth) % workers).find(|worker| self.can_step(*worker)) else {
            if outside == 1 {
                self.step_outside();
            } else if self.share.is_some() {
                // It comes again, and each time the cores may have moved.
                self.coordinate();
            }
            return outside == 1 || (self.share.is_some() && !self.queues.ended);
        };
        let at = std::mem::replace(&mut self.workers[worker].at, At::Ended);
        self.note(format!("worker {worker}: {at:?}"));
        self.workers[worker].at = self.advance(worker, at);
        true
    }

    fn note(&mut self, step: String) {
        if self.trace.len() == 60 {
            self.trace.pop_front();
        }
        self.trace.push_back(format!("{step}   {:?}", self.sleep));
    }

    fn step_outside(&mut self) {
        match self.injecting.take() {
            Some(None) => self.sleep.after_injection(Waker::GoesOn, &Seen(&self.queues)),
            Some(Some(last)) => self.sleep.after_placing(last, None, &Seen(&self.queues)),
            None => {
                let Some(root) = self.to_inject.pop_front() else { return };
                let last = self.lot_of_place();
                match last {
                    Some(last) => self.queues.placed[last.index()].push_back(root),
                    None => self.queues.injector.push_back(root),
                }
                self.injecting = Some(last);
            }
        }
    }

    /// Where a task is placed, if it is: as `Registry::place` does, not at a worker without a core.
    fn lot_of_place(&mut self) -> Option<WorkerId> {
        let last = WorkerId(self.below(self.workers.len()) as u32);
        (self.below(2) == 0 && !self.sleep.is_retired(last)).then_some(last)
    }

    /// The machine's other programs, and then the coordinator.
    fn coordinate(&mut self) {
        self.note("coordinator".to_owned());
        if self.rest() {
            return;
        }
        let (kind, alone, ended) = (self.below(3), self.below(8) == 0, self.queues.ended);
        // Only the default shares time.
        let by_time = self.policy.row().name == "comity" && self.below(4) == 0;
        let room = [Room::Workers, Room::Cores, Room::One][self.below(3)];
        let Some(share) = &self.share else { return };
        let machine = share.member().expect("it has entered");
        if ended {
            return;
        }
        machine.another_moves();
        let waits = |worker: &Worker| match worker.at {
            At::Runs(task, pushed) => {
                let task = &self.program[task];
                let all_taken = || task.children.iter().all(|child| self.taken_by[*child].is_some());
                pushed == task.children.len() && task.needs_thieves && !all_taken()
            }
            _ => false,
        };
        let stuck = self.workers.iter().filter(|worker| waits(worker)).count() as u32;
        let queued = self.queues.deques.iter().chain(&self.queues.placed).map(VecDeque::len).sum::<usize>()
            + self.queues.injector.len();
        let staff = Staff(&self.sleep, &self.queues);
        let mut books = share.books();
        if kind == 0 {
            share.rung(&mut books, &staff, queued);
            return;
        }
        share.note_losses(&mut books, machine);
        share.stand(Terms { alone, by_time, room, usable: u32::MAX });
        books.off_core = stuck;
        if kind == 1 {
            share.claim(&mut books, machine, false);
        } else {
            share.take_back(&mut books, machine);
        }
        share.employ(&mut books, &staff, queued);
    }

    /// Now and then the program is asked to rest. Then its coordinator does nothing else until it goes on.
    fn rest(&mut self) -> bool {
        let (opens, closes) = (self.below(3) == 0, self.below(12) == 0);
        let Some(share) = &self.share else { return false };
        let staff = Staff(&self.sleep, &self.queues);
        if std::mem::take(&mut self.reopening) {
            share.reopen(&staff);
            return true;
        }
        if self.queues.ended || !(self.queues.closed || closes) {
            return false;
        }
        let closed = !self.queues.closed || !opens;
        share.stand(Terms { alone: false, by_time: closed, room: Room::Workers, usable: u32::MAX });
        share.close(closed);
        self.reopening = self.queues.closed && !closed;
        self.queues.closed = closed;
        let staff = Staff(&self.sleep, &self.queues);
        // What waits was counted before, and more may have come.
        share.employ(&mut share.books(), &staff, 0);
        true
    }

    fn advance(&mut self, worker: usize, at: At) -> At {
        let me = WorkerId(worker as u32);
        match at {
            At::Thief(event) => At::Acts(self.workers[worker].thief.next(event)),
            At::Acts(action) => self.act(worker, action),
            At::Announced => At::Admitted(self.sleep.admit(me, &Seen(&self.queues))),
            At::Admitted(Admission::Refused(refusal)) => match self.sleep.retract(me) {
                None => self.thief(worker, Event::SleepRefused(refusal)),
                Some(woken) => self.thief(worker, Event::Woken(reason(woken))),
            },
            At::Admitted(Admission::Park(_)) if self.share.is_some() => {
                let share = self.share.as_ref().expect("as above");
                share.fell_asleep(&Staff(&self.sleep, &self.queues), me);
                At::Rests
            }
            At::Rests => At::Up(park(&self.sleep, me, None).expect("stepped only when woken")),
            At::Up(woken) => {
                let staff = Staff(&self.sleep, &self.queues);
                match self.share.as_ref().expect("it rested").woke(&staff, me, staff.has_business(me)) {
                    Up::Stays => self.thief(worker, Event::Woken(reason(woken))),
                    Up::Retires => At::Leaves,
                }
            }
            At::Leaves => match self.retire(worker, false) {
                Some(at) => at,
                None => self.thief(worker, Event::Woken(WakeReason::Peer)),
            },
            At::Retired => {
                self.sleep.pass_on(me, &Seen(&self.queues));
                At::Passed
            }
            At::Passed if Seen(&self.queues).has_business(me) => {
                At::Up(self.sleep.retract(me).unwrap_or(Woken::Business))
            }
            At::Passed => At::Rests,
            At::Admitted(Admission::Park(timeout)) => {
                let woken = park(&self.sleep, me, timeout).expect("stepped only when woken");
                self.thief(worker, Event::Woken(reason(woken)))
            }
            At::Holds(task) => {
                self.sleep.publish_busy(me);
                self.workers[worker].held = Some(task);
                At::Thief(Event::StealSucceeded(me))
            }
            At::HandsOver(task) => {
                self.sleep.hand_over(me, &Seen(&self.queues));
                At::Runs(task, 0)
            }
            At::Runs(task, pushed) if pushed < self.program[task].children.len() => {
                let child = self.program[task].children[pushed];
                if let Some(last) = self.lot_of_place().filter(|last| *last != me) {
                    self.queues.placed[last.index()].push_back(child);
                    return At::Placed(task, pushed + 1, last);
                }
                self.queues.deques[worker].push_back(child);
                At::Pushed(task, pushed + 1)
            }
            At::Placed(task, pushed, last) => {
                self.sleep.after_placing(last, Some(me), &Seen(&self.queues));
                At::Runs(task, pushed)
            }
            At::Pushed(task, pushed) => {
                let heard = self.queues.bells[worker].take() || !self.sleep.bell_may_stop();
                if heard { At::Heard(task, pushed) } else { At::Runs(task, pushed) }
            }
            At::Heard(task, pushed) => {
                self.sleep.push_met_bell(me, &Seen(&self.queues));
                if self.queues.closed {
                    self.sleep.publish_thief(me);
                    self.queues.midway[worker] = Some((task, pushed));
                    return self.thief(worker, Event::Woken(WakeReason::Peer));
                }
                At::Runs(task, pushed)
            }
            At::Runs(..) => {
                self.done += 1;
                let next = if self.queues.closed { None } else { self.queues.deques[worker].pop_back() };
                match next {
                    Some(next) => {
                        self.take(worker, next);
                        At::Runs(next, 0)
                    }
                    None if !self.queues.placed[worker].is_empty() && !self.queues.closed => {
                        At::Carries(std::mem::take(&mut self.queues.placed[worker]))
                    }
                    None => {
                        self.sleep.publish_thief(me);
                        let owed = std::mem::take(&mut self.workers[worker].owed);
                        let event = Event::DequeEmpty { wakeups_owed: owed };
                        // One that leaves tasks behind when it comes to rest is no thief.
                        if self.queues.closed { self.thief(worker, event) } else { At::Thief(event) }
                    }
                }
            }
            At::GoesOn(task, pushed) => {
                self.sleep.publish_busy(me);
                self.sleep.hand_over(me, &Seen(&self.queues));
                At::Runs(task, pushed)
            }
            At::Carries(mut placed) => {
                let newest = placed.pop_back().expect("it has found some");
                self.queues.deques[worker].extend(placed);
                At::Carried(newest)
            }
            At::Carried(newest) => {
                self.sleep.after_spawn(me, &Seen(&self.queues));
                self.take(worker, newest);
                At::Runs(newest, 0)
            }
            At::Robs(task, victim, rest) => {
                self.queues.placed[victim.index()].extend(rest);
                At::PutBack(task, victim)
            }
            At::PutBack(task, victim) => {
                self.sleep.after_placing(victim, Some(me), &Seen(&self.queues));
                At::Holds(task)
            }
            At::Ended => unreachable!("an ended worker is not stepped"),
        }
    }

    /// `None`: it is needed, or cores are not shared.
    fn retire(&self, worker: usize, by_itself: bool) -> Option<At> {
        let staff = Staff(&self.sleep, &self.queues);
        let retires = self.share.as_ref()?.retire(&staff, WorkerId(worker as u32), by_itself);
        retires.then_some(At::Retired)
    }

    /// The next event, unless the pool has ended, or a thief has something in its inbox: that ends its spell.
    fn thief(&mut self, worker: usize, event: Event) -> At {
        if self.queues.ended {
            return At::Ended;
        }
        if self.workers[worker].held.is_some() {
            return At::Thief(event);
        }
        if self.queues.closed {
            // Within the books' lock. If that does not see it closed, it has been opened.
            return self.retire(worker, false).unwrap_or(At::Thief(event));
        }
        if let Some((task, pushed)) = self.queues.midway[worker].take() {
            return At::GoesOn(task, pushed);
        }
        // What it left there when it rested comes before what others have.
        let own = self.queues.placed[worker].pop_back().or_else(|| self.queues.deques[worker].pop_back());
        if let Some(task) = own {
            self.take(worker, task);
            return At::Holds(task);
        }
        At::Thief(event)
    }

    fn take(&mut self, worker: usize, task: usize) {
        assert_eq!(self.taken_by[task].replace(worker), None, "task {task} runs once");
    }

    fn act(&mut self, worker: usize, action: Action) -> At {
        let me = WorkerId(worker as u32);
        let event = match action {
            Action::Run { wakeups_owed } => {
                self.workers[worker].owed = wakeups_owed;
                return match self.workers[worker].held.take() {
                    Some(task) => At::HandsOver(task),
                    None => At::Thief(Event::DequeEmpty { wakeups_owed }),
                };
            }
            Action::StealFrom(victim) if self.queues.closed => Event::StealFailed(victim),
            Action::StealFrom(victim) => {
                let stolen = (victim != me).then(|| self.queues.deques[victim.index()].pop_front()).flatten();
                if stolen.is_none() && victim != me {
                    let mut placed = std::mem::take(&mut self.queues.placed[victim.index()]);
                    if let Some(oldest) = placed.pop_front() {
                        self.take(worker, oldest);
                        return if placed.is_empty() { At::Holds(oldest) } else { At::Robs(oldest, victim, placed) };
                    }
                }
                match stolen.or_else(|| self.queues.injector.pop_front()) {
                    Some(task) => {
                        self.take(worker, task);
                        return At::Holds(task);
                    }
                    None => Event::StealFailed(victim),
                }
            }
            Action::Mug => Event::NothingToMug,
            Action::Inspect(victim) => Event::Seen(self.inspect(victim)),
            Action::Count => {
                let roles = self.sleep.roles();
                let total = roles.busy + roles.thieves + roles.sleepers;
                assert_eq!(total as usize, self.workers.len(), "{roles:?}");
                Event::Counted { busy: roles.busy, thieves: roles.thieves, sleepers: roles.sleepers }
            }
            Action::YieldTo(_) | Action::YieldCore => Event::Yielded,
            Action::Pause { .. } => {
                Event::Paused { anyone_busy: self.sleep.anyone_busy(), core_is_wanted: self.below(2) == 0 }
            }
            Action::ClaimWakeup { from } => {
                let owed = &mut self.workers[from.index()].owed;
                let claimed = *owed > 0;
                *owed -= u32::from(claimed);
                Event::WakeupClaimed(claimed.then_some(from))
            }
            Action::Wake { whom, appoint } => Event::PeerWoken(self.sleep.wake_peer(me, whom, appoint)),
            Action::Sleep => {
                let leaves = |share: &Activation<Machine>| share.sharing.sleeper == Sleeper::LeavesCore;
                if self.share.as_ref().is_some_and(leaves) {
                    let plain = |share: &Activation<Machine>| share.sharing.plain_alone && share.is_alone();
                    if self.share.as_ref().is_some_and(plain) {
                        if self.sleep.anyone_busy() {
                            return self.thief(worker, Event::SleepRefused(SleepRefusal::Alone));
                        }
                    } else if let Some(at) = self.retire(worker, true) {
                        return at;
                    }
                }
                self.sleep.announce(me);
                return At::Announced;
            }
        };
        if self.workers[worker].held.is_none()
            && self.share.as_ref().is_some_and(Activation::has_excess)
            && let Some(at) = self.retire(worker, false)
        {
            return at;
        }
        // The shell's own doubt, as in `thief::keep_alive`, at any time instead of every so many events.
        if self.workers[worker].held.is_none() && !self.sleep.anyone_busy() && self.below(3) == 0 {
            self.sleep.announce(me);
            return At::Announced;
        }
        self.thief(worker, event)
    }

    fn inspect(&mut self, victim: WorkerId) -> Victim {
        let role = if self.sleep.is_asleep(victim) {
            Role::Sleeper
        } else if !self.sleep.is_busy(victim) {
            Role::Thief
        } else if self.queues.deques[victim.index()].is_empty() && self.queues.placed[victim.index()].is_empty() {
            Role::Poor
        } else {
            Role::Rich
        };
        let run_status = if self.below(4) == 0 { RunStatus::Preempted } else { RunStatus::Running };
        Victim { id: victim, role, run_status, wakeups_owed: self.workers[victim.index()].owed }
    }

    /// DESIGN §2: while a worker is busy, some thief is awake or will wake by itself, or nobody sleeps. Under `Hungry`
    /// and `EveryPush`, where the next push wakes, that holds whenever a task waits.
    fn check_liveness(&self) -> Result<(), String> {
        let all = || 0..self.workers.len();
        if let Some(share) = &self.share {
            let books = share.books();
            let is_retired = |worker| books.is(WorkerId(worker as u32), State::Retired);
            if all().all(is_retired) && !self.queues.closed && !self.reopening {
                return Err("all workers have retired, and no task would wake one".into());
            }
            let counts_as_awake = |worker| books.is(WorkerId(worker as u32), State::Awake);
            if let Some(worker) = all().find(|worker| self.is_parked(*worker) && counts_as_awake(*worker)) {
                return Err(format!("worker {worker} rests, and the books say that it is awake"));
            }
            let (awake, retired) = (books.awake(), books.retired());
            let count = |state| all().filter(|worker| books.is(WorkerId(*worker as u32), state)).count();
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
        }
        if !all().any(|worker| self.is_asleep(worker)) {
            return Ok(());
        }
        let thief_awake = all().any(|worker| {
            !self.is_parked(worker)
                && match self.workers[worker].at {
                    At::Thief(_) | At::Acts(_) => self.workers[worker].held.is_none(),
                    At::Announced | At::Admitted(_) => true,
                    // Woken, or about to say to whom its duty passes.
                    At::Rests | At::Up(_) | At::Leaves | At::Retired => true,
                    // It comes back if it has business.
                    At::Passed => {
                        let id = WorkerId(worker as u32);
                        !self.sleep.is_at_rest(id) || Seen(&self.queues).has_business(id)
                    }
                    _ => false,
                }
        });
        let wakes_by_itself =
            all().any(|worker| matches!(self.workers[worker].at, At::Admitted(Admission::Park(Some(_)))));
        // Somebody is between a change and the wake-up that it causes.
        let wakeup_pending = self.injecting.is_some()
            || all().any(|worker| {
                let at = &self.workers[worker].at;
                matches!(
                    at,
                    At::Holds(_) | At::HandsOver(_) | At::GoesOn(..) | At::Pushed(..) | At::Heard(..) | At::Placed(..)
                ) || matches!(at, At::Carries(_) | At::Carried(_) | At::Robs(..) | At::PutBack(..))
                    || self.workers[worker].held.is_some()
            });
        if thief_awake || wakes_by_itself || wakeup_pending || self.queues.closed || self.reopening {
            return Ok(());
        }
        let seen = Seen(&self.queues);
        if seen.deques_have_task() || seen.injector_has_task() {
            return Err("a task waits, a worker sleeps, and nobody looks or will wake".into());
        }
        let busy = all().any(|worker| self.sleep.is_busy(WorkerId(worker as u32)));
        if busy && matches!(self.policy.row().waking, Waking::NobodySleeps | Waking::Watchdog) {
            return Err("a worker is busy, another sleeps, and no thief is awake".into());
        }
        Ok(())
    }

    fn fail(&self, what: &str) -> TestCaseError {
        let at: Vec<String> = self.workers.iter().map(|worker| format!("{:?}", worker.at)).collect();
        let Queues { deques, placed, injector, midway, closed, .. } = &self.queues;
        let queued =
            format!("deques {deques:?}, placed {placed:?}, injector {injector:?}, to come {:?}", self.to_inject);
        let rest = format!("midway {midway:?}, closed {closed}, reopening {}", self.reopening);
        let what = format!("{what}; now {}; {:?}; {queued}; {rest}", at.join(", "), self.sleep);
        let trace: Vec<&str> = self.trace.iter().map(String::as_str).collect();
        TestCaseError::fail(format!("{what}\nunder {}, after\n{}", self.policy, trace.join("\n")))
    }

    /// Runs the program to its end, then lets the pool fall asleep.
    fn run(&mut self) -> Result<(), TestCaseError> {
        const BOUND: usize = 200_000;
        for _ in 0..BOUND {
            if self.done == self.program.len() && (0..self.workers.len()).all(|worker| self.is_parked(worker)) {
                return Ok(());
            }
            if !self.step() {
                return Err(self.fail("nobody can move, and tasks are left"));
            }
            self.check_liveness().map_err(|what| self.fail(&what))?;
        }
        let left = self.program.len() - self.done;
        Err(self.fail(&format!("{left} tasks are left, or a pool without work stays awake, after {BOUND} steps")))
    }

    /// Ends the pool, as `Registry::end` does.
    fn end(&mut self) -> Result<(), TestCaseError> {
        if let Some(share) = &self.share {
            share.end();
        }
        (self.queues.ended, self.queues.closed) = (true, false);
        for worker in 0..self.workers.len() {
            self.sleep.wake_for_business(WorkerId(worker as u32));
        }
        while self.step() {}
        if self.workers.iter().all(|worker| matches!(worker.at, At::Ended)) {
            Ok(())
        } else {
            Err(self.fail("the pool has ended and a worker sleeps"))
        }
    }
}

fn reason(woken: Woken) -> WakeReason {
    match woken {
        Woken::For(reason) => reason,
        Woken::Business => WakeReason::Peer,
    }
}

/// A program: a forest of tasks, and the roots that come from outside.
#[derive(Clone, Debug)]
struct Program {
    tasks: Vec<Task>,
    roots: Vec<usize>,
}

/// Task `n` hangs below an earlier task or comes from outside.
fn programs() -> impl Strategy<Value = Program> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..5u8, prop::bool::weighted(0.3)), 1..14).prop_map(|shape| {
        let mut program = Program { tasks: Vec::new(), roots: Vec::new() };
        for (nth, (parent, from_outside, needs_thieves)) in shape.into_iter().enumerate() {
            program.tasks.push(Task { children: Vec::new(), needs_thieves });
            if nth == 0 || from_outside == 0 {
                program.roots.push(nth);
            } else {
                program.tasks[parent.index(nth)].children.push(nth);
            }
        }
        program
    })
}

/// Tasks that hold on to their worker until a thief has come must leave one worker free to be that thief.
fn bound_demands(program: &mut Program, workers: u32) {
    let mut demanding = 0;
    for task in &mut program.tasks {
        task.needs_thieves &= !task.children.is_empty() && demanding + 1 < workers;
        demanding += u32::from(task.needs_thieves);
    }
}

fn run_under(policy: Policy, workers: u32, mut program: Program, seed: u64) -> Result<(), TestCaseError> {
    bound_demands(&mut program, workers);
    let mut world = World::new(hasty(policy), workers, program.tasks, program.roots, seed);
    world.run()?;
    let takers: BTreeSet<_> = world.taken_by.iter().collect();
    prop_assert!(!takers.contains(&None), "every task was taken");
    world.end()
}

proptest! {
    // `PROPTEST_CASES` asks for more.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(3000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_policy_keeps_the_pool_alive_and_lets_it_sleep(
        program in programs(),
        workers in 1..=4u32,
        seed in any::<u64>(),
    ) {
        for policy in Policy::all() {
            run_under(policy, workers, program.clone(), seed)?;
        }
    }

    /// A policy that wants to sleep at every turn and runs what it does not have is slow, and never stuck, under each
    /// way of waking.
    #[test]
    fn a_bad_policy_cannot_strand_a_task(program in programs(), workers in 1..=4u32, seed in any::<u64>()) {
        for policy in Policy::all() {
            let mut program = program.clone();
            bound_demands(&mut program, workers);
            let mut world = World::new(policy, workers, program.tasks, program.roots, seed);
            for (nth, worker) in world.workers.iter_mut().enumerate() {
                worker.thief = Box::new(Sleepyhead { me: nth as u32, workers, turn: seed as u32 });
            }
            world.run()?;
            world.end()?;
        }
    }
}

/// So seldom by chance that it is written out: the one that was woken for a task from outside has no core, and the other
/// has looked before the task came.
#[test]
fn one_that_retires_leaves_a_task_from_outside_to_another() {
    for policy in Policy::all().filter(|policy| policy.sharing().is_some()) {
        let sleep = Sleep::new(Threads, 2, policy.row().waking, policy.row().counts_roles);
        let mut queues =
            Queues { deques: vec![VecDeque::new(); 2], placed: vec![VecDeque::new(); 2], ..Queues::default() };
        let workers = [WorkerId(0), WorkerId(1)];
        workers.iter().for_each(|me| sleep.publish_thief(*me));
        for me in workers {
            sleep.announce(me);
            assert!(matches!(sleep.admit(me, &Seen(&queues)), Admission::Park(_)), "{policy}: there is nothing to do");
        }
        queues.injector.push_back(0);
        sleep.after_injection(Waker::GoesOn, &Seen(&queues));
        let (woken, others) = workers.into_iter().partition::<Vec<_>, _>(|me| !sleep.is_asleep(*me));
        assert_eq!((woken.len(), others.len()), (1, 1), "{policy}: one task wakes one");
        assert!(park(&sleep, woken[0], None).is_some());
        sleep.retire(woken[0]);
        sleep.pass_on(woken[0], &Seen(&queues));
        assert!(!sleep.is_asleep(others[0]), "{policy}: it has retired, and nobody comes for the task");
    }
}

/// Wants to sleep between any two steals, and owes wake-ups that it never pays.
struct Sleepyhead {
    me: u32,
    workers: u32,
    turn: u32,
}

impl Thief for Sleepyhead {
    fn next(&mut self, event: Event) -> Action {
        self.turn = self.turn.wrapping_add(1);
        match event {
            Event::StealSucceeded(_) | Event::Mugged(_) | Event::Injected | Event::Resumed => {
                Action::Run { wakeups_owed: 7 }
            }
            Event::SleepRefused(SleepRefusal::WorkArrived | SleepRefusal::YouAreWatchdog | SleepRefusal::Alone)
            | Event::Woken(_) => Action::StealFrom(WorkerId((self.me + self.turn) % self.workers)),
            _ if self.turn.is_multiple_of(7) => Action::Run { wakeups_owed: 0 },
            _ => Action::Sleep,
        }
    }
}
