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

/// The action of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The worker is between two actions, or its program is not running.
    Nothing,
    /// The worker runs a strand.
    Strand(u32),
    /// The worker is a thief and carries out this effect. The outcome is visible when the effect's time is over.
    Acting(Effect),
    /// The worker puts an unblocked task into the queue of worker `at`, and then continues with its own task, if it
    /// has one.
    Placing { task: Strand, at: u32, next: Option<Strand> },
    /// The worker takes a task from its own queue. With `leaves`, the worker has just ended its spell as a thief to
    /// take this task.
    Taking { leaves: bool },
    /// The worker is a thief that finds nothing, and its attempts are [deferred](super::deferred). The fields are its
    /// effect when deferral began, and the nanoseconds that were left of that effect.
    Deferred(Effect, u64),
    /// The worker waits until another thread wakes it.
    Waiting,
    /// The worker was woken while it waited, and is about to learn the reason.
    Rising,
}

/// The rest state of a worker, which follows from its rest word and its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The worker is awake, or has not yet checked whether it may rest.
    Awake,
    /// The worker sleeps until a task or a peer wakes it.
    Asleep,
    /// The worker has no core, and rests until the coordinator has a core for it.
    Retired,
    /// The worker was woken while it waited, and has not learnt the reason yet.
    Rising,
}

/// The part of a worker that makes the decisions while the worker has no task.
pub(super) struct Mind {
    pub(super) thief: Box<dyn Thief>,
    /// The dialogue, while the worker is a thief.
    pub(super) dialogue: Option<Dialogue>,
}

pub(super) struct Worker {
    /// The thief and its dialogue. `None` while the thief is asked.
    pub(super) mind: Option<Box<Mind>>,
    /// True if the worker is a thief.
    pub(super) in_spell: bool,
    /// The ready strands, the oldest first.
    pub(super) ready: VecDeque<Strand>,
    /// The time at which the lock of `ready` will be free, after all workers that hold it or wait for it.
    pub(super) queue_free_at: u64,
    /// True if a thief has tried to steal from `ready` since the worker's last access.
    pub(super) is_disturbed: bool,
    pub(super) place: Place,
    pub(super) doing: Doing,
    /// The nanoseconds at full speed that are left of the worker's action.
    pub(super) left: u64,
    /// The part of the first of these nanoseconds that is already done, in thousandths.
    done: u64,
    /// The rest state as the pool counts it.
    pub(super) rest: Rest,
    /// The time at which the worker got its present task.
    busy_since: Option<u64>,
    /// The nanoseconds for which the worker had earlier tasks, on a core or not.
    busy_time: u64,
    /// The number of tasks that the worker has begun.
    pub(super) begun: u64,
    /// The nanoseconds that the worker's thread has spent on a core, and waiting for a core.
    pub(super) times: Times,
    /// True if the worker was on its way to a task when its pool was closed. It may still begin this task.
    pub(super) may_begin: bool,
    /// The number of effects that the worker has carried out as a thief since more workers are awake than the pool has
    /// room for.
    pub(super) beyond: u32,
    /// The number of successive effects that the worker has carried out as a thief and that concerned no other thread.
    pub(super) local: u32,
    /// The strand that the worker has found and not begun.
    pub(super) found: Option<Strand>,
    pub(super) wakeups_owed: u32,
    /// True if the worker has offered its core to other threads. Losing the core is then no preemption.
    pub(super) gives_way: bool,
    pub(super) last_core: usize,
    /// The state of the worker's thread in a Linux queue.
    pub(super) entity: Entity,
    /// The acceleration state of the worker's thread.
    pub(super) part: Part<Thread>,
    /// The cores on which the worker's thread may run. `None` means all cores.
    pub(super) confined: Cell<Option<CoreSet>>,
}

impl Worker {
    pub(super) fn new(thief: Box<dyn Thief>, last_core: usize, nice: i8) -> Worker {
        Worker {
            mind: Some(Box::new(Mind { thief, dialogue: None })),
            in_spell: false,
            ready: VecDeque::new(),
            queue_free_at: 0,
            is_disturbed: false,
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

    /// Accounts for `elapsed` nanoseconds on a core of `speed` thousandths. Returns the nanoseconds until the end of
    /// the worker's action, if the action ended within this time. Otherwise returns `elapsed`.
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

    /// Returns the nanoseconds that a core of this speed needs for the rest of the action.
    pub(super) fn time_left(&self, speed: u64) -> u64 {
        if speed == WHOLE { self.left } else { (self.left * WHOLE).saturating_sub(self.done).div_ceil(speed) }
    }

    pub(super) fn set_busy(&mut self, now: u64, busy: bool) {
        self.busy_time = self.busy_time(now);
        self.busy_since = busy.then_some(now);
    }

    /// Begins a spell as a thief, or ends it. Returns the former dialogue.
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
