//! The coordinator interface: once each quantum, a program's coordinator gets an [`Account`] and returns [`Orders`].
//!
//! A program that shares the machine by cores ([`Share::Cores`](crate::Share)) has a coordinator (DWS §3.3). Like a
//! thief it is pure: the shell reads the core table and the pool's queues, and carries out the orders.

use core::ops::RangeInclusive;

use crate::allotment::{Division, Proposal};

/// Decides, once each quantum, which cores a program should have.
pub trait Coordinator: Send {
    /// Answers a quantum's account with orders.
    fn quantum(&mut self, account: &Account) -> Orders;
}

/// A program's account of the quantum that ended, and the state of the core table at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// True if the program begins, or begins again after it had no work.
    pub first: bool,
    /// Workers of the pool.
    pub workers: u32,
    /// Workers that are awake: N_a of DWS.
    pub awake: u32,
    /// Workers that rest because they have no core.
    pub retired: u32,
    /// Workers that are awake but need no core, because they wait in system calls or make no progress. Workers in
    /// system calls are counted only while other workers rest without a core, or while too many are awake.
    pub blocked: u32,
    /// Time in the quantum for which workers with a task neither ran nor waited for a core, in nanoseconds over all
    /// workers that are blocked at the look. Measured only while other programs want cores and the program has more
    /// awake workers than cores. The sum ends when it reaches a tenth of the quantum.
    pub blocked_ns: u64,
    /// Tasks that no worker has begun: N_b of DWS.
    pub queued: u32,
    /// Cores that the program could use if it were alone.
    pub usable: u32,
    /// Cores that the program is entitled to: its allotment.
    pub owned: u32,
    /// Cores that the program holds, whether it owns them or not.
    pub held: u32,
    /// Cores that no program uses and that this program may use: N_f of DWS.
    pub free: u32,
    /// Free cores, as in `free`, that the program owns.
    pub own_free: u32,
    /// Cores that the program owns and that other programs use: N_r of DWS.
    pub lent: u32,
    /// Time in the quantum for which workers had a task or mugged one, in nanoseconds over all workers: the usage of
    /// A-STEAL.
    pub usage_ns: u64,
    /// Time of the allotted cores in the quantum, in nanoseconds: L·a of A-STEAL.
    pub allotted_ns: u64,
    /// Cores that the program was allotted in the quantum: a of A-STEAL.
    pub allotment: u32,
    /// Length of the quantum minus the time for which the program rested [out of turn](OutOfTurn), in nanoseconds.
    pub elapsed_ns: u64,
    /// Length of the quantum, in nanoseconds.
    pub lasted_ns: u64,
    /// Length of a frame, in nanoseconds: the time in which cores that cannot be divided rotate once.
    pub frame_ns: u64,
    /// Processor time of all the program's threads in the quantum, in nanoseconds.
    pub used_ns: u64,
    /// Processor time that the threads would have used if they had never waited for a core, in nanoseconds. Assumes
    /// that each worker would block for the same part of the time in which it does not wait for a core. At least
    /// `used_ns`.
    pub able_ns: u64,
    /// Processor time of the program's threads, plus their waits for cores, in nanoseconds. It exceeds `able_ns` if
    /// threads block or wait for each other.
    pub wanted_ns: u64,
    /// Time in the quantum that the program held cores, in nanoseconds over all cores.
    pub held_ns: u64,
    /// Time in the quantum for which cores had nothing to run, in nanoseconds over all of the machine's cores. Read
    /// only for a program that uses less than it holds; otherwise 0.
    pub idle_ns: u64,
    /// The program's share by weight among all programs that have work, in thousandths of a core.
    pub share_milli: u32,
    /// The division of cores that follows from the proposals of all programs.
    pub division: Division,
    /// Programs that have work, this one included.
    pub programs: u32,
    /// True if no other program holds or wants a core.
    pub alone: bool,
    /// Workers with a task that have neither forked nor finished a task in the quantum.
    pub unmoved: u32,
    /// The time that the host of a virtual machine took away, once per window of several quanta. `None`: no window
    /// ends at this look, or the system reports no steal time.
    pub steal: Option<StealTime>,
}

