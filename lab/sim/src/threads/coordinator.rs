//! The coordinator of one program: provides the inputs of `comity_protocol::quantum`, and carries out its decisions.

use std::cell::Cell;

use comity_policy::definition::Sleeper;
use comity_policy::{Mode, Room, Sharing, WorkerId};
use comity_protocol::SlotId;
use comity_protocol::activation::{Activation, Terms};
use comity_protocol::look::{AtLook, Looked};
use comity_protocol::orders::InForce;
use comity_protocol::program::{Pools, Program, Sample, Spent, Times};
use comity_protocol::quantum::{Coordination, Visit};
use comity_protocol::steal_time::Reading;

use super::kernel::Place;
use super::platform::Cells;
use super::pool::Pool;
use super::quota::Quota;
use super::spell::Queues;
use super::table::{Part, Table};
use super::{Due, Host};

/// The state of a program that shares cores, in addition to its pool.
pub(super) struct Share {
    pub(super) activation: Activation<Cells, Part>,
    pub(super) slot: SlotId,
    /// The largest number of cores that the program can use.
    usable: u32,
    /// The length of a quantum, in nanoseconds.
    pub(super) quantum: u64,
    /// The time since which the program is out of turn: its pool is closed, although it is not paused.
    pub(super) out_since: Option<u64>,
    /// The largest number of programs in the table at the coordinator's looks since `out_since`.
    pub(super) among: usize,
    /// The coordinator's state. `None` during a look, and before the program is a member of the table.
    coordination: Option<Coordination>,
    /// True if the coordinator sleeps because there was no work. The next worker that wakes up wakes the coordinator.
    is_dormant: Cell<bool>,
    is_poked: Cell<bool>,
    /// True if the coordinator was woken from this sleep, and starts again at its bell.
    begins: Cell<bool>,
    /// The number of times that the next look was planned. Only the newest plan is valid.
    plan: u32,
    /// The requests from outside that were in force at the last visit.
    pub(super) told: InForce,
    /// The time from which on all requests that were sent so far must be in force.
    obeys_from: Cell<u64>,
}

impl Share {
    pub(super) fn part(&self) -> &Part {
        self.activation.member().expect("the program is a member of the core table")
    }

    pub(super) fn worker_is_up(&self) {
        if self.is_dormant.replace(false) {
            self.is_poked.set(true);
        }
    }

    /// Notes a request. The coordinator reacts to its bell at `heard` at the latest.
    pub(super) fn is_asked(&self, heard: u64) {
        self.obeys_from.set(self.obeys_from.get().max(heard + 2 * self.quantum));
    }

    /// True if all requests that were sent so far must be in force.
    pub(super) fn obeys(&self, now: u64) -> bool {
        now > self.obeys_from.get()
    }

    /// True if the coordinator sleeps, or was woken and has not looked yet.
    pub(super) fn is_off(&self) -> bool {
        self.is_dormant.get() || self.is_poked.get() || self.begins.get()
    }

    /// Returns true if the coordinator must be woken. Returns true only once for each of the coordinator's sleeps.
    pub(super) fn take_poke(&self) -> bool {
        self.is_poked.take() && !self.begins.replace(true)
    }
}

impl Host {
    pub(super) fn join_table(&mut self, program: u32) {
        let pool = self.pool(program);
        if !self.has_table {
            return;
        }
        let Some((sharing, quantum)) = Sharing::of(&pool.policy) else { return };
        let lend_after = pool.policy.lend_after().as_nanos() as u64;
        let Some(slot) = self.table.join(program, lend_after) else {
            self.pool_mut(program).counts.unshared = 1;
            return;
        };
        let pool = self.pool(program);
        let cores = self.kernel.len() as u32;
        let usable = pool.quota.as_ref().map_or(u32::MAX, Quota::usable).min(cores);
        let workers = pool.workers.len() as u32;
        let may_use = (0..self.kernel.len()).collect();
        let activation = Activation::new(&pool.cells, sharing, workers, false, may_use, usable);
        let quantum = quantum.as_nanos() as u64;
        self.pool_mut(program).share = Some(Share {
            activation,
            slot,
            usable,
            quantum,
            out_since: None,
            among: 0,
            coordination: None,
            is_dormant: Cell::new(false),
            is_poked: Cell::new(false),
            begins: Cell::new(false),
            plan: 0,
            told: InForce::default(),
            obeys_from: Cell::new(0),
        });
        if sharing.sleeper == Sleeper::LendsCore {
            // The program becomes a member after a quantum, because a program that ends earlier has nothing to share.
            self.plan(self.now + quantum, Due::TakesPart(program));
        } else {
            self.enter(program);
        }
    }

