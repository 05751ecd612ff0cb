//! The quanta of a command: a program that knows nothing of Comity, with threads that are seen from outside.
//!
//! # States
//!
//! ```text
//!            rung, obey (the next look is due sooner)
//!             ┌──┐     pause (it holds and desires nothing)
//!             ▼  │
//!          GOES ON ─────────────────────────────────▶ RESTS
//!   note, look,  ▲ ◀─────────────────────────────────
//!         rest └─┘                go_on
//! ```
//!
//! # Invariants
//!
//! - The next look is due between a quantum and `LONGEST` after the last, so that the command is not taken for stopped.
//! - The threads of a command are confined to the cores that it holds, if more threads can run than the command holds
//!   cores. A command with fewer threads has no mask, so it and its children count all cores. A command that is alone
//!   and has no limit has no mask either.
//! - A command that is left to the operating system ([`Way`]) requests no core, holds none, and is never stopped.
//! - The time of a core counts as held from the claim to the look that misses the core.
//!
//! # What is not as in a pool
//!
//! A command has the quantum of a pool ([`quantum`]), with these differences, for its threads are its
//! own to wake and what they have queued is not known:
//!
//! - What it could use is its [`Demand`]: threads that run or wait for a core, over the last looks.
//! - What processes have used that came and went between two looks is not seen. So what it is owed is not known, nor
//!   what it gains from all cores: its share is not corrected, and it counts as linear.
//! - While it could use its share it desires that many cores instead of all, and holds exactly those that are its own.
//! - A look costs more the more threads there are, so the looks take a bounded part of a core's time; and there are
//!   few while it is idle.
//! - Each ring of the bell brings the next look forward to a quantum after the last: the command has no worker to
//!   recall meanwhile.

use alloc::boxed::Box;
use core::time::Duration;

use comity_policy::allotment::{LINEAR, Proposal};
use comity_policy::{Account, Claims, Coordinator, Mode, Orders, Room, UNCORRECTED};

use crate::observer::IdleClock;
use crate::orders::{InForce, Own};
use crate::program::{Program, Staff, Status};
use crate::quantum::{self, Quantum};
use crate::table::{self, Gain, Seat};
use crate::{CoreSet, Demand, Look, STOPPED_AFTER, Standing, Way};

/// The least time between two looks.
pub const QUANTUM: Duration = Duration::from_millis(10);

/// The same of a command that does nothing: what it begins to do runs at once all the same, on the cores of others.
const IDLE: Duration = Duration::from_millis(100);

/// Looks take at most this part of the time of a core.
const PART: u64 = 150;

/// The most time between two looks, however long they take: half of the time after which others take this for stopped.
const LONGEST: Duration = Duration::from_millis(250);
const _: () = assert!(2 * LONGEST.as_millis() <= STOPPED_AFTER.as_millis());

/// A command as its driver has it: its place in the table, and its threads.
pub trait Command {
    /// Its place in the table.
    type Seat: Seat;

    /// Returns its place in the table.
    fn seat(&self) -> &Self::Seat;

    /// Returns the cores that the command may use.
    fn cores(&self) -> CoreSet;

    /// So many cores were taken from it.
    fn note_lost(&mut self, cores: u32);

    /// Time that the machine's cores had nothing to run since it began, over all of them.
    fn idle_ns(&mut self) -> Option<u64>;

    /// Its threads run on these cores from now on, or where they like.
    fn confine(&mut self, cores: Option<CoreSet>);

    /// Its threads rest from now on, or go on.
    fn close(&mut self, closed: bool);

    /// Publishes the way in which the command is limited to its share from now on.
    fn publish(&mut self, way: Way);
}

