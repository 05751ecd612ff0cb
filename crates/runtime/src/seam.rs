//! Where a test may listen to what the runtime and the protocol say to each other. Elsewhere nothing stands between
//! them.

#[cfg(all(test, not(loom)))]
pub(crate) use comity_record::{Recorded as Seen, advised, closes, life, opens, says, seen};

#[cfg(not(all(test, not(loom))))]
pub(crate) use nothing::{Seen, advised, closes, life, opens, says, seen};

#[cfg(not(all(test, not(loom))))]
mod nothing {
    use std::fmt::Arguments;

    use comity_policy::{Coordinator, Policy};

    /// What the runtime has for the protocol.
    pub(crate) type Seen<T> = T;

    pub(crate) fn seen<T>(driver: T) -> T {
        driver
    }

    pub(crate) fn advised(coordinator: Box<dyn Coordinator>) -> Box<dyn Coordinator> {
        coordinator
    }

    /// A coordinator's life begins.
    pub(crate) fn life(_: &Policy, _: Arguments<'_>) {}

    /// A spell begins.
    pub(crate) fn opens(_: Arguments<'_>) {}

    pub(crate) fn says(_: Arguments<'_>) {}

    /// It is over.
    pub(crate) fn closes() {}
}
