//! Figure 8 (§4.4): other values of T_SLEEP, for one mix.

use comity_console::Failure;

use super::Dws;
use super::mixes::{Mix, told};
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Series};
use crate::measure::{Measure, average, part};
use crate::paper::Named;
use crate::{Runner, here};

/// The values of T_SLEEP.
pub(super) const THRESHOLDS: [u32; 7] = [1, 4, 8, 16, 32, 64, 96];

/// The mix: FFT and Mergesort.
const MIX: [usize; 2] = [1, 8];

/// Runs the mix with each of [`THRESHOLDS`].
pub(super) fn run<R: Runner>(paper: &mut Dws, runner: &R) -> Result<Option<Vec<Measure>>, Failure> {
    let (alone, has_alone) = paper.alone(runner)?;
    let with = |nth: usize| paper.programs.run(&MIX, &format!("dws:t_sleep={}", THRESHOLDS[nth]), 18);
    let Some(ran) = here(runner.run("t-sleep", THRESHOLDS.len(), with))?.filter(|_| has_alone) else { return Ok(None) };
    paper.thresholds = ran.iter().map(|ran| told(MIX, ran, &alone)).collect();
    Ok(Some(measures(&paper.thresholds)))
}

/// The measures, of what came out with each of [`THRESHOLDS`].
fn measures(of: &[Mix]) -> Vec<Measure> {
    // k and 2k.
    let good = |threshold: u32| threshold == 16 || threshold == 32;
    let time = |nth: usize, program: usize| of[nth].times[program];
    let best = |program: usize, counts: &dyn Fn(u32) -> bool| {
        let all = (0..of.len()).filter(|nth| counts(THRESHOLDS[*nth]));
        all.min_by(|one, other| time(*one, program).total_cmp(&time(*other, program))).expect("there are some")
    };
    let worse = |threshold: u32| {
        let nth = THRESHOLDS.iter().position(|one| *one == threshold).expect("it is one of them");
        average([0, 1].map(|program| time(nth, program) / time(best(program, &good), program)))
    };
    vec![
        Measure::new("t-sleep-best", part([0, 1], |program| good(THRESHOLDS[best(program, &|_| true)]))),
        Measure::new("t-sleep-1", worse(1)),
        Measure::new("t-sleep-96", worse(96)),
    ]
}

/// The slow-down ratios of both programs over T_SLEEP.
pub(super) fn figures(paper: &Dws, _: &[Claim]) -> Vec<Named> {
    if paper.thresholds.is_empty() {
        return Vec::new();
    }
    let series = |name: &str, nth: usize| {
        let each = THRESHOLDS.into_iter().zip(&paper.thresholds);
        let points = each.map(|(threshold, mix)| (f64::from(threshold), mix.ratios[nth])).collect();
        Series::new(name, Marks::Line, points)
    };
    let figure = Figure {
        title: "DWS figure 8: slow-down ratios of FFT and Mergesort over T_SLEEP".into(),
        x: Axis::log("T_SLEEP"),
        y: Axis::linear("slow-down ratio"),
        series: vec![series("p-1, FFT", 0), series("p-8, Mergesort", 1)],
    };
    vec![("figure-8", figure)]
}
