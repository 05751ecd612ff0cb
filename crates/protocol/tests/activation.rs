//! Tests of the activation: how many workers may be awake, which workers may retire, and which effects the driver
//! carries out in which order.

mod cells;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use comity_policy::definition::Definition;
use comity_policy::{Policy, Room, Sharing, WorkerId};
use comity_protocol::CoreSet;
use comity_protocol::activation::{Activation, Cores, Mover, Pool, Retirement, State, Terms, Up};
use comity_protocol::dialogue::{Dialogue, Effect, Outcome, Step, Take};
use comity_protocol::sleep::{Sleep, Work};
use comity_protocol::table::Gain;

use cells::Cells;

const CLAIM: [Gain; 1] = [Gain::Claim { own_only: false }];

/// The effects that the driver was asked for, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.borrow_mut().push(line);
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }

    /// Takes all lines, and returns those that begin with one of `begins`.
    fn take_those(&self, begins: &[&str]) -> Vec<String> {
        self.take().into_iter().filter(|line| begins.iter().any(|begin| line.starts_with(begin))).collect()
    }
}

/// A table that no other program changes.
#[derive(Default)]
struct Table {
    log: Log,
    free: RefCell<CoreSet>,
    held: RefCell<CoreSet>,
    /// The cores of the program that other programs hold, and that it can take back.
    lent: RefCell<CoreSet>,
    /// The cores that other pools of the program hold.
    beside: RefCell<CoreSet>,
    /// True if the pool has published that it lacks a core.
    lacks: Cell<bool>,
}

impl Cores for Table {
    fn held(&self) -> CoreSet {
        *self.held.borrow()
    }

    fn held_by_program(&self) -> CoreSet {
        self.held().union(*self.beside.borrow())
    }

    fn pass_on(&self, core: Option<usize>) -> Option<usize> {
        self.log.add("pass on".to_owned());
        self.release(core)
    }

    fn lack(&self, lacks: bool) {
        self.lacks.set(lacks);
    }

    fn gain(&self, how: Gain) -> Option<usize> {
        let from = if how == Gain::TakeBack { &self.lent } else { &self.free };
        let core = from.borrow().iter().next();
        match how {
            Gain::Claim { .. } => self.log.add(format!("claim {core:?}")),
            Gain::TakeBack => core.iter().for_each(|core| self.log.add(format!("take back {core}"))),
        }
        from.borrow_mut().remove(core?);
        self.held.borrow_mut().insert(core?);
        core
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        let core = core.or_else(|| self.held().iter().next())?;
        self.log.add(format!("release {core}"));
        self.held.borrow_mut().remove(core);
        self.free.borrow_mut().insert(core);
        Some(core)
    }

    fn any_free(&self) -> bool {
        self.log.add("any free?".to_owned());
        !self.free.borrow().is_empty()
    }

    fn want(&self, wants: bool) {
        self.log.add(format!("want {wants}"));
    }

    fn reclaim(&self) {
        self.log.add("reclaim".to_owned());
    }

    fn decline(&self) {
        self.log.add("decline".to_owned());
    }

    fn is_core_wanted(&self) -> bool {
        true
    }

    fn note_lost(&self, cores: u32) {
        self.log.add(format!("lost {cores}"));
    }
}

/// A pool without tasks.
struct World {
    log: Log,
    sleep: Sleep<Cells>,
    activation: Activation<Cells, Table>,
    workers: u32,
    /// True if the thread that handed in the last task runs.
    caller_runs: Cell<bool>,
    cells: Cells,
}

impl Work for World {
    fn deques_have_task(&self) -> bool {
        false
    }

    fn injector_has_task(&self) -> bool {
        false
    }

    fn has_business(&self, _: WorkerId) -> bool {
        false
    }

    fn ring_bells(&self) {}
}

impl Pool for World {
    type Platform = Cells;
    type Cores = Table;

    fn workers(&self) -> u32 {
        self.workers
    }

    fn activation(&self) -> Option<&Activation<Cells, Table>> {
        Some(&self.activation)
    }

    fn sleep(&self) -> &Sleep<Cells> {
        &self.sleep
    }

    fn confine(&self, worker: WorkerId, cores: Option<CoreSet>) -> bool {
        self.log.add(format!("confine {} to {cores:?}", worker.0));
        true
    }

