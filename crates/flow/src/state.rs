//! The state of a task (waiting, queued, running, ended) in one atomic word. Wakers, the polling worker and the
//! task's handle change it.
//!
//! ```text
//!              wake, cancel                begin              pend
//!   WAITING ─────────────────▶ QUEUED ─────────────▶ RUNNING ──────▶ WAITING
//!                                 ▲                   │ ▲ │
//!                                 │            wake   ▼ │ └── end ──▶ ENDED
//!                                 └──── pend ─────── WOKEN
//! ```
//!
//! **Claim 1.** At any time, a task has at most one queue entry or one polling worker, never both. Only the thread that
//! moves the word to QUEUED queues the task. Only the thread that moves it from QUEUED to RUNNING polls the task.
//!
//! **Claim 2.** No wake-up is lost. A wake-up during a poll moves the word to WOKEN, and `pend` of this poll queues
//! the task again. A wake-up between two polls moves the word to QUEUED or finds it there. The next poll sees the
//! waker's writes: every wake-up writes the word with release, even if its value stays the same; `begin` acquires.
//!
//! **Claim 3.** The outcome of a task is taken once. `end` sets ENDED and reads ABANDONED, and `abandon` sets
//! ABANDONED and reads ENDED, each in one atomic step. Whichever of the two functions runs second takes the outcome.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

const WAITING: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
/// The task runs, and was woken since its poll began.
const WOKEN: u32 = 3;
const ENDED: u32 = 4;
/// The mask of the state, without the flags.
const STAND: u32 = 7;
/// Flag: a worker must drop the future and not poll it again.
const CANCELLED: u32 = 8;
/// Flag: the handle was dropped or detached, so no task will ask for the result.
const ABANDONED: u32 = 16;

/// The state word of a task.
pub(crate) struct State(AtomicU32);

/// The next step of a worker that took the task from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Poll the future.
    Poll,
    /// Drop the future.
    Cancelled,
}

/// The next step of a worker whose poll found the future pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pended {
    /// Do nothing: a waker will queue the task.
    Waits,
    /// Queue the task: it was woken during the poll.
    Again,
    /// Drop the future.
    Cancelled,
}

impl State {
    /// Creates the state of a task that the caller must queue.
    pub(crate) fn queued() -> State {
        State(AtomicU32::new(QUEUED))
    }

    /// Replaces the word by the word that `step` returns, and returns the second value of `step`. If `step` returns
    /// `None`, leaves the word unchanged.
    fn step<R>(&self, step: impl Fn(u32) -> Option<(u32, R)>) -> Option<R> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (next, answer) = step(word)?;
            match self.0.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(answer),
                Err(now) => word = now,
            }
        }
    }

    /// Records a wake-up. Returns true if the caller must queue the task.
    pub(crate) fn wake(&self) -> bool {
        let woken = self.step(|word| match word & STAND {
            WAITING => Some((word & !STAND | QUEUED, true)),
            RUNNING => Some((word & !STAND | WOKEN, false)),
            // The word is written although it stays the same: Claim 2.
            QUEUED | WOKEN => Some((word, false)),
            _ => None,
        });
        woken == Some(true)
    }

    /// Requests that the future be dropped. Returns true if the caller must queue the task, so that a worker drops it.
    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.step(|word| match word & STAND {
            WAITING => Some((word & !STAND | QUEUED | CANCELLED, true)),
            ENDED => None,
            _ => Some((word | CANCELLED, false)),
        });
        cancelled == Some(true)
    }

    /// Called by a worker that has taken the task from a queue. Returns the worker's next step.
    pub(crate) fn begin(&self) -> Begun {
        let begun = self.step(|word| {
            debug_assert_eq!(word & STAND, QUEUED, "a task is queued once");
            Some((word & !STAND | RUNNING, if word & CANCELLED == 0 { Begun::Poll } else { Begun::Cancelled }))
        });
        begun.expect("it has an answer")
    }

    /// Called after a poll that found the future pending. Returns the worker's next step.
    pub(crate) fn pend(&self) -> Pended {
        let pended = self.step(|word| match word & STAND {
            // The state stays RUNNING until `end`, so that no waker queues the task.
            _ if word & CANCELLED != 0 => Some((word, Pended::Cancelled)),
            RUNNING => Some((word & !STAND | WAITING, Pended::Waits)),
            _ => Some((word & !STAND | QUEUED, Pended::Again)),
        });
        pended.expect("it has an answer")
    }

    /// Marks the task as ended, after its outcome was stored. Returns true if no handle is left to take the outcome.
    pub(crate) fn end(&self) -> bool {
        let abandoned = self.step(|word| Some((word & !STAND | ENDED, word & ABANDONED != 0)));
        abandoned.expect("it has an answer")
    }

    /// Called when the handle is dropped or detached: no task will ask for the result. Returns true if the task has
    /// already ended, so that the caller must take the outcome.
    pub(crate) fn abandon(&self) -> bool {
        let ended = self.step(|word| Some((word | ABANDONED, word & STAND == ENDED)));
        ended.expect("it has an answer")
    }

    /// True if the task has ended. In that case its outcome is visible to the caller.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) & STAND == ENDED
    }
}
