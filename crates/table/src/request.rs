//! Requests to a program from a process that is not a member of the table.

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

/// The reason why a request failed.
#[derive(Debug)]
pub enum RequestError {
    /// The table cannot be used.
    Table(TableError),
    /// The program has left its slot.
    Gone,
    /// The program does not follow requests: its build is too old, or it has just joined.
    Deaf,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Table(error) => error.fmt(f),
            RequestError::Gone => f.write_str("the program has left the core table"),
            RequestError::Deaf => f.write_str(
                "the program does not accept requests: it has an older Comity or has just joined the table. Try again",
            ),
        }
    }
}

impl std::error::Error for RequestError {}

/// Sends requests to a program of a [`Snapshot`](crate::Snapshot) and rings its bell. If another program has taken
/// the slot since the snapshot, that program gets no request. The program follows the requests within two quanta (the
/// periods of its coordinator), even if it has no work.
///
/// Any process that may write to the table can send requests. The caller must check that the user is allowed to.
///
/// # Errors
/// See [`RequestError`]. In case of an error, the program gets no request. Exception: a program that leaves the table
/// during the call may have got some of the requests.
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
    // This process may die between two requests, or before it rings the bell. Each word then has its old or its new
    // value, and the program reads the words when it next looks at the table.
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
