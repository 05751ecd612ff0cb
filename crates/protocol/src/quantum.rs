//! One quantum of a program: the time between two looks of its coordinator at the [core table](crate::table). At each
//! look, the policy gets an [account](Account) of the past quantum and returns [orders](Orders), which are then
//! carried out.
//!
//! ```text
//!   look        losses noted, workers looked at (`observer`)
//!   round       publishes the last look's desire (requested cores), and computes the standing (share and cores)
//!   orders      the policy's coordinator answers the account with orders
//!   round       once more, if the desire has changed, so that the cores are divided anew at once
//!   stand       before cores are claimed, sets the mode (hold cores or share time), the room (number of workers
//!               that may be awake) and the maximum number of cores
//!   claims      surplus cores are released first; free cores are claimed, then own cores taken back
//!   close       closes the pools if the program is paused, or has no core and is out of turn; else opens them
//!   employ      assigns workers to the cores, and releases cores without a worker unless the policy keeps them
//! ```
//!
//! [Requests from other processes](crate::orders) limit the policy's orders. While the program is paused, its policy
//! is not asked: the desire is 0, the program holds no core, and its pools are closed. While the program is [out of
//! turn](OutOfTurn), its policy is asked, but [`Account::elapsed_ns`] does not include the time out of turn.
//!
//! For a program that consists of pools, [`Coordination`] looks at the workers and sets the time of the next visit.
//! For a command, [`command`](crate::command) does both. The quantum changes the table directly, through the program's
//! [place](Seat) in it. The driver provides the place, the [books](crate::activation::Books) and the clock. Each call
//! of a [`Program`] method is an effect: the driver carries it out before the quantum decides its next step. Times are
//! in nanoseconds of any monotonic clock.

use alloc::boxed::Box;

use comity_policy::allotment::Proposal;
use comity_policy::{Account, Claims, Coordinator, Mode, Orders, OutOfTurn, Room, UNCORRECTED};

use crate::observer::{Basis, Observer};
use crate::orders::InForce;
use crate::program::{Pools, Program, Staff, Status};
use crate::table::{self, Gain, Seat};
use crate::{CoreSet, STOPPED_AFTER, Shortfall, Standing};

/// The orders for a program that is paused. With a desire of 0 it holds no core, even if it still owns cores.
const REST: Orders = Orders {
    desire: 0,
    worth: u32::MAX,
    cores: Claims::Owned,
    mode: Mode::Time,
    room: Room::One,
    due: 1,
    out_of_turn: OutOfTurn::KeepsWorker,
    correction: UNCORRECTED,
    proposal: Proposal::Equal,
};

/// The policy of a program, and the decisions of the last quantum that the next one needs.
pub(crate) struct Quantum {
    policy: Box<dyn Coordinator>,
    length: u64,
    desire: u32,
    /// The maximum number of cores that are worth using, see [`Orders::worth`].
    worth: u32,
    mode: Mode,
    room: Room,
    /// The share of the program at the last look, in thousandths of a core.
    share_milli: u32,
    /// The processor time that the program was due since it began, in ns.
    due_ns: u64,
    /// The factor on the program's weight that is published in the table, in thousandths. It repays processor time that
    /// the program is owed, see [`Orders::correction`].
    correction: u32,
    proposal: Proposal,
    /// The number of cores that the program held when the present quantum began.
    allotment: u32,
    /// True if no other program wanted cores when the present quantum began.
    is_alone: bool,
    /// The reason why the program used less processor time in the last quantum than its cores or its share allowed.
    shortfall: Option<Shortfall>,
    /// The time at which a free core that this program [watches](table::watch) may be claimed. `None`: it watches no
    /// core.
    watched: Option<u64>,
    pub(crate) turn: Turn,
}

