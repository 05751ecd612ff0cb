//! A pool that is closed and opened while its workers look for tasks, sleep and push: Claim 7 of the protocol's
//! `README.md`. This tests three parts together: the sleep protocol, the dialogue (the steps of a thief), and the books
//! (the state of each worker). If a worker stays asleep in an open pool with a task, the model ends in a deadlock.

use std::sync as unexplored;

use comity_policy::definition::Definition;
use comity_policy::{Action, Event, Level, Policy, Room, Sharing, Thief, Victim};
use comity_protocol::CoreSet;
use comity_protocol::activation::{self, Activation, Cores, Mover, Terms};
use comity_protocol::dialogue::{Dialogue, Hands, Take};
use comity_protocol::table::Gain;

use super::*;
use crate::workers::thief::hold;

/// A core table in which other programs never claim a single core. But while another program has its turn, the pool has
/// no cores at all. The table is only used under the lock of the books, so loom need not explore it.
struct Table {
    free: unexplored::Mutex<CoreSet>,
    held: unexplored::Mutex<CoreSet>,
}

impl Table {
    /// Moves the core `core`, or the first core if it is `None`, from one set to the other.
    fn pass(from: &unexplored::Mutex<CoreSet>, to: &unexplored::Mutex<CoreSet>, core: Option<usize>) -> Option<usize> {
        let mut from = from.lock().unwrap();
        let core = core.or_else(|| from.iter().next())?;
        from.remove(core);
        to.lock().unwrap().insert(core);
        Some(core)
    }
}

impl Cores for Table {
    fn held(&self) -> CoreSet {
        *self.held.lock().unwrap()
    }

    fn gain(&self, how: Gain) -> Option<usize> {
        match how {
            Gain::Claim { .. } => Table::pass(&self.free, &self.held, None),
            Gain::TakeBack => None,
        }
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        Table::pass(&self.held, &self.free, core)
    }

    fn any_free(&self) -> bool {
        !self.free.lock().unwrap().is_empty()
    }

    fn want(&self, _: bool) {}

    fn reclaim(&self) {}

    fn decline(&self) {}

    fn is_core_wanted(&self) -> bool {
        false
    }
}

/// A pool that is a member of a core table.
struct Member {
    pool: Arc<Pool>,
    activation: Activation<Threads, Table>,
    /// All cores of the machine.
    cores: CoreSet,
    why: Why,
}

/// The reason why the coordinator closes the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The program is paused. A paused program holds no core: its mode is `Mode::Time`.
    ToRest,
    /// Other programs have their turn on the cores.
    OutOfTurn,
}

/// The view that a worker or the coordinator has of the pool. `awaited` returns true after the event for which the
/// worker waits. Only this worker can act on the event, which is therefore its business ([`Work::has_business`]).
struct View<'a> {
    member: &'a Member,
    awaited: &'a dyn Fn() -> bool,
}

impl Work for View<'_> {
    fn deques_have_task(&self) -> bool {
        self.member.pool.deques_have_task()
    }

    fn injector_has_task(&self) -> bool {
        self.member.pool.injector_has_task()
    }

    fn has_business(&self, _: WorkerId) -> bool {
        (self.awaited)()
    }

    fn ring_bells(&self) {
        self.member.pool.ring_bells();
    }
}

impl activation::Pool for View<'_> {
    type Platform = Threads;
    type Cores = Table;

    fn workers(&self) -> u32 {
        self.member.activation.workers()
    }

    fn activation(&self) -> Option<&Activation<Threads, Table>> {
        Some(&self.member.activation)
    }

    fn sleep(&self) -> &Sleep<Threads> {
        &self.member.pool.sleep
    }

    fn confine(&self, _: WorkerId, _: Option<CoreSet>) -> bool {
        true
    }

    fn lead(&self, _: WorkerId, _: usize, _: bool) -> bool {
        true
    }

    fn up(&self, _: WorkerId) {}

    fn caller_runs(&self) -> bool {
        false
    }

    fn worker_is_up(&self) {}
}

/// A policy that steals from a peer, and sleeps when it has found no task there.
struct Hasty {
    peer: WorkerId,
}

impl Thief for Hasty {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealFailed(_) => Action::Sleep,
            Event::DequeEmpty { .. } | Event::Woken(_) | Event::SleepRefused(_) => Action::StealFrom(self.peer),
            _ => Action::Run { wakeups_owed: 0 },
        }
    }
}

/// The actions of a worker's thread.
struct Spell<'a> {
    pool: &'a Pool,
    me: WorkerId,
}

