//! Four virtual machines with a program each (§6.4 to §6.6): figures 9 to 12.

use serde::Serialize;

use super::rates::{FAIR, Found, alone};
use super::{Benchmark, CPUS, Programs, Strategy};
use crate::Runner;
use crate::corun::Shared;
use crate::measure::{Measure, average, part};

/// What is measured of figure 9,
pub const FIGURE_9: &[&str] = &[
    "fig9-cg-best",
    "fig9-cg-over-baseline",
    "fig9-cg-over-cs",
    "fig9-cg-over-bws",
    "fig9-mi-best",
    "fig9-mi-over-baseline",
    "fig9-mi-over-cs",
    "fig9-mi-over-bws",
    "fig9-clip-like-bws",
    "fig9-mm-like-bws",
    "fig9-ep-cs-best",
    "fig9-rt-cs-best",
    "fig9-ep-only-cs-better",
    "fig9-ep-of-cs",
    "fig9-rt-of-cs",
    "fig9-rt-over-bws",
    "fig9-cg-cs-below",
    "fig9-clip-cs-below",
    "fig9-mi-cs-below",
    "fig9-cs-much-below",
    "fig9-cs-at-rate",
    "fig9-baseline-worst",
    "fig9-bws-above-baseline",
    "fig9-bws-above-cs",
    "fig9-robinhood-above-bws",
];

/// of figure 10,
pub const FIGURE_10: &[&str] = &[
    "fig10-best",
    "fig10-over-baseline",
    "fig10-over-cs",
    "fig10-over-bws",
    "fig10-most",
    "fig10-baseline-worst",
    "fig10-cs-below",
    "fig10-cs-much-below",
    "fig10-bws-above-baseline",
    "fig10-bws-above-cs",
];

/// of figure 11,
pub const FIGURE_11: &[&str] = &[
    "fig11-loop-bws-best",
    "fig11-loop-over-bws",
    "fig11-server-bws-best",
    "fig11-server-over-bws",
    "fig11-slight",
    "fig11-relinquish",
];

/// and of figure 12.
pub const FIGURE_12: &[&str] = &["fig12-overhead-30", "fig12-overhead-5", "fig12-no-growth"];

/// The strategies.
pub const STRATEGIES: [Strategy; 4] = [Strategy::Baseline, Strategy::CoScheduling, Strategy::Bws, Strategy::Robinhood];

/// One program in each machine.
pub type Mix = [Benchmark; 4];

/// All choices of four of the six: the text does not say which the paper took.
pub fn all() -> Vec<Mix> {
    let programs = Benchmark::STEALING;
    let is_mix = |mask: &u32| mask.count_ones() == 4;
    let mix = |mask: u32| {
        let mut chosen = (0..programs.len()).filter(|nth| mask & 1 << nth != 0).map(|nth| programs[nth]);
        std::array::from_fn(|_| chosen.next().expect("four are chosen"))
    };
    (0..1u32 << programs.len()).filter(is_mix).map(mix).collect()
}

/// What came of each mix under a strategy.
pub type CoRuns = Vec<(Mix, Strategy, Shared)>;

/// Runs all mixes under all strategies.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(programs: &Programs, runner: &R) -> Result<CoRuns, R::Stop> {
    let runs: Vec<(Mix, Strategy)> =
        all().into_iter().flat_map(|mix| STRATEGIES.map(|strategy| (mix, strategy))).collect();
    let ran = runner.run("mixes", runs.len(), |nth| programs.in_machines(&runs[nth].0, runs[nth].1, nth as u64 / 4))?;
    Ok(runs.into_iter().zip(ran).map(|((mix, strategy), ran)| (mix, strategy, ran)).collect())
}

/// A mix under a strategy.
#[derive(Clone, Debug, Serialize)]
pub struct CoRun {
    /// The mix.
    pub mix: Mix,
    /// The strategy that it runs under.
    pub strategy: Strategy,
    /// Of each program T_s/T_c (equation 2).
    pub speedups: [f64; 4],
}

