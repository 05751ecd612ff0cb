//! Each program alone (§3.5).

use super::{ABP, DWS, Dws};
use crate::measure::{Measure, average};

/// Computes the measure: the mean ratio of the times alone under DWS and under ABP.
pub(super) fn measures(paper: &Dws) -> Vec<Measure> {
    let [dws, abp] = [DWS, ABP].map(|policy| paper.alone.of(policy));
    let ratios = dws.iter().zip(abp).map(|(dws, abp)| dws.mean() / abp.mean());
    vec![Measure::new("solo-overhead", average(ratios))]
}