impl Hands for Spell<'_> {
    fn steal(&mut self, _: WorkerId) -> Take {
        if Pool::take(&self.pool.deque) { Take::Taken } else { Take::Nothing }
    }

    fn take_injected(&mut self) -> bool {
        let taken = Pool::take(&self.pool.injector);
        if !taken {
            // A worker that may not sleep looks again.
            thread::yield_now();
        }
        taken
    }

    fn mug(&mut self, _: WorkerId) -> bool {
        false
    }

    fn inspect(&mut self, _: WorkerId) -> Victim {
        unreachable!("the policy inspects no worker")
    }

    fn claim_wakeup(&mut self, _: WorkerId) -> bool {
        false
    }

    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        self.pool.sleep.wake_peer(self.me, sleeper, appoint)
    }

    fn give_way(&mut self, _: Option<WorkerId>) {
        thread::yield_now();
    }

    fn accelerate(&mut self, _: WorkerId, _: Level) -> bool {
        unreachable!("the policy accelerates no worker")
    }

    fn pause(&mut self, _: u32) {
        thread::yield_now();
    }

    /// Waits on the worker's word. loom has no time, so instead of a wait with a timeout, other threads run for a
    /// moment.
    fn wait(&mut self, at_rest: u32, timeout: Option<std::time::Duration>, _: bool) -> bool {
        match timeout {
            Some(_) => thread::yield_now(),
            None => self.pool.sleep.parker(self.me).wait(at_rest, None),
        }
        true
    }
}

impl Member {
    /// Returns a member with a core for each worker. The pool holds all cores.
    fn join(policy: &Policy, workers: u32, adopts: bool, why: Why) -> Arc<Member> {
        let (sharing, _): (Sharing, _) = Sharing::of(&policy).expect("the policy shares cores");
        let cores: CoreSet = (0..workers as usize).collect();
        let member = Member {
            pool: Pool::new(workers, Definition::of(&policy).waking),
            activation: Activation::new(&Threads, sharing, workers, adopts, cores, workers),
            cores,
            why,
        };
        let table = Table { free: unexplored::Mutex::new(cores), held: unexplored::Mutex::default() };
        member.activation.enter(Box::new(table));
        member.look(false);
        Arc::new(member)
    }

    fn view<'a>(&'a self, awaited: &'a dyn Fn() -> bool) -> View<'a> {
        View { member: self, awaited }
    }

    // The coordinator's steps, in the order of `comity_protocol::quantum`.

    /// Takes one look of the coordinator, which closes the pool or opens it.
    fn look(&self, closed: bool) {
        let Member { pool, activation, cores, why } = self;
        let table = activation.member().expect("it has joined");
        let by_time = closed && *why == Why::ToRest;
        activation.stand(Terms { alone: false, by_time, room: Room::Workers, usable: u32::MAX });
        let mut books = activation.books();
        if *why == Why::OutOfTurn {
            *table.free.lock().unwrap() = if closed { CoreSet::EMPTY } else { *cores };
            *table.held.lock().unwrap() = CoreSet::EMPTY;
            activation.note_losses(&mut books, table);
        }
        while activation.gain(&mut books, [Gain::Claim { own_only: false }]) {}
        drop(books);
        activation.close(closed);
        let queued = [&pool.deque, &pool.injector].map(|tasks| tasks.load(Ordering::Acquire));
        let mut books = activation.books();
        let waiting = queued.iter().sum::<u32>() + books.midway();
        activation.employ(&mut books, &self.view(&|| false), waiting as usize, Mover::Look);
    }

    fn open(&self) {
        self.look(false);
        self.activation.reopen(&self.view(&|| false));
    }

    fn close_and_open(&self) {
        self.look(true);
        self.open();
    }

    /// Ends the coordinator's looks, as if the program had no work. The pool is then open for the next task.
    fn leave_off(&self) {
        let Member { activation, .. } = self;
        activation.stand(Terms { alone: true, by_time: false, room: Room::Workers, usable: u32::MAX });
        activation.close(false);
        activation.employ(&mut activation.books(), &self.view(&|| false), 0, Mover::Look);
        activation.reopen(&self.view(&|| false));
    }

    // The steps of other threads.

    fn inject(&self) {
        self.pool.injector.fetch_add(1, Ordering::Release);
        self.pool.sleep.after_injection(Waker::GoesOn, &*self.pool);
    }

    /// Ends the pool like `Registry::end`.
    fn end(&self) {
        self.activation.end();
        self.pool.end((0..self.activation.workers()).map(WorkerId));
    }