impl CoRun {
    /// Their sum (equation 3).
    pub fn throughput(&self) -> f64 {
        self.speedups.iter().sum()
    }

    fn of(&self, benchmark: Benchmark) -> Option<f64> {
        self.mix.iter().position(|one| *one == benchmark).map(|nth| self.speedups[nth])
    }
}

/// The speedups of all, over what came of programs alone.
pub fn co_runs(found: &Found, mixes: &CoRuns) -> Vec<CoRun> {
    let each = |(mix, strategy, ran): &(Mix, Strategy, Shared)| {
        let speedup = |nth: usize| found.time(alone(mix[nth], 1, Strategy::Baseline)) / ran.programs[nth].mean();
        CoRun { mix: *mix, strategy: *strategy, speedups: std::array::from_fn(speedup) }
    };
    mixes.iter().map(each).collect()
}

/// By strategy, in the order of [`STRATEGIES`].
type By = [f64; 4];

const BASELINE: usize = 0;
const CS: usize = 1;
const BWS: usize = 2;
const ROBINHOOD: usize = 3;

/// The values of all four strategies, of each mix in which there is one.
fn by_strategy(of: &[CoRun], value: impl Fn(&CoRun) -> Option<f64>) -> Vec<By> {
    let mix = |four: &[CoRun]| {
        let mut values = four.iter().map(&value);
        let by: [Option<f64>; 4] = std::array::from_fn(|_| values.next().flatten());
        by.iter().all(Option::is_some).then(|| by.map(|value| value.expect("all are there")))
    };
    of.chunks(STRATEGIES.len()).filter_map(mix).collect()
}

fn percent(all: &[By], is_so: impl Fn(&By) -> bool) -> f64 {
    100.0 * part(all, is_so)
}

fn is_best(nth: usize) -> impl Fn(&By) -> bool {
    move |by| (0..by.len()).all(|other| other == nth || by[nth] > by[other])
}

fn is_worst(nth: usize) -> impl Fn(&By) -> bool {
    move |by| (0..by.len()).all(|other| other == nth || by[nth] < by[other])
}

fn is_above(nth: usize, other: usize) -> impl Fn(&By) -> bool {
    move |by| by[nth] > by[other]
}

fn cs_is_below(by: &By) -> bool {
    by[CS] < by[BWS] && by[CS] < by[ROBINHOOD]
}

fn ratio(all: &[By], nth: usize, other: usize) -> f64 {
    average(all.iter().map(|by| by[nth] / by[other]))
}

fn most(all: impl Iterator<Item = f64>) -> f64 {
    all.fold(f64::NEG_INFINITY, f64::max)
}

