//! Figure 5 (§4.2): mixes of compute-intensive programs.

use comity_console::Failure;

use super::Dws;
use super::mixes::{Compared, Set, of_example, over};
use crate::Runner;
use crate::claims::Claim;
use crate::measure::Measure;
use crate::paper::Named;

/// The mix that the text has numbers of.
const EXAMPLE: [usize; 2] = [1, 2];

/// Runs the set under all three policies.
pub(super) fn run<R: Runner>(paper: &mut Dws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    Ok(paper.compared(Set::Compute, runner)?.map(measures))
}

/// The measures, of what came of the set.
pub fn measures(compared: &Compared) -> Vec<Measure> {
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

/// The slow-down ratios.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let of_paper = of_example(EXAMPLE);
    let title = "DWS figure 5: slow-down ratios of mixes of compute-intensive programs";
    let figure = |compared: &Compared| ("figure-5", compared.figure(title, &of_paper, claims));
    paper.of_set(Set::Compute).map(figure).into_iter().collect()
}