/// What its coordinator remembers of a command. Times are in nanoseconds of any clock that does not go back.
pub struct Coordination {
    quantum: Quantum,
    demand: Demand,
    idle_clock: IdleClock,
    /// What holds by now, after what was asked from outside. While the command could use its share it desires
    /// `told.cores`; `None`: as many as its threads can use.
    told: InForce,
    /// The most cores that it can use, and of these the most that it may.
    usable: u32,
    cap: u32,
    held: CoreSet,
    alone: bool,
    /// The [`Standing::is_even`] of the last look.
    is_even: bool,
    /// The [`Standing::is_grouped`] of the last look at which another program had work. So the way does not change when
    /// others pause.
    is_grouped: bool,
    /// The [`Standing::may_take_turns`] of the last look.
    may_take_turns: bool,
    /// True if the way of the last look is [`Way::Turns`].
    has_turns: bool,
    /// The value of [`Coordination::due_ns`].
    due_ns: u64,
    /// Processor time of the cores that were held since the last look, up to `counted`.
    had: u64,
    counted: u64,
    looked: u64,
    next: u64,
    /// When its next turn begins.
    turn: u64,
}

/// What came of a look, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// How the command stood when it began.
    pub standing: Standing,
    /// Processor time of the cores that were held since the look before.
    pub had_ns: u64,
}

impl Coordination {
    /// Of a command that has just joined, and can use so many cores; it desires `own.cores` of them, or as many as its
    /// threads can use.
    pub fn new(policy: Box<dyn Coordinator>, own: Own, usable: u32, now: u64) -> Coordination {
        let mut coordination = Coordination {
            quantum: Quantum::new(policy, nanos(QUANTUM)),
            demand: Demand::default(),
            idle_clock: IdleClock::default(),
            told: InForce::of(own),
            usable,
            cap: own.cores.unwrap_or(usable),
            held: CoreSet::EMPTY,
            alone: true,
            due_ns: 0,
            is_even: false,
            is_grouped: false,
            may_take_turns: false,
            has_turns: false,
            had: 0,
            counted: now,
            looked: now,
            next: 0,
            turn: u64::MAX,
        };
        coordination.next = now + coordination.quantum.length();
        coordination
    }

    /// True if the user has limited the cores of the command.
    pub fn has_limit(&self) -> bool {
        self.told.cores.is_some()
    }

    /// When the last look was.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Returns the processor time that the command was due since it joined, in nanoseconds. While it held cores together
    /// with other programs, that is its share. Otherwise it is the part of its share that its threads could have used.
    /// The share of a command that is alone is all cores.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Whether a look is due. If not, it comes by as if it were [rung](Coordination::rung).
    pub fn is_look_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// When it is to come by next, unless its bell is rung.
    pub fn next(&self) -> u64 {
        self.quantum.next(self.next)
    }

    /// A core was taken back, or has become free, or a program has joined: then a command that was alone need not be
    /// so any more.
    pub fn rung<C: Command>(&mut self, command: &mut C, now: u64) {
        self.note_losses(command, now);
        self.with(command, |quantum, program| {
            quantum::heed(program.seat());
            quantum.borrow_if_out(program, now);
            quantum.watch(program, now);
        });
        let is_over = self.with(command, |quantum, program| quantum.has_lost_its_turn(program));
        self.place(command);
        let next = self.next.min(self.looked + self.quantum.length()).max(now);
        self.next = if is_over { now } else { next };
    }

    /// A look is due: what was seen of the command, before anything is decided.
    pub fn note<C: Command>(&mut self, command: &mut C, look: &Look, now: u64) {
        // What it did not do while it was out of turn says nothing.
        if !self.quantum.turn.is_out() {
            self.demand.note(look);
        }
        self.note_losses(command, now);
    }

    /// It has let go of cores that it may no longer use, and holds these.
    pub fn has_let_go(&mut self, held: CoreSet) {
        self.held = held;
    }

    /// From now on it can use so many cores.
    pub fn limit(&mut self, usable: u32) {
        self.usable = usable;
        self.cap = self.told.cap(usable);
    }

    /// From now on this holds of it. If that has changed, a look is due.
    pub fn obey(&mut self, told: InForce, now: u64) {
        if core::mem::replace(&mut self.told, told) != told {
            self.limit(self.usable);
            self.next = self.next.min(now);
        }
    }

