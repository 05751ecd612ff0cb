//! A worker of a program: what it does, whether it sleeps, and where its time goes.

use std::cell::Cell;
use std::collections::VecDeque;

use comity_policy::Thief;
use comity_protocol::CoreSet;
use comity_protocol::dialogue::{Dialogue, Effect};

use super::Thread;
use super::kernel::{Place, Times, WHOLE};
use super::linux::Entity;
use crate::acceleration::Part;
use crate::program::Strand;

/// What a worker does with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It is between two things, or not there.
    Nothing,
    /// It runs a strand.
    Strand(u32),
    /// A thief does this; what comes of it shows when its time is over.
    Acting(Effect),
    /// It puts an unblocked task into a worker's queue, and then goes on with its own, if it has one.
    Placing { task: Strand, at: u32, next: Option<Strand> },
    /// It takes a task from its own queue; with `leaves`, one for which it has just ended its spell as a thief.
    Taking { leaves: bool },
    /// A thief that finds nothing: what it did then, and for how long it was still to do that.
    Deferred(Effect, u64),
    /// It waits for its parker.
    Waiting,
    /// It was woken while it waited, and learns what for.
    Rising,
}

/// Whether a worker rests, as its rest word and its doing have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It does not, or it is yet to look whether it may.
    Awake,
    /// Until a task or a peer wakes it.
    Asleep,
    /// Without a core, until the coordinator has one.
    Retired,
    /// It was woken while it waited, and has not learnt what for.
    Rising,
}

/// What decides for a worker without a task.
pub(super) struct Mind {
    pub(super) thief: Box<dyn Thief>,
    /// While it is a thief.
    pub(super) dialogue: Option<Dialogue>,
}

pub(super) struct Worker {
    /// Not while it is asked.
    pub(super) mind: Option<Box<Mind>>,
    /// It is a thief.
    pub(super) in_spell: bool,
    /// Ready strands, the oldest first.
    pub(super) ready: VecDeque<Strand>,
    /// When the lock of that queue will have been given back by all that have come.
    pub(super) queue_free_at: u64,
    pub(super) place: Place,
    pub(super) doing: Doing,
    /// Nanoseconds of its doing that are left, at full speed,
    pub(super) left: u64,
    /// and thousandths of them that are done of the next.
    done: u64,
    /// As the pool counts it.
    pub(super) rest: Rest,
    /// When it got the task that it has,
    busy_since: Option<u64>,
    /// and for how many nanoseconds it had had one by then, on a core or not.
    busy_time: u64,
    /// Tasks that it has begun.
    pub(super) begun: u64,
    /// Where its thread's time went.
    pub(super) times: Times,
    /// It was on its way to a task when its pool was closed.
    pub(super) may_begin: bool,
    /// What it has done as a thief since there have been more workers awake than there is room for.
    pub(super) beyond: u32,
    /// What it has done as a thief in a row that concerned no other thread.
    pub(super) local: u32,
    /// A strand that it has found and not begun.
    pub(super) found: Option<Strand>,
    pub(super) wakeups_owed: u32,
    /// It has offered its core.
    pub(super) gives_way: bool,
    pub(super) last_core: usize,
    /// How its thread stands in a queue of Linux.
    pub(super) entity: Entity,
    /// What it has to do with accelerations.
    pub(super) part: Part<Thread>,
    /// Where its thread may run, if not everywhere.
    pub(super) confined: Cell<Option<CoreSet>>,
}

impl Worker {
    pub(super) fn new(thief: Box<dyn Thief>, last_core: usize, nice: i8) -> Worker {
        Worker {
            mind: Some(Box::new(Mind { thief, dialogue: None })),
            in_spell: false,
            ready: VecDeque::new(),
            queue_free_at: 0,
            place: Place::Nowhere,
            doing: Doing::Nothing,
            left: 0,
            done: 0,
            rest: Rest::Awake,
            busy_since: None,
            busy_time: 0,
            begun: 0,
            times: Times::default(),
            may_begin: false,
            beyond: 0,
            local: 0,
            found: None,
            wakeups_owed: 0,
            gives_way: false,
            last_core,
            entity: Entity::new(nice),
            part: Part::default(),
            confined: Cell::new(None),
        }
    }

    /// It has been on a core of that speed for so long, in thousandths; how much of that it has done something.
    pub(super) fn advance(&mut self, elapsed: u64, speed: u64) -> u64 {
        if speed == WHOLE {
            let elapsed = elapsed.min(self.left);
            self.left -= elapsed;
            return elapsed;
        }
        let elapsed = elapsed.min(self.time_left(speed));
        let done = self.done + elapsed * speed;
        (self.left, self.done) = (self.left.saturating_sub(done / WHOLE), done % WHOLE);
        elapsed
    }

    /// How long a core of that speed needs for what is left.
    pub(super) fn time_left(&self, speed: u64) -> u64 {
        if speed == WHOLE { self.left } else { (self.left * WHOLE).saturating_sub(self.done).div_ceil(speed) }
    }

    pub(super) fn set_busy(&mut self, now: u64, busy: bool) {
        self.busy_time = self.busy_time(now);
        self.busy_since = busy.then_some(now);
    }

    /// A spell as a thief begins, or ends.
    pub(super) fn set_dialogue(&mut self, dialogue: Option<Dialogue>) -> Option<Dialogue> {
        self.in_spell = dialogue.is_some();
        let mind = self.mind.as_mut().expect("no worker is asked while its spell begins or ends");
        std::mem::replace(&mut mind.dialogue, dialogue)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy_since.is_some()
    }

    pub(super) fn busy_time(&self, now: u64) -> u64 {
        self.busy_time + self.busy_since.map_or(0, |since| now - since)
    }
}
