//! `abp-eq`: `eq` + `abp`, the baseline that the A-STEAL paper compares with.

use super::equipartition;
use crate::row::{Placement, Row, Share, Sharing};

/// The catalog row.
pub const ROW: Row = Row {
    name: "abp-eq",
    summary: "Thieves as in abp; all programs have the same number of cores. ABP+EQ of the A-STEAL paper.",
    source: "A-STEAL §3 and §7",
    share: Share::Cores(Sharing { placement: Placement::WithinCores, ..equipartition::SHARING }),
    ..equipartition::ROW
};
