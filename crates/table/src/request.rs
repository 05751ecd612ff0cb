//! What a process that takes no part asks of a program.

use std::fmt;
use std::sync::atomic::Ordering;

use comity_os::clock::now_ns;
use comity_os::futex;
use comity_protocol::orders::Request;

use crate::fault;
use crate::layout::{OBEYS, TAKEN};
use crate::map::{Location, Map, TableError};
use crate::member::ring;
use crate::snapshot::Program;

/// Why a program was not asked.
#[derive(Debug)]
pub enum RequestError {
    /// The table cannot be used.
    Table(TableError),
    /// The program is not in its slot any more.
    Gone,
    /// It obeys nothing: it is of an older build, or has joined a moment ago.
    Deaf,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Table(error) => error.fmt(f),
            RequestError::Gone => f.write_str("the program has left the table meanwhile"),
            RequestError::Deaf => f.write_str(
                "the program obeys no requests: it was built with an older version of comity, or has joined a moment ago",
            ),
        }
    }
}

impl std::error::Error for RequestError {}

/// Asks a program that a [`Snapshot`](crate::Snapshot) has shown, and no other that has taken its slot since, and
/// rings its bell. It obeys within two of its quanta, also one that has nothing to do.
///
/// Any program that may write the table may ask: whether the user may is for the caller to decide.
///
/// # Errors
/// See [`RequestError`]; nothing is asked then, or nothing more of a program that leaves meanwhile.
pub fn request(location: &Location, program: &Program, requests: &[Request]) -> Result<(), RequestError> {
    let map = Map::open_existing(location).map_err(RequestError::Table)?.ok_or(RequestError::Gone)?;
    let slot = &map.layout().slots[program.slot.index()];
    let tenure = program.tenure.ok_or(RequestError::Gone)?;
    let is_taken = || slot.state.load(Ordering::Acquire) == TAKEN;
    if slot.tenure.load(Ordering::Acquire) != tenure || !is_taken() {
        return Err(RequestError::Gone);
    }
    if slot.features.load(Ordering::Acquire) & OBEYS == 0 {
        return Err(RequestError::Deaf);
    }
    // This process may die between two requests, or before it rings. Each word is as it was or as it is to be, and the
    // program reads it at its next look at the latest.
    for request in requests {
        fault::point("asking");
        if !slot.words().ask(*request, tenure, now_ns(), is_taken) {
            return Err(RequestError::Gone);
        }
        fault::point("asked");
    }
    slot.asks.fetch_add(1, Ordering::Release);
    futex::wake_one_shared(&slot.asks);
    ring(slot);
    Ok(())
}
