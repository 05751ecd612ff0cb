//! A pool at one look of its coordinator: what the [observer](crate::observer) and the [quantum](crate::quantum) ask
//! of it and have it do, over its books and what its driver knows.

use comity_policy::{Sleeper, WorkerId};

use crate::CoreSet;
use crate::activation::{Activation, Books, Cores, Mover, Pool, State};
use crate::platform::{Lock, Platform};
use crate::program::{Sample, Staff, Status, Times};
use crate::sleep::Work as _;
use crate::table::Gain;

/// What a driver knows of a pool at a look, beside its books.
pub trait Looked {
    /// What its protocol runs on.
    type Platform: Platform;
    /// Where its cores come from.
    type Cores: Cores + ?Sized;
    /// Its queues, its sleep protocol, and its workers' threads.
    type Pool<'a>: Pool<Platform = Self::Platform>
    where
        Self: 'a;

    /// Its activation.
    fn activation(&self) -> &Activation<Self::Platform, Self::Cores>;

    /// The pool itself.
    fn pool(&self) -> Self::Pool<'_>;

    /// Tasks that no worker had begun when the look began.
    fn queued(&self) -> u64;

    /// See [`Staff::sample`]. The books know whether the worker is awake.
    fn sample(&self, worker: WorkerId, is_awake: bool) -> Sample;

    /// See [`Staff::times`].
    fn times(&self, worker: WorkerId) -> Option<Times>;

    /// See [`Staff::is_blocked`].
    fn is_blocked(&self, worker: WorkerId) -> Option<bool>;
}

/// A pool at a look, with the lock of its books.
pub struct AtLook<'a, L: Looked> {
    looked: &'a L,
    activation: &'a Activation<L::Platform, L::Cores>,
    books: <<L::Platform as Platform>::Lock<Books> as Lock<Books>>::Guard<'a>,
}

impl<'a, L: Looked> AtLook<'a, L> {
    /// Waits for the lock.
    pub fn new(looked: &'a L) -> AtLook<'a, L> {
        let activation = looked.activation();
        AtLook { looked, activation, books: activation.books() }
    }

    /// Tasks that wait for a worker: those that none has begun, and those in the middle of which a worker rests.
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
        // Other pools of the program may have been given some of its cores, and other programs may have taken some
        // back.
        if let Some(member) = self.activation.member() {
            self.activation.note_moves(&mut self.books, member);
        }
        if self.books.retired() > 0 {
            // A loop splits only as far as a thief asks: it shows at the next look how many tasks it has.
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
