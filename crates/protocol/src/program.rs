//! The interface of a program in the core table. A driver implements it; the [observer](crate::observer) and the
//! [quantum](crate::quantum) query and change the program through it.

use comity_policy::{Mode, Room, WorkerId};

use crate::CoreSet;
use crate::orders::InForce;
use crate::steal_time::Reading;
use crate::table::{Gain, Seat};

/// A program that is a member of the core table.
pub trait Program {
    /// The type of the program's place in the table.
    type Seat: Seat;
    /// A user of the program's cores (a pool or a command), with the lock of its books.
    type Staff<'a>: Staff
    where
        Self: 'a;

    /// Returns the program's place in the table.
    fn seat(&self) -> &Self::Seat;

    /// Returns the number of pools that use the program's cores. It is 1 if a command uses them.
    fn staffs(&self) -> usize;

    /// Takes the lock of the books of the pool with this number.
    fn staff(&mut self, nth: usize) -> Self::Staff<'_>;

    /// Returns the program's present settings, including requests from other processes. The weight may be missing:
    /// only the table knows it.
    fn in_force(&self) -> InForce {
        InForce::default()
    }

    /// Returns the maximum of the program's share, in cores.
    fn cap(&self) -> u32 {
        self.in_force().most()
    }

    /// Sets the terms on which the program runs from now on. `alone`: no other program wants cores. `usable`: the
    /// maximum number of cores that it can use.
    fn stand(&mut self, alone: bool, mode: Mode, room: Room, usable: u32);

    /// Closes the program's pools, so that no worker begins a task, or opens them again. Follows [`Program::stand`].
    /// The default is for a program whose pools are never closed.
    fn close(&mut self, _closed: bool) {}

    /// Divides the program's cores among its pools. The default is for a program of one pool.
    fn divide(&mut self) {}
}

/// A user of a program's cores, with the lock of its books: a pool or a command. The default methods are for a
/// command, whose workers are unknown.
pub trait Staff {
    /// Returns the numbers in the [books](crate::activation::Books).
    fn status(&self) -> Status;

    /// Returns the cores that the program holds, including cores that its other pools use.
    fn held(&self) -> CoreSet;

    /// Claims a core, or takes one back. Returns false if no core is available, or the pool has reached its limit.
    fn gain(&mut self, how: Gain) -> bool;

    /// Releases the core, if this pool uses it.
    fn release(&mut self, core: usize);

    /// Assigns a worker to each core, if there are workers, and releases cores without a worker unless the policy
    /// keeps them.
    fn employ(&mut self) {}

    // The following methods concern pools only.

    /// Notes in the books which cores the pool has lost.
    fn note_losses(&mut self) {}

    /// Returns the state of a worker. Takes 0.5 µs with real threads.
    fn sample(&self, _worker: WorkerId) -> Sample {
        Sample::default()
    }

    /// Returns the times of the worker's thread. `None`: unknown. Takes 6 µs with real threads.
    fn times(&self, _worker: WorkerId) -> Option<Times> {
        None
    }

    /// Returns true if the worker's thread waits in a system call, and false if it runs or waits for a core. `None`:
    /// unknown. Takes 5 µs with real threads.
    fn is_blocked(&self, _worker: WorkerId) -> Option<bool> {
        None
    }

    /// Sets the number of workers that are awake and need no core.
    fn set_off_core(&mut self, _workers: u32) {}

    /// Handles a ring of the bell: a core of the pool was taken back, or a core is available. Returns true if cores
    /// were taken back.
    fn rung(&mut self) -> bool {
        false
    }

    /// Marks the pool as alone, and releases its cores if none of its workers is awake.
    fn leave_off(&mut self) {}
}

/// A program that consists of pools. Each pool is one of its [staffs](Program::staffs).
pub trait Pools: Program {
    /// Returns the maximum number of cores that the program can use at a time. Called when a look begins.
    fn usable(&mut self) -> u32;

    /// True if a worker is awake, or must be woken for a task.
    fn has_work(&self) -> bool;