    fn lead(&self, worker: WorkerId, core: usize, sleeps: bool) -> bool {
        let rests = self.sleep.is_retired(worker);
        assert_eq!(rests, sleeps, "a thread moves before its worker wakes");
        self.log.add(format!("lead {} to {core}{}", worker.0, if sleeps { " asleep" } else { "" }));
        true
    }

    fn up(&self, me: WorkerId) {
        self.log.add(format!("up {}", me.0));
    }

    fn caller_runs(&self) -> bool {
        self.caller_runs.get()
    }

    fn worker_is_up(&self) {
        self.log.add("coordinator".to_owned());
    }
}

impl Deref for World {
    type Target = Activation<Cells, Table>;

    fn deref(&self) -> &Self::Target {
        &self.activation
    }
}

impl World {
    fn new(policy: &str, workers: u32, adopts: bool) -> World {
        let policy: Policy = policy.parse().unwrap();
        let (sharing, _) = Sharing::of(&policy).unwrap();
        let cells = Cells::default();
        let activation = Activation::new(&cells, sharing, workers, adopts, (0..4).collect(), 4);
        let sleep = Sleep::new(cells.clone(), workers, Definition::of(&policy).waking, false);
        World { log: Log::default(), sleep, activation, workers, caller_runs: Cell::new(false), cells }
    }

    /// Makes a pool that shares the table with other programs, and has claimed the cores of `free` that it needs.
    fn beside(policy: &str, workers: u32, free: impl IntoIterator<Item = usize>, room: Room) -> World {
        let world = World::new(policy, workers, false);
        world.enter(free);
        world.terms(false, false, room);
        world.employ(0);
        world
    }

    /// Enters a table with free cores.
    fn enter(&self, free: impl IntoIterator<Item = usize>) -> &Table {
        let free = RefCell::new(free.into_iter().collect());
        self.activation.enter(Box::new(Table { log: self.log.clone(), free, ..Table::default() }))
    }

    fn terms(&self, alone: bool, by_time: bool, room: Room) {
        self.stand(Terms { alone, by_time, room, usable: 4 });
    }

    fn employ(&self, queued: usize) {
        self.employ_as(queued, Mover::Other);
    }

    fn employ_as(&self, queued: usize, mover: Mover) {
        self.activation.employ(&mut self.books(), self, queued, mover);
    }

    /// Takes all steps of a worker that finds nothing. Returns true if the worker must look at a kept core.
    fn rest(&self, worker: u32) -> bool {
        let me = WorkerId(worker);
        self.sleep.publish_thief(me);
        self.sleep.announce(me);
        self.sleep.admit(me, self);
        self.fell_asleep(self, me)
    }

    fn retires(&self, worker: u32, why: Retirement) -> bool {
        self.retire(self, WorkerId(worker), why)
    }

    fn is(&self, worker: u32, state: State) -> bool {
        self.books().is(WorkerId(worker), state)
    }
}

#[test]
fn room_follows_the_held_cores_beside_others_and_the_terms_alone() {
    // The columns are the terms. While other programs want cores: `Room::Cores`, `Room::Workers`. Alone:
    // `Room::Workers`, `Room::Cores`. Sharing time: `Room::One`. The first row has no worker off its core, and the
    // second row has three.
    for (policy, rooms) in [("comity", [[2, 8, 8, 4, 1], [5, 8, 8, 8, 7]]), ("dws", [[2, 2, 8, 8, 8], [5, 5, 8, 8, 8]])]
    {
        let world = World::beside(policy, 8, 0..2, Room::Cores);
        assert_eq!(world.books().held(), 2, "{policy}");
        for (off_core, rooms) in [0, 3].into_iter().zip(rooms) {
            world.books().off_core = off_core;
            let terms = [
                (false, false, Room::Cores),
                (false, false, Room::Workers),
                (true, false, Room::Workers),
                (true, false, Room::Cores),
                (false, true, Room::One),
            ];
            let found = terms.map(|(alone, by_time, room)| {
                world.terms(alone, by_time, room);
                world.room(&world.books())
            });
            assert_eq!(found, rooms, "{policy} with {off_core} off their cores");
        }
    }
    // Without a core there is still room for one worker. More workers would run on the cores of other programs.
    for room in [Room::Cores, Room::Workers] {
        let world = World::new("comity", 8, false);
        world.enter([]);
        world.terms(false, false, room);
        assert_eq!(world.room(&world.books()), 1);
    }
}

