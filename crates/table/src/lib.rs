//! Which program uses which core: a table in shared memory that the programs of one machine keep among themselves.
//!
//! ```text
//!   program A ──┐                    ┌─ header   which slots are taken, which programs wait
//!   program B ──┼─ the same file ──▶ ├─ cores    one word each: owner, holder, generation
//!   program C ──┘                    └─ slots    one per program: desire, weight, heartbeat, bell
//! ```
//!
//! There is no daemon and no lock that any program waits for. A core changes hands by one compare-and-swap between two
//! states of [`CoreWord`]. Every program computes the entitlements alike ([`partition`](comity_protocol::partition)),
//! from the desires that all have reported. A program lives as long as the kernel says that it has the lock of its
//! slot's byte ([`file_lock`](comity_os::file_lock)). The next program that looks takes back what a dead one held.
//!
//! This crate decides nothing: which core to claim or release is `comity_protocol::table`'s to say. It knows no
//! policy, pool or worker. Begin with `layout.rs`, the file word by word, then `member.rs`, which also says what can
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
