//! `abp-eq`: `eq` + `abp`, the other side of the A-STEAL paper's comparison.

use alloc::boxed::Box;

use super::{abp, dws, equipartition::EqualShare};
use crate::catalog::{Placement, Row, Share, Sharing, Sleeper, Waking};

/// The catalog row.
pub const ROW: Row = Row {
    name: "abp-eq",
    summary: "thieves as in abp, on as many cores as every other program has: ABP+EQ of the A-STEAL paper",
    source: "A-STEAL §3 and §7",
    waking: Waking::NobodySleeps,
    counts_roles: false,
    batch: 1,
    share: Share::Cores(Sharing {
        placement: Placement::WithinCores,
        sleeper: Sleeper::KeepsCore,
        plain_alone: false,
        quantum_us: |values| values[0],
        coordinator: |_| Box::new(EqualShare),
    }),
    parameters: &[dws::QUANTUM],
    rest: abp::ROW.rest,
};