/// The state of a program's turns. A core that cannot be divided equally rotates among the programs, once in each
/// *frame*. In one part of each frame, its *turn*, a program is entitled to one more core than otherwise, see
/// [`Standing::until_change`]. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// True if the workers must rest whenever the program is out of turn (it holds no core and is entitled to none).
    rests: bool,
    /// The number of cores that the program is entitled to, by the latest look.
    allotted: u32,
    /// The cores that the program owned at the latest look.
    owned: CoreSet,
    /// The time of the latest look at which the program had a core, or was entitled to one.
    had_core: u64,
    /// The maximum time without a core. After this time, the program no longer waits for a turn: its workers run.
    patience: u64,
    /// The time until which `out_ns` counts, if the latest check found the program out of turn. Otherwise `None`.
    out_since: Option<u64>,
    /// The time that the program was out of turn since the last account.
    out_ns: u64,
    /// True if the pools are closed: the program is out of turn, or paused.
    shut: bool,
    /// True if the pools were opened, but the workers that rest in the middle of a task have not been woken yet.
    opened: bool,
}

/// The result of a quantum.
pub(crate) struct Decided {
    /// The standing of the program when the quantum began.
    pub(crate) standing: Standing,
    /// The time in ns from the start of the quantum to the next look.
    pub(crate) due: u64,
    /// The time in ns from the start of the quantum until a turn of the program begins or ends.
    pub(crate) until_change: Option<u64>,
}

impl Quantum {
    /// Makes the quantum of a program that has no core and a desire of 0, under a policy with a quantum of `length`
    /// ns.
    pub(crate) fn new(policy: Box<dyn Coordinator>, length: u64) -> Quantum {
        Quantum {
            policy,
            length,
            desire: 0,
            worth: u32::MAX,
            mode: Mode::Time,
            room: Room::Workers,
            share_milli: 0,
            due_ns: 0,
            correction: UNCORRECTED,
            proposal: Proposal::Equal,
            allotment: 0,
            is_alone: true,
            shortfall: None,
            watched: None,
            turn: Turn::default(),
        }
    }

    /// Returns the time of the coordinator's next visit: the earlier of `look`, the time of the next look, and the
    /// time at which a watched core may be claimed.
    pub(crate) fn next(&self, look: u64) -> u64 {
        self.watched.map_or(look, |at| at.min(look))
    }

    /// [Watches](table::watch) free cores that other programs own. Called after the program has made its claims.
    pub(crate) fn watch<P: Program>(&mut self, program: &P, now: u64) {
        let view = program.seat().view_at(now);
        self.watched = view.and_then(|view| table::watch(&view)).map(|after| now + after);
    }

    /// Returns the processor time that the program was due since it began, in ns. While the program holds cores and is
    /// not alone in the table, it is due its share. At other times it is due the processor time that it uses.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// True if the program holds cores, and false if it shares time.
    pub(crate) fn holds_cores(&self) -> bool {
        self.mode == Mode::Cores
    }

    /// Returns the length of a quantum in ns.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Gives the policy the account `seen` of the quantum that ended, and carries out its orders. Publishes in the
    /// table that `awake` workers are awake. The program can use `usable` cores.
    ///
    /// This method fills in the fields of `seen` that come from the table: the numbers of cores (`owned`, `held`,
    /// `free`, `own_free` and `lent`), the share, the allotment, the division, the frame, `programs` and `alone`.
    /// `amended` changes the policy's orders before they are carried out.
    pub(crate) fn decide<P: Program>(
        &mut self,
        program: &mut P,
        seen: Account,
        [awake, usable]: [u32; 2],
        now: u64,
        amended: impl FnOnce(Orders) -> Orders,
    ) -> Decided {
        let [most, cap] = [program.in_force().most(), program.cap()];
        stop_watching(program.seat());
        let standing = program.seat().round(self.desire, awake);
        // A limit on the program's cores limits its share too.
        let standing = Standing { share_milli: standing.share_milli.min(cap.saturating_mul(1000)), ..standing };
        self.share_milli = standing.share_milli;
        self.turn.note(&standing, self.length, now);
        // A program that shares time, or is alone, is due the processor time that it uses.
        let is_due = self.mode == Mode::Cores && !standing.alone;
        let could_use = self.worth.min(seen.usable).saturating_mul(1000);
        let share_ns = u64::from(self.share_milli.min(could_use)) * seen.elapsed_ns / 1000;
        self.due_ns += if is_due { share_ns } else { seen.used_ns };
        // The program could not work while it was out of turn, so that time is not counted.
        let elapsed_ns = seen.elapsed_ns.saturating_sub(core::mem::take(&mut self.turn.out_ns));
        let (lasted_ns, frame_ns) = (seen.elapsed_ns, standing.frame);
        let account =
            self.account(Account { elapsed_ns, lasted_ns, frame_ns, usable: seen.usable.min(most), ..seen }, &standing);
        self.shortfall = Shortfall::of(&account);
        let orders = amended(self.policy.quantum(&account));
        let until_change = self.carry_out(program, orders, standing, [awake, usable], false, now).until_change;
        // If the time between two looks reached `STOPPED_AFTER`, other programs would take this program for
        // stopped.
        let due = (self.length * u64::from(orders.due.max(1))).min(STOPPED_AFTER.as_nanos() as u64 / 2);
        Decided { standing, due: due.min(until_change.unwrap_or(due)), until_change }
    }