#[test]
fn all_workers_may_be_awake_beside_others_and_are_confined_to_the_held_cores() {
    let world = World::beside("comity", 3, [1], Room::Workers);
    let confined = || world.log.take_those(&["confine"]);
    assert_eq!(confined(), [0, 1, 2].map(|worker| format!("confine {worker} to Some({{1}})")));
    assert!(!world.has_excess() && !world.retires(0, Retirement::Surplus));
    assert_eq!(world.without_core().next(), None, "no queue is taken over, for the kernel runs all of them");
    // Sleeping workers and the last awake worker stay confined to the same cores, because workers wake often.
    world.rest(0);
    world.rest(1);
    assert_eq!(confined(), [""; 0]);
    assert_eq!(world.books().held(), 1);
    // There is room again for one worker per core. The next worker to wake finds no core, and retires.
    world.terms(false, false, Room::Cores);
    world.employ(0);
    world.sleep.wake_peer(WorkerId(2), Some(WorkerId(0)), false);
    assert_eq!(world.woke(&world, WorkerId(0), false), Up::Retires);
    assert!(world.retires(0, Retirement::Surplus) && world.is(1, State::Retired), "and the sleeper with it");
    // Pushes wake retired workers again, because all workers may be awake.
    world.terms(false, false, Room::Workers);
    world.employ(0);
    assert!(world.is(0, State::Asleep) && world.is(1, State::Asleep));
}

#[test]
fn a_worker_that_rests_does_not_stay_confined_to_a_core_that_the_pool_has_lost() {
    let world = World::beside("comity", 3, [0], Room::Workers);
    world.rest(0);
    // From now on core 0 belongs to another program, and core 1 to the pool.
    let table = world.member().unwrap();
    table.held.borrow_mut().remove(0);
    table.free.borrow_mut().insert(1);
    world.log.take();
    assert!(world.rung(&mut world.books(), &world, 0));
    let confined = world.log.take_those(&["confine"]);
    assert_eq!(confined, [0, 1, 2].map(|worker| format!("confine {worker} to Some({{1}})")));
    // If the program is alone, the worker may wake on any core.
    world.terms(true, false, Room::Workers);
    world.employ(0);
    assert!(world.log.take().contains(&"confine 0 to None".to_owned()));
}

#[test]
fn a_waker_steers_the_woken_worker_to_another_core_only_where_that_may_be_the_pools() {
    use comity_protocol::platform::Waker;
    for (alone, cores, waker) in [
        (true, 1, Waker::GoesOn),
        (false, 2, Waker::GoesOn),
        (false, 1, Waker::MakesRoom),
        (false, 0, Waker::MakesRoom),
    ] {
        let world = World::new("comity", 3, false);
        world.enter(0..cores);
        world.terms(alone, false, Room::Workers);
        world.employ(0);
        world.rest(0);
        world.sleep.push_met_bell(WorkerId(1), &world);
        assert_eq!(world.cells.woken_by.get(), Some(waker), "alone {alone}, {cores} cores");
    }
}

