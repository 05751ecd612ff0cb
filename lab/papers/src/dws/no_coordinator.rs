//! Figure 7 (§4.4): DWS without a coordinator, and the paper's statements on the sets that the figure does not show.

use super::mixes::{Mix, Set, over, ratios};
use super::{DWS, Dws, NO_COORDINATOR, Part, compute, data, is_data_intensive, mixed};
use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::{Measure, average};

/// Returns the parts of the runs that the figure needs: all sets under the compared policies and without a
/// coordinator.
pub(super) fn parts() -> Vec<Part> {
    let compared = Set::ALL.into_iter().flat_map(Part::compared);
    compared.chain(Set::ALL.map(|set| Part::Mixes(set, NO_COORDINATOR))).collect()
}

/// Computes the measures.
pub(super) fn measures(paper: &Dws) -> Vec<Measure> {
    let difference = |of: &[Mix]| average(of.iter().map(Mix::difference));
    // The mixes of each set, without a coordinator and under DWS.
    let [mixed, compute, data] = Set::ALL.map(|set| (paper.mixes(set, NO_COORDINATOR), paper.mixes(set, DWS)));
    vec![
        Measure::new("nc-slower", over(&mixed.0, &mixed.1, |number| !is_data_intensive(number))),
        Measure::new("nc-d-larger", difference(&compute.0) / difference(&compute.1)),
        Measure::new("nc-alike-d", over(&data.0, &data.1, |_| true)),
    ]
}

/// Draws the slow-down ratios of mixes of both kinds. Returns also the figures of all sets under the compared
/// policies, because this experiment includes their runs.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let of_sets = [mixed::figures, compute::figures, data::figures].map(|figures| figures(paper, claims));
    let mut figures: Vec<Named> = of_sets.into_iter().flatten().collect();
    let [dws, without] = [DWS, NO_COORDINATOR].map(|policy| paper.mixes(Set::Mixed, policy));
    let title = "DWS figure 7: slow-down ratios of mixes of both kinds without a coordinator";
    figures.push(("figure-7", ratios(title, &[("DWS", &dws), ("DWS-NC", &without)], &[], claims)));
    figures
}