    /// Pauses the program: it holds no core, its desire is 0, and its pools are closed. The policy is not asked.
    pub(crate) fn rest<P: Program>(&mut self, program: &mut P, [awake, usable]: [u32; 2], now: u64) {
        stop_watching(program.seat());
        let standing = program.seat().round(self.desire, awake);
        let orders = Orders { room: self.room, proposal: self.proposal, ..REST };
        self.carry_out(program, orders, standing, [awake, usable], true, now);
    }

    fn carry_out<P: Program>(
        &mut self,
        program: &mut P,
        orders: Orders,
        standing: Standing,
        [awake, usable]: [u32; 2],
        closed: bool,
        now: u64,
    ) -> Standing {
        let Orders { cores, mode, room, worth, .. } = orders;
        let most = program.in_force().most().min(worth.max(1));
        let desire = orders.desire.min(most);
        if orders.correction != self.correction {
            self.correction = orders.correction;
            program.seat().correct(orders.correction);
        }
        if orders.proposal != self.proposal {
            self.proposal = orders.proposal;
            program.seat().propose(orders.proposal);
        }
        let changes = desire != self.desire;
        (self.desire, self.worth, self.mode, self.room) = (desire, worth, mode, room);
        let standing = if changes { program.seat().round(desire, awake) } else { standing };
        self.turn.rests =
            mode == Mode::Cores && desire > 0 && !standing.alone && orders.out_of_turn == OutOfTurn::Rests;
        self.turn.allotted = standing.allotted;
        program.stand(standing.alone, mode, room, usable.min(most));
        if most < u32::MAX {
            release_surplus(program, most);
        }
        let owned = owned(program.seat());
        let owned_before = core::mem::replace(&mut self.turn.owned, owned);
        if self.turn.rests && standing.until_change.is_some() {
            // The cores of the past turn are released. Otherwise the threads of this program might run on them while
            // threads of their new owner wait.
            for core in
                held(program.seat()).iter().filter(|core| owned_before.contains(*core) && !owned.contains(*core))
            {
                (0..program.staffs()).for_each(|nth| program.staff(nth).release(core));
            }
        }
        match cores {
            Claims::Owned => self.hold_what_is_owned(program),
            Claims::More { free, own_only, back } => claim_and_take_back(program, [free, back], own_only, most),
        }
        self.shut(program, closed, now);
        program.divide();
        for nth in 0..program.staffs() {
            program.staff(nth).employ();
        }
        // If the program wants a core, `employ` has published this, and the program is notified of each core that
        // becomes free later. A core that became free before `employ` is borrowed here.
        if self.turn.out_since.is_some() && borrow(program) {
            self.shut(program, closed, now);
            (0..program.staffs()).for_each(|nth| program.staff(nth).employ());
        }
        (self.allotment, self.is_alone) = (held(program.seat()).len() as u32, standing.alone);
        self.watch(program, now);
        standing
    }

    /// Closes the pools if the program is paused (`closed`) or out of turn, and opens them otherwise. The caller must
    /// call [`Staff::employ`] afterwards.
    fn shut<P: Program>(&mut self, program: &mut P, closed: bool, now: u64) {
        let turn = &mut self.turn;
        let rests = turn.rests && now.saturating_sub(turn.had_core) <= turn.patience;
        let is_out = rests && !closed && turn.allotted == 0 && held(program.seat()).is_empty();
        turn.out_ns += turn.out_since.map_or(0, |since| now.saturating_sub(since));
        turn.out_since = is_out.then_some(now);
        let before = core::mem::replace(&mut turn.shut, closed || is_out);
        turn.opened |= before && !turn.shut;
        program.close(turn.shut);
    }

