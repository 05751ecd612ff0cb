//! `abp-eq`: `eq` + `abp`, the baseline that the A-STEAL paper compares with.

use super::equipartition;
use crate::definition::{Definition, Placement, Share, Sharing};

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "abp-eq",
    summary: "Thieves as in abp; all programs have the same number of cores. ABP+EQ of the A-STEAL paper.",
    source: "A-STEAL §3 and §7",
    share: Share::Cores(Sharing { placement: Placement::WithinCores, ..equipartition::SHARING }),
    ..equipartition::DEFINITION
};
