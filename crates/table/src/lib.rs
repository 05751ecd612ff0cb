//! The core table: a file in shared memory in which the programs of one machine record which program uses which core.
//!
//! ```text
//!   program A ──┐                    ┌─ header   which slots are taken, which programs wait
//!   program B ──┼─ the same file ──▶ ├─ cores    one word each: owner, holder, generation
//!   program C ──┘                    └─ slots    one per program: desire, weight, heartbeat, bell
//! ```
//!
//! There is no daemon, and no program waits for a lock of another. A core changes hands by one compare-and-swap
//! between two states of [`CoreWord`]. All programs compute the same entitlements
//! ([`partition`](comity_protocol::partition)) from the desire of each program. A program lives as long as it has the
//! lock of its slot's byte, according to the kernel ([`file_lock`](comity_os::file_lock)). The next program that
//! looks takes back the cores and the slot of a dead program.
//!
//! This crate decides nothing: `comity_protocol::table` decides which core to claim or release. This crate knows no
//! policy, pool or worker. Begin with `layout.rs`, the file word by word, then `member.rs`, which also lists what can
//! go wrong.

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
pub use snapshot::{Cleaned, Core, Life, Program, Snapshot, clean, path_to_clean};
pub use text::printable;
pub use thieves::{REFUSALS, Thieves};