/// The measures of figure 9.
pub fn figure_9(of: &[CoRun]) -> Vec<Measure> {
    let program = |benchmark| by_strategy(of, |one| one.of(benchmark));
    let [cg, clip, ep, mi, mm, rt] = Benchmark::STEALING.map(program);
    let mut pairs = Vec::new();
    [&cg, &clip, &ep, &mi, &mm, &rt].into_iter().for_each(|own| pairs.extend_from_slice(own));
    // T_c is 1 over the speedup.
    let saved = |all: &[By], other: usize| most(all.iter().map(|by| 100.0 * (1.0 - by[other] / by[ROBINHOOD])));
    let fair: Vec<By> = [&cg, &clip, &mi].into_iter().flatten().copied().collect();
    vec![
        Measure::new("fig9-cg-best", percent(&cg, is_best(ROBINHOOD))),
        Measure::new("fig9-cg-over-baseline", saved(&cg, BASELINE)),
        Measure::new("fig9-cg-over-cs", saved(&cg, CS)),
        Measure::new("fig9-cg-over-bws", saved(&cg, BWS)),
        Measure::new("fig9-mi-best", percent(&mi, is_best(ROBINHOOD))),
        Measure::new("fig9-mi-over-baseline", saved(&mi, BASELINE)),
        Measure::new("fig9-mi-over-cs", saved(&mi, CS)),
        Measure::new("fig9-mi-over-bws", saved(&mi, BWS)),
        Measure::new("fig9-clip-like-bws", ratio(&clip, ROBINHOOD, BWS)),
        Measure::new("fig9-mm-like-bws", ratio(&mm, ROBINHOOD, BWS)),
        Measure::new("fig9-ep-cs-best", percent(&ep, is_best(CS))),
        Measure::new("fig9-rt-cs-best", percent(&rt, is_best(CS))),
        Measure::new(
            "fig9-ep-only-cs-better",
            percent(&ep, |by| by[ROBINHOOD] > by[BASELINE] && by[ROBINHOOD] > by[BWS]),
        ),
        Measure::new("fig9-ep-of-cs", ratio(&ep, ROBINHOOD, CS)),
        Measure::new("fig9-rt-of-cs", ratio(&rt, ROBINHOOD, CS)),
        Measure::new("fig9-rt-over-bws", ratio(&rt, ROBINHOOD, BWS)),
        Measure::new("fig9-cg-cs-below", percent(&cg, cs_is_below)),
        Measure::new("fig9-clip-cs-below", percent(&clip, cs_is_below)),
        Measure::new("fig9-mi-cs-below", percent(&mi, cs_is_below)),
        Measure::new("fig9-cs-much-below", ratio(&fair, CS, ROBINHOOD)),
        // A quarter of the time, and a quarter of that either way.
        Measure::new("fig9-cs-at-rate", percent(&pairs, |by| (0.1875..=0.3125).contains(&by[CS]))),
        Measure::new("fig9-baseline-worst", percent(&pairs, is_worst(BASELINE))),
        Measure::new("fig9-bws-above-baseline", percent(&pairs, is_above(BWS, BASELINE))),
        Measure::new("fig9-bws-above-cs", percent(&pairs, is_above(BWS, CS))),
        Measure::new("fig9-robinhood-above-bws", percent(&pairs, is_above(ROBINHOOD, BWS))),
    ]
}

/// The measures of figure 10.
pub fn figure_10(of: &[CoRun]) -> Vec<Measure> {
    let all = by_strategy(of, |one| Some(one.throughput()));
    let several = |one: &CoRun| one.mix.iter().filter(|benchmark| FAIR.contains(benchmark)).count() >= 2;
    let fair = by_strategy(of, |one| several(one).then(|| one.throughput()));
    let gain = |other: usize| 100.0 * average(all.iter().map(|by| by[ROBINHOOD] / by[other] - 1.0));
    let others = [BASELINE, CS, BWS];
    vec![
        Measure::new("fig10-best", percent(&all, is_best(ROBINHOOD))),
        Measure::new("fig10-over-baseline", gain(BASELINE)),
        Measure::new("fig10-over-cs", gain(CS)),
        Measure::new("fig10-over-bws", gain(BWS)),
        Measure::new("fig10-most", most(all.iter().flat_map(|by| others.map(|other| by[ROBINHOOD] / by[other])))),
        Measure::new("fig10-baseline-worst", percent(&all, is_worst(BASELINE))),
        Measure::new("fig10-cs-below", percent(&fair, cs_is_below)),
        Measure::new("fig10-cs-much-below", average(fair.iter().map(|by| by[CS] / by[BWS].min(by[ROBINHOOD])))),
        Measure::new("fig10-bws-above-baseline", percent(&all, is_above(BWS, BASELINE))),
        Measure::new("fig10-bws-above-cs", percent(&all, is_above(BWS, CS))),
    ]
}

/// Those that steal nothing, beside CG, CLIP and MI.
pub const OTHERS: [Benchmark; 2] = [Benchmark::Loop, Benchmark::Server];

/// What came of LOOP under each of [`STRATEGIES`], then of the server.
pub type Beside = Vec<Shared>;