    /// Makes the program a member of the table: from now on its cores count.
    fn enter(&mut self, program: u32) {
        let (table, population) = (self.table.clone(), self.table.population());
        let pool = self.pool_mut(program);
        let (spent, coordinator) = (pool.spent().total(), pool.policy.coordinator());
        let share = pool.share.as_mut().expect("a program that shares cores enters");
        share.activation.enter(Box::new(Part::new(table, share.slot)));
        let coordinator = coordinator.expect("a policy that shares cores has a coordinator");
        share.coordination = Some(Coordination::new(coordinator, share.quantum, spent, population));
    }

    /// Called when a program that lends cores has run for a quantum.
    pub(super) fn takes_part(&mut self, program: u32) {
        if !self.pool(program).is_there() {
            return;
        }
        self.charge_all();
        self.enter(program);
        let pool = self.pool(program);
        let share = pool.share.as_ref().expect("the program shares cores");
        if share.activation.books().is_at_work() || pool.shows_task() {
            self.begin_to_share(program);
        } else {
            share.is_dormant.set(true);
        }
    }

    /// Starts the coordinator. Called when the program's pool has its workers.
    pub(super) fn begin_to_share(&mut self, program: u32) {
        self.coordinate(program, |coordination, driver, now| {
            coordination.begin(driver, now);
            Visit::Looked
        });
    }

    /// Handles a look that is due. Does nothing if `plan` is not the newest plan of a look.
    pub(super) fn quantum(&mut self, program: u32, plan: u32) {
        if self.pool(program).share.as_ref().is_some_and(|share| share.plan == plan) {
            self.coordinate(program, |coordination, driver, now| coordination.come_by(driver, now));
        }
    }

    /// Handles the bell. It was rung for one of these reasons: a core was taken back or is free, another program has
    /// joined the table, a worker is awake again, or there is a request.
    pub(super) fn rung(&mut self, program: u32) {
        let Some(share) = &self.pool(program).share else { return };
        if share.begins.take() {
            return self.begin_to_share(program);
        }
        if share.is_dormant.get() {
            let told = self.obey(program);
            // A paused program's coordinator starts now, so that the pool is closed before the program has work.
            if told.is_some_and(|told| told.paused_until.is_some()) {
                self.pool(program).share.iter().for_each(|share| share.is_dormant.set(false));
                self.begin_to_share(program);
            }
        } else {
            self.coordinate(program, |coordination, driver, now| coordination.come_by(driver, now));
        }
    }

    fn coordinate(&mut self, program: u32, visit: impl FnOnce(&mut Coordination, &mut Driver<'_>, u64) -> Visit) {
        if !self.pool(program).is_there() {
            return;
        }
        self.charge_all();
        let (now, idled, stolen, table) = (self.now, self.idled, self.stolen(), self.table.clone());
        let Some(told) = self.obey(program) else { return };
        let was_closed = self.pool(program).is_closed();
        let Some(share) = &mut self.pool_mut(program).share else { return };
        let Some(mut coordination) = share.coordination.take() else { return };
        let before = coordination.next();
        let visit = self.step(program, |_, queues| {
            let mut driver = Driver { pool: queues.pool(), table: &table, now, idled, stolen };
            let visit = visit(&mut coordination, &mut driver, now);
            if visit == Visit::Rests {
                coordination.leave_off(&mut driver);
            }
            visit
        });
        let next = coordination.next();
        if !was_closed && self.pool(program).is_closed() {
            self.pool_mut(program).has_closed();
        }
        let is_out = self.pool(program).is_closed() && told.paused_until.is_none();
        let Some(share) = &mut self.pool_mut(program).share else { return };
        share.coordination = Some(coordination);
        share.told = told;
        share.among = if share.out_since.is_some() { share.among.max(table.population()) } else { table.population() };
        share.out_since = is_out.then(|| share.out_since.unwrap_or(now));
        table.set_weight(share.slot, told.weight);
        if visit == Visit::Rests {
            share.is_dormant.set(true);
            share.plan = share.plan.wrapping_add(1);
        } else if visit == Visit::Looked || next != before {
            share.plan = share.plan.wrapping_add(1);
            let plan = share.plan;
            self.plan(next.max(now), Due::Quantum { program, plan });
        }
    }
}

impl Host {
    /// Publishes the program's present weight in the table, and returns all settings that are in force. The weight of a
    /// paused program is published later, because its new weight in the table means that its pools are closed.
    fn obey(&self, program: u32) -> Option<InForce> {
        let slot = self.pool(program).share.as_ref().filter(|_| self.pool(program).is_there())?.slot;
        let told = self.table.in_force(slot);
        if told.paused_until.is_none() {
            self.table.set_weight(slot, told.weight);
        }
        Some(told)
    }
}

/// A program at one look of its coordinator.
struct Driver<'a> {
    pool: &'a Pool,
    table: &'a Table,
    now: u64,
    /// Processor time that cores have idled.
    idled: u64,
    /// The run time and steal time of the guest's cores, if the guest is told.
    stolen: Option<Reading>,
}

