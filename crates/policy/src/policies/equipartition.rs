//! `equipartition`: every program has an equal part of the cores for its own use.

use alloc::boxed::Box;

use super::{abp, dws};
use crate::definition::{Definition, Placement, Share, Sharing, Sleeper};
use crate::parameters::parameters;
use crate::{Account, Claims, Coordinator, Orders};

parameters! {
    /// The parameters of `equipartition`.
    struct Parameters {
        quantum_us: u32 = dws::QUANTUM,
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "equipartition",
    summary: "Equal parts of adjacent cores, one worker bound to each core. Thieves as in abp. EP of the DWS paper.",
    source: "DWS §2.2 and §4; Tucker and Gupta 1989",
    share: Share::Cores(SHARING),
    parameters: Parameters::TABLE,
    ..abp::DEFINITION
};

/// The rules by which policies without feedback use the core table.
pub(super) const SHARING: Sharing = Sharing {
    placement: Placement::OnePerCore,
    sleeper: Sleeper::KeepsCore,
    own_only: true,
    plain_alone: false,
    quantum_us: |values| Parameters::read(values).quantum_us,
    lend_us: |_| 0,
    folds: |_| false,
    coordinator: |_| Box::new(EqualShare),
};

/// EQ: the coordinator of a program that does not measure how many cores it can use. It claims the program's equal
/// share.
struct EqualShare;

impl Coordinator for EqualShare {
    fn quantum(&mut self, account: &Account) -> Orders {
        Orders::hold(account.usable, Claims::Owned)
    }
}
