//! One quantum of a program in the core table: an account in, orders out, and how these are carried out.
//!
//! ```text
//!   look        losses noted, workers looked at (`observer`)
//!   round       the table is told the desire of the last look; it says how the program stands
//!   orders      the policy's coordinator answers the account
//!   round       once more, if the desire has changed: the owners of the cores follow it at once
//!   stand       the books are told the mode, the room and the most cores, before any core is claimed by them
//!   claims      cores that are not to be held are released first; free ones are claimed, then own ones taken back
//!   close       the pools of a program that is to rest, or has no core now and is out of turn; or they are opened
//!   employ      workers for the cores that are there, and no core without one unless the policy keeps it
//! ```
//!
//! What holds of the program by [`orders`](crate::orders) bounds what the policy says. While it is to rest, no policy
//! is asked: it desires and holds nothing, and its pools are closed. While it is out of turn the policy is asked, and
//! what the program did not do says nothing.
//!
//! [`Coordination`] is for pools: it looks at their workers, and says when to come by. Commands have their own:
//! [`command`](crate::command). The quantum works on the table itself, from the [place](Seat) of the program. A driver
//! has the place, the books and the clock: each call of a [`Program`]'s methods is an effect that is carried out before
//! the next is decided. Times are in nanoseconds of any clock that does not go back.

use alloc::boxed::Box;

use comity_policy::allotment::Proposal;
use comity_policy::{Account, Claims, Coordinator, Mode, Orders, OutOfTurn, Room, UNCORRECTED};

use crate::observer::{Basis, Observer};
use crate::orders::InForce;
use crate::program::{Pools, Program, Staff, Status};
use crate::table::{self, Gain, Seat};
use crate::{CoreSet, STOPPED_AFTER, Shortfall, Standing};

/// What is ordered while a program rests. Where it desires none, it has none of its own to hold.
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

/// What one program decides once each quantum, and remembers for the next.
pub(crate) struct Quantum {
    policy: Box<dyn Coordinator>,
    length: u64,
    desire: u32,
    /// The most cores that are worth using.
    worth: u32,
    mode: Mode,
    room: Room,
    /// What the program is entitled to, as the last look had it.
    share_milli: u32,
    /// Processor time that the program was due since it began.
    due_ns: u64,
    /// How much the program counts beside its weight, in thousandths.
    correction: u32,
    proposal: Proposal,
    /// Cores that were held when the quantum that runs began.
    allotment: u32,
    /// True if no other program wanted cores then.
    is_alone: bool,
    /// Why the program used less than it held or was due in the quantum that ended.
    shortfall: Option<Shortfall>,
    /// When it comes by for a core that other programs leave free.
    watched: Option<u64>,
    pub(crate) turn: Turn,
}

/// Whether a program has its turn, and since when. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// It rests whenever it is out of turn.
    rests: bool,
    /// Cores that it is entitled to, as the latest look has it.
    allotted: u32,
    /// Which they were.
    owned: CoreSet,
    /// When it had a core, or was entitled to one, at the latest look at which it did.
    had_core: u64,
    /// How long it goes without before it takes itself for forgotten.
    patience: u64,
    /// It is out of turn, and was when this was last looked at.
    out_since: Option<u64>,
    /// How long it was, since the last account.
    out_ns: u64,
    /// Its pools are closed: it is out of turn, or is to rest.
    shut: bool,
    /// They have been opened, and those that rest in the middle of a task do not know.
    opened: bool,
}

/// What came of a quantum.
pub(crate) struct Decided {
    /// How the program stood when it began.
    pub(crate) standing: Standing,
    /// Nanoseconds from its beginning until the next look.
    pub(crate) due: u64,
    /// And until a turn of its begins or ends.
    pub(crate) until_change: Option<u64>,
}

impl Quantum {
    /// Of a program that has no core and desires none, under a policy with a quantum of so many nanoseconds.
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

    /// When the next look is, or a core that other programs leave free may be claimed, if the next look is then.
    pub(crate) fn next(&self, look: u64) -> u64 {
        self.watched.map_or(look, |at| at.min(look))
    }

    /// The program has claimed what it may.
    pub(crate) fn watch<P: Program>(&mut self, program: &P, now: u64) {
        let view = program.seat().view_at(now);
        self.watched = view.and_then(|view| table::watch(&view)).map(|after| now + after);
    }

    /// Processor time that the program was due since it began, in nanoseconds: its share while it held cores beside
    /// others, and what it used otherwise.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// True if the program holds cores, and false if it shares time.
    pub(crate) fn holds_cores(&self) -> bool {
        self.mode == Mode::Cores
    }