impl Driver<'_> {
    fn share(&self) -> &Share {
        self.pool.share.as_ref().expect("only a program that shares cores has a coordinator")
    }
}

impl Looked for Driver<'_> {
    type Platform = Cells;
    type Cores = Part;
    type Pool<'b>
        = Queues<'b>
    where
        Self: 'b;

    fn activation(&self) -> &Activation<Cells, Part> {
        &self.share().activation
    }

    fn pool(&self) -> Queues<'_> {
        Queues::of(self.pool)
    }

    fn queued(&self) -> u64 {
        self.pool.shown()
    }

    fn sample(&self, worker: WorkerId, is_awake: bool) -> Sample {
        let one = &self.pool.workers[worker.index()];
        let is_busy = is_awake && self.pool.sleep().is_busy(worker);
        Sample {
            is_awake,
            is_busy,
            busy_ns: one.busy_time(self.now),
            clock_ns: is_busy.then_some(one.times.on_core),
            progress: [one.ready.len() as u64, one.begun, 0],
        }
    }

    fn times(&self, worker: WorkerId) -> Option<Times> {
        let times = self.pool.workers[worker.index()].times;
        Some(Times { on_core: times.on_core, for_core: times.for_core })
    }

    /// A worker that the program's quota stops is not blocked: it waits for a core.
    fn is_blocked(&self, worker: WorkerId) -> Option<bool> {
        Some(matches!(self.pool.workers[worker.index()].place, Place::Blocked | Place::Nowhere))
    }
}

impl Program for Driver<'_> {
    type Seat = Part;
    type Staff<'b>
        = AtLook<'b, Self>
    where
        Self: 'b;

    fn seat(&self) -> &Part {
        self.share().part()
    }

    fn staffs(&self) -> usize {
        1
    }

    fn staff(&mut self, _: usize) -> AtLook<'_, Self> {
        AtLook::new(self)
    }

    fn in_force(&self) -> InForce {
        self.table.in_force(self.share().slot)
    }

    fn stand(&mut self, alone: bool, mode: Mode, room: Room, usable: u32) {
        let activation = &self.share().activation;
        activation.stand(Terms { alone, by_time: mode == Mode::Time, room, usable });
        activation.bound(self.in_force().room_of_each(usable, 1));
    }

    fn close(&mut self, closed: bool) {
        self.share().activation.close(closed);
    }
}

impl Pools for Driver<'_> {
    fn usable(&mut self) -> u32 {
        self.share().usable
    }

    fn has_work(&self) -> bool {
        self.share().activation.books().is_at_work() || self.pool.shows_task()
    }

    fn reopen(&mut self, _: usize) {
        self.share().activation.reopen(&Queues::of(self.pool));
    }

    fn spent(&mut self, lasted_ns: u64) -> Spent {
        let (held_ns, clock_ns) = (self.share().part().held_time(), self.pool.spent().total());
        let granted_ns = self.pool.quota.as_ref().and_then(|quota| quota.most(lasted_ns, self.now));
        Spent { held_ns, clock_ns, granted_ns, ..Spent::default() }
    }

    fn idle_ns(&mut self) -> Option<u64> {
        Some(self.idled)
    }

    fn stolen(&mut self) -> Option<Reading> {
        self.stolen.filter(|_| self.pool.policy.folds())
    }

    fn busy_ns(&mut self) -> u64 {
        self.pool.busy_time(self.now)
    }
}