    /// It is to rest, and was stopped: it holds nothing and desires nothing.
    pub fn pause<C: Command>(&mut self, command: &mut C, now: u64) {
        self.note_losses(command, now);
        let cap = self.cap;
        self.with(command, |quantum, program| quantum.rest(program, [0, cap], now));
        command.seat().want(false);
        self.with(command, |quantum, program| {
            quantum::heed(program.seat());
            quantum.watch(program, now);
        });
        self.place(command);
    }

    /// It rests no longer. What it did not do meanwhile says nothing.
    pub fn go_on(&mut self, now: u64) {
        (self.looked, self.had) = (now, 0);
        self.next = now + self.quantum.length();
    }

    /// Decides on a look that was [noted](Coordination::note). To be followed by [`Coordination::rest`].
    pub fn look<C: Command>(&mut self, command: &mut C, look: &Look, now: u64) -> Looked {
        let had_ns = self.had;
        let account = self.account(command, look);
        let (cap, cores, could_use) = (self.cap, self.told.cores, self.demand.desire(self.cap));
        let way = self.way(look, command.cores().len());
        self.has_turns = way == Way::Turns;
        command.publish(way);
        let amended = |orders: Orders| {
            let mode = match way {
                Way::Cores => orders.mode,
                Way::Turns => Mode::Cores,
                _ => Mode::Time,
            };
            let desire = match mode {
                Mode::Time => 0,
                Mode::Cores => cores.map_or(could_use.max(1), |_| cap),
            };
            let proposal = match orders.proposal {
                _ if way == Way::Turns => Proposal::Together,
                Proposal::Slowdown { .. } => Proposal::Slowdown { efficiency: LINEAR },
                other => other,
            };
            Orders { desire, mode, cores: Claims::Owned, correction: UNCORRECTED, proposal, ..orders }
        };
        let awake = self.demand.crowd();
        let (had_share, due_before, able_ns) = (self.quantum.holds_cores(), self.quantum.due_ns(), account.able_ns);
        let decided =
            self.with(command, |quantum, program| quantum.decide(program, account, [awake, cap], now, amended));
        self.is_even = decided.standing.is_even;
        self.is_grouped = decided.standing.is_grouped.unwrap_or(self.is_grouped);
        self.may_take_turns = decided.standing.may_take_turns;
        let share_ns = u64::from(decided.standing.share_milli) * nanos(look.elapsed) / 1000;
        self.due_ns += match had_share && !decided.standing.alone {
            true => self.quantum.due_ns() - due_before,
            false => able_ns.min(share_ns),
        };
        self.place(command);
        (self.looked, self.had) = (now, 0);
        let least = if could_use == 0 { IDLE } else { QUANTUM };
        self.turn = decided.until_change.map_or(u64::MAX, |after| now + after);
        self.next = (now + decided.due.max(nanos(least))).min(self.turn);
        Looked { standing: decided.standing, had_ns }
    }

    /// The look took so much processor time.
    pub fn rest(&mut self, spent_ns: u64) {
        let rest = spent_ns.saturating_mul(PART).max(self.next - self.looked);
        self.next = (self.looked + rest.min(nanos(LONGEST))).min(self.turn);
    }

