//! Tasks that can wait, on Comity's workers: futures together with fork and join, and Kahn process networks.
//!
//! A future that is [spawned](spawn) becomes a task of a pool. The pool's workers run futures and the two sides of
//! [`comity::join`], and a future may call `join`. A waiting task uses no thread. When the task is woken, the pool's
//! policy chooses the worker that resumes it.
//!
//! ```
//! use std::time::Duration;
//!
//! let answer = comity_flow::block_on(async {
//!     let sum = comity_flow::spawn(async { comity::join(|| 20, || 22) });
//!     comity_flow::sleep(Duration::from_millis(1)).await;
//!     let (left, right) = sum.await;
//!     left + right
//! });
//! assert_eq!(answer, 42);
//! ```
//!
//! | in tokio | here |
//! |---|---|
//! | `tokio::spawn`, `JoinHandle`, `abort` | [`spawn`], [`Task`], [`Task::cancel`]. A handle that is dropped cancels; [`Task::detach`] lets the task run |
//! | `task::spawn_blocking`, `block_in_place` | [`spawn_blocking`] |
//! | `task::JoinSet` | [`JoinSet`] |
//! | `#[tokio::main]`, `Runtime::block_on` | [`block_on`], on any thread |
//! | `runtime::Builder::worker_threads` | [`comity::ThreadPoolBuilder::num_threads`], with [`spawn_in`] or `build_global` |
//! | `time::sleep`, `timeout`, `interval` | [`sleep`], [`timeout`], [`interval`] |
//! | `tokio::net`, `tokio::time`, and crates built on them | tokio's own, with the feature `tokio` of this crate (module `tokio`). Without it they panic: *there is no reactor running* |
//! | `tokio::sync` | tokio's own, which needs no runtime |
//! | `select!`, `join!` | the macros of the crate `futures`, or tokio's own |
//! | `tokio::fs` | [`spawn_blocking`] around `std::fs` |
//!
//! Without tokio, use sockets and channels of any crate that needs no executor of its own, for example async-io and
//! async-channel. A [`Network`] is a program of processes that share nothing but channels: the same input gives the
//! same output.
//!
//! This crate depends on no policy, deque or core: it uses a pool only through [`comity::executor`]. Read the sources
//! in this order: `state.rs` (a task's state word), `task.rs`, `network.rs` and `network/ledger.rs`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

#[cfg(not(loom))]
mod block_on;
#[cfg(not(loom))]
mod blocking;
#[cfg(not(loom))]
mod join_set;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod network;
#[cfg(any(test, not(loom)))]
mod state;
#[cfg(not(loom))]
mod surroundings;
#[cfg(not(loom))]
mod task;
#[cfg(not(loom))]
mod time;
#[cfg(all(feature = "tokio", not(loom)))]
pub mod tokio;

#[cfg(not(loom))]
pub use block_on::block_on;
#[cfg(not(loom))]
pub use blocking::{set_max_blocking_threads, spawn_blocking, spawn_blocking_in};
#[cfg(not(loom))]
pub use join_set::JoinSet;
#[cfg(not(loom))]
pub use network::{Deadlock, Failure, Network, Panic, Ports, Receiver, Sender, Wait};
#[cfg(not(loom))]
pub use task::{Task, spawn, spawn_in};
#[cfg(not(loom))]
pub use time::{Elapsed, Interval, Sleep, interval, sleep, sleep_until, timeout, timeout_at};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