#[test]
fn a_pool_keeps_a_core_for_the_thread_that_handed_in_its_last_task_while_that_runs() {
    let world = World::beside("comity", 2, [0, 1], Room::Cores);
    world.caller_runs.set(true);
    world.rest(0);
    assert_eq!(world.books().held(), 1, "a worker is awake, so the caller gets no core of its own");
    assert!(world.rest(1), "the worker is to look at the core");
    world.look_at_kept_core(&world, WorkerId(1));
    assert_eq!(world.books().awake(), 0);
    assert_eq!(world.books().held(), 1);
    assert!(world.keeps_core(&world.books(), &world));
    world.employ(0);
    assert_eq!(world.books().held(), 1);
    // The worker that is woken for the next task gets the core.
    world.sleep.wake_peer(WorkerId(0), Some(WorkerId(1)), false);
    world.log.take();
    world.woke(&world, WorkerId(1), false);
    assert!(!world.log.take().iter().any(|line| line.starts_with("claim")));
    world.rest(1);
    // A worker was woken and is not up yet: the worker that woke it ran on the same core, and fell asleep.
    world.caller_runs.set(false);
    world.sleep.wake_peer(WorkerId(0), Some(WorkerId(1)), false);
    world.employ(0);
    assert_eq!(world.books().held(), 1);
    world.woke(&world, WorkerId(1), false);
    world.caller_runs.set(true);
    world.rest(1);
    assert_eq!(world.books().held(), 1);
    // The calling thread blocks, or the program shares time. The pool then lends the core at the next look of the
    // worker or of the coordinator.
    world.caller_runs.set(false);
    world.look_at_kept_core(&world, WorkerId(1));
    assert_eq!(world.books().held(), 0);
    world.sleep.wake_peer(WorkerId(0), Some(WorkerId(1)), false);
    world.woke(&world, WorkerId(1), false);
    world.caller_runs.set(true);
    world.rest(1);
    world.caller_runs.set(false);
    world.employ(0);
    assert_eq!(world.books().held(), 0);
    world.caller_runs.set(true);
    for (alone, by_time) in [(true, false), (false, true)] {
        world.terms(alone, by_time, Room::Cores);
        assert!(!world.keeps_core(&world.books(), &world));
    }
}

#[test]
fn a_core_that_no_worker_needs_passes_to_another_pool_and_one_that_is_released_does_not() {
    let world = World::beside("comity", 2, [0, 1], Room::Cores);
    let table = world.member().unwrap();
    world.log.take();
    world.rest(0);
    assert_eq!(world.log.take()[..2], ["pass on", "release 0"]);
    assert!(!table.lacks.get());
    // The coordinator releases a core in this way when the program holds more cores than it may.
    assert!(world.release(&mut world.books(), table, Some(1)));
    assert_eq!(world.log.take(), ["release 1"]);
    table.free.take();
    world.employ(0);
    assert!(table.lacks.get(), "a worker is awake without a core");
    world.terms(true, false, Room::Cores);
    world.employ(0);
    assert!(!table.lacks.get(), "alone it needs none");
}

#[test]
fn a_thread_outside_waits_for_its_task_on_a_core_that_the_pool_or_its_program_holds_beside_others() {
    let world = World::new("comity", 2, false);
    let refuge = |at| world.refuge(at).map(|cores| cores.iter().collect::<Vec<_>>());
    assert_eq!(refuge(3), None, "no table, no cores");
    let table = world.enter([0, 1]);
    world.terms(false, false, Room::Cores);
    world.employ(0);
    assert_eq!([0, 1].map(refuge), [None, None], "it is on one");
    assert_eq!(refuge(3), Some(vec![0, 1]));
    for worker in [0, 1] {
        world.rest(worker);
    }
    assert_eq!(refuge(3), None, "none is held");
    table.beside.borrow_mut().insert(2);
    assert_eq!([2, 3].map(refuge), [None, Some(vec![2])]);
    for (alone, by_time) in [(true, false), (false, true)] {
        world.terms(alone, by_time, Room::Cores);
        assert_eq!(refuge(3), None);
    }
    let dws = World::beside("dws", 2, [0, 1], Room::Cores);
    assert_eq!(dws.refuge(3), None, "the paper says nothing of such threads");
}

#[test]
fn a_bound_from_outside_or_from_the_program_counts_before_the_terms() {
    let world = World::new("comity", 8, false);
    assert_eq!(world.room(&world.books()), 8, "no coordinator has looked");
    world.set_active(&world, 7, 0);
    assert!(world.has_excess());
    assert!(
        world.retires(0, Retirement::Surplus) && !world.retires(1, Retirement::Surplus),
        "one was too many, and none would recall another"
    );
    world.enter(0..4);
    world.terms(true, false, Room::Workers);
    world.bound(3);
    assert_eq!(world.room(&world.books()), 3);
    world.books().off_core = 2;
    assert_eq!(world.room(&world.books()), 5, "two need no core");
    world.set_active(&world, 2, 0);
    assert_eq!((world.room(&world.books()), world.most()), (2, 2));
}