    /// If the program is out of turn and has tasks, claims a core that no program uses. Opens the pools if there is
    /// such a core.
    pub(crate) fn borrow_if_out<P: Program>(&mut self, program: &mut P, now: u64) {
        if self.turn.out_since.is_some() && borrow(program) {
            self.allotment = 1;
            self.shut(program, false, now);
        }
    }

    /// True if the program has lost its last core since the last check: its turn has ended, or a borrowed core was
    /// taken back.
    pub(crate) fn has_lost_its_turn<P: Program>(&self, program: &P) -> bool {
        self.turn.rests && self.turn.out_since.is_none() && self.allotment > 0 && held(program.seat()).is_empty()
    }

    fn account(&self, seen: Account, standing: &Standing) -> Account {
        Account {
            owned: standing.owned,
            held: standing.held,
            free: standing.free,
            own_free: standing.own_free,
            lent: standing.lent,
            allotted_ns: seen.elapsed_ns * u64::from(self.allotment),
            allotment: self.allotment,
            share_milli: self.share_milli,
            programs: standing.programs,
            alone: standing.alone,
            division: standing.division,
            ..seen
        }
    }

    fn hold_what_is_owned<P: Program>(&self, program: &mut P) {
        // A program with a desire of 0 may still own cores: if the desire of every program is 0, cores keep their
        // owners.
        let owned = match self.desire {
            0 => CoreSet::EMPTY,
            // Out of turn, the program keeps a borrowed core until the core's owner takes it back.
            _ if self.turn.rests && self.turn.allotted == 0 => owned(program.seat()).union(held(program.seat())),
            _ => owned(program.seat()),
        };
        for nth in 0..program.staffs() {
            let mut staff = program.staff(nth);
            for core in staff.held().iter().filter(|core| !owned.contains(*core)) {
                staff.release(core);
            }
            // The number of attempts is limited, because other programs may change the table again and again.
            let most = if self.desire == 0 { 0 } else { staff.status().most };
            for how in [Gain::Claim { own_only: true }, Gain::TakeBack] {
                (0..most).take_while(|_| staff.gain(how)).for_each(drop);
            }
        }
    }

    /// Opens the pools.
    fn open<P: Program>(&mut self, program: &mut P) {
        (self.turn.shut, self.turn.opened) = (false, true);
        program.close(false);
    }

    /// Releases all cores and sets the desire to 0.
    fn leave_off<P: Pools>(&mut self, pools: &mut P) {
        pools.seat().want(false);
        stop_watching(pools.seat());
        (self.desire, self.mode, self.allotment, self.turn) = (0, Mode::Time, 0, Turn::default());
        self.watched = None;
        let awake = pools.awake();
        pools.seat().round(0, awake);
        (0..pools.staffs()).for_each(|nth| pools.staff(nth).leave_off());
    }
}

impl Turn {
    /// True if the program was out of turn at the latest check.
    pub(crate) fn is_out(&self) -> bool {
        self.out_since.is_some()
    }

    /// Notes the standing of the program at a look. `quantum` is the length of a quantum.
    fn note(&mut self, standing: &Standing, quantum: u64, now: u64) {
        self.patience = standing.most_out + quantum;
        if !self.rests || standing.allotted > 0 || standing.held > 0 {
            self.had_core = now;
        }
        if let Some(since) = &mut self.out_since {
            self.out_ns += now.saturating_sub(core::mem::replace(since, now));
        }
    }
}

/// Returns the cores that the program is entitled to.
pub(crate) fn owned(seat: &impl Seat) -> CoreSet {
    seat.view().map_or(CoreSet::EMPTY, |view| table::owned(&view))
}

/// Returns the cores that the program holds.
pub(crate) fn held(seat: &impl Seat) -> CoreSet {
    seat.view().map_or(CoreSet::EMPTY, |view| table::held(&view))
}

/// Begins a visit of the coordinator: see [`table::stop_watching`]. Does nothing if the program has lost its place in
/// the table.
pub(crate) fn stop_watching(seat: &impl Seat) {
    if let Some(view) = seat.view() {
        table::stop_watching(&view);
    }
}

