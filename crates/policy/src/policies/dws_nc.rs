//! `dws-nc`: DWS without the exchange of cores.

use alloc::boxed::Box;

use super::dws::{self, Demand};
use crate::definition::{Definition, Share, Sharing};

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "dws-nc",
    summary: "As dws, but each program uses only its own cores. Shows the value of the exchange of cores.",
    source: "DWS §4.4",
    share: Share::Cores(Sharing {
        own_only: true,
        coordinator: |_| Box::new(Demand { own_only: true }),
        ..dws::SHARING
    }),
    ..dws::DEFINITION
};
