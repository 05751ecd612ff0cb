//! `dws-nc`: DWS without the exchange of cores.

use alloc::boxed::Box;

use super::dws::{self, Demand};
use crate::catalog::{Placement, Row, Share, Sharing, Sleeper, Waking};

/// The catalog row.
pub const ROW: Row = Row {
    name: "dws-nc",
    summary: "as dws, but every program keeps to its own cores: what the exchange is worth",
    source: "DWS §4.4",
    waking: Waking::Hungry,
    counts_roles: false,
    batch: 1,
    share: Share::Cores(Sharing {
        placement: Placement::OnePerCore,
        sleeper: Sleeper::LeavesCore,
        plain_alone: true,
        quantum_us: |values| values[1],
        coordinator: |_| Box::new(Demand { own_only: true }),
    }),
    parameters: &[dws::T_SLEEP, dws::QUANTUM],
    rest: dws::rest,
};