    /// Nanoseconds of a quantum.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Decides on what was `seen` of the program in the quantum that ended, and carries that out. The table is told
    /// that so many workers are `awake`. The program can use so many cores.
    ///
    /// What the table says (`owned` to `lent`, the share, the allotment) is not yet in the account. What the policy
    /// orders is carried out as `amended`.
    pub(crate) fn decide<P: Program>(
        &mut self,
        program: &mut P,
        seen: Account,
        [awake, usable]: [u32; 2],
        now: u64,
        amended: impl FnOnce(Orders) -> Orders,
    ) -> Decided {
        let [most, cap] = [program.in_force().most(), program.cap()];
        heed(program.seat());
        let standing = program.seat().round(self.desire, awake);
        // A program that is kept from its share cannot be asked to use it.
        let standing = Standing { share_milli: standing.share_milli.min(cap.saturating_mul(1000)), ..standing };
        self.share_milli = standing.share_milli;
        self.turn.note(&standing, self.length, now);
        // One that shares time, or is alone, has what it can use.
        let is_due = self.mode == Mode::Cores && !standing.alone;
        let could_use = self.worth.min(seen.usable).saturating_mul(1000);
        let share_ns = u64::from(self.share_milli.min(could_use)) * seen.elapsed_ns / 1000;
        self.due_ns += if is_due { share_ns } else { seen.used_ns };
        // What it did not do while it was out of turn says nothing.
        let elapsed_ns = seen.elapsed_ns.saturating_sub(core::mem::take(&mut self.turn.out_ns));
        let (lasted_ns, frame_ns) = (seen.elapsed_ns, standing.frame);
        let account =
            self.account(Account { elapsed_ns, lasted_ns, frame_ns, usable: seen.usable.min(most), ..seen }, &standing);
        self.shortfall = Shortfall::of(&account);
        let orders = amended(self.policy.quantum(&account));
        let until_change = self.carry_out(program, orders, standing, [awake, usable], false, now).until_change;
        // A program counts as stopped if its coordinator comes by less often.
        let due = (self.length * u64::from(orders.due.max(1))).min(STOPPED_AFTER.as_nanos() as u64 / 2);
        Decided { standing, due: due.min(until_change.unwrap_or(due)), until_change }
    }

    /// The program is to rest: it holds nothing, desires nothing, and is closed. The policy hears nothing of it.
    pub(crate) fn rest<P: Program>(&mut self, program: &mut P, [awake, usable]: [u32; 2], now: u64) {
        heed(program.seat());
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
            // What it had for its turn. The kernel may have threads of the program that has the next turn wait for
            // this one's.
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
        // By now it waits for a core, and is told of each that becomes free from here on, until it watches one.
        if self.turn.out_since.is_some() && borrow(program) {
            self.shut(program, closed, now);
            (0..program.staffs()).for_each(|nth| program.staff(nth).employ());
        }
        (self.allotment, self.is_alone) = (held(program.seat()).len() as u32, standing.alone);
        self.watch(program, now);
        standing
    }

    /// Closes the pools of a program that is to rest (`closed`) or out of turn, and opens those of any other. To be
    /// followed by [`Staff::employ`].
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

    /// A program that is out of turn and has something to do claims a core that no program uses, if there is one, and
    /// is open.
    pub(crate) fn borrow_if_out<P: Program>(&mut self, program: &mut P, now: u64) {
        if self.turn.out_since.is_some() && borrow(program) {
            self.allotment = 1;
            self.shut(program, false, now);
        }
    }

    /// Whether its turn is over, or it has to return what it had borrowed, since this was last looked at.
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
        // Where no program desires any, the owners stay as they are.
        let owned = match self.desire {
            0 => CoreSet::EMPTY,
            // Out of turn it keeps what it has borrowed until that is taken back.
            _ if self.turn.rests && self.turn.allotted == 0 => owned(program.seat()).union(held(program.seat())),
            _ => owned(program.seat()),
        };
        for nth in 0..program.staffs() {
            let mut staff = program.staff(nth);
            for core in staff.held().iter().filter(|core| !owned.contains(*core)) {
                staff.release(core);
            }
            // Bounded, for what other programs write into the table is without end.
            let most = if self.desire == 0 { 0 } else { staff.status().most };
            for how in [Gain::Claim { own_only: true }, Gain::TakeBack] {
                (0..most).take_while(|_| staff.gain(how)).for_each(drop);
            }
        }
    }

    /// The pools are open.
    fn open<P: Program>(&mut self, program: &mut P) {
        (self.turn.shut, self.turn.opened) = (false, true);
        program.close(false);
    }

    /// The program holds nothing, and desires nothing.
    fn leave_off<P: Pools>(&mut self, pools: &mut P) {
        pools.seat().want(false);
        heed(pools.seat());
        (self.desire, self.mode, self.allotment, self.turn) = (0, Mode::Time, 0, Turn::default());
        self.watched = None;
        let awake = pools.awake();
        pools.seat().round(0, awake);
        (0..pools.staffs()).for_each(|nth| pools.staff(nth).leave_off());
    }
}

impl Turn {
    /// Whether the program is out of turn, as far as it knows.
    pub(crate) fn is_out(&self) -> bool {
        self.out_since.is_some()
    }

