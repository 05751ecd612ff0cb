//! The quanta of a program, on a model of its pools.

mod place;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use comity_policy::allotment::Proposal;
use comity_policy::{Account, Claims, Coordinator, Mode, Orders, OutOfTurn, Policy, Room, StealTime, WorkerId};
use comity_protocol::orders::InForce;
use comity_protocol::program::{Pools, Program, Sample, Spent, Staff, Status, Times};
use comity_protocol::quantum::{Coordination, Visit};
use comity_protocol::steal_time::Reading;
use comity_protocol::table::{self, Gain, Seat};
use comity_protocol::{CoreSet, CoreWord, STOPPED_AFTER, TURN};

use place::{Effect, Place, Table, slot};

const MS: u64 = 1_000_000;
const QUANTUM: u64 = 10 * MS;

/// The length in ns of a frame of two programs.
const FRAME: u64 = 2 * TURN.as_nanos() as u64;

/// The state of a pool's workers.
#[derive(Clone, Default)]
struct Pool {
    nth: usize,
    place: Rc<Place>,
    status: Status,
    workers: Vec<(Sample, Times)>,
    are_blocked: bool,
    off_core: u32,
    has_lost: bool,
    /// The number of calls of `times` and of `is_blocked`.
    asked: RefCell<(u32, u32)>,
}

/// A program with pools of workers.
#[derive(Default)]
struct Model {
    place: Rc<Place>,
    pools: Vec<Pool>,
    told: InForce,
    has_work: bool,
    keeps_core: bool,
    spent: Spent,
    busy: u64,
    stolen: Option<Reading>,
}

impl Model {
    fn new(table: &Rc<Table>, slot: usize, workers: u32) -> Model {
        let status = Status { workers, awake: workers, most: workers, lends: true, ..Status::default() };
        let (place, workers) = (Rc::new(Place::new(table, slot)), vec![Default::default(); workers as usize]);
        place.waits.set(true);
        let pool = Pool { place: Rc::clone(&place), status, workers, ..Pool::default() };
        Model { place, pools: vec![pool], has_work: true, ..Model::default() }
    }
}

impl Program for Model {
    type Seat = Place;
    type Staff<'a> = &'a mut Pool;

    fn seat(&self) -> &Place {
        &self.place
    }

    fn staffs(&self) -> usize {
        self.pools.len()
    }

    fn staff(&mut self, nth: usize) -> &mut Pool {
        &mut self.pools[nth]
    }

    fn in_force(&self) -> InForce {
        self.told
    }

    fn close(&mut self, closed: bool) {
        self.place.note(Effect::Close(closed));
    }

    fn stand(&mut self, alone: bool, mode: Mode, room: Room, usable: u32) {
        self.place.note(Effect::Stand { alone, mode, room, usable });
    }

    fn divide(&mut self) {
        self.place.note(Effect::Divide);
    }
}

impl Staff for &mut Pool {
    fn status(&self) -> Status {
        self.status
    }

    fn held(&self) -> CoreSet {
        self.place.held()
    }

    fn gain(&mut self, how: Gain) -> bool {
        let core = table::gain(&&*self.place, how).map(|(core, _)| core);
        let gained = if how == Gain::TakeBack { Effect::TakeBack } else { Effect::Claim };
        self.place.note(gained(self.nth, core));
        core.is_some()
    }

    fn release(&mut self, core: usize) {
        table::release(&&*self.place, Some(core)).unwrap();
        self.place.note(Effect::Release(core));
    }

    fn employ(&mut self) {
        self.place.note(Effect::Employ(self.nth));
    }

    fn sample(&self, worker: WorkerId) -> Sample {
        let ((sample, _), is_awake) = (self.workers[worker.index()], worker.0 < self.status.awake);
        Sample { is_awake, is_busy: is_awake && sample.is_busy, ..sample }
    }

    fn times(&self, worker: WorkerId) -> Option<Times> {
        self.asked.borrow_mut().0 += 1;
        Some(self.workers[worker.index()].1)
    }

    fn is_blocked(&self, _worker: WorkerId) -> Option<bool> {
        self.asked.borrow_mut().1 += 1;
        Some(self.are_blocked)
    }

    fn set_off_core(&mut self, workers: u32) {
        self.off_core = workers;
    }

