//! A program in a core table that has no process of its own, and requests no core.

use std::time::Duration;

use comity_table::{CoreSet, Location, Member, Profile};

/// Joins the table, which is created if it does not exist.
pub fn join(location: &Location) -> Member {
    Member::join(location, &profile()).unwrap()
}

/// Returns the profile of such a program.
pub fn profile() -> Profile {
    Profile {
        program: 1,
        name: "test".to_owned(),
        policy: "test".to_owned(),
        weight: 1,
        workers: 1,
        may_use: CoreSet::EMPTY,
        lend_after: Duration::ZERO,
    }
}