/// Claims a core that no program uses, for a program that is out of turn and has tasks. Returns true if it claimed
/// one.
fn borrow<P: Program>(program: &mut P) -> bool {
    let mut staffs = 0..program.staffs();
    staffs.any(|nth| {
        let mut staff = program.staff(nth);
        staff.status().queued > 0 && staff.gain(Gain::Claim { own_only: false })
    })
}

/// Releases cores until the program holds at most `most`. The cores of other owners are released first.
fn release_surplus<P: Program>(program: &mut P, most: u32) {
    let (held, owned) = (held(program.seat()), owned(program.seat()));
    let [others, own] = [false, true].map(|own| held.iter().filter(move |core| owned.contains(*core) == own));
    for core in others.chain(own).take(held.len().saturating_sub(most as usize)) {
        (0..program.staffs()).for_each(|nth| program.staff(nth).release(core));
    }
}

/// Claims up to `free` cores, then takes back up to `back`, as long as the program holds fewer than `most`.
fn claim_and_take_back<P: Program>(program: &mut P, [mut free, mut back]: [u32; 2], own_only: bool, most: u32) {
    let mut room = most.saturating_sub(held(program.seat()).len() as u32);
    let staffs = program.staffs();
    for nth in 0..staffs {
        let mut staff = program.staff(nth);
        let Status { queued, retired, .. } = staff.status();
        let wanted = queued.min(retired.into()) as u32;
        // If the program has a single pool, the pool gets the cores that the policy orders, even without queued tasks.
        let wanted = if staffs == 1 { u32::MAX } else { wanted };
        let claimed =
            (0..free.min(wanted).min(room)).take_while(|_| staff.gain(Gain::Claim { own_only })).count() as u32;
        (room, free) = (room - claimed, free - claimed);
        let left = (wanted - claimed).min(room);
        let taken = (0..back.min(left)).take_while(|_| staff.gain(Gain::TakeBack)).count() as u32;
        (room, back) = (room - taken, back - taken);
    }
}

/// The quanta of a program that consists of pools, and the times of its coordinator's visits to the table.
pub struct Coordination {
    quantum: Quantum,
    observer: Observer,
    /// The number of programs in the table when the bell was last rung.
    population: usize,
    /// The time of the last look.
    looked: u64,
    /// The time at which the next look is due.
    next: u64,
    /// The settings at the last visit.
    told: InForce,
    /// True if the program is paused.
    closed: bool,
}

/// The reason for a visit of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Another program or a worker rang the coordinator's bell, and no look was due.
    Rung,
    /// A look was due.
    Looked,
    /// The program is paused.
    Paused,
    /// A look was due, and the program has had no work since the previous look. The driver must call
    /// [`leave_off`](Coordination::leave_off).
    Rests,
}

impl Coordination {
    /// Makes the coordination of a program that has just joined a table of `population` programs, and has used
    /// `clock_ns` of processor time. A quantum lasts `length` ns.
    pub fn new(policy: Box<dyn Coordinator>, length: u64, clock_ns: u64, population: usize) -> Coordination {
        let quantum = Quantum::new(policy, length);
        let observer = Observer::new(clock_ns);
        Coordination { quantum, observer, population, looked: 0, next: 0, told: InForce::default(), closed: false }
    }

    /// Returns the time at which the last look began.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Returns the processor time that the program was due since it joined, in ns. While the program holds cores and
    /// is not alone in the table, it is due its share. At other times it is due the processor time that it uses.
    pub fn due_ns(&self) -> u64 {
        self.quantum.due_ns()
    }

    /// Returns the reason why the program used less processor time than its cores or its share allowed, in the quantum
    /// before the last look.
    pub fn shortfall(&self) -> Option<Shortfall> {
        self.quantum.shortfall
    }

    /// Returns the time of the next visit. If the bell is rung before, the visit takes place then.
    pub fn next(&self) -> u64 {
        self.quantum.next(self.next)
    }

    /// Makes the next look due at the time `at`, unless it is due earlier.
    pub fn look_by(&mut self, at: u64) {
        self.next = self.next.min(at);
    }

    /// Begins the looks of a program that got its first work, or new work after it had none. If the
    /// program is paused, closes its pools instead.
    pub fn begin<P: Pools>(&mut self, pools: &mut P, now: u64) {
        self.told = pools.in_force();
        self.looked = now;
        match self.told.rests_for(now) {
            Some(left) => self.rest(pools, left.as_nanos() as u64),
            None => {
                self.closed = false;
                self.next = now + self.look(pools, 0, true, now);
            }
        }
    }