    fn rung(&mut self) -> bool {
        self.place.note(Effect::Rung(self.nth));
        self.has_lost
    }

    fn leave_off(&mut self) {
        self.place.note(Effect::LeaveOff(self.nth));
    }
}

impl Pools for Model {
    fn usable(&mut self) -> u32 {
        self.place.words.len() as u32
    }

    fn has_work(&self) -> bool {
        self.has_work
    }

    fn keeps_core(&self) -> bool {
        self.keeps_core
    }

    fn reopen(&mut self, nth: usize) {
        self.place.note(Effect::Reopen(nth));
    }

    fn spent(&mut self, _lasted_ns: u64) -> Spent {
        self.spent
    }

    fn stolen(&mut self) -> Option<Reading> {
        self.stolen
    }

    fn busy_ns(&mut self) -> u64 {
        self.busy
    }
}

/// A policy that returns given orders, and keeps the last account.
#[derive(Clone)]
struct Script(Arc<Mutex<(Orders, Account)>>);

impl Coordinator for Script {
    fn quantum(&mut self, account: &Account) -> Orders {
        let mut script = self.0.lock().unwrap();
        script.1 = *account;
        script.0
    }
}

impl Script {
    fn new(orders: Orders) -> Script {
        Script(Arc::new(Mutex::new((orders, Account::default()))))
    }

    fn order(&self, orders: Orders) {
        self.0.lock().unwrap().0 = orders;
    }

    fn last(&self) -> Account {
        self.0.lock().unwrap().1
    }

    fn coordination(&self) -> Coordination {
        Coordination::new(Box::new(self.clone()), QUANTUM, 0, 1)
    }
}

impl Model {
    /// Gives each worker a task for `lasted` ns, of which it computes for `on_core` ns.
    fn works(&mut self, lasted: u64, on_core: u64) {
        for (sample, times) in self.pools.iter_mut().flat_map(|pool| &mut pool.workers) {
            (sample.is_busy, sample.busy_ns) = (true, sample.busy_ns + lasted);
            sample.clock_ns = Some(sample.clock_ns.unwrap_or(0) + on_core);
            times.on_core += on_core;
            self.spent.clock_ns += on_core;
            self.busy += lasted;
        }
        self.spent.held_ns += lasted * self.place.held().len() as u64;
    }
}

fn coordination(policy: &str) -> Coordination {
    Coordination::new(policy.parse::<Policy>().unwrap().coordinator().unwrap(), QUANTUM, 0, 1)
}

/// Returns a program on a table with these numbers of cores and programs. The program has begun to follow the script.
fn begun([cores, programs]: [usize; 2], workers: u32, orders: Orders) -> (Script, Model, Coordination) {
    let (script, mut model) = (Script::new(orders), Model::new(&Table::new(cores, programs), 0, workers));
    let mut coordination = script.coordination();
    coordination.begin(&mut model, 0);
    (script, model, coordination)
}

/// Asserts that each step of `order` was done, in that order.
#[track_caller]
fn assert_in_order(effects: &[Effect], order: &[Effect]) {
    let at = |wanted: &Effect| effects.iter().position(|effect| effect == wanted).expect("it is done");
    assert!(order.iter().map(at).is_sorted(), "{effects:?}");
}

fn time(due: u16) -> Orders {
    Orders { mode: Mode::Time, due, ..Orders::hold(0, Claims::AS_BEFORE) }
}

fn more(desire: u32, free: u32, back: u32) -> Orders {
    Orders::hold(desire, Claims::More { free, own_only: false, back })
}

