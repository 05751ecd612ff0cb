//! Figure 6 (§4.2): mixes of data-intensive programs.

use super::Dws;
use super::mixes::{Set, of_example};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::{Measure, part};

/// The mix for which the paper's text has numbers.
const EXAMPLE: [usize; 2] = [6, 7];

/// Computes the measures.
pub(super) fn measures(paper: &Dws) -> Vec<Measure> {
    let compared = paper.compared(Set::Data);
    let mut measures = compared.example(EXAMPLE);
    let ratios = compared.dws.iter().flat_map(|one| one.ratios);
    measures.extend([
        Measure::new("time-6-7-abp-7", compared.reduction_of([6, 7], 1)),
        Measure::new("time-d-abp", compared.reduction(&compared.abp)),
        Measure::new("time-d-ep", compared.reduction(&compared.ep)),
        Measure::new("fairer-d", compared.fairer()),
        Measure::new("ep-faster-d", compared.faster_under_ep()),
        Measure::new("below-baseline-d", part(ratios, |ratio| ratio < 1.0)),
    ]);
    measures
}

/// Draws the slow-down ratios.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let of_paper = of_example(EXAMPLE);
    let title = "DWS figure 6: slow-down ratios of mixes of data-intensive programs";
    vec![("figure-6", paper.compared(Set::Data).figure(title, &of_paper, claims))]
}
