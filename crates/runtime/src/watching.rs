//! Views of a pool from outside: counters, a report of the threads that wait, and a timeline.

pub(crate) mod activity;
pub(crate) mod counters;
pub(crate) mod say;
pub(crate) mod trace;
pub(crate) mod watch;
