//! The time-waste experiments (§6): A-STEAL and ABP, job by job, on the same availability.

use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::single::Single;
use super::{DELTA, Draws, Family, Outcome, Setting};
use crate::experiments::Runner;
use crate::experiments::claim::Claim;
use crate::quanta::ThreadScheduler;

/// One of the two machines.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// P.
    pub processors: u32,
    /// Jobs run head to head.
    pub runs: usize,
}

/// Figure 6 and figure 7.
pub const MACHINES: [Machine; 2] = [Machine { processors: 512, runs: 756 }, Machine { processors: 128, runs: 330 }];

/// P̄ of the two kinds of practical profiles.
pub const MEANS: [f64; 2] = [30.0, 60.0];

/// The same job under each of the three.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct HeadToHead {
    /// A-STEAL.
    pub a_steal: Outcome,
    /// ABP.
    pub abp: Outcome,
    /// ABP with mugging, which the paper leaves open (§9).
    pub abp_mug: Outcome,
}

impl HeadToHead {
    /// P̄ over the parallelism: the figures' axis.
    pub fn normalized_availability(&self) -> f64 {
        self.a_steal.mean_availability / self.a_steal.parallelism()
    }
}

/// Runs all jobs on one of the machines.
pub fn run<R: Runner>(setting: &Setting, machine: Machine, runner: &R) -> Result<Vec<HeadToHead>, R::Stop> {
    let profiles = MEANS.map(|mean| setting.practical.around(mean));
    let schedulers = [(setting.a_steal)(DELTA), ThreadScheduler::abp(), ThreadScheduler::abp_mug()];
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

/// ABP's time over A-STEAL's: the geometric mean.
pub fn time_ratio(runs: &[HeadToHead]) -> f64 {
    geometric_mean(runs.iter().map(|run| run.abp.time() / run.a_steal.time()))
}

/// The cycles that ABP wastes in all runs over those that A-STEAL wastes.
pub fn waste_ratio(runs: &[HeadToHead]) -> f64 {
    let sum = |of: fn(&HeadToHead) -> &Outcome| runs.iter().map(|run| of(run).cycles.waste() as f64).sum::<f64>();
    sum(|run| &run.abp) / sum(|run| &run.a_steal)
}

fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    libm::exp(ratios.map(libm::log).sum::<f64>() / count)
}

/// What the paper says of both machines.
pub fn claims(large: &[HeadToHead], small: &[HeadToHead]) -> Vec<Claim> {
    const ABOUT: &str = "about: within a third";
    vec![
        Claim::new("P = 512: time under ABP over A-STEAL", "about 2", time_ratio(large), 1.5..=2.67, ABOUT),
        Claim::new("P = 512: waste under ABP over A-STEAL", "about 10", waste_ratio(large), 7.5..=13.3, ABOUT),
        Claim::new(
            "P = 128: time under ABP over A-STEAL",
            "slightly below 1",
            time_ratio(small),
            0.85..=1.05,
            "near 1",
        ),
        Claim::new(
            "P = 128: waste under ABP over A-STEAL",
            "slightly above 1",
            waste_ratio(small),
            1.0..=4.0,
            "not as told, but far from the 10 of P = 512",
        ),
    ]
}
