//! Figure 6 (§5.4): other values of SleepThreshold.

use super::averages::averages;
use super::pairs::{throughput, unfairness};
use super::{BWS, Bws, ORIGINAL, slowdowns, throughputs};
use crate::claims::Claim;
use crate::figure::{Axis, Named};
use crate::measure::{Measure, part};

/// The values of SleepThreshold.
const THRESHOLDS: [u32; 4] = [32, 64, 256, 4096];

/// The default value of SleepThreshold in BWS.
const USUAL: u32 = 64;

/// The policies: BWS with each of [`THRESHOLDS`].
pub(super) const POLICIES: [&str; 4] =
    ["bws:sleep_threshold=32", BWS, "bws:sleep_threshold=256", "bws:sleep_threshold=4096"];

/// Returns the names of the measures (average unfairness and throughput) with a value other than [`USUAL`].
fn names(threshold: u32) -> [String; 2] {
    ["unfair", "throughput"].map(|what| format!("threshold-{threshold}-{what}"))
}

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let abp = paper.co_runs(ORIGINAL);
    let all = POLICIES.map(|policy| {
        let of = paper.co_runs(policy);
        (unfairness(&of, None), throughput(&of, None))
    });
    let better =
        all.iter().flat_map(|one| [one.0 < unfairness(&abp, None), one.1 > throughput(&abp, None)]).collect::<Vec<_>>();
    let mut measures = Vec::new();
    for (threshold, (unfairness, throughput)) in THRESHOLDS.into_iter().zip(&all).filter(|(one, _)| *one != USUAL) {
        let [unfair, fast] = names(threshold);
        measures.extend([Measure::new(unfair, *unfairness), Measure::new(fast, *throughput)]);
    }
    measures.extend([
        Measure::new("threshold-fairer", all[2].0 / all[0].0),
        Measure::new("threshold-slower", part(all.windows(2), |two| two[1].1 < two[0].1)),
        Measure::new("threshold-better-than-abp", part(better, |is_so| is_so)),
    ]);
    measures
}

/// Draws the averages with each of [`THRESHOLDS`].
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let usual = [slowdowns::UNFAIRNESS[1][3], throughputs::ALL[1]];
    let ids = [0, 1].map(|nth| {
        THRESHOLDS.map(|threshold| match threshold {
            USUAL => usual[nth].to_owned(),
            _ => names(threshold)[nth].clone(),
        })
    });
    let names = ["figure-6-unfairness", "figure-6-throughput"];
    let title = "BWS figure 6: over SleepThreshold";
    let axis = (|| Axis::log("SleepThreshold"), THRESHOLDS.map(f64::from));
    averages(paper, POLICIES, names, title, axis, ids, claims)
}