#[test]
fn the_desire_is_told_before_the_books_and_the_books_before_cores_are_claimed() {
    let (script, mut model, mut coordination) = begun([2, 2], 2, time(1));
    let stands = |mode| Effect::Stand { alone: true, mode, room: Room::Workers, usable: 2 };
    let open = Effect::Close(false);
    let begins =
        [Effect::Divide, Effect::Round(0), stands(Mode::Time), open.clone(), Effect::Divide, Effect::Employ(0)];
    assert_eq!(model.place.log.take(), begins, "the desire has not changed: one round");
    script.order(more(2, 2, 0));
    model.works(QUANTUM, QUANTUM);
    assert_eq!(coordination.come_by(&mut model, QUANTUM), Visit::Looked);
    let claims = [Effect::Claim(0, Some(0)), Effect::Claim(0, Some(1)), open, Effect::Divide, Effect::Employ(0)];
    let before = [Effect::Divide, Effect::Round(0), Effect::Round(2), stands(Mode::Cores)];
    assert_eq!(model.place.log.take(), [&before[..], &claims].concat());
    model.works(QUANTUM, QUANTUM);
    coordination.come_by(&mut model, 2 * QUANTUM);
    let Account { first, owned, held, allotment, allotted_ns, elapsed_ns, used_ns, held_ns, usage_ns, .. } =
        script.last();
    assert!(!first);
    assert_eq!([owned, held, allotment], [2; 3]);
    assert_eq!([allotted_ns, used_ns, held_ns, usage_ns], [2 * elapsed_ns; 4]);
}

#[test]
fn a_program_that_holds_what_is_its_own_releases_first_and_takes_back_last() {
    let table = Table::new(4, 2);
    let (mut one, mut other) = (Model::new(&table, 0, 4), Model::new(&table, 1, 4));
    let [mut of_one, mut of_other] = [(); 2].map(|()| coordination("equipartition"));
    of_one.begin(&mut one, 0);
    assert_eq!(one.place.held().len(), 4);
    // The first program releases the other's cores only at its own look. Before that, the other program takes back its
    // own cores.
    of_other.begin(&mut other, 0);
    let taken: Vec<Effect> =
        other.place.log.take().into_iter().filter(|effect| matches!(effect, Effect::TakeBack(_, Some(_)))).collect();
    assert_eq!((taken.len(), one.place.held().len(), other.place.held().len()), (2, 2, 2));
    // The first program lends one of its own cores, and holds a core of the other program.
    let own = one.place.held().iter().next().unwrap();
    let its = other.place.held().iter().next().unwrap();
    let pass = |core: usize, from: &Model, to: &Model| {
        let word = table.words[core].get().released(from.place.slot).unwrap();
        table.words[core].set(word.claimed(to.place.slot).unwrap());
    };
    pass(its, &other, &one);
    pass(own, &one, &other);
    one.place.log.take();
    one.works(QUANTUM, QUANTUM);
    assert_eq!(of_one.come_by(&mut one, QUANTUM), Visit::Looked);
    let moves =
        [Effect::Release(its), Effect::Claim(0, None), Effect::TakeBack(0, Some(own)), Effect::TakeBack(0, None)];
    let done: Vec<Effect> = one.place.log.take();
    assert!(done.windows(4).any(|done| done == moves), "{done:?}");
    assert_eq!(one.place.held(), one.place.owned());
}

#[test]
fn one_pool_is_asked_for_as_the_policy_says_and_of_several_each_as_it_needs() {
    let claims = |pools: &[(u64, u32)]| {
        let table = Table::new(8, 1);
        let mut model = Model::new(&table, 0, 8);
        let pool = model.pools[0].clone();
        let status = |(queued, retired)| Status { queued, retired, ..pool.status };
        let nth = |(nth, of): (usize, &(u64, u32))| Pool { nth, status: status(*of), ..pool.clone() };
        model.pools = pools.iter().enumerate().map(nth).collect();
        Script::new(more(8, 4, 0)).coordination().begin(&mut model, 0);
        let of = |nth| move |effect: &&Effect| matches!(effect, Effect::Claim(pool, Some(_)) if *pool == nth);
        let effects = model.place.log.take();
        (0..pools.len()).map(|nth| effects.iter().filter(of(nth)).count()).collect::<Vec<usize>>()
    };
    assert_eq!(claims(&[(0, 0)]), [4]);
    assert_eq!(claims(&[(0, 5), (3, 2), (9, 9)]), [0, 2, 2]);
}