    /// Has the quantum do something with the command.
    fn with<C: Command, R>(&mut self, command: &mut C, action: impl FnOnce(&mut Quantum, &mut Whole<'_, C>) -> R) -> R {
        let mut program = Whole { command: &mut *command, told: self.told, cap: self.cap, alone: self.alone };
        let outcome = action(&mut self.quantum, &mut program);
        self.alone = program.alone;
        self.held = quantum::held(command.seat());
        outcome
    }

    fn way(&self, look: &Look, cores: usize) -> Way {
        let uses_all = !self.has_limit() && self.demand.desire(self.cap) as usize >= cores;
        match () {
            () if look.is_nice => Way::Nice,
            () if self.demand.is_team() && self.may_take_turns && look.can_rest_unseen && uses_all => Way::Turns,
            // The system does not keep a limit, so a command with one holds cores of its own.
            () if self.is_grouped && !self.has_limit() => Way::Group,
            () if self.demand.is_team() => Way::Team,
            () if self.is_even && !self.has_limit() => Way::Even,
            () => Way::Cores,
        }
    }

    fn account<C: Command>(&mut self, command: &mut C, look: &Look) -> Account {
        let able_ns = nanos(self.demand.able(self.cap));
        let used_ns = nanos(look.used);
        let idle = if used_ns < self.had { command.idle_ns() } else { None };
        Account {
            workers: self.cap,
            usable: self.cap,
            elapsed_ns: nanos(look.elapsed),
            used_ns,
            able_ns,
            // What its threads waited for is in it.
            wanted_ns: able_ns,
            held_ns: self.had,
            idle_ns: self.idle_clock.look(idle),
            ..Account::default()
        }
    }

    fn note_losses<C: Command>(&mut self, command: &mut C, now: u64) {
        self.had += (now - self.counted) * self.held.len() as u64;
        self.counted = now;
        let held = quantum::held(command.seat());
        let lost = self.held.iter().filter(|core| !held.contains(*core)).count();
        if lost > 0 {
            command.note_lost(lost as u32);
        }
        self.held = held;
    }

    /// Sets or removes the mask of the command. A command that is alone needs a mask only for its limit. A command that
    /// holds no core and has no limit runs on any core. A command with no more threads than cores needs no mask, because
    /// other programs leave its cores free. A limit holds from the first look at which more threads are runnable.
    fn place<C: Command>(&self, command: &mut C) {
        let place = match self.told.cores {
            Some(limit) if self.held.is_empty() => command.cores().iter().take(limit as usize).collect(),
            None if self.alone => CoreSet::EMPTY,
            _ => self.held,
        };
        let cores = place.len() as u32;
        let is_wider = match self.told.cores {
            Some(_) => self.demand.desire(u32::MAX) > cores,
            None => self.demand.is_wider_than(cores),
        };
        // At the first look at which it is grouped, it still holds cores. A program that starts then is to see them all.
        // Between the end of turns and the next look, a team may hold fewer cores than it has threads.
        let is_left = (self.is_grouped || self.has_turns) && !self.has_limit();
        command.confine((!place.is_empty() && is_wider && !is_left).then_some(place));
    }
}

/// A command to the quantum: one that uses its cores all together.
struct Whole<'a, C> {
    command: &'a mut C,
    told: InForce,
    cap: u32,
    alone: bool,
}

impl<C: Command> Program for Whole<'_, C> {
    type Seat = C::Seat;
    type Staff<'a>
        = &'a mut Self
    where
        Self: 'a;

    fn seat(&self) -> &C::Seat {
        self.command.seat()
    }

    fn staffs(&self) -> usize {
        1
    }

    fn staff(&mut self, _nth: usize) -> &mut Self {
        self
    }

    fn in_force(&self) -> InForce {
        self.told
    }

    fn cap(&self) -> u32 {
        self.cap
    }

    fn stand(&mut self, alone: bool, _mode: Mode, _room: Room, _usable: u32) {
        self.alone = alone;
    }

    /// One that rests could use a core.
    fn close(&mut self, closed: bool) {
        self.command.close(closed);
        self.seat().want(closed);
    }
}

impl<C: Command> Staff for &mut Whole<'_, C> {
    /// A command that is out of turn holds cores otherwise, so it has something to do.
    fn status(&self) -> Status {
        Status { queued: 1, most: quantum::owned(self.seat()).len() as u32, ..Status::default() }
    }

    fn held(&self) -> CoreSet {
        quantum::held(self.seat())
    }

    fn gain(&mut self, how: Gain) -> bool {
        self.seat().view().is_some_and(|view| table::gain(&view, how).is_some())
    }

    fn release(&mut self, core: usize) {
        if let Some(view) = self.seat().view() {
            table::release(&view, Some(core));
        }
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}
