//! Figure 6 (§5.4): other values of SleepThreshold.

use comity_console::Failure;

use super::averages::averages;
use super::pairs::{CoRuns, co_runs, throughput, unfairness};
use super::{Bws, ORIGINAL, slowdowns, throughputs};
use crate::Runner;
use crate::claims::Claim;
use crate::corun::Ran;
use crate::figure::Axis;
use crate::measure::{Measure, part};
use crate::paper::Named;

/// The values of SleepThreshold.
const THRESHOLDS: [u32; 4] = [32, 64, 256, 4096];

/// The value of BWS.
const USUAL: u32 = 64;

/// The measures with a value other than that of BWS: average unfairness and throughput.
fn names(threshold: u32) -> [String; 2] {
    ["unfair", "throughput"].map(|what| format!("threshold-{threshold}-{what}"))
}

/// BWS with each of [`THRESHOLDS`].
fn policies(bws: &str) -> [String; 4] {
    THRESHOLDS.map(|threshold| match threshold {
        USUAL => bws.to_owned(),
        _ => format!("bws:sleep_threshold={threshold}"),
    })
}

/// Runs all pairs under the original and with each of [`THRESHOLDS`].
pub(super) fn run<R: Runner>(paper: &mut Bws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    let (alone, abp) = (paper.alone(runner)?, paper.pairs(ORIGINAL, runner)?);
    let mut all = Vec::new();
    for policy in policies(paper.programs.setting.bws) {
        all.push(paper.pairs(&policy, runner)?);
    }
    let all: Option<Vec<CoRuns>> = all.into_iter().collect();
    Ok(alone.zip(abp).zip(all).map(|((alone, abp), all)| measures(&alone, &abp, &all)))
}

/// The measures, of what came of the programs alone under the original, and of all pairs under the original and with
/// each of [`THRESHOLDS`].
fn measures(original: &[Ran], abp: &CoRuns, by_threshold: &[CoRuns]) -> Vec<Measure> {
    let abp = co_runs(original, abp);
    let all: Vec<(f64, f64)> = by_threshold
        .iter()
        .map(|of| co_runs(original, of))
        .map(|of| (unfairness(&of, None), throughput(&of, None)))
        .collect();
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

/// The averages with each of [`THRESHOLDS`].
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
    averages(paper, policies(paper.programs.setting.bws), names, title, axis, ids, claims)
}
