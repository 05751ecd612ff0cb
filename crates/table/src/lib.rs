//! Who holds which core: a table in shared memory that the programs of one machine keep among themselves.
//!
//! ```text
//!   program A ──┐                    ┌─ header   who is there, who waits
//!   program B ──┼─ the same file ──▶ ├─ cores    one word each: owner, holder, generation
//!   program C ──┘                    └─ slots    one per program: desire, weight, heartbeat, bell
//! ```
//!
//! There is no daemon and no lock that anybody waits for. A core changes hands by one compare-and-swap between two states of
//! [`CoreWord`]. Entitlements are computed by every program alike ([`partition`](comity_protocol::partition)), from the desires that all have
//! reported. A program lives as long as the kernel says that it has the lock of its slot's byte
//! ([`file_lock`](comity_os::file_lock)); what the dead held is taken back by whoever looks next.
//!
//! # What can go wrong
//!
//! - *A program dies*, at any instruction: its lock is free, the next [`Member::round`] of any other reaps it under that same
//!   lock; and who dies while it reaps is reaped by the next.
//! - *A program is stopped*: it has its lock, but no heartbeat. Its cores can be used by others after [`STOPPED_AFTER`],
//!   and a tenth of a second after its last heartbeat if the kernel says that its process is stopped;
//!   what it writes when it goes on meets another generation, and it takes its own cores back as any owner does.
//! - *A program writes nonsense*, by accident or malice (only whoever may write the file can): programs may get too few cores or too
//!   many, for as long as that goes on. No value makes a program crash, wait without a timeout or write elsewhere.
//! - *Somebody cuts the file short* while it is mapped (again only who may write it): programs die of SIGBUS. That is the
//!   price of a shared mapping; share a table with those only who may also kill your programs.

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
pub use comity_protocol::{CORES, CoreSet, CoreWord, SLOTS, STOPPED_AFTER, SlotId, Standing, TURN};
pub use map::{Location, TableError};
pub use member::{Member, Profile, draw_program};
pub use other_layout::{OtherLayout, other_layouts};
pub use request::{RequestError, request};
pub use snapshot::{Cleaned, Core, Life, Program, Snapshot, clean, path_to_clean};
pub use thieves::{REFUSALS, Thieves};
