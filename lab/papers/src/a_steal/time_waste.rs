//! The time-waste experiments (§6): A-STEAL and ABP, job by job, on the same availability.

use comity_sim::quanta::ThreadScheduler;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::setting::{DELTA, Draws};
use super::single::Single;
use super::{ASteal, Family, Outcome, Setting};
use crate::Runner;
use crate::claims::Claim;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::fit::mean;
use crate::measure::{Measure, part};

/// A machine of the experiments.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The number P of processors.
    pub processors: u32,
    /// The number of jobs, each run under all schedulers.
    pub runs: usize,
}

/// The machines of figure 6 and of figure 7.
pub const MACHINES: [Machine; 2] = [Machine { processors: 512, runs: 756 }, Machine { processors: 128, runs: 330 }];

/// The mean availability P̄ of the two kinds of practical profiles.
pub const MEANS: [f64; 2] = [30.0, 60.0];

/// The outcomes of the same job under each of the three schedulers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct HeadToHead {
    /// The outcome under A-STEAL.
    pub a_steal: Outcome,
    /// The outcome under ABP.
    pub abp: Outcome,
    /// The outcome under ABP with mugging, which the paper leaves open (§9).
    pub abp_mug: Outcome,
}

impl HeadToHead {
    /// Returns P̄ / (T₁/T∞), the horizontal axis of the figures.
    pub fn normalized_availability(&self) -> f64 {
        self.a_steal.mean_availability / self.a_steal.parallelism()
    }
}

/// Runs all jobs on one of the machines.
pub fn run<R: Runner>(setting: &Setting, machine: Machine, runner: &R) -> Result<Vec<HeadToHead>, R::Stop> {
    let profiles = MEANS.map(|mean| setting.practical.around(mean));
    let schedulers = [(setting.a_steal)(DELTA), (setting.abp)(), ThreadScheduler::abp_mug()];
    runner.run(&format!("time-waste-{}", machine.processors), setting.runs(machine.runs), |nth| {
        let mut random = setting.draws(Draws::TimeWaste, (machine.processors as usize) << 16 | nth);
        let shape = setting.alternating.draw(MEANS[nth % 2], &mut random);
        let profiles = &profiles[nth % 2];
        let profile = profiles[random.random_range(0..profiles.len())].chopped(machine.processors);
        let single = Single { family: Family::Practical, processors: machine.processors, profile, shape };
        let [a_steal, abp, abp_mug] = schedulers.map(|scheduler| single.run(setting, &scheduler, random.clone()));
        HeadToHead { a_steal, abp, abp_mug }
    })
}

/// Returns the geometric mean of ABP's time / A-STEAL's time.
pub fn time_ratio(runs: &[HeadToHead]) -> f64 {
    geometric_mean(runs.iter().map(|run| run.abp.time() / run.a_steal.time()))
}

/// Returns ABP's waste / A-STEAL's waste, each summed over all runs.
pub fn waste_ratio(runs: &[HeadToHead]) -> f64 {
    let sum = |of: fn(&HeadToHead) -> &Outcome| runs.iter().map(|run| of(run).cycles.waste() as f64).sum::<f64>();
    sum(|run| &run.abp) / sum(|run| &run.a_steal)
}

fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    libm::exp(ratios.map(libm::log).sum::<f64>() / count)
}

