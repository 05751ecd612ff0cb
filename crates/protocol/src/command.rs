//! The quanta of a command: a program without Comity's libraries, whose threads are observed from outside. A quantum
//! is the time between two looks of its coordinator at the core table.
//!
//! # States
//!
//! ```text
//!            rung, obey (the next look is due sooner)
//!             ┌──┐     pause (no core held, desire 0)
//!             ▼  │
//!          RUNS   ─────────────────────────────────▶ RESTS
//!   note, look,  ▲ ◀─────────────────────────────────
//!         rest └─┘                go_on
//! ```
//!
//! # Invariants
//!
//! - The next look is due between one quantum and `LONGEST` after the last look, so other programs do not take the
//!   command for stopped.
//! - If a command has more runnable threads than cores, an affinity mask confines its threads to the cores that it
//!   holds. Without a mask, the command and its children see all cores when they count them. A command that is alone
//!   and has no limit has no mask.
//! - A command that only the operating system limits (see [`Way`]) requests no core, holds no core, and is never
//!   halted.
//! - The time of a core counts as held from its claim to the look that finds it gone.
//!
//! # What is not as in a pool
//!
//! A command's quantum is that of a pool ([`quantum`]) with the following differences. Their reason is that the
//! command wakes its own threads, and that its queued work is unknown.
//!
//! - The number of cores that it could use is its [`Demand`]: the number of threads that run or wait for a core, over
//!   the last looks.
//! - The time of processes that start and end between two looks is unknown. So it is unknown how much time the command
//!   is owed, and how fast it is on several cores. Its weight is not corrected, and its speedup is assumed to be
//!   linear.
//! - While it could use its share, it requests the number of cores that it could use, and not all cores as a pool
//!   does. It holds exactly the cores that it owns.
//! - The cost of a look grows with the number of threads. So the time between looks grows with their cost, and while
//!   the command is idle.
//! - After a ring of the bell, the next look is due a quantum after the last look. It need not be earlier, because a
//!   command has no workers to recall.

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

/// The minimum time between two looks.
pub const QUANTUM: Duration = Duration::from_millis(10);

/// The minimum time between two looks at a command that does nothing. Work that it begins runs at once anyway, on the
/// cores of other programs.
const IDLE: Duration = Duration::from_millis(100);

/// The divisor for the cost of looks: they take at most 1/150 of the time of a core.
const PART: u64 = 150;

/// The maximum time between two looks, even if a look takes long. It is half of the time after which other programs
/// take the command for stopped.
const LONGEST: Duration = Duration::from_millis(250);
const _: () = assert!(2 * LONGEST.as_millis() <= STOPPED_AFTER.as_millis());

/// The interface of a command that its driver implements: its place in the core table, and its threads.
pub trait Command {
    /// The type of the command's place in the table.
    type Seat: Seat;

    /// Returns the command's place in the table.
    fn seat(&self) -> &Self::Seat;

    /// Returns the cores that the command may use.
    fn cores(&self) -> CoreSet;

    /// Records that other programs took this number of cores from the command.
    fn note_lost(&mut self, cores: u32);

    /// Returns the time in ns that the machine's cores have been idle since it started, summed over all cores.
    fn idle_ns(&mut self) -> Option<u64>;

    /// Confines the command's threads to these cores. `None`: they may run on any core that the command may use.
    fn confine(&mut self, cores: Option<CoreSet>);

    /// Halts the command's threads, or lets them run again.
    fn close(&mut self, closed: bool);

    /// Publishes the way in which the command is limited to its share from now on.
    fn publish(&mut self, way: Way);
}

/// The quanta of a command, and the state that its coordinator keeps from one look to the next. Times are in
/// nanoseconds of any monotonic clock.
pub struct Coordination {
    quantum: Quantum,
    demand: Demand,
    idle_clock: IdleClock,
    /// The present settings, including requests from other processes. While the command could use its share, it
    /// requests `told.cores` cores, or without a limit the number that its threads can use.
    told: InForce,
    /// The number of cores that the command can use. The field below it is the number of these that its settings
    /// allow.
    usable: u32,
    cap: u32,
    held: CoreSet,
    alone: bool,
    /// The [`Standing::is_even`] of the last look.
    is_even: bool,
    /// The [`Standing::is_grouped`] of the last look at which another program had work. So the [`Way`] does not change
    /// while other programs have no work.
    is_grouped: bool,
    /// The [`Standing::may_take_turns`] of the last look.
    may_take_turns: bool,
    /// True if the way of the last look is [`Way::Turns`].
    has_turns: bool,
    /// The value of [`Coordination::due_ns`].
    due_ns: u64,
    /// The time that the command held cores since the last look, summed over its cores, up to the time `counted`.
    had: u64,
    counted: u64,
    looked: u64,
    next: u64,
    /// The time at which a turn of the command next begins or ends.
    turn: u64,
}