    /// Looks for a task, like a worker without a task, until the worker has one or the pool has ended.
    fn find(&self, me: WorkerId) {
        let ended = || self.pool.ended.load(Ordering::Acquire);
        self.spell(me, &ended, Dialogue::begin(me, 0, &self.view(&ended)));
    }

    /// Sleeps in the middle of a task while the pool is closed, like `Worker::rest_while_closed`.
    fn rest_midway(&self, me: WorkerId) {
        let goes_on = || !self.activation.is_closed();
        if !goes_on() {
            self.spell(me, &goes_on, Dialogue::begin_to_rest(me, &self.view(&goes_on)));
        }
    }

    fn spell(&self, me: WorkerId, awaited: &dyn Fn() -> bool, mut dialogue: Dialogue) {
        let view = self.view(awaited);
        let mut thief = Hasty { peer: WorkerId((me.0 + 1) % self.activation.workers()) };
        hold(&mut dialogue, &mut thief, &view, me, &mut Spell { pool: &self.pool, me });
        dialogue.finish(&view);
    }
}

/// Three policies: a sleeper lends its core, releases its core, or keeps its core.
fn policies() -> [Policy; 3] {
    ["comity", "dws", "a-steal"].map(|name| name.parse().expect("a policy of that name"))
}

/// The reasons why pools are closed under the policy.
fn reasons(policy: &Policy) -> &'static [Why] {
    if policy.name() == "comity" { &[Why::ToRest, Why::OutOfTurn] } else { &[Why::ToRest] }
}

/// Explores the model under each policy and for each reason to close the pool. In half of the models, worker 0 is a
/// thread of the program that the pool has adopted.
fn each_kind_of_worker(most_preemptions: usize, model: impl Fn(&Policy, bool, Why) + Copy + Sync + Send + 'static) {
    for policy in policies() {
        for (adopts, why) in
            [false, true].into_iter().flat_map(|adopts| reasons(&policy).iter().map(move |why| (adopts, *why)))
        {
            let policy = policy.clone();
            explore(most_preemptions, move || model(&policy, adopts, why));
        }
    }
}

#[test]
fn loom_a_thief_takes_the_task_of_a_pool_that_is_opened() {
    each_kind_of_worker(2, |policy, adopts, why| {
        let member = Member::join(policy, 1, adopts, why);
        together(&member, &[|member| member.find(W0)], || {
            member.look(true);
            member.inject();
            member.open();
        });
    });
}

/// Checks that an injected task is run although the pool is closed meanwhile. The coordinator opens the pool in one of
/// two ways: at its next look, or because it has found no work and ends its looks.
#[test]
fn loom_a_task_reaches_a_pool_that_is_closed_and_opened() {
    for open in [Member::open, Member::leave_off] {
        each_kind_of_worker(2, move |policy, adopts, why| {
            let member = Member::join(policy, 1, adopts, why);
            together(&member, &[|member| member.find(W0), Member::inject], || {
                member.look(true);
                open(&member);
            });
        });
    }
}

#[test]
fn loom_a_worker_in_the_middle_of_a_task_goes_on_in_a_pool_that_is_opened() {
    each_kind_of_worker(3, |policy, adopts, why| {
        let member = Member::join(policy, 1, adopts, why);
        member.pool.sleep.publish_busy(W0);
        together(&member, &[|member| member.rest_midway(W0)], || member.close_and_open());
    });
}

/// Keeps the pusher in the middle of a task for ever, so that another worker must take the pushed task. The policy
/// `dws` is left out. Its sleepers release their cores, and a push does not wake them: they wait for the coordinator's
/// next look. In this model, the last look may precede the push.
#[test]
fn loom_a_push_in_a_pool_that_is_closed_and_opened_reaches_another_worker() {
    let policies = policies().into_iter().filter(|policy| policy.name() != "dws");
    for (policy, why) in policies.flat_map(|policy| reasons(&policy).iter().map(move |why| (policy.clone(), *why))) {
        explore(1, move || {
            let member = Member::join(&policy, 2, false, why);
            member.pool.sleep.publish_busy(W0);
            together(&member, &[|member| member.find(W1), Member::close_and_open], || member.pool.push(W0));
        });
    }
}

/// Checks that the end of a pool opens it, even if the coordinator closes it at the same time. A worker that rests in
/// the middle of a task therefore continues.
#[test]
fn loom_a_closed_pool_that_ends_is_open() {
    each_kind_of_worker(2, |policy, adopts, why| {
        let member = Member::join(policy, 1, adopts, why);
        member.pool.sleep.publish_busy(W0);
        together(&member, &[|member| member.rest_midway(W0), |member| member.look(true)], || member.end());
    });
}