#[test]
fn what_is_asked_from_outside_bounds_what_is_used_and_a_paused_program_holds_nothing_more() {
    let table = Table::new(4, 2);
    let mut model = Model::new(&table, 0, 4);
    model.told.cores = Some(1);
    let mut coordination = coordination("comity");
    coordination.begin(&mut model, 0);
    model.works(QUANTUM, QUANTUM);
    model.pools[0].status.queued = 3;
    model.pools[0].status.retired = 3;
    coordination.come_by(&mut model, QUANTUM);
    let effects = model.place.log.take();
    assert!(effects.contains(&Effect::Round(1)), "{effects:?}");
    let stands = Effect::Stand { alone: true, mode: Mode::Cores, room: Room::Workers, usable: 1 };
    assert!(effects.contains(&stands), "it could use a core, though its part of the machine is larger: {effects:?}");
    // One core is left, even if a request asks for fewer.
    model.told.cores = Some(0);
    model.works(QUANTUM, QUANTUM);
    let next = coordination.next();
    coordination.come_by(&mut model, next);
    assert!(model.place.log.take().contains(&stands));
    assert_eq!(model.place.held().len(), 1);
    model.works(QUANTUM, QUANTUM);
    // The program was asked to rest since the last visit, and no look is due.
    let now = coordination.looked() + MS;
    let until = now + 100 * QUANTUM;
    model.told.paused_until = Some(until);
    assert_eq!(coordination.come_by(&mut model, now), Visit::Paused);
    let effects = model.place.log.take();
    let rests = Effect::Stand { alone: true, mode: Mode::Time, room: Room::Workers, usable: 1 };
    assert_in_order(&effects, &[Effect::Want(false), Effect::Round(0), rests, Effect::Close(true), Effect::Employ(0)]);
    assert_eq!((model.place.held(), coordination.next()), (CoreSet::EMPTY, now + QUANTUM), "a worker is in a task");
    model.pools[0].status.awake = 0;
    assert_eq!(coordination.come_by(&mut model, now + MS), Visit::Paused);
    assert_eq!(coordination.next(), until);
    model.place.log.take();
    assert_eq!(coordination.come_by(&mut model, until), Visit::Looked);
    let effects = model.place.log.take();
    assert_in_order(&effects, &[Effect::Close(false), Effect::Employ(0), Effect::Reopen(0)]);
    // The pools end while the program rests. The next pool must not be closed.
    model.told.paused_until = Some(until + QUANTUM);
    coordination.come_by(&mut model, until + MS);
    model.place.log.take();
    coordination.leave_off(&mut model);
    let effects = model.place.log.take();
    assert!(effects.contains(&Effect::Close(false)) && effects.contains(&Effect::Reopen(0)), "{effects:?}");
}

#[test]
fn a_coordinator_comes_by_before_it_counts_as_stopped_and_at_a_loss_within_a_quantum() {
    let table = Table::new(2, 1);
    let mut model = Model::new(&table, 0, 2);
    let script = Script::new(time(u16::MAX));
    let mut coordination = script.coordination();
    coordination.begin(&mut model, 7);
    let due = STOPPED_AFTER.as_nanos() as u64 / 2;
    assert_eq!((coordination.looked(), coordination.next()), (7, 7 + due));
    model.place.log.take();
    // A core is available: workers are recalled, and no early look is needed.
    assert_eq!(coordination.come_by(&mut model, MS), Visit::Rung);
    assert_eq!((coordination.next(), model.place.log.take()), (7 + due, vec![Effect::Rung(0)]));
    for (at, change) in [(2 * MS, true), (3 * MS, false)] {
        model.pools[0].has_lost = change;
        model.place.population.set(model.place.population.get() + usize::from(!change));
        coordination.look_by(u64::MAX);
        assert_eq!(coordination.come_by(&mut model, at), Visit::Rung);
        assert_eq!(coordination.next(), 2 * MS + QUANTUM, "at {at}: the first that was due stays");
    }
    // No program has joined since the previous visit.
    let mut calm = script.coordination();
    model.pools[0].has_lost = false;
    model.place.population.set(1);
    calm.begin(&mut model, 0);
    calm.come_by(&mut model, MS);
    assert_eq!(calm.next(), due);
    calm.look_by(5 * MS);
    assert_eq!(calm.next(), 5 * MS);
}

