//! The core table: a file in shared memory in which the programs of one machine record which program uses which core.
//!
//! ```text
//!   program A ──┐                    ┌─ header   which slots are taken, which programs wait
//!   program B ──┼─ the same file ──▶ ├─ cores    one word each: owner, holder, generation
//!   program C ──┘                    └─ slots    one per program: desire, weight, heartbeat, bell
//! ```
//!
//! There is no daemon, and no program waits for a lock that another program holds. One compare-and-swap between two
//! states of [`CoreWord`] passes a core from one program to another. Each program publishes its desire: the number of
//! cores that it can use. From these numbers, all programs compute the same entitlements
//! ([`partition`](comity_protocol::partition)). A program counts as living while it holds a kernel lock on the byte of
//! its slot ([`file_lock`](comity_os::file_lock)). The next program that looks at the table frees the cores and the
//! slot of a dead program: it *reaps* that program.
//!
//! This crate makes no decisions: `comity_protocol::table` decides which core to claim or release. This crate depends
//! on no policy, pool or worker. Read `layout.rs` first, which defines the file word by word, then `member.rs`, which
//! also lists what can go wrong.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

#[cfg(test)]
extern crate self as comity_table;
#[cfg(test)]
#[path = "../tests/harness/mod.rs"]
mod harness;

mod fault;
mod layout;
mod map;
mod member;
mod other_layout;
mod request;
mod snapshot;
mod text;
mod thieves;

pub use comity_protocol::orders::{InForce, MOST_PAUSE, Own, Request, Requests};
pub use comity_protocol::table::Seat;
pub use comity_protocol::{
    CORES, CoreSet, CoreWord, SLOTS, STOPPED_AFTER, Shortfall, SlotId, Standing, TURN, TaskGroup, Way,
};
pub use map::{Location, TABLE_AROUND, TableError};
pub use member::{Member, Profile, Siblings, View, this_program};
pub use other_layout::{OtherLayout, other_layouts};
pub use request::{RequestError, request};
pub use snapshot::{ADOPTED, COMMAND, Cleaned, Core, Life, Program, Snapshot, clean, path_to_clean};
pub use text::printable;
pub use thieves::{REFUSALS, Thieves};
