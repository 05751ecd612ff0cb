//! Figure 7 (§4.3): DWS without a coordinator, and what is said of the sets that the figure does not show.

use comity_console::Failure;

use super::mixes::{self, Mix, Set, over, ratios};
use super::{Dws, compute, data, is_data_intensive, mixed};
use crate::claims::Claim;
use crate::measure::{Measure, average};
use crate::paper::Named;
use crate::{Runner, here};

/// DWS without a coordinator.
pub(super) const POLICY: &str = "dws-nc";

/// Runs all sets without a coordinator, and under the policies that the sets are compared under.
pub(super) fn run<R: Runner>(paper: &mut Dws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    const SETS: [Set; 3] = [Set::Mixed, Set::Compute, Set::Data];
    for set in SETS {
        paper.compared(set, runner)?;
    }
    let (alone, _) = paper.alone(runner)?;
    let [mixed, compute, data] = SETS.map(|set| here(mixes::run(&paper.programs, set, POLICY, &alone, runner)));
    let with = SETS.map(|set| paper.of_set(set));
    let (Some(mixed), Some(compute), Some(data), [Some(with_mixed), Some(with_compute), Some(with_data)]) =
        (mixed?, compute?, data?, with)
    else {
        return Ok(None);
    };
    let of = [(&mixed[..], &with_mixed.dws[..]), (&compute, &with_compute.dws), (&data, &with_data.dws)];
    let measures = measures(of);
    paper.no_coordinator = mixed;
    Ok(Some(measures))
}

/// The measures, of each set without a coordinator and under DWS.
fn measures([mixed, compute, data]: [(&[Mix], &[Mix]); 3]) -> Vec<Measure> {
    let difference = |of: &[Mix]| average(of.iter().map(Mix::difference));
    vec![
        Measure::new("nc-slower", over(mixed.0, mixed.1, |number| !is_data_intensive(number))),
        Measure::new("nc-d-larger", difference(compute.0) / difference(compute.1)),
        Measure::new("nc-alike-d", over(data.0, data.1, |_| true)),
    ]
}

/// The slow-down ratios of mixes of both kinds, and the figures of all sets, which are run for it.
pub(super) fn figures(paper: &Dws, claims: &[Claim]) -> Vec<Named> {
    let of_sets = [mixed::figures, compute::figures, data::figures].map(|figures| figures(paper, claims));
    let mut figures: Vec<Named> = of_sets.into_iter().flatten().collect();
    if let Some(compared) = paper.of_set(Set::Mixed).filter(|_| !paper.no_coordinator.is_empty()) {
        let policies = [("DWS", &compared.dws), ("DWS-NC", &paper.no_coordinator)];
        let title = "DWS figure 7: slow-down ratios of mixes of both kinds without a coordinator";
        figures.push(("figure-7", ratios(title, &policies, &[], claims)));
    }
    figures
}
