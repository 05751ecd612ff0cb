//! Figure 5 (§5.4): two other ways to yield.

use comity_console::Failure;

use super::averages::averages;
use super::pairs::{CoRuns, co_runs, throughput, unfairness};
use super::{Bws, ORIGINAL, slowdowns, throughputs};
use crate::Runner;
use crate::claims::Claim;
use crate::corun::Ran;
use crate::figure::Axis;
use crate::measure::Measure;
use crate::paper::Named;

/// Selective yields, and delayed ones.
const OTHERS: [&str; 2] = ["selective-yield", "delay-yield"];

/// The measures of selective yields: average unfairness and throughput.
const SELECTIVE: [&str; 2] = ["selective-unfair", "selective-throughput"];

/// Runs all pairs under the original and under both.
pub(super) fn run<R: Runner>(paper: &mut Bws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    let (alone, abp) = (paper.alone(runner)?, paper.pairs(ORIGINAL, runner)?);
    let [selective, delay] = OTHERS.map(|policy| paper.pairs(policy, runner));
    let others = selective?.zip(delay?);
    Ok(alone
        .zip(abp)
        .zip(others)
        .map(|((alone, abp), (selective, delay))| measures(&alone, &abp, [&selective, &delay])))
}

/// The measures, of what came of the programs alone under the original, and of all pairs under the original and under
/// [`OTHERS`].
fn measures(original: &[Ran], abp: &CoRuns, others: [&CoRuns; 2]) -> Vec<Measure> {
    let abp = co_runs(original, abp);
    let [selective, delay] = others.map(|other| co_runs(original, other));
    vec![
        Measure::new(SELECTIVE[0], unfairness(&selective, None)),
        Measure::new(SELECTIVE[1], throughput(&selective, None)),
        Measure::new("delay-fairer", unfairness(&delay, None) / unfairness(&abp, None)),
        Measure::new("delay-slower", throughput(&delay, None) / throughput(&abp, None)),
    ]
}

/// The averages under the original, both others and BWS.
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let [selective, delay] = OTHERS;
    let policies = [ORIGINAL, delay, selective, paper.programs.setting.bws].map(str::to_owned);
    let axis = || Axis::named("", ["the original", "delayed yields", "selective yields", "BWS"]);
    let [[.., abp], [.., bws]] = slowdowns::UNFAIRNESS;
    let ids = [[abp, "", SELECTIVE[0], bws], [throughputs::ALL[0], "", SELECTIVE[1], throughputs::ALL[1]]];
    let names = ["figure-5-unfairness", "figure-5-throughput"];
    let title = "BWS figure 5: other ways to yield";
    averages(paper, policies, names, title, (axis, [1.0, 2.0, 3.0, 4.0]), ids.map(|ids| ids.map(str::to_owned)), claims)
}