#[test]
fn all_workers_of_a_closed_pool_rest_without_a_core_and_those_with_half_a_task_are_woken_when_it_is_opened() {
    for policy in Policy::all().filter(Policy::shares_cores) {
        let world = World::beside(policy.name(), 3, 0..3, Room::Cores);
        world.rest(2);
        world.terms(false, true, Room::Workers);
        world.close(true);
        world.employ(9);
        assert!(world.is(2, State::Retired) && world.has_excess(), "{policy}: no task wakes a sleeper");
        assert_eq!(world.books().held(), 0, "{policy}");
        assert!(
            world.retires(0, Retirement::Midway) && world.retires(1, Retirement::Surplus),
            "{policy}: the last too"
        );
        world.employ(9);
        assert_eq!(world.books().awake(), 0, "{policy}: though tasks wait");
        world.terms(false, false, Room::Cores);
        world.close(false);
        world.reopen(&world);
        assert_eq!([0, 1, 2].map(|worker| world.sleep.is_at_rest(WorkerId(worker))), [false, true, true], "{policy}");
        // A pool that has ended is open, even if its program is closed.
        world.close(true);
        world.end();
        assert!(!world.is_closed());
    }
}

#[test]
fn a_closed_pool_waits_for_a_core_if_something_waits_and_one_in_the_middle_of_a_task_is_recalled_first() {
    let world = World::new("comity", 4, false);
    world.enter([]);
    world.terms(false, false, Room::Cores);
    world.close(true);
    world.employ(0);
    assert!([0, 1, 2].iter().all(|worker| world.retires(*worker, Retirement::Surplus)));
    world.log.take();
    assert!(world.retires(3, Retirement::Surplus));
    assert!(world.log.take().contains(&"want false".to_owned()), "there is no task");
    world.member().unwrap().free.borrow_mut().insert(0);
    for (worker, why, wants) in [(3, Retirement::Surplus, "want false"), (2, Retirement::Midway, "want true")] {
        // The worker was woken for business that is over.
        world.sleep.wake_for_business(WorkerId(worker));
        world.woke(&world, WorkerId(worker), true);
        world.log.take();
        assert!(world.retires(worker, why));
        assert!(world.log.take().contains(&wants.to_owned()), "{why:?}");
    }
    assert_eq!(world.books().midway(), 1);
    assert!(world.books().is_at_work());
    let rests = |worker: &u32| world.is(*worker, State::Retired);
    assert!([0, 1, 2, 3].iter().all(rests), "though a core is free: one that a push wakes would retire again");
    // The program's turn begins.
    assert!(world.gain(&mut world.books(), CLAIM));
    world.close(false);
    world.employ(1);
    assert!(world.is(2, State::Awake));
    assert_eq!(world.books().awake(), 1);
    assert_eq!(world.books().midway(), 0);
}

#[test]
fn a_pool_that_is_closed_before_it_looked_for_losses_holds_no_core_in_its_books_either() {
    for policy in Policy::all().filter(Policy::shares_cores) {
        let world = World::new(policy.name(), 3, false);
        world.enter(0..3);
        (0..3).for_each(|_| assert!(world.gain(&mut world.books(), CLAIM)));
        world.terms(false, false, Room::Cores);
        world.employ(0);
        // Another program takes a core back. Its ring and the request to rest are seen at the same time.
        world.member().unwrap().held.borrow_mut().remove(2);
        world.log.take();
        world.terms(false, true, Room::Workers);
        world.close(true);
        world.employ(0);
        assert_eq!(world.books().held(), 0, "{policy}");
        assert!(world.log.take().contains(&"lost 1".to_owned()), "{policy}");
    }
}

#[test]
fn a_worker_that_finds_its_pool_open_again_and_no_core_rests() {
    for policy in Policy::all().filter(Policy::shares_cores) {
        let world = World::new(policy.name(), 2, false);
        world.enter(0..1);
        world.terms(false, true, Room::Workers);
        world.close(true);
        world.employ(0);
        let mut thief = policy.thief(WorkerId(0), 2, 1);
        let mut dialogue = Dialogue::begin(WorkerId(0), 0, &world);
        let mut go_on = |effect| {
            let outcome = match effect {
                Effect::StealFrom(_) | Effect::TakeInjected => Outcome::Took(Take::Nothing),
                _ => Outcome::Done,
            };
            dialogue.next(&mut *thief, &world, outcome)
        };
        let mut effect = Effect::Step(Step::Count);
        while effect != Effect::Step(Step::PassOn) {
            effect = go_on(effect);
        }
        // There is room for one worker, and the other worker is awake.
        world.terms(false, false, Room::Cores);
        world.close(false);
        world.employ(0);
        assert_eq!(world.books().awake(), 1, "{policy}");
        let effects: Vec<Effect> = (0..3)
            .map(|_| {
                effect = go_on(effect);
                effect
            })
            .collect();
        assert!(matches!(effects[..], [_, Effect::Step(Step::PassOn), Effect::Wait { .. }]), "{policy}: {effects:?}");
    }
}

