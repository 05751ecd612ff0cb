//! Each program alone (§3.5).

use comity_console::Failure;

use super::Dws;
use crate::corun::Ran;
use crate::measure::{Measure, average};
use crate::{Runner, here};

/// Runs the programs alone under ABP and under DWS.
pub(super) fn run<R: Runner>(paper: &mut Dws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    let (alone, has_alone) = paper.alone(runner)?;
    let dws = here(paper.programs.alone(paper.programs.setting.dws, runner))?;
    Ok(dws.filter(|_| has_alone).map(|dws| measures(&dws, &alone)))
}

/// The measure: the mean ratio of the times alone under DWS and ABP.
fn measures(dws: &[Ran], abp: &[Ran]) -> Vec<Measure> {
    let ratios = dws.iter().zip(abp).map(|(dws, abp)| dws.mean() / abp.mean());
    vec![Measure::new("solo-overhead", average(ratios))]
}