/// The result of a look, which the driver records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The standing of the command when the look began.
    pub standing: Standing,
    /// The time that the command held cores since the previous look, in ns, summed over its cores.
    pub had_ns: u64,
}

impl Coordination {
    /// Makes the coordination of a command that has just joined, and can use `usable` cores. The command requests
    /// `own.cores` cores, or without such a limit the number that its threads can use.
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

    /// Returns the time of the last look.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Returns the processor time that the command was due since it joined, in nanoseconds. While it holds cores and
    /// is not alone, it is due its share. At other times it is due the part of its share that its threads could have
    /// used. The share of a command that is alone is all cores.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// True if a look is due. If not, the visit is treated as a [ring](Coordination::rung) of the bell.
    pub fn is_look_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Returns the time of the next visit. If the bell is rung before, the visit takes place then.
    pub fn next(&self) -> u64 {
        self.quantum.next(self.next)
    }

    /// Handles a ring of the bell: a core was taken back, a core has become free, or another program has joined the
    /// table.
    pub fn rung<C: Command>(&mut self, command: &mut C, now: u64) {
        self.note_losses(command, now);
        self.with(command, |quantum, program| {
            quantum::stop_watching(program.seat());
            quantum.borrow_if_out(program, now);
            quantum.watch(program, now);
        });
        let is_over = self.with(command, |quantum, program| quantum.has_lost_its_turn(program));
        self.place(command);
        let next = self.next.min(self.looked + self.quantum.length()).max(now);
        self.next = if is_over { now } else { next };
    }

    /// Notes the observations of a look that is due. The caller then calls [`Coordination::look`].
    pub fn note<C: Command>(&mut self, command: &mut C, look: &Look, now: u64) {
        // The command could not work while it was out of turn, so its observations are ignored.
        if !self.quantum.turn.is_out() {
            self.demand.note(look);
        }
        self.note_losses(command, now);
    }

    /// Notes that the driver has released cores that the command may no longer use. The command now holds `held`.
    pub fn has_let_go(&mut self, held: CoreSet) {
        self.held = held;
    }

    /// Sets the number of cores that the command can use from now on.
    pub fn limit(&mut self, usable: u32) {
        self.usable = usable;
        self.cap = self.told.cap(usable);
    }

    /// Sets the command's settings. If they have changed, a look is due.
    pub fn obey(&mut self, told: InForce, now: u64) {
        if core::mem::replace(&mut self.told, told) != told {
            self.limit(self.usable);
            self.next = self.next.min(now);
        }
    }

    /// Pauses the command, which the driver has halted: it holds no core, and its desire is 0.
    pub fn pause<C: Command>(&mut self, command: &mut C, now: u64) {
        self.note_losses(command, now);
        let cap = self.cap;
        self.with(command, |quantum, program| quantum.rest(program, [0, cap], now));
        command.seat().want(false);
        self.with(command, |quantum, program| {
            quantum::stop_watching(program.seat());
            quantum.watch(program, now);
        });
        self.place(command);
    }

    /// Ends a pause. The time of the pause is not counted.
    pub fn go_on(&mut self, now: u64) {
        (self.looked, self.had) = (now, 0);
        self.next = now + self.quantum.length();
    }

    /// Completes a look that was [noted](Coordination::note): decides, and changes the command's cores. The caller
    /// must call [`Coordination::rest`] afterwards.
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

    /// Sets the time of the next look after a look that took `spent_ns` of processor time.
    pub fn rest(&mut self, spent_ns: u64) {
        let rest = spent_ns.saturating_mul(PART).max(self.next - self.looked);
        self.next = (self.looked + rest.min(nanos(LONGEST))).min(self.turn);
    }

    /// Calls `action` with the quantum and the command.
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
            // The operating system does not enforce a limit on cores, so a command with a limit holds cores.
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
            // `able_ns` includes the time that the command's threads waited for a core.
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

    /// Sets or removes the mask of the command. A command that is alone has a mask only if it has a limit. A command
    /// without cores and without a limit runs on any core. If a command has at most one thread per core, it has no
    /// mask, because other programs leave its cores free. A limit takes effect at the first look at which more threads
    /// are runnable.
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
        // A command that becomes grouped or takes turns has no mask, although it may still hold cores. Programs that
        // it starts must see all cores. When turns end, a team may hold fewer cores than it has threads until the next
        // look.
        let is_left = (self.is_grouped || self.has_turns) && !self.has_limit();
        command.confine((!place.is_empty() && is_wider && !is_left).then_some(place));
    }
}

/// A command as a [`Program`] for the quantum: it has one [`Staff`], which uses all of its cores.
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

    /// Halts or resumes the command. A halted command could use a core, so it is marked as waiting for a core.
    fn close(&mut self, closed: bool) {
        self.command.close(closed);
        self.seat().want(closed);
    }
}

impl<C: Command> Staff for &mut Whole<'_, C> {
    /// Returns a status with one queued task, so that a command that is out of turn may borrow a core. Such a command
    /// has work, because in its turn it holds cores.
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
