//! Whether a task waits, is queued, runs or has ended: one word, which wakers, the worker that polls and the handle
//! move.
//!
//! ```text
//!              wake, cancel                begin              pend
//!   WAITING ─────────────────▶ QUEUED ─────────────▶ RUNNING ──────▶ WAITING
//!                                 ▲                   │ ▲ │
//!                                 │            wake   ▼ │ └── end ──▶ ENDED
//!                                 └──── pend ─────── WOKEN
//! ```
//!
//! **Claim 1: a task is in a queue or runs at most once at a time.** Only the thread that moves the word to QUEUED
//! queues it, and only the thread that moves it from there to RUNNING polls.
//!
//! **Claim 2: no wake-up is lost.** A wake-up after the poll began is seen by that poll's `pend`, which queues the
//! task again. A wake-up before it has moved the word to QUEUED, or found it there; then the poll that is to come sees
//! what the waker wrote. For every wake-up writes the word, with release, even where it does not change it, and
//! `begin` acquires.
//!
//! **Claim 3: what a task leaves is taken once.** `end` and `abandon` each set their flag and see the other's: the
//! second of the two takes what is left.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

const WAITING: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
/// Running, and woken meanwhile.
const WOKEN: u32 = 3;
const ENDED: u32 = 4;
/// Where it stands, without the flags.
const STAND: u32 = 7;
/// Its future is to be dropped, and not polled again.
const CANCELLED: u32 = 8;
/// Its handle is gone: no task will ask for its result.
const ABANDONED: u32 = 16;

/// A task's word.
pub(crate) struct State(AtomicU32);

/// What a worker that took the task from a queue is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Poll its future.
    Poll,
    /// Drop its future.
    Cancelled,
}

/// What a worker is to do after its poll found the future pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pended {
    /// Nothing: a waker will queue the task.
    Waits,
    /// Queue the task: it was woken meanwhile.
    Again,
    /// Drop its future.
    Cancelled,
}

impl State {
    /// A task that has to be queued.
    pub(crate) fn queued() -> State {
        State(AtomicU32::new(QUEUED))
    }

    /// Moves the word by `step`, if that has an answer, and returns the answer.
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

    /// What it waits for has come. True: the caller queues the task.
    pub(crate) fn wake(&self) -> bool {
        let woken = self.step(|word| match word & STAND {
            WAITING => Some((word & !STAND | QUEUED, true)),
            RUNNING => Some((word & !STAND | WOKEN, false)),
            // Written all the same: Claim 2.
            QUEUED | WOKEN => Some((word, false)),
            _ => None,
        });
        woken == Some(true)
    }

    /// Its future is not wanted any more. True: the caller queues the task, so that a worker drops it.
    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.step(|word| match word & STAND {
            WAITING => Some((word & !STAND | QUEUED | CANCELLED, true)),
            ENDED => None,
            _ => Some((word | CANCELLED, false)),
        });
        cancelled == Some(true)
    }

    /// A worker has taken the task from a queue.
    pub(crate) fn begin(&self) -> Begun {
        let begun = self.step(|word| {
            debug_assert_eq!(word & STAND, QUEUED, "a task is queued once");
            Some((word & !STAND | RUNNING, if word & CANCELLED == 0 { Begun::Poll } else { Begun::Cancelled }))
        });
        begun.expect("it has an answer")
    }

    /// The poll found the future pending.
    pub(crate) fn pend(&self) -> Pended {
        let pended = self.step(|word| match word & STAND {
            // It is not polled again: it stays as one that runs until it has ended.
            _ if word & CANCELLED != 0 => Some((word, Pended::Cancelled)),
            RUNNING => Some((word & !STAND | WAITING, Pended::Waits)),
            _ => Some((word & !STAND | QUEUED, Pended::Again)),
        });
        pended.expect("it has an answer")
    }

    /// What the task leaves lies where its handle finds it. True: the handle is gone, so the caller takes it.
    pub(crate) fn end(&self) -> bool {
        let abandoned = self.step(|word| Some((word & !STAND | ENDED, word & ABANDONED != 0)));
        abandoned.expect("it has an answer")
    }

    /// The handle is gone, and with it all that would ask for the result. True: the result is there, so the caller
    /// takes it.
    pub(crate) fn abandon(&self) -> bool {
        let ended = self.step(|word| Some((word | ABANDONED, word & STAND == ENDED)));
        ended.expect("it has an answer")
    }

    /// Whether the task has ended. True also says that what it leaves is visible.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) & STAND == ENDED
    }
}