    /// How the program stands at a look, where a quantum lasts so long.
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

/// The coordinator comes by, and claims then.
pub(crate) fn heed(seat: &impl Seat) {
    if let Some(view) = seat.view() {
        table::heed(&view);
    }
}

/// Claims a core that no program uses for a program that is out of turn and has something to do. False: there is none.
fn borrow<P: Program>(program: &mut P) -> bool {
    let mut staffs = 0..program.staffs();
    staffs.any(|nth| {
        let mut staff = program.staff(nth);
        staff.status().queued > 0 && staff.gain(Gain::Claim { own_only: false })
    })
}

/// Releases what the program holds beyond so many cores, those first that are not its own.
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
        // One pool is asked for as the policy says, whatever it has queued.
        let wanted = if staffs == 1 { u32::MAX } else { wanted };
        let claimed =
            (0..free.min(wanted).min(room)).take_while(|_| staff.gain(Gain::Claim { own_only })).count() as u32;
        (room, free) = (room - claimed, free - claimed);
        let left = (wanted - claimed).min(room);
        let taken = (0..back.min(left)).take_while(|_| staff.gain(Gain::TakeBack)).count() as u32;
        (room, back) = (room - taken, back - taken);
    }
}

/// The quanta of a program that consists of pools.
pub struct Coordination {
    quantum: Quantum,
    observer: Observer,
    /// Programs in the table when the bell was rung last.
    population: usize,
    /// When the last look was, and when the next is due.
    looked: u64,
    next: u64,
    /// What held at the last visit.
    told: InForce,
    /// The program rests.
    closed: bool,
}

/// Why a coordinator came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Its bell was rung; no look was due.
    Rung,
    /// A look was due.
    Looked,
    /// The program is to rest.
    Paused,
    /// One was due, and there was no work since the last. It is to [leave off](Coordination::leave_off).
    Rests,
}

impl Coordination {
    /// Of a program that has just joined a table with so many programs, and has used so much processor time.
    pub fn new(policy: Box<dyn Coordinator>, length: u64, clock_ns: u64, population: usize) -> Coordination {
        let quantum = Quantum::new(policy, length);
        let observer = Observer::new(clock_ns);
        Coordination { quantum, observer, population, looked: 0, next: 0, told: InForce::default(), closed: false }
    }

    /// When the last look began.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Processor time that the program was due since it joined, in nanoseconds: its share while it held cores beside
    /// others, and what it used otherwise.
    pub fn due_ns(&self) -> u64 {
        self.quantum.due_ns()
    }

    /// Why the program used less than it held or was due in the quantum before the last look.
    pub fn shortfall(&self) -> Option<Shortfall> {
        self.quantum.shortfall
    }

    /// When it is to come by next, unless its bell is rung.
    pub fn next(&self) -> u64 {
        self.quantum.next(self.next)
    }

    /// The next look is not to be later than that.
    pub fn look_by(&mut self, at: u64) {
        self.next = self.next.min(at);
    }

    /// There is work, for the first time or anew; or a program without work is to rest.
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

    /// Comes by, because a look is due or the bell was rung.
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
        // Without work the next look may be the last, and until then others leave this program a share. After a long
        // preemption there is nothing to catch up with.
        let due = if has_work { due } else { due.min(self.quantum.length) };
        (self.looked, self.next) = (now, now + due);
        Visit::Looked
    }

    /// There is no work: the program holds nothing, and desires nothing.
    pub fn leave_off<P: Pools>(&mut self, pools: &mut P) {
        self.closed = false;
        if self.quantum.turn.shut {
            // All pools have ended meanwhile, or have no work: the next task is not to find a pool closed.
            let usable = pools.usable();
            pools.stand(true, Mode::Cores, Room::Workers, usable);
            self.quantum.open(pools);
            (0..pools.staffs()).for_each(|nth| pools.staff(nth).employ());
            self.reopen(pools);
        }
        self.quantum.leave_off(pools);
    }

    /// The program is to rest, for so long at the most. Until then its coordinator looks again while a worker is in
    /// the middle of a task, which rests where that ends or forks.
    fn rest<P: Pools>(&mut self, pools: &mut P, left: u64) {
        self.closed = true;
        pools.seat().want(false);
        let usable = pools.usable();
        let awake = pools.awake();
        self.quantum.rest(pools, [awake, usable], self.looked);
        self.next = self.looked + if awake == 0 { left } else { left.min(self.quantum.length) };
    }

    /// If the program has rested, and is open again: tells those that rest in the middle of a task.
    fn reopen<P: Pools>(&mut self, pools: &mut P) {
        if core::mem::take(&mut self.quantum.turn.opened) {
            (0..pools.staffs()).for_each(|nth| pools.reopen(nth));
        }
    }

    /// One quantum is over, which lasted so long. Returns after how long to come again.
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

    /// A core was taken back, there is one to be had, another program has come, or this one has lost its place. False:
    /// only the second.
    fn rung<P: Pools>(&mut self, pools: &mut P, now: u64) -> bool {
        heed(pools.seat());
        self.quantum.borrow_if_out(pools, now);
        let lost = (0..pools.staffs()).fold(false, |lost, nth| pools.staff(nth).rung() | lost);
        self.reopen(pools);
        self.quantum.watch(pools, now);
        let before = core::mem::replace(&mut self.population, pools.seat().population());
        lost || self.population > before || !pools.seat().has_its_place()
    }
}
