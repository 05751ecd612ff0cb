//! A pool at one look of its coordinator. The [observer](crate::observer) and the [quantum](crate::quantum) query and
//! change the pool through it, using the pool's books and its driver.

use comity_policy::{Sleeper, WorkerId};

use crate::CoreSet;
use crate::activation::{Activation, Books, Cores, Mover, Pool, State};
use crate::platform::{Lock, Platform};
use crate::program::{Sample, Staff, Status, Times};
use crate::sleep::Work as _;
use crate::table::Gain;

/// The driver's view of a pool at a look, without the pool's books.
pub trait Looked {
    /// The platform of the pool's protocol.
    type Platform: Platform;
    /// The source of the pool's cores.
    type Cores: Cores + ?Sized;
    /// The pool's queues, sleep protocol, and workers' threads.
    type Pool<'a>: Pool<Platform = Self::Platform>
    where
        Self: 'a;

    /// Returns the pool's activation.
    fn activation(&self) -> &Activation<Self::Platform, Self::Cores>;

    /// Returns the pool itself.
    fn pool(&self) -> Self::Pool<'_>;

    /// Returns the number of tasks that no worker had begun when the look began.
    fn queued(&self) -> u64;

    /// Samples a worker, see [`Staff::sample`]. The caller passes `is_awake` from the books.
    fn sample(&self, worker: WorkerId, is_awake: bool) -> Sample;

    /// Returns the times of a worker's thread, see [`Staff::times`].
    fn times(&self, worker: WorkerId) -> Option<Times>;

    /// True if a worker's thread is blocked, see [`Staff::is_blocked`].
    fn is_blocked(&self, worker: WorkerId) -> Option<bool>;
}

/// A pool at a look, with the lock of the pool's books.
pub struct AtLook<'a, L: Looked> {
    looked: &'a L,
    activation: &'a Activation<L::Platform, L::Cores>,
    books: <<L::Platform as Platform>::Lock<Books> as Lock<Books>>::Guard<'a>,
}

impl<'a, L: Looked> AtLook<'a, L> {
    /// Waits for the lock of the pool's books, and keeps it.
    pub fn new(looked: &'a L) -> AtLook<'a, L> {
        let activation = looked.activation();
        AtLook { looked, activation, books: activation.books() }
    }

    /// Returns the number of tasks that wait for a worker: tasks that no worker has begun, and tasks in the middle of
    /// which a worker rests.
    fn waiting(&self) -> u64 {
        self.looked.queued() + u64::from(self.books.midway())
    }
}

impl<L: Looked> Staff for AtLook<'_, L> {
    fn status(&self) -> Status {
        Status {
            workers: self.activation.workers(),
            awake: self.books.awake(),
            retired: self.books.retired(),
            queued: self.waiting(),
            most: self.activation.most(),
            lends: self.activation.sharing.sleeper == Sleeper::LendsCore,
        }
    }

    fn held(&self) -> CoreSet {
        self.activation.member().map_or(CoreSet::EMPTY, Cores::held_by_program)
    }

    fn gain(&mut self, how: Gain) -> bool {
        self.activation.gain(&mut self.books, [how])
    }

    fn release(&mut self, core: usize) {
        if let Some(member) = self.activation.member() {
            self.activation.release(&mut self.books, member, Some(core));
        }
    }

    fn employ(&mut self) {
        let pool = self.looked.pool();
        // Some of the pool's cores may be gone: `Program::divide` may have given them to other pools of the program,
        // and other programs may have taken them back.
        if let Some(member) = self.activation.member() {
            self.activation.note_moves(&mut self.books, member);
        }
        if self.books.retired() > 0 {
            // A parallel loop splits only when a thief rings the bell. After this ring, the next look sees how many
            // tasks the loop has.
            pool.ring_bells();
        }
        let waiting = self.waiting() as usize;
        self.activation.employ(&mut self.books, &pool, waiting, Mover::Look);
    }

    fn note_losses(&mut self) {
        if let Some(member) = self.activation.member() {
            self.activation.note_losses(&mut self.books, member);
        }
    }

    fn sample(&self, worker: WorkerId) -> Sample {
        let is_awake = self.books.is(worker, State::Awake);
        Sample { is_awake, ..self.looked.sample(worker, is_awake) }
    }

    fn times(&self, worker: WorkerId) -> Option<Times> {
        self.looked.times(worker)
    }

    fn is_blocked(&self, worker: WorkerId) -> Option<bool> {
        self.looked.is_blocked(worker)
    }

    fn set_off_core(&mut self, workers: u32) {
        self.books.off_core = workers;
    }

    fn rung(&mut self) -> bool {
        let waiting = self.waiting() as usize;
        self.activation.rung(&mut self.books, &self.looked.pool(), waiting)
    }

    fn leave_off(&mut self) {
        self.activation.set_alone(true);
        if let Some(member) = self.activation.member() {
            while self.books.awake() == 0 && self.activation.release(&mut self.books, member, None) {}
        }
        self.activation.balance(&mut self.books, &self.looked.pool());
    }
}
