//! The scheduling policies of Comity: what a worker does when it has no task.
//!
//! A policy has no side effects. The shell (the real runtime, or a simulator) passes an [`Event`] to a [`Thief`]. The
//! thief answers with one [`Action`], which the shell carries out. The result of the action is the next event. The
//! shell asks the policy only for workers without a task, so push and pop cost the same under every policy.
//!
//! *A policy cannot cause a deadlock.* A thief may ask to sleep at any time, but the shell refuses a sleep after which
//! a task could wait for ever. [`Waking`] names the protocol by which the shell wakes sleepers under a policy.
//!
//! [`Event`] and [`Action`] are exhaustive enums, so a driver or a file format that omits a variant does not compile.
//! A new variant requires a new major version of this crate.
//!
//! This crate uses no threads, no clock and no I/O. It depends only on `core` and `alloc`. Begin with `thief.rs`, the
//! interface, then `policies/plain.rs`, the shortest policy with sleep. [`catalog::DEFINITIONS`] names all policies. A
//! [`Policy`] is one of these policies with its parameters.
//!
//! ```
//! use comity_policy::{Action, Event, Policy, WorkerId};
//!
//! let policy: Policy = "bws:sleep_threshold=128".parse().unwrap();
//! let mut thief = policy.thief(WorkerId(0), 2, 7);
//! let action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
//! assert_eq!(action, Action::StealFrom(WorkerId(1)));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod allotment;
pub mod catalog;
mod coordinator;
pub mod definition;
mod parameters;
mod place;
pub mod policies;
mod thief;
mod victims;

pub use catalog::{Policy, PolicyError};
pub use coordinator::{
    Account, CORRECTIONS, Claims, Coordinator, Mode, Orders, OutOfTurn, Room, StealTime, UNCORRECTED,
};
pub use definition::{Placement, Share, Sharing, Sleeper, Waking};
pub use parameters::{Domain, Parameter, Values};
pub use place::{Place, Unblocked};
pub use thief::{Action, Event, Level, Role, RunStatus, SleepRefusal, Thief, Victim, WakeReason, WorkerId};
pub use victims::Victims;