/// The time that the host granted and took from a guest's CPUs, for the CPUs that a program may use, over a window.
/// Times are nanoseconds over all these CPUs, and include all programs of the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StealTime {
    /// Length of the window, in nanoseconds.
    pub lasted_ns: u64,
    /// Time in which the CPUs ran.
    pub run_ns: u64,
    /// Time in which the CPUs had something to run while the host ran something else: Linux's steal time.
    pub steal_ns: u64,
}

/// Orders of a coordinator until the next quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// The number of cores that the program requests. Each program computes the number of cores of every program from
    /// all requests.
    pub desire: u32,
    /// The maximum number of cores that the program uses, at least 1, even if it is entitled to more.
    pub worth: u32,
    /// The cores that the program should have.
    pub cores: Claims,
    /// The way in which the program gets processor time: it holds cores or shares time.
    pub mode: Mode,
    /// The number of workers that may be awake.
    pub room: Room,
    /// The number of quanta until the next account, at least 1. Each look interrupts a worker, which costs two context
    /// switches.
    pub due: u16,
    /// The behavior of the program while it is out of turn: it holds no core, and is entitled to none until its turn.
    pub out_of_turn: OutOfTurn,
    /// The factor on the program's weight from now on, in thousandths, within [`CORRECTIONS`].
    pub correction: u32,
    /// The division of cores that the program proposes from now on.
    pub proposal: Proposal,
}

/// The correction factor that changes nothing: 1, in thousandths.
pub const UNCORRECTED: u32 = 1000;

/// The range of correction factors: a published factor at most doubles or halves the share that the weight gives.
pub const CORRECTIONS: RangeInclusive<u32> = UNCORRECTED / 2..=2 * UNCORRECTED;

impl Orders {
    /// Orders to hold cores and to look each quantum, as the coordinators of the papers do.
    pub fn hold(desire: u32, cores: Claims) -> Orders {
        let (mode, room, out_of_turn) = (Mode::Cores, Room::Workers, OutOfTurn::KeepsWorker);
        let (worth, correction, proposal) = (u32::MAX, UNCORRECTED, Proposal::Equal);
        Orders { desire, worth, cores, mode, room, due: 1, out_of_turn, correction, proposal }
    }
}

/// The way in which a member of the core table gets processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The program holds cores, and has one worker awake on each.
    Cores,
    /// The program holds no core and its desire is 0, usually because it uses less than its share. The operating
    /// system runs its workers on any core, together with the threads of other programs.
    Time,
}

/// The number of workers of a program that may be awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// All workers. If the program holds cores and other programs want cores, its workers are confined to its cores.
    Workers,
    /// A worker for each core that the program can use, plus some for workers that need no core at the moment. If
    /// other programs want cores, only the cores that the program holds count.
    Cores,
    /// A single worker, plus some for workers that need no core at the moment.
    One,
}

/// Behavior of a program that is out of turn: it has work, holds no core, and is entitled to none until later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTurn {
    /// A single worker stays awake. It shares a core with other programs' workers as the operating system decides.
    KeepsWorker,
    /// All workers rest. A worker with a task rests when its task ends or forks next.
    Rests,
}

/// The cores that a program should have from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// All cores that the program owns, and no others.
    Owned,
    /// The cores that the program holds, and some more. The coordinator wakes one worker for each additional core.
    More {
        /// The maximum number of free cores to claim.
        free: u32,
        /// True if the program claims only free cores that it owns.
        own_only: bool,
        /// The maximum number of its own cores to take back from other programs, after claiming free cores.
        back: u32,
    },
}

impl Claims {
    /// The cores that the program holds, and no more.
    pub const AS_BEFORE: Claims = Claims::More { free: 0, own_only: false, back: 0 };
}