#[test]
fn what_a_host_took_in_a_window_is_told_and_no_more_is_held_than_is_worth_it() {
    let table = Table::new(4, 1);
    let mut model = Model::new(&table, 0, 4);
    let (all, two) = (more(4, 4, 0), Orders { worth: 2, ..more(4, 4, 0) });
    let script = Script::new(all);
    let mut coordination = script.coordination();
    model.stolen = Some(Reading { run_ns: MS, steal_ns: MS });
    coordination.begin(&mut model, 0);
    let mut now = 0;
    let mut look = |model: &mut Model| {
        now += QUANTUM;
        model.works(QUANTUM, QUANTUM / 2);
        model.stolen = model
            .stolen
            .map(|before| Reading { run_ns: before.run_ns + 2 * QUANTUM, steal_ns: before.steal_ns + 2 * QUANTUM });
        model.place.log.take();
        assert_eq!(coordination.come_by(model, now), Visit::Looked);
        script.last().steal
    };
    let windows: Vec<Option<StealTime>> = (0..100).map(|_| look(&mut model)).collect();
    let lasted_ns = 50 * QUANTUM;
    let window = StealTime { lasted_ns, run_ns: 2 * lasted_ns, steal_ns: 2 * lasted_ns };
    assert!(windows.iter().enumerate().all(|(nth, steal)| *steal == (nth % 50 == 49).then_some(window)));
    assert_eq!(model.place.held().len(), 4);
    script.order(two);
    look(&mut model);
    let effects = model.place.log.take();
    assert_eq!(model.place.held().len(), 2, "{effects:?}");
    assert!(effects.contains(&Effect::Round(2)), "it desires no more: {effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Stand { usable: 2, .. })), "{effects:?}");
    look(&mut model);
    let Account { usable, share_milli, .. } = script.last();
    assert_eq!([usable, share_milli], [4, 4000], "the policy hears what it could use otherwise");
    script.order(all);
    look(&mut model);
    assert_eq!(model.place.held().len(), 4);
    assert!(script.last().held == 2);
}

#[test]
fn a_coordinator_without_work_for_a_quantum_leaves_off() {
    let (script, mut model, mut coordination) = begun([2, 1], 2, Orders { due: 4, ..more(2, 2, 0) });
    model.works(QUANTUM, QUANTUM);
    model.has_work = false;
    // There was work since the last look. The next look may be the last, so it is not delayed.
    assert_eq!(coordination.come_by(&mut model, 4 * QUANTUM), Visit::Looked);
    assert_eq!(coordination.next(), 5 * QUANTUM);
    // While the thread that hands in tasks runs on a core of the program, the coordinator looks in each quantum.
    model.keeps_core = true;
    assert_eq!(coordination.come_by(&mut model, 5 * QUANTUM), Visit::Looked);
    assert_eq!(coordination.next(), 6 * QUANTUM);
    model.keeps_core = false;
    model.place.log.take();
    assert_eq!(coordination.come_by(&mut model, 6 * QUANTUM), Visit::Rests);
    assert_eq!(model.place.log.take(), []);
    coordination.leave_off(&mut model);
    assert_eq!(model.place.log.take(), [Effect::Want(false), Effect::Round(0), Effect::LeaveOff(0)]);
    model.has_work = true;
    coordination.begin(&mut model, 9 * QUANTUM);
    assert!(script.last().first);
    assert_eq!(script.last().allotment, 0);
}

/// Returns the numbers of calls of `times` and of `is_blocked` in a quantum in which each worker computed for
/// `on_core` ns.
fn questions(orders: Orders, on_core: u64) -> (u32, u32) {
    let (_, mut model, mut coordination) = begun([2, 2], 2, orders);
    // A worker's times in the quantum are the difference of two queries.
    for nth in 1..=2 {
        model.works(QUANTUM, on_core);
        model.pools[0].asked.take();
        coordination.come_by(&mut model, nth * QUANTUM);
    }
    model.pools[0].asked.take()
}

#[test]
fn workers_are_asked_only_where_the_answer_may_change_something() {
    let share = 10 * MS;
    // Each of two workers uses a little, some, or all of its part.
    assert_eq!([share / 30, share / 4, share / 2].map(|on_core| questions(time(1), on_core)), [(0, 0), (2, 2), (0, 0)]);
    assert_eq!(questions(Orders { room: Room::One, ..time(1) }, share / 4), (0, 0));
    // The program uses all of the time of its two cores, then less than that, then very little.
    let cores = more(2, 2, 0);
    assert_eq!([QUANTUM, 9 * MS, 8 * MS].map(|on_core| questions(cores, on_core)), [(0, 0), (2, 0), (2, 2)]);
}

#[test]
fn a_wait_for_a_core_is_what_the_program_could_have_used_and_a_quota_bounds_that() {
    let (script, mut model, mut coordination) = begun([2, 2], 2, time(1));
    let mut look = |blocked: bool, granted, order| {
        script.order(order);
        model.pools[0].are_blocked = blocked;
        model.spent.granted_ns = granted;
        model.works(QUANTUM, 3 * MS);
        let at = coordination.next();
        coordination.come_by(&mut model, at);
        let Account { used_ns, able_ns, wanted_ns, .. } = script.last();
        [used_ns, able_ns, wanted_ns].map(|ns| ns / MS)
    };
    assert_eq!(look(false, None, time(1)), [6, 6, 6], "asked for the first time");
    assert_eq!(look(false, None, time(1)), [6, 20, 20], "what they did not have they waited for");
    assert_eq!(look(true, None, time(1)), [6, 6, 6], "they wanted no more");
    assert_eq!(look(false, Some(5 * MS), Orders { room: Room::One, ..time(1) }), [6, 5, 5]);
    assert_eq!(look(true, None, more(2, 2, 0)), [6, 6, 6], "not asked in a crowd");
    // While the workers are queried for the first time, the program is presumed to use all cores that it holds.
    assert_eq!([(); 2].map(|()| look(true, None, more(2, 2, 0))), [[6, 20, 20], [6, 6, 6]]);
}

#[test]
fn those_that_do_not_move_beside_queued_tasks_need_no_core() {
    let table = Table::new(2, 1);
    let mut model = Model::new(&table, 0, 4);
    (model.pools[0].status.awake, model.pools[0].status.retired, model.pools[0].status.queued) = (2, 2, 9);
    let mut coordination = Script::new(more(2, 2, 0)).coordination();
    coordination.begin(&mut model, 0);
    let mut look = |nth: u64, moves: bool| {
        model.works(QUANTUM, QUANTUM);
        if moves {
            model.pools[0].workers.iter_mut().for_each(|(sample, _)| sample.progress[0] += 1);
        }
        coordination.come_by(&mut model, nth * QUANTUM);
        model.pools[0].off_core
    };
    // At the third look, neither worker has made progress for two successive looks.
    assert_eq!([1, 2, 3, 4, 5].map(|nth| look(nth, false)), [0, 0, 2, 4, 4]);
    assert_eq!([6, 7, 8].map(|nth| look(nth, true)), [2, 1, 0]);
}

/// A program and another program that share the only core. The other program has its turn in the second half of each
/// frame.
fn beside_another(table: &Rc<Table>) -> (Script, Model, Coordination) {
    table.desires[1].set(1);
    let script = Script::new(Orders { out_of_turn: OutOfTurn::Rests, ..more(1, 1, 1) });
    let coordination = script.coordination();
    (script, Model::new(table, 0, 1), coordination)
}

/// Runs a look of the other program, which updates the owners.
fn other_looks(table: &Rc<Table>) {
    Place::new(table, 1).round(1, 1);
}

/// Ends the turn of the program: the other program takes the core back.
fn lose_the_turn(table: &Rc<Table>, model: &mut Model) {
    table.now.set(FRAME / 2);
    other_looks(table);
    let taken = table.change(|word| word.taken_back(slot(1)));
    assert_eq!(taken, Some(0));
    (model.pools[0].has_lost, model.pools[0].status.queued) = (true, 1);
}

#[test]
fn a_program_at_the_end_of_its_turn_releases_the_core_that_is_not_its_own() {
    let table = Table::new(1, 2);
    let (script, mut model, mut coordination) = beside_another(&table);
    coordination.begin(&mut model, 0);
    assert_eq!(model.place.held().len(), 1, "its turn");
    // The policy sees no free core at that look.
    script.order(Orders { out_of_turn: OutOfTurn::Rests, ..more(1, 0, 0) });
    other_looks(&table);
    // The other program has not taken the core back yet.
    table.now.set(FRAME / 2);
    model.works(QUANTUM, QUANTUM);
    assert_eq!(coordination.come_by(&mut model, QUANTUM), Visit::Looked);
    assert!(model.place.held().is_empty());
    assert!(model.place.log.take().contains(&Effect::Close(true)));
    // Out of turn, the program keeps a borrowed core until its owner takes it back.
    model.pools[0].status.queued = 1;
    coordination.come_by(&mut model, QUANTUM + MS);
    assert_eq!(model.place.held().len(), 1);
    model.works(QUANTUM, QUANTUM);
    assert_eq!(coordination.come_by(&mut model, 3 * QUANTUM), Visit::Looked);
    assert_eq!(model.place.held().len(), 1);
}

#[test]
fn a_program_out_of_turn_is_closed_until_its_turn_begins() {
    let table = Table::new(1, 2);
    let (script, mut model, mut coordination) = beside_another(&table);
    coordination.begin(&mut model, 0);
    assert_eq!(model.place.held().len(), 1, "its turn");
    model.works(QUANTUM, QUANTUM);
    coordination.come_by(&mut model, QUANTUM);
    model.place.log.take();
    lose_the_turn(&table, &mut model);
    let rests = Orders { out_of_turn: OutOfTurn::Rests, ..more(1, 1, 1) };
    script.order(Orders { due: 50, ..rests });
    // The program looks as soon as it is notified of the loss of its last core, before the end of the quantum.
    let lost_at = QUANTUM + MS;
    model.works(MS, MS);
    assert_eq!(coordination.come_by(&mut model, lost_at), Visit::Looked);
    let effects = model.place.log.take();
    let closes = [Effect::Close(true), Effect::Divide, Effect::Employ(0)];
    assert!(effects.windows(3).any(|done| done == closes), "{effects:?}");
    assert_eq!(effects.last(), Some(&Effect::Claim(0, None)), "by now it would be told of a core that is free");
    assert_eq!(coordination.next().abs_diff(lost_at + FRAME / 2) / MS, 0, "the next look is at its turn at the latest");
    script.order(rests);
    coordination.look_by(lost_at + QUANTUM);
    model.pools[0].has_lost = false;
    let turn = lost_at + 2 * QUANTUM;
    coordination.come_by(&mut model, turn - QUANTUM);
    assert_eq!((script.last().elapsed_ns, script.last().lasted_ns), (0, QUANTUM), "it could do nothing");
    assert!(model.place.log.take().contains(&Effect::Close(true)));
    table.now.set(0);
    assert_eq!(coordination.come_by(&mut model, turn), Visit::Looked);
    let effects = model.place.log.take();
    assert_in_order(
        &effects,
        &[Effect::TakeBack(0, Some(0)), Effect::Close(false), Effect::Employ(0), Effect::Reopen(0)],
    );
}

#[test]
fn a_program_out_of_turn_borrows_a_core_that_stays_free_and_no_other() {
    let table = Table::new(1, 2);
    let (_, mut model, mut coordination) = beside_another(&table);
    coordination.begin(&mut model, 0);
    lose_the_turn(&table, &mut model);
    assert_eq!(coordination.come_by(&mut model, MS), Visit::Looked);
    model.pools[0].has_lost = false;
    // The other program releases its core, notifies this one, and claims the core again.
    let free = |word: CoreWord| word.released(slot(1));
    table.change(free).expect("it holds it");
    model.place.log.take();
    table.lend_after.set(MS / 2);
    assert_eq!(coordination.come_by(&mut model, 2 * MS), Visit::Rung);
    assert_eq!(model.place.log.take(), [Effect::Claim(0, None), Effect::Rung(0)]);
    assert_eq!(coordination.next(), 2 * MS + MS / 2, "it waits first");
    table.change(|word| word.claimed(slot(1))).expect("it is free");
    table.lend_after.set(0);
    assert_eq!(coordination.come_by(&mut model, coordination.next()), Visit::Rung);
    assert_eq!(model.place.log.take(), [Effect::Claim(0, None), Effect::Rung(0)]);
    assert!(coordination.next() > 3 * MS, "there is none to wait for");
    assert!(table.wanting.borrow().contains(&0), "it is told of the next");
    // The core stays free. It is not needed while no task waits for a worker.
    table.change(free).expect("it holds it");
    model.pools[0].status.queued = 0;
    coordination.come_by(&mut model, 4 * MS);
    model.pools[0].status.queued = 1;
    assert_eq!(model.place.log.take(), [Effect::Rung(0)]);
    coordination.come_by(&mut model, 5 * MS);
    let borrows = [Effect::Claim(0, Some(0)), Effect::Close(false), Effect::Rung(0), Effect::Reopen(0)];
    assert_eq!(model.place.log.take(), borrows);
    // The owner takes the core back.
    table.change(|word| word.taken_back(slot(1))).expect("it is lent");
    model.pools[0].has_lost = true;
    assert_eq!(coordination.come_by(&mut model, 8 * MS), Visit::Looked);
    assert!(model.place.log.take().contains(&Effect::Close(true)));
}

#[test]
fn a_program_that_is_given_no_turn_in_time_keeps_a_worker_until_it_is() {
    let table = Table::new(1, 2);
    let (_, mut model, mut coordination) = beside_another(&table);
    coordination.begin(&mut model, 0);
    lose_the_turn(&table, &mut model);
    coordination.come_by(&mut model, MS);
    model.pools[0].has_lost = false;
    model.place.log.take();
    let mut closed = |nth| {
        assert_eq!(coordination.come_by(&mut model, MS + nth * QUANTUM), Visit::Looked);
        model.place.log.take().contains(&Effect::Close(true))
    };
    // The program last had a core at its first look.
    let bound = (FRAME + QUANTUM) / QUANTUM;
    assert!((1..bound).all(&mut closed));
    assert!(!(bound..4 * bound).any(&mut closed), "the table is wrong about it, and it goes on as it can");
    table.now.set(0);
    assert!(!closed(4 * bound));
    assert_eq!(model.place.held().len(), 1);
}

#[test]
fn no_program_is_out_of_turn_that_is_alone_keeps_a_worker_or_shares_time() {
    let orders = Orders { out_of_turn: OutOfTurn::Rests, ..more(1, 0, 0) };
    for (others, orders, closes) in [
        (1, orders, true),
        (0, orders, false),
        (1, Orders { out_of_turn: OutOfTurn::KeepsWorker, ..orders }, false),
        (1, Orders { mode: Mode::Time, ..orders }, false),
    ] {
        let table = Table::new(1, 2);
        let (script, mut model, mut coordination) = beside_another(&table);
        table.now.set(FRAME / 2);
        table.desires[1].set(others);
        script.order(orders);
        coordination.begin(&mut model, 0);
        assert_eq!(model.place.log.take().contains(&Effect::Close(true)), closes, "{orders:?}");
    }
}

#[test]
fn a_proposal_is_told_once_and_stands_while_the_program_rests() {
    let (script, mut model, mut coordination) = begun([1, 1], 1, more(1, 1, 0));
    let proposed = |model: &mut Model| -> Vec<Proposal> {
        let effects = model.place.log.take().into_iter();
        effects
            .filter_map(|effect| if let Effect::Propose(proposal) = effect { Some(proposal) } else { None })
            .collect()
    };
    assert_eq!(proposed(&mut model), [], "equal parts are what a program begins with");
    let proposal = Proposal::Slowdown { efficiency: 800 };
    script.order(Orders { proposal, ..more(1, 1, 0) });
    let mut told = |nth: u64, paused: bool| {
        model.told.paused_until = paused.then_some(u64::MAX);
        coordination.come_by(&mut model, nth * QUANTUM);
        proposed(&mut model)
    };
    assert_eq!([told(1, false), told(2, false)], [vec![proposal], vec![]]);
    assert_eq!([told(3, true), told(4, true), told(5, false)], [vec![], vec![], vec![]]);
}

#[test]
fn a_correction_is_told_once() {
    let (script, mut model, mut coordination) = begun([1, 1], 1, more(1, 1, 0));
    assert!(!model.place.log.take().contains(&Effect::Correct(1000)), "so it is where a program joins");
    script.order(Orders { correction: 900, ..more(1, 1, 0) });
    let mut told = |nth| {
        coordination.come_by(&mut model, nth * QUANTUM);
        model.place.log.take().iter().filter(|effect| **effect == Effect::Correct(900)).count()
    };
    assert_eq!([1, 2].map(&mut told), [1, 0]);
}
