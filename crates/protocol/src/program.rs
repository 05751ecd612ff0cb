//! A program that takes part in the core table, as its driver has it: what the [observer](crate::observer) and the
//! [quantum](crate::quantum) ask of it and have it do.

use comity_policy::{Mode, Room, WorkerId};

use crate::CoreSet;
use crate::orders::InForce;
use crate::steal_time::Reading;
use crate::table::{Gain, Seat};

/// A program that takes part in the core table.
pub trait Program {
    /// Its place in the table.
    type Seat: Seat;
    /// One of those that use its cores, with the lock of its books.
    type Staff<'a>: Staff
    where
        Self: 'a;

    /// Returns its place in the table.
    fn seat(&self) -> &Self::Seat;

    /// How many use its cores: its pools; or one, where that is no pool.
    fn staffs(&self) -> usize;

    /// Takes the lock of one of them.
    fn staff(&mut self, nth: usize) -> Self::Staff<'_>;

    /// What holds of it by now, after what was asked from outside. How much it counts is the table's to know.
    fn in_force(&self) -> InForce {
        InForce::default()
    }

    /// The most cores that its share can be.
    fn cap(&self) -> u32 {
        self.in_force().most()
    }

    /// How the program stands from now on. No other wants cores if it is `alone`; it can use `usable` at the most.
    fn stand(&mut self, alone: bool, mode: Mode, room: Room, usable: u32);

    /// From now on no worker of its begins a task, or workers may again. Follows [`Program::stand`]. Where nothing is
    /// asked of a program, there is nothing to do.
    fn close(&mut self, _closed: bool) {}

    /// Shares out the program's cores among those that use them. Where that is one, there is nothing to do.
    fn divide(&mut self) {}
}

/// What uses a program's cores, while the lock of its books is held: a pool, or a command. The default methods hold for
/// a command, whose workers are not known.
pub trait Staff {
    /// Returns what the books say.
    fn status(&self) -> Status;

    /// The cores that the program holds, those that others use included.
    fn held(&self) -> CoreSet;

    /// Claims a core, or takes one back. False: there is none, or it may have no more.
    fn gain(&mut self, how: Gain) -> bool;

    /// Releases the core, if it is used here.
    fn release(&mut self, core: usize);

    /// A worker for each core, if there are any, and no core without one unless the policy keeps it.
    fn employ(&mut self) {}

    // What is asked of pools.

    /// Learns which of its cores the pool has lost.
    fn note_losses(&mut self) {}

    /// See [`Sample`]. 0.5 µs on threads.
    fn sample(&self, _worker: WorkerId) -> Sample {
        Sample::default()
    }

    /// Where the time of the worker's thread went. `None` if that is not known. 6 µs on threads.
    fn times(&self, _worker: WorkerId) -> Option<Times> {
        None
    }

    /// Whether the worker's thread waits in a system call, and not for a core. `None` if that is not known. 5 µs on
    /// threads.
    fn is_blocked(&self, _worker: WorkerId) -> Option<bool> {
        None
    }

    /// So many that are awake need no core.
    fn set_off_core(&mut self, _workers: u32) {}

    /// A core was taken back from the pool, or there is one to be had. True: some were taken back.
    fn rung(&mut self) -> bool {
        false
    }

    /// The pool is alone from now on, and releases what it holds while no worker of it is awake.
    fn leave_off(&mut self) {}
}

/// Pools that are one program: each is one of its [staffs](Program::staffs).
pub trait Pools: Program {
    /// The most cores that the program can use at a time. Asked when a look begins.
    fn usable(&mut self) -> u32;

    /// Whether a worker is awake, or should be.
    fn has_work(&self) -> bool;

    /// True if a pool keeps a core though no worker is awake: for one that was woken and is not up yet, or for the
    /// thread that handed in its last task, which runs.
    fn keeps_core(&self) -> bool {
        false
    }

    /// The pool, which was closed, is open: wakes every worker that rests.
    fn reopen(&mut self, _nth: usize) {}

    /// Returns the number of workers that count and are awake.
    fn awake(&mut self) -> u32 {
        (0..self.staffs()).map(|nth| self.staff(nth).status().awake).sum()
    }

    /// A number by which a pool is known at the next look. The default is for pools that stay as long as the program.
    fn id(&self, nth: usize) -> u64 {
        nth as u64
    }

    /// Returns what the program has held and used. The last look was `lasted_ns` ago.
    fn spent(&mut self, lasted_ns: u64) -> Spent;

    /// Time that the machine's cores had nothing to run since it began, over all of them. 5 µs on threads.
    fn idle_ns(&mut self) -> Option<u64> {
        None
    }

    /// What the CPUs that the program may use have had of a host. `None` where none tells, or the policy does not heed
    /// it. 7 µs on threads.
    fn stolen(&mut self) -> Option<Reading> {
        None
    }

    /// Where the time of the program's first thread went, which may be what hands in the tasks. `None` where there is
    /// none.
    fn first_thread(&mut self) -> Option<Times> {
        None
    }

    /// Whether that waits in a system call, and not for a core. `None` where there is none, or it is not known.
    fn first_thread_is_blocked(&mut self) -> Option<bool> {
        None
    }

    /// Time that all workers together have had a task, those that have ended included.
    fn busy_ns(&mut self) -> u64;
}

/// What the books of a pool or of a command say. The workers of a command are not known: their numbers are 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// The number of workers.
    pub workers: u32,
    /// How many workers that count are awake.
    pub awake: u32,
    /// How many workers rest because they have no core.
    pub retired: u32,
    /// Tasks that no worker has begun, as they were when the look began.
    pub queued: u64,
    /// The most cores that it can use. More are not claimed at a look, nor taken back.
    pub most: u32,
    /// True if sleepers lend their cores.
    pub lends: bool,
}

/// What a program has held and used since it began, and what it was granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Time that cores were held, over all of them.
    pub held_ns: u64,
    /// The processor time that all threads have had.
    pub clock_ns: u64,
    /// If a quota stops the program: what the program was granted since the last look.
    pub granted_ns: Option<u64>,
    /// Where the time of the workers went whose pools have ended, while the program was in the table. It belongs to the
    /// same moment as [`Program::staffs`]. A worker may end after its pool.
    pub ended: Times,
}

/// Where a thread's time went since it began. The rest it spent in system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// On a core.
    pub on_core: u64,
    /// Waiting for one. A wait that is not over need not be in it.
    pub for_core: u64,
}

impl Times {
    pub(crate) fn sum(self) -> u64 {
        self.on_core + self.for_core
    }

    /// Adds those of another thread.
    pub fn add(&mut self, other: Times) {
        self.on_core += other.on_core;
        self.for_core += other.for_core;
    }
}

/// What a driver knows of a worker without asking the system where its time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// It is awake, and counts.
    pub is_awake: bool,
    /// It is awake, and has a task.
    pub is_busy: bool,
    /// How long it has had one, on a core or not, since it began.
    pub busy_ns: u64,
    /// The processor time that its thread has had, if `is_busy` and it is known.
    pub clock_ns: Option<u64>,
    /// What changes when it forks, finishes or takes something.
    pub progress: [u64; 3],
}
