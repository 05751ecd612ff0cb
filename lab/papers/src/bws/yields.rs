//! Figure 5 (§5.4): two other ways to yield.

use super::averages::averages;
use super::pairs::{throughput, unfairness};
use super::{BWS, Bws, ORIGINAL, slowdowns, throughputs};
use crate::claims::Claim;
use crate::figure::{Axis, Named};
use crate::measure::Measure;

/// The other policies: selective yields and delayed yields.
pub(super) const OTHERS: [&str; 2] = ["selective-yield", "delay-yield"];

/// The measures of selective yields: average unfairness and throughput.
const SELECTIVE: [&str; 2] = ["selective-unfair", "selective-throughput"];

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let [selective, delay] = OTHERS.map(|policy| paper.co_runs(policy));
    let abp = paper.co_runs(ORIGINAL);
    vec![
        Measure::new(SELECTIVE[0], unfairness(&selective, None)),
        Measure::new(SELECTIVE[1], throughput(&selective, None)),
        Measure::new("delay-fairer", unfairness(&delay, None) / unfairness(&abp, None)),
        Measure::new("delay-slower", throughput(&delay, None) / throughput(&abp, None)),
    ]
}

/// Draws the averages under ABP, both of [`OTHERS`] and BWS.
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let [selective, delay] = OTHERS;
    let policies = [ORIGINAL, delay, selective, BWS];
    let axis = || Axis::named("", ["the original", "delayed yields", "selective yields", "BWS"]);
    let [[.., abp], [.., bws]] = slowdowns::UNFAIRNESS;
    let ids = [[abp, "", SELECTIVE[0], bws], [throughputs::ALL[0], "", SELECTIVE[1], throughputs::ALL[1]]];
    let names = ["figure-5-unfairness", "figure-5-throughput"];
    let title = "BWS figure 5: other ways to yield";
    averages(paper, policies, names, title, (axis, [1.0, 2.0, 3.0, 4.0]), ids.map(|ids| ids.map(str::to_owned)), claims)
}
