//! Figure 3 (§5.3): the throughput of all pairs under the original and BWS.

use comity_console::Failure;

use super::Bws;
use super::pairs::{CoRuns, PairKind, by_kind, co_runs, throughput};
use crate::Runner;
use crate::claims::Claim;
use crate::corun::Ran;
use crate::measure::Measure;
use crate::paper::Named;

/// The measures of the average throughput of all pairs under the original and under BWS.
pub(super) const ALL: [&str; 2] = ["throughput-all-abp", "throughput-all-bws"];

/// Runs the pairs.
pub(super) fn run<R: Runner>(paper: &mut Bws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    Ok(paper.compared(runner)?.map(|(alone, [abp, bws])| measures(&alone, &abp, &bws)))
}

/// The measures, of what came of the programs alone under the original, and of all pairs under the original and BWS.
pub fn measures(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let (abp, bws) = (co_runs(original, abp), co_runs(original, bws));
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

/// The average throughput.
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let Some(both) = paper.both() else { return Vec::new() };
    let title = "BWS figure 3: average throughput";
    // The text has a number for all pairs alone.
    let ids = ALL.map(|all| ["", "", "", all]);
    vec![("figure-3", by_kind(title, "weighted speedup", throughput, &both, ids, claims))]
}
