//! Figure 8 (§4.5): other values of T_SLEEP, for one mix.

use super::mixes::{Mix, told};
use super::{ABP, Dws, Programs};
use crate::Runner;
use crate::claims::Claim;
use crate::corun::Ran;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::measure::{Measure, average, part};

/// The values of T_SLEEP.
pub(super) const THRESHOLDS: [u32; 7] = [1, 4, 8, 16, 32, 64, 96];

/// The mix: FFT and Mergesort.
pub(super) const MIX: [usize; 2] = [1, 8];

/// Returns the policy DWS with a value of T_SLEEP.
pub(super) fn policy(threshold: u32) -> String {
    format!("dws:t_sleep={threshold}")
}

/// Runs the mix with each of [`THRESHOLDS`].
pub(super) fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<Vec<Vec<Ran>>, R::Stop> {
    runner.run("t-sleep", THRESHOLDS.len(), |nth| programs.run(&MIX, &policy(THRESHOLDS[nth]), 18))
}

/// Returns the outcomes of the mix with each of [`THRESHOLDS`].
fn mixes(paper: &Dws) -> Vec<Mix> {
    paper.thresholds.iter().map(|ran| told(MIX, ran, paper.alone.of(ABP))).collect()
}

/// Computes the measures.
pub(super) fn measures(paper: &Dws) -> Vec<Measure> {
    let of = mixes(paper);
    // The paper's best values are k and 2k, where k is the number of processors.
    let good = |threshold: u32| threshold == 16 || threshold == 32;
    let time = |nth: usize, program: usize| of[nth].times[program];
    let best = |program: usize, counts: &dyn Fn(u32) -> bool| {
        let all = (0..of.len()).filter(|nth| counts(THRESHOLDS[*nth]));
        all.min_by(|one, other| time(*one, program).total_cmp(&time(*other, program))).expect("a threshold remains")
    };
    let worse = |threshold: u32| {
        let nth = THRESHOLDS.iter().position(|one| *one == threshold).expect("the threshold is in THRESHOLDS");
        average([0, 1].map(|program| time(nth, program) / time(best(program, &good), program)))
    };
    vec![
        Measure::new("t-sleep-best", part([0, 1], |program| good(THRESHOLDS[best(program, &|_| true)]))),
        Measure::new("t-sleep-1", worse(1)),
        Measure::new("t-sleep-96", worse(96)),
    ]
}

/// Draws the slow-down ratios of both programs over T_SLEEP.
pub(super) fn figures(paper: &Dws, _: &[Claim]) -> Vec<Named> {
    let mixes = mixes(paper);
    let series = |name: &str, nth: usize| {
        let each = THRESHOLDS.into_iter().zip(&mixes);
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