#[test]
fn the_last_worker_that_a_task_wakes_does_not_retire() {
    for policy in Policy::all().filter(Policy::shares_cores) {
        let world = World::new(policy.name(), 3, false);
        assert!(!world.retires(0, Retirement::ByItself), "{policy}: it does not take part yet");
        world.enter([]);
        world.terms(false, false, Room::Cores);
        world.rest(1);
        assert!(world.retires(0, Retirement::ByItself), "{policy}: one is awake, and one asleep");
        let retired = world.is(1, State::Retired);
        assert!(retired || world.is(1, State::Asleep), "{policy}");
        assert!(!world.retires(2, Retirement::ByItself) || !retired, "{policy}: the last");
        assert!((0..3).any(|worker| !world.is(worker, State::Retired)), "{policy}");
    }
    // An adopted thread enters and leaves the pool at any time, so it does not count as a worker that a task wakes.
    let world = World::new("dws", 2, true);
    world.enter([]);
    assert!(!world.retires(1, Retirement::ByItself));
    assert_eq!(world.books().workers().collect::<Vec<_>>(), [WorkerId(1)]);
}

#[test]
fn a_worker_that_wakes_takes_a_core_back_only_if_no_core_is_free() {
    let world = World::beside("comity", 2, [0, 1], Room::Cores);
    let table = world.member().unwrap();
    world.rest(1);
    *table.lent.borrow_mut() = [2].into_iter().collect();
    for (free, taken) in [(vec![1], vec!["claim Some(1)"]), (vec![], vec!["claim None", "take back 2"])] {
        *table.free.borrow_mut() = free.into_iter().collect();
        world.sleep.wake_peer(WorkerId(0), Some(WorkerId(1)), false);
        world.log.take();
        assert_eq!(world.woke(&world, WorkerId(1), false), Up::Stays);
        assert_eq!(world.log.take_those(&["claim", "take back"]), taken);
        world.rest(1);
    }
}

#[test]
fn a_worker_too_many_retires_after_a_failed_steal_whether_its_program_is_alone_or_not() {
    for (alone, by_time) in [(false, false), (true, false), (false, true)] {
        let world = World::new("comity", 2, false);
        world.enter([0]);
        world.terms(alone, by_time, Room::One);
        world.employ(0);
        let mut thief = Policy::default().thief(WorkerId(0), 2, 1);
        let mut dialogue = Dialogue::begin(WorkerId(0), 0, &world);
        let outcomes = [Outcome::Done, Outcome::Took(Take::Nothing), Outcome::Took(Take::Nothing)];
        let effects = outcomes.map(|outcome| dialogue.next(&mut *thief, &world, outcome));
        let retires = [Effect::StealFrom(WorkerId(1)), Effect::TakeInjected, Effect::Step(Step::PassOn)];
        assert_eq!(effects, retires, "alone {alone}, by time {by_time}");
        assert!(world.is(0, State::Retired));
    }
}

#[test]
fn a_core_is_wanted_before_the_look_for_a_free_one() {
    let world = World::beside("comity", 2, [], Room::Cores);
    world.log.take();
    assert!(world.has_excess() && world.retires(0, Retirement::Surplus));
    assert_eq!(world.log.take(), ["want true", "any free?"]);
    world.member().unwrap().free.borrow_mut().insert(3);
    world.balance(&mut world.books(), &world);
    // The awake worker still lacks a core. The next push wakes the other worker.
    assert_eq!(world.log.take(), ["want true", "any free?", "want true", "decline"]);
    assert!(world.is(0, State::Asleep) && world.sleep.is_asleep(WorkerId(0)));
}

