//! Figure 4 (§4.1): mixes of a compute-intensive and a data-intensive program.

use super::Dws;
use super::mixes::{Compared, Set, of_example, ratio_name};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::Measure;

/// The mix for which the paper's text has numbers.
const EXAMPLE: [usize; 2] = [1, 5];

/// Computes the measures.
pub(super) fn measures(paper: &Dws) -> Vec<Measure> {
    let compared = paper.compared(Set::Mixed);
    let mut measures = compared.example(EXAMPLE);
    measures.extend([
        Measure::new(ratio_name([2, 7], "dws", 1), Compared::at(&compared.dws, [2, 7]).ratios[1]),
        Measure::new(ratio_name([4, 7], "dws", 1), Compared::at(&compared.dws, [4, 7]).ratios[1]),
        Measure::new(ratio_name([2, 8], "abp", 1), Compared::at(&compared.abp, [2, 8]).ratios[1]),
        Measure::new(ratio_name([2, 8], "ep", 1), Compared::at(&compared.ep, [2, 8]).ratios[1]),
        Measure::new("time-m-abp", compared.reduction(&compared.abp)),
        Measure::new("time-m-ep", compared.reduction(&compared.ep)),
        Measure::new("fairer-m", compared.fairer()),
        Measure::new("ep-faster-m", compared.faster_under_ep()),
    ]);
    measures
}

/// Draws the slow-down ratios.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let mut of_paper = of_example(EXAMPLE);
    of_paper.extend(["abp", "ep"].map(|policy| ([2, 8], policy, 1)));
    let title = "DWS figure 4: slow-down ratios of mixes of both kinds";
    vec![("figure-4", paper.compared(Set::Mixed).figure(title, &of_paper, claims))]
}