/// Returns the median of ABP's time / A-STEAL's time.
fn median_time_ratio(runs: &[HeadToHead]) -> f64 {
    let mut ratios: Vec<f64> = runs.iter().map(|run| run.abp.time() / run.a_steal.time()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Computes the measures of both machines. The regimes of §6, which are ranges of parallelism, are measured on the
/// large machine.
pub fn measures(large: &[HeadToHead], small: &[HeadToHead]) -> Vec<Measure> {
    let processors = f64::from(MACHINES[0].processors);
    let regime = |least: &dyn Fn(&HeadToHead) -> f64, most: &dyn Fn(&HeadToHead) -> f64| -> Vec<&HeadToHead> {
        let parallelism = |run: &HeadToHead| run.a_steal.parallelism();
        large.iter().filter(|run| least(run) < parallelism(run) && parallelism(run) < most(run)).collect()
    };
    let available = |run: &HeadToHead| run.a_steal.mean_availability;
    let right = regime(&|_| 0.0, &available);
    let middle = regime(&available, &|_| processors / 4.0);
    let left = regime(&|_| processors, &|_| f64::INFINITY);
    // A value of 1 is linear speedup.
    let speedup = |runs: &[&HeadToHead], of: fn(&HeadToHead) -> &Outcome| {
        let one = |run: &&HeadToHead| of(run).work as f64 / (of(run).mean_availability * of(run).time());
        mean(&runs.iter().map(one).collect::<Vec<_>>())
    };
    vec![
        Measure::new("time-512", time_ratio(large)),
        Measure::new("time-512-median", median_time_ratio(large)),
        Measure::new("waste-512", 1.0 / waste_ratio(large)),
        Measure::new("regime-right", geometric_mean(right.iter().map(|run| run.abp.time() / run.a_steal.time()))),
        Measure::new("regime-middle-a-steal", speedup(&middle, |run| &run.a_steal)),
        Measure::new("regime-middle-abp", speedup(&middle, |run| &run.abp)),
        Measure::new("regime-left-a-steal", speedup(&left, |run| &run.a_steal)),
        Measure::new("regime-left-abp", speedup(&left, |run| &run.abp)),
        Measure::new("time-128", time_ratio(small)),
        Measure::new("waste-128", waste_ratio(small)),
        Measure::new("waste-128-runs", part(small, |run| run.a_steal.cycles.waste() < run.abp.cycles.waste())),
    ]
}

/// Draws ABP's time / A-STEAL's time, and ABP's waste / A-STEAL's waste, on both machines.
pub(super) fn figures(paper: &ASteal, _: &[Claim]) -> Vec<Named> {
    let [large, small] = &paper.head_to_head;
    let mut all = Vec::new();
    for (runs, processors, names) in
        [(large, 512, ["figure-6-time", "figure-6-waste"]), (small, 128, ["figure-7-time", "figure-7-waste"])]
    {
        let series = |name: &str, ratio: &dyn Fn(&HeadToHead) -> f64| {
            let points = runs.iter().map(|run| (run.normalized_availability(), ratio(run)));
            Series::new(name, Marks::Points, points.collect())
        };
        // The paper's text has one number for all runs on the larger machine. It has no numbers for single runs.
        let ends = runs.iter().map(HeadToHead::normalized_availability);
        let ends = [ends.clone().fold(f64::INFINITY, f64::min), ends.fold(0.0, f64::max)];
        let level = |said: f64| {
            let name = format!("ABP, the paper's: about {said}");
            Series::new(name, Marks::PaperLevel { of: 0 }, ends.map(|x| (x, said)).into())
        };
        let levels = |said: f64| (processors == 512).then(|| level(said));
        let title = |what: &str| {
            let number = if processors == 512 { 6 } else { 7 };
            format!("A-STEAL figure {number}: {what} under ABP / under A-STEAL, P = {processors}")
        };
        let x = || Axis::log("mean availability / parallelism");
        let time = |of: fn(&HeadToHead) -> &Outcome| move |run: &HeadToHead| of(run).time() / run.a_steal.time();
        let wasted = |of: fn(&HeadToHead) -> &Outcome| {
            move |run: &HeadToHead| of(run).cycles.waste() as f64 / (run.a_steal.cycles.waste() as f64).max(1.0)
        };
        let figures = [
            Figure {
                title: title("time"),
                x: x(),
                y: Axis::linear("time / A-STEAL's time"),
                series: [
                    series("ABP", &time(|run| &run.abp)),
                    series("ABP with mugging (§9)", &time(|run| &run.abp_mug)),
                ]
                .into_iter()
                .chain(levels(2.0))
                .collect(),
            },
            Figure {
                title: title("waste"),
                x: x(),
                y: Axis::log("waste / A-STEAL's waste"),
                series: [
                    series("ABP", &wasted(|run| &run.abp)),
                    series("ABP with mugging (§9)", &wasted(|run| &run.abp_mug)),
                ]
                .into_iter()
                .chain(levels(10.0))
                .collect(),
            },
        ];
        all.extend(names.into_iter().zip(figures));
    }
    all
}