    /// Visits the table, because a look is due or the bell was rung.
    pub fn come_by<P: Pools>(&mut self, pools: &mut P, now: u64) -> Visit {
        let told = pools.in_force();
        if self.closed || told.rests_for(now).is_some() {
            self.begin(pools, now);
            return if self.closed { Visit::Paused } else { Visit::Looked };
        }
        if core::mem::replace(&mut self.told, told) != told {
            self.next = now;
        }
        if now < self.next {
            if self.rung(pools, now) {
                self.next = self.next.min(now + self.quantum.length);
            }
            if !self.quantum.has_lost_its_turn(pools) {
                return Visit::Rung;
            }
        }
        let has_work = pools.has_work();
        if !has_work && self.observer.busy_ns() == pools.busy_ns() && !pools.keeps_core() {
            return Visit::Rests;
        }
        let due = self.look(pools, now - self.looked, false, now);
        // Without work, the next look may be the last. It is due soon, because other programs leave this program a
        // share until then. The time is from `now`: looks that were missed during a long preemption are not made up
        // for.
        let due = if has_work { due } else { due.min(self.quantum.length) };
        (self.looked, self.next) = (now, now + due);
        Visit::Looked
    }

    /// Releases all cores and sets the desire to 0, because there is no work.
    pub fn leave_off<P: Pools>(&mut self, pools: &mut P) {
        self.closed = false;
        if self.quantum.turn.shut {
            // The pools are still closed, although each has ended or run out of work since. Open them, so that the
            // next task finds an open pool.
            let usable = pools.usable();
            pools.stand(true, Mode::Cores, Room::Workers, usable);
            self.quantum.open(pools);
            (0..pools.staffs()).for_each(|nth| pools.staff(nth).employ());
            self.reopen(pools);
        }
        self.quantum.leave_off(pools);
    }

    /// Pauses the program for at most `left` ns. While a worker is in the middle of a task, the coordinator looks
    /// again after each quantum: the worker rests when its task ends or forks.
    fn rest<P: Pools>(&mut self, pools: &mut P, left: u64) {
        self.closed = true;
        pools.seat().want(false);
        let usable = pools.usable();
        let awake = pools.awake();
        self.quantum.rest(pools, [awake, usable], self.looked);
        self.next = self.looked + if awake == 0 { left } else { left.min(self.quantum.length) };
    }

    /// Wakes the workers that rest in the middle of a task, if the program has been paused or out of turn and is open
    /// again.
    fn reopen<P: Pools>(&mut self, pools: &mut P) {
        if core::mem::take(&mut self.quantum.turn.opened) {
            (0..pools.staffs()).for_each(|nth| pools.reopen(nth));
        }
    }

    /// Ends a quantum that lasted `lasted` ns. Returns the time in ns until the next look.
    fn look<P: Pools>(&mut self, pools: &mut P, lasted: u64, first: bool, now: u64) -> u64 {
        let usable = pools.usable();
        pools.divide();
        let Quantum { mode, room, share_milli, .. } = self.quantum;
        let allotment = (!self.quantum.is_alone).then_some(self.quantum.allotment);
        let seen = self.observer.look(pools, Basis { mode, room, share_milli, allotment }, lasted);
        let account = Account { first, usable: usable.min(seen.workers), ..seen };
        let due = self.quantum.decide(pools, account, [account.awake, usable], now, |orders| orders).due;
        self.reopen(pools);
        due
    }

    /// Handles a ring of the bell: a core was taken back, a core is available, another program has joined, or this
    /// program has lost its place in the table. Returns false if only a core is available.
    fn rung<P: Pools>(&mut self, pools: &mut P, now: u64) -> bool {
        stop_watching(pools.seat());
        self.quantum.borrow_if_out(pools, now);
        let lost = (0..pools.staffs()).fold(false, |lost, nth| pools.staff(nth).rung() | lost);
        self.reopen(pools);
        self.quantum.watch(pools, now);
        let before = core::mem::replace(&mut self.population, pools.seat().population());
        lost || self.population > before || !pools.seat().has_its_place()
    }
}
