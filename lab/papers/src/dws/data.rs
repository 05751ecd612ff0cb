//! Figure 6 (§4.2): mixes of data-intensive programs.

use comity_console::Failure;

use super::Dws;
use super::mixes::{Compared, Set, of_example};
use crate::Runner;
use crate::claims::Claim;
use crate::measure::{Measure, part};
use crate::paper::Named;

/// The mix that the text has numbers of.
const EXAMPLE: [usize; 2] = [6, 7];

/// Runs the set under all three policies.
pub(super) fn run<R: Runner>(paper: &mut Dws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    Ok(paper.compared(Set::Data, runner)?.map(measures))
}

/// The measures, of what came of the set.
fn measures(compared: &Compared) -> Vec<Measure> {
    let mut measures = compared.example(EXAMPLE);
    let ratios = compared.dws.iter().flat_map(|one| one.ratios);
    measures.extend([
        Measure::new("time-6-7-abp-7", compared.reduction_of([6, 7], 1)),
        Measure::new("time-d-abp", compared.reduction(&compared.abp)),
        Measure::new("time-d-ep", compared.reduction(&compared.ep)),
        Measure::new("fairer-d", compared.fairer()),
        Measure::new("below-baseline-d", part(ratios, |ratio| ratio < 1.0)),
    ]);
    measures
}

/// The slow-down ratios.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let of_paper = of_example(EXAMPLE);
    let title = "DWS figure 6: slow-down ratios of mixes of data-intensive programs";
    let figure = |compared: &Compared| ("figure-6", compared.figure(title, &of_paper, claims));
    paper.of_set(Set::Data).map(figure).into_iter().collect()
}