#[test]
fn a_recalled_worker_is_led_to_its_core_and_let_go_when_it_is_up() {
    let world = World::beside("comity", 2, [0], Room::Cores);
    assert!(world.retires(1, Retirement::Surplus));
    assert_eq!(world.books().core_of(WorkerId(0)), Some(0));
    let table = world.member().unwrap();
    table.free.borrow_mut().insert(1);
    world.log.take();
    assert!(world.gain(&mut world.books(), CLAIM));
    world.employ(1);
    assert_eq!(world.log.take(), ["claim Some(1)", "lead 1 to 1 asleep", "want false"]);
    assert!(world.is(1, State::Awake) && !world.sleep.is_at_rest(WorkerId(1)));
    assert_eq!(world.woke(&world, WorkerId(1), false), Up::Stays);
    assert_eq!(world.log.take(), ["confine 1 to None", "up 1", "want false", "coordinator"]);
}

/// The program may set the mask of its thread while another thread moves it. That mask can be lost.
#[test]
fn other_threads_move_a_worker_that_roams_only_if_its_core_is_lost_or_it_has_not_moved_for_a_look() {
    let world = World::new("comity", 3, false);
    let moves = |world: &World| world.log.take_those(&["confine", "lead"]);
    world.enter([0, 1, 2]);
    world.terms(false, false, Room::Workers);
    world.employ(0);
    assert_eq!(moves(&world), [""; 0], "all workers are awake and have a core");
    // A worker that wakes moves itself.
    world.rest(1);
    world.sleep.wake_peer(WorkerId(2), Some(WorkerId(1)), false);
    assert_eq!(world.woke(&world, WorkerId(1), false), Up::Stays);
    assert_eq!(moves(&world), ["lead 1 to 1"]);
    // The pool loses the core that worker 1 was moved to, so another thread moves worker 1.
    let table = world.member().unwrap();
    world.rest(2);
    table.held.borrow_mut().remove(1);
    assert!(world.rung(&mut world.books(), &world, 0));
    assert_eq!(moves(&world), ["lead 1 to 2"]);
    // Worker 0 has had its core since the start, and has not moved there.
    world.employ_as(0, Mover::Look);
    assert_eq!(moves(&world), [""; 0]);
    world.employ(0);
    assert_eq!(moves(&world), [""; 0]);
    world.employ_as(0, Mover::Look);
    assert_eq!(moves(&world), ["lead 0 to 0"]);
    world.employ_as(0, Mover::Look);
    assert_eq!(moves(&world), [""; 0]);
    // Workers that have run no code of the program are moved at once.
    let world = World::new("comity", 2, false);
    world.enter([0, 1]);
    world.terms(false, false, Room::Workers);
    world.employ_as(0, Mover::Start);
    assert_eq!(moves(&world), ["lead 0 to 0", "lead 1 to 1"]);
}

#[test]
fn a_pool_that_holds_all_its_cores_confines_no_worker_even_if_it_has_more_workers_than_cores() {
    let world = World::new("comity", 4, false);
    world.books().may_use = (0..2).collect();
    world.enter([0, 1]);
    world.terms(false, false, Room::Workers);
    world.employ(0);
    let (awake, held) = {
        let books = world.books();
        (books.awake(), books.held())
    };
    let moves = world.log.take_those(&["confine", "lead"]).len();
    assert_eq!((awake, held, moves), (4, 2, 0));
}

#[test]
fn a_lost_core_crowds_the_workers_that_are_left_and_its_queue_may_be_mugged() {
    let world = World::beside("comity", 2, [0, 1], Room::Cores);
    assert!(!world.has_excess() && world.without_core().next().is_none());
    let table = world.member().unwrap();
    table.held.borrow_mut().remove(1);
    world.log.take();
    assert!(world.rung(&mut world.books(), &world, 0));
    let steps = world.log.take();
    assert_eq!(steps[..2], ["lost 1", "claim None"]);
    assert_eq!(steps[2..], ["want true", "confine 0 to Some({0})", "confine 1 to Some({0})"]);
    assert!(world.has_excess());
    assert_eq!(world.without_core().collect::<Vec<_>>(), [WorkerId(1)]);
}
