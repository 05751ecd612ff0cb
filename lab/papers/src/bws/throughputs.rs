//! Figure 3 (§5.3): the throughput of all pairs under ABP and BWS.

use super::Bws;
use super::pairs::{PairKind, by_kind, throughput};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::Measure;

/// The measures of the average throughput of all pairs under ABP and under BWS.
pub(super) const ALL: [&str; 2] = ["throughput-all-abp", "throughput-all-bws"];

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let [abp, bws] = paper.both();
    let gain = |kind| 100.0 * (throughput(&bws, kind) / throughput(&abp, kind) - 1.0);
    vec![
        Measure::new(ALL[0], throughput(&abp, None)),
        Measure::new(ALL[1], throughput(&bws, None)),
        Measure::new("throughput-gain", gain(None)),
        Measure::new("throughput-gain-1", gain(Some(PairKind::Scalable))),
        Measure::new("throughput-gain-2", gain(Some(PairKind::Fair))),
        Measure::new("throughput-gain-mixed", gain(Some(PairKind::Mixed))),
    ]
}

/// Draws the average throughput.
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let title = "BWS figure 3: average throughput";
    // The paper's text has only the averages over all pairs.
    let ids = ALL.map(|all| ["", "", "", all]);
    vec![("figure-3", by_kind(title, "weighted speedup", throughput, &paper.both(), ids, claims))]
}
