//! The second seam: once each quantum a program's coordinator gets an account and gives orders.
//!
//! A program that shares the machine by cores ([`Share::Cores`](crate::Share)) has a coordinator (DWS §3.3). Like a
//! thief it is pure: the shell reads the core table and the pool's queues, and does what is ordered.

use core::ops::RangeInclusive;

use crate::allotment::{Division, Proposal};

/// Decides, once each quantum, which cores a program should have.
pub trait Coordinator: Send {
    /// Answers a quantum's account with orders.
    fn quantum(&mut self, account: &Account) -> Orders;
}

/// What a program did in the quantum that ended, and how things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The program begins, or begins anew after it had no work.
    pub first: bool,
    /// Workers of the pool.
    pub workers: u32,
    /// Workers that are awake: N_a of DWS.
    pub awake: u32,
    /// Workers that rest for want of a core.
    pub retired: u32,
    /// Workers that are awake and need no core, for they wait in system calls. Counted only while others rest for want
    /// of a core.
    pub blocked: u32,
    /// Time in the quantum that workers with a task were off their cores without waiting for one, in nanoseconds over
    /// all workers that are blocked at the look. Asked only while more workers are awake beside other programs than the
    /// program holds cores, and only until a tenth of the quantum is found.
    pub blocked_ns: u64,
    /// Tasks that no worker has begun: N_b of DWS.
    pub queued: u32,
    /// Cores that the program may use, were it alone.
    pub usable: u32,
    /// Cores that it is entitled to: its allotment.
    pub owned: u32,
    /// Cores that it holds, its own or not.
    pub held: u32,
    /// Cores that no program uses and that it may use: N_f of DWS.
    pub free: u32,
    /// Those of them that are its own.
    pub own_free: u32,
    /// Its own cores that others use: N_r of DWS.
    pub lent: u32,
    /// Time in the quantum for which workers had a task or mugged one, in nanoseconds over all workers: the usage of
    /// A-STEAL.
    pub usage_ns: u64,
    /// Time in the quantum that its allotted cores had, in nanoseconds: L·a of A-STEAL.
    pub allotted_ns: u64,
    /// Cores that it was allotted in the quantum: a of A-STEAL.
    pub allotment: u32,
    /// How long the quantum was, but for the time in which the program rested out of turn.
    pub elapsed_ns: u64,
    /// How long it was.
    pub lasted_ns: u64,
    /// In so many nanoseconds cores that cannot be divided rotate once.
    pub frame_ns: u64,
    /// Processor time that all of the program's threads had in it.
    pub used_ns: u64,
    /// The same, had none of its workers waited for a core, and had each blocked as often: at least `used_ns`.
    pub able_ns: u64,
    /// What its threads had, and what they waited for it: more than `able_ns` where they block or wait for each other.
    pub wanted_ns: u64,
    /// Time in the quantum that the program held cores, summed over the cores.
    pub held_ns: u64,
    /// Time in the quantum for which cores had nothing to run, in nanoseconds over all of the machine's cores. Read
    /// only for a program that leaves unused some of what it holds; otherwise 0.
    pub idle_ns: u64,
    /// The program's part, by weight, beside all that have work: in thousandths of a core.
    pub share_milli: u32,
    /// How cores are divided, by what all programs propose.
    pub division: Division,
    /// Programs that have work, this one included.
    pub programs: u32,
    /// No other program holds cores or wants some.
    pub alone: bool,
    /// Workers with a task that have neither forked nor finished anything in the quantum.
    pub unmoved: u32,
    /// What a host took away, if a window of such readings is over; `None` as well where none is told.
    pub steal: Option<StealTime>,
}

/// What a guest's host granted the CPUs that a program may use, in a window of time. In nanoseconds over all of these
/// CPUs, whichever programs of the guest they ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StealTime {
    /// How long the window was.
    pub lasted_ns: u64,
    /// In which they ran.
    pub run_ns: u64,
    /// In which they had something to run, and the host ran something else: steal time, as Linux calls it.
    pub steal_ns: u64,
}

/// What is to be done until the next quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// How many cores the program can use: its desire, from which all programs compute the allotments alike.
    pub desire: u32,
    /// No more cores than this are worth using, whatever it may use. At least one.
    pub worth: u32,
    /// Which cores to have.
    pub cores: Claims,
    /// Whether it holds cores at all.
    pub mode: Mode,
    /// How many workers may be awake.
    pub room: Room,
    /// After how many quanta the next account is due, at least one. Every look costs two switches of a worker's core.
    pub due: u16,
    /// What a program does that holds no core and is entitled to none, until its turn comes.
    pub out_of_turn: OutOfTurn,
    /// How much the program counts from now on beside its weight, in thousandths: [`CORRECTIONS`] at the outside.
    pub correction: u32,
    /// How it proposes from now on that cores are divided.
    pub proposal: Proposal,
}

/// No correction, in thousandths.
pub const UNCORRECTED: u32 = 1000;

/// By how much a program may correct its share: to half or twice of what its weight says, whatever it publishes.
pub const CORRECTIONS: RangeInclusive<u32> = UNCORRECTED / 2..=2 * UNCORRECTED;

impl Orders {
    /// To hold cores, with a look each quantum: what the papers' coordinators order.
    pub fn hold(desire: u32, cores: Claims) -> Orders {
        let (mode, room, out_of_turn) = (Mode::Cores, Room::Workers, OutOfTurn::KeepsWorker);
        let (worth, correction, proposal) = (u32::MAX, UNCORRECTED, Proposal::Equal);
        Orders { desire, worth, cores, mode, room, due: 1, out_of_turn, correction, proposal }
    }
}

/// How a program that takes part in the core table comes by processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It holds cores, and has as many workers awake.
    Cores,
    /// It uses less than its share: it holds no core and desires none. The operating system gives its workers time on
    /// the cores of others, for as long as they need it.
    Time,
}

/// How many workers of a program may be awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// All workers. In a program that holds cores beside other programs, the workers are confined to these cores.
    Workers,
    /// One worker for each core that the program can use, or that it holds if other programs want cores. Some more for
    /// workers that need no core at the moment.
    Cores,
    /// One, and some for those that need no core at the moment.
    One,
}

/// What a program does while it is out of turn: it has work, holds no core, and is entitled to none until later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTurn {
    /// One worker stays awake, and shares a core with others' as the operating system has it.
    KeepsWorker,
    /// All rest: each where its task ends or forks next.
    Rests,
}

/// Which cores to have from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// Those that it owns, all of them and no others.
    Owned,
    /// What it has, and some more. For each one that is had a worker is woken.
    More {
        /// Up to this many that no program uses,
        free: u32,
        /// of its own only.
        own_only: bool,
        /// And then up to this many of its own that others use.
        back: u32,
    },
}

impl Claims {
    /// What it has, and no more.
    pub const AS_BEFORE: Claims = Claims::More { free: 0, own_only: false, back: 0 };
}