    /// True if a pool keeps a core while no worker is awake. It keeps the core for a worker that was woken and is not
    /// up yet, or for the running thread that handed in its last task.
    fn keeps_core(&self) -> bool {
        false
    }

    /// Wakes every resting worker of a pool that was closed and is open again.
    fn reopen(&mut self, _nth: usize) {}

    /// Returns the number of workers that are awake, without adopted threads.
    fn awake(&mut self) -> u32 {
        (0..self.staffs()).map(|nth| self.staff(nth).status().awake).sum()
    }

    /// Returns a number by which the next look recognizes a pool. The default is for pools that live as long as the
    /// program.
    fn id(&self, nth: usize) -> u64 {
        nth as u64
    }

    /// Returns the times that the program has held cores and used them. The previous look was `lasted_ns` ago.
    fn spent(&mut self, lasted_ns: u64) -> Spent;

    /// Returns the time in ns that the machine's cores have been idle since it started, summed over all cores. Takes 5
    /// µs with real threads.
    fn idle_ns(&mut self) -> Option<u64> {
        None
    }

    /// Returns the run time and steal time of the CPUs that the program may use. `None`: the host does not report it,
    /// or the policy does not use it. Takes 7 µs with real threads.
    fn stolen(&mut self) -> Option<Reading> {
        None
    }

    /// Returns the times of the program's first thread, which may be the thread that hands in the tasks. `None`:
    /// there is no such thread.
    fn first_thread(&mut self) -> Option<Times> {
        None
    }

    /// Returns true if the first thread waits in a system call, and false if it runs or waits for a core. `None`:
    /// unknown, or there is no such thread.
    fn first_thread_is_blocked(&mut self) -> Option<bool> {
        None
    }

    /// Returns the time in ns that all workers together have had a task, including workers that have ended.
    fn busy_ns(&mut self) -> u64;
}

/// The numbers in the books of a pool or of a command. The workers of a command are unknown, so their numbers are 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    /// The number of workers.
    pub workers: u32,
    /// The number of workers that are awake, without adopted threads.
    pub awake: u32,
    /// The number of workers that rest because they have no core.
    pub retired: u32,
    /// The number of tasks that no worker had begun when the look began.
    pub queued: u64,
    /// The maximum number of cores that the pool can use. A look claims or takes back at most this number.
    pub most: u32,
    /// True if sleepers lend their cores.
    pub lends: bool,
}

/// The times that a program has held and used cores since it began, and the time that a quota granted it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// The time that cores were held, in ns, summed over all cores.
    pub held_ns: u64,
    /// The processor time that all threads have had, in ns.
    pub clock_ns: u64,
    /// If a cgroup quota throttles the program: the processor time that the quota granted since the previous look, in
    /// ns.
    pub granted_ns: Option<u64>,
    /// The times of workers whose pools ended while the program was in the table, at the time of the call of
    /// [`Program::staffs`]. A worker may end after its pool; its times are added then.
    pub ended: Times,
}

/// The times in ns that a thread has run and waited for a core since it began. In the rest of its time it was in
/// system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time on a core.
    pub on_core: u64,
    /// The time that it waited for a core. A wait that is not over may be missing.
    pub for_core: u64,
}

impl Times {
    pub(crate) fn sum(self) -> u64 {
        self.on_core + self.for_core
    }

    /// Adds the times of another thread.
    pub fn add(&mut self, other: Times) {
        self.on_core += other.on_core;
        self.for_core += other.for_core;
    }
}

/// The state of a worker, as far as the driver knows it without a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// True if the worker is awake. False for an adopted thread, which is a thread of the program.
    pub is_awake: bool,
    /// True if the worker is awake, and has a task.
    pub is_busy: bool,
    /// The time in ns that it has had a task since it began, whether or not it ran on a core.
    pub busy_ns: u64,
    /// The processor time of its thread in ns, if `is_busy` and the time is known.
    pub clock_ns: Option<u64>,
    /// Counters that change when the worker forks, finishes or takes a task.
    pub progress: [u64; 3],
}