/// Runs both of [`OTHERS`] under all strategies.
///
/// # Errors
/// If not all of the runs are done.
pub fn run_beside<R: Runner>(programs: &Programs, runner: &R) -> Result<Beside, R::Stop> {
    runner.run("others", OTHERS.len() * STRATEGIES.len(), |nth| {
        let mix = [Benchmark::Cg, Benchmark::Clip, Benchmark::Mi, OTHERS[nth / STRATEGIES.len()]];
        programs.in_machines(&mix, STRATEGIES[nth % STRATEGIES.len()], (nth / STRATEGIES.len()) as u64)
    })
}

/// How long the fourth program of a run takes for what it does in a second alone on a physical CPU.
pub fn time_beside(ran: &Shared) -> f64 {
    ran.programs[3].there as f64 / ran.programs[3].worked as f64
}

/// The measures of figure 11.
pub fn figure_11(beside: &Beside) -> Vec<Measure> {
    let times: Vec<By> =
        beside.chunks(STRATEGIES.len()).map(|four| std::array::from_fn(|nth| time_beside(&four[nth]))).collect();
    let over = |by: &By, other: f64| 100.0 * (by[ROBINHOOD] / other - 1.0);
    let least = |by: &By| by[BASELINE].min(by[CS]).min(by[BWS]);
    let shares: Vec<By> = beside
        .chunks(STRATEGIES.len())
        .map(|four| std::array::from_fn(|nth| four[nth].ran[3] as f64 / four[nth].ran.iter().sum::<u64>() as f64))
        .collect();
    let best = |by: &By| if is_worst(BWS)(by) { 100.0 } else { 0.0 };
    vec![
        Measure::new("fig11-loop-bws-best", best(&times[0])),
        Measure::new("fig11-loop-over-bws", over(&times[0], times[0][BWS])),
        Measure::new("fig11-server-bws-best", best(&times[1])),
        Measure::new("fig11-server-over-bws", over(&times[1], times[1][BWS])),
        Measure::new("fig11-slight", most(times.iter().map(|by| over(by, least(by))))),
        Measure::new("fig11-relinquish", percent(&shares, is_above(BWS, ROBINHOOD))),
    ]
}

/// How many machines run in figure 12, and the paper's microseconds by which Robinhood makes a decision longer, at
/// 30 ms.
pub const DISTANCES: [(usize, f64); 4] = [(1, 0.159), (2, 0.162), (4, 0.45), (8, 0.139)];

/// Nanoseconds of a slice there.
pub const INTERVALS: [u64; 2] = [30_000_000, 5_000_000];

/// What came of each number of machines with each interval.
pub type Decisions = Vec<Shared>;

/// Runs them, with CG, CLIP and MI in turn.
///
/// # Errors
/// If not all of the runs are done.
pub fn run_decisions<R: Runner>(programs: &Programs, runner: &R) -> Result<Decisions, R::Stop> {
    runner.run("decisions", INTERVALS.len() * DISTANCES.len(), |nth| {
        let (count, _) = DISTANCES[nth % DISTANCES.len()];
        let mix: Vec<Benchmark> = (0..count).map(|nth| FAIR[nth % FAIR.len()]).collect();
        programs.with_interval(INTERVALS[nth / DISTANCES.len()]).in_machines(&mix, Strategy::Robinhood, nth as u64)
    })
}

/// The measures of figure 12: how often it was decided, times what the paper measured that each takes longer.
pub fn figure_12(of: &Decisions) -> Vec<Measure> {
    let per_second = |ran: &Shared| ran.counts.decisions as f64 * 1e9 / ran.lasted as f64 / f64::from(CPUS);
    let overhead = |ran: &Shared, us: f64| 100.0 * per_second(ran) * us / 1e6;
    let passed_over = |ran: &Shared| ran.counts.passed_over as f64 / ran.counts.decisions as f64;
    let (long, short) = of.split_at(DISTANCES.len());
    vec![
        Measure::new("fig12-overhead-30", most(long.iter().zip(DISTANCES).map(|(ran, (_, us))| overhead(ran, us)))),
        Measure::new("fig12-overhead-5", most(short.iter().map(|ran| overhead(ran, 0.45)))),
        Measure::new("fig12-no-growth", passed_over(&long[DISTANCES.len() - 1]) - passed_over(&long[0])),
    ]
}
