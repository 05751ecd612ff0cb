//! Figure 5 (§4.2): mixes of compute-intensive programs.

use super::Dws;
use super::mixes::{Set, of_example, over};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::Measure;

/// The mix for which the paper's text has numbers.
const EXAMPLE: [usize; 2] = [1, 2];

/// Computes the measures.
pub(super) fn measures(paper: &Dws) -> Vec<Measure> {
    let compared = paper.compared(Set::Compute);
    let mut measures = compared.example(EXAMPLE);
    measures.extend([
        Measure::new("time-1-2-abp-1", compared.reduction_of([1, 2], 0)),
        Measure::new("time-c-abp", compared.reduction(&compared.abp)),
        Measure::new("time-c-ep", compared.reduction(&compared.ep)),
        Measure::new("fairer-c", compared.fairer()),
        Measure::new("abp-like-ep-c", over(&compared.abp, &compared.ep, |_| true)),
    ]);
    measures
}

/// Draws the slow-down ratios.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let of_paper = of_example(EXAMPLE);
    let title = "DWS figure 5: slow-down ratios of mixes of compute-intensive programs";
    vec![("figure-5", paper.compared(Set::Compute).figure(title, &of_paper, claims))]
}
