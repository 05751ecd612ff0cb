//! All 28 pairs (§5.2 to §5.4): slowdowns, throughputs, context switches and variations, under the original, BWS
//! and what else is tried.

use serde::Serialize;

use super::{Benchmark, Programs, named, solo};
use crate::Runner;
use crate::corun::Ran;
use crate::measure::{Measure, average, part};

/// What is measured of slowdowns and switches.
pub const SLOWDOWNS: &[&str] = &[
    "unfair-all-abp",
    "unfair-all-bws",
    "unfair-1-abp",
    "unfair-1-bws",
    "unfair-2-abp",
    "unfair-2-bws",
    "unfair-mixed-abp",
    "unfair-mixed-bws",
    "clip-mm-abp-clip",
    "clip-mm-abp-mm",
    "clip-mm-bws-clip",
    "clip-mm-bws-mm",
    "mi-ep-abp-mi",
    "mi-ep-abp-ep",
    "mi-ep-bws-mi",
    "mi-ep-bws-ep",
    "less-scalable-slower",
    "switches-clip-mm",
    "switches-mi-ep",
    "switches-most",
    "to-thief-abp",
    "to-thief-bws",
    "to-thief-clip",
    "to-thief-mm",
    "external-least",
    "external-most",
    "external-mi",
];

/// Of throughputs,
pub const THROUGHPUTS: &[&str] = &[
    "throughput-all-abp",
    "throughput-all-bws",
    "throughput-gain",
    "throughput-gain-1",
    "throughput-gain-2",
    "throughput-gain-mixed",
];

/// of how times vary,
pub const VARIATIONS: &[&str] =
    &["cg-mm-range-abp", "cg-mm-range-bws", "cv-most", "cv-type-2-abp", "cv-type-2-bws", "cv-order", "cv-reduced"];

/// of the other approaches,
pub const ALTERNATIVES: &[&str] = &["selective-unfair", "selective-throughput", "delay-fairer", "delay-slower"];

/// and of other thresholds.
pub const THRESHOLDS: &[&str] = &[
    "threshold-32-unfair",
    "threshold-32-throughput",
    "threshold-256-unfair",
    "threshold-256-throughput",
    "threshold-4096-unfair",
    "threshold-4096-throughput",
    "threshold-fairer",
    "threshold-slower",
    "threshold-better-than-abp",
];

/// The two of figure 5.
pub const OTHERS: [&str; 2] = ["selective-yield", "delay-yield"];

/// The values of SleepThreshold in figure 6; that of BWS is the second.
pub const SLEEP_THRESHOLDS: [u32; 4] = [32, 64, 256, 4096];

/// One pair.
pub type Pair = [Benchmark; 2];

/// All pairs of two different programs, in table 1's order.
pub fn all() -> Vec<Pair> {
    let programs = Benchmark::ALL;
    let second = |first: usize| programs[first + 1..].iter().map(move |second| [programs[first], *second]);
    (0..programs.len()).flat_map(second).collect()
}

/// What came of pairs under one policy.
pub type CoRuns = Vec<(Pair, Vec<Ran>)>;

/// Runs all pairs under a policy.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(programs: &Programs<'_>, policy: &str, runner: &R) -> Result<CoRuns, R::Stop> {
    run_some(programs, policy, &all(), runner)
}

/// Runs some.
///
/// # Errors
/// If not all of the runs are done.
pub fn run_some<R: Runner>(
    programs: &Programs<'_>,
    policy: &str,
    pairs: &[Pair],
    runner: &R,
) -> Result<CoRuns, R::Stop> {
    let name = format!("pairs-{}", named(policy));
    let ran = runner.run(&name, pairs.len(), |nth| {
        let pair = pairs[nth];
        let place = all().iter().position(|one| *one == pair).expect("it is one of all");
        programs.run(&pair.map(|one| (one, programs.setting.cores)), policy, place)
    })?;
    Ok(pairs.iter().copied().zip(ran).collect())
}

/// A pair under a policy, beside both programs alone under the original.
#[derive(Clone, Debug, Serialize)]
pub struct CoRun {
    /// The pair.
    pub pair: Pair,
    /// Of each, (T_c − T_s)/T_s in per cent.
    pub slowdowns: [f64; 2],
    /// The weighted speedup.
    pub throughput: f64,
    /// Of each, the standard deviation of its executions' times over their mean, in per cent; of LOOP there is none.
    pub variations: [Option<f64>; 2],
}

impl CoRun {
    /// The larger slowdown less the smaller.
    pub fn unfairness(&self) -> f64 {
        (self.slowdowns[0] - self.slowdowns[1]).abs()
    }

    /// What kind of pair it is.
    pub fn kind(&self) -> PairKind {
        PairKind::of(self.pair)
    }
}

/// The three parts of figures 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairKind {
    /// Both of group 1.
    Scalable,
    /// Both of group 2.
    Fair,
    /// One of each.
    Mixed,
}

impl PairKind {
    fn of(pair: Pair) -> PairKind {
        match pair.map(Benchmark::is_scalable) {
            [true, true] => PairKind::Scalable,
            [false, false] => PairKind::Fair,
            _ => PairKind::Mixed,
        }
    }
}

/// What the paper plots of all pairs, from what came of them, and of the programs alone under the original.
pub fn co_runs(original: &[Ran], of: &CoRuns) -> Vec<CoRun> {
    let one = |(pair, ran): &(Pair, Vec<Ran>)| {
        let pair = *pair;
        let ratio = |nth: usize| {
            let (alone, together) = (&original[pair[nth] as usize], &ran[nth]);
            match pair[nth] {
                Benchmark::Loop => solo::rate(alone) / solo::rate(together),
                _ => together.mean() / alone.mean(),
            }
        };
        let ratios = [ratio(0), ratio(1)];
        CoRun {
            pair,
            slowdowns: ratios.map(|ratio| 100.0 * (ratio - 1.0)),
            throughput: ratios.iter().map(|ratio| 1.0 / ratio).sum(),
            variations: [0, 1].map(|nth| (pair[nth] != Benchmark::Loop).then(|| variation(&ran[nth].times))),
        }
    };
    of.iter().map(one).collect()
}

/// The coefficient of variation, in per cent.
fn variation(times: &[u64]) -> f64 {
    let count = times.len() as f64;
    let mean = times.iter().sum::<u64>() as f64 / count;
    let squares: f64 = times.iter().map(|time| (*time as f64 - mean).powi(2)).sum();
    100.0 * (squares / (count - 1.0)).sqrt() / mean
}

/// Average unfairness of the pairs of a kind, or of all.
pub fn unfairness(of: &[CoRun], kind: Option<PairKind>) -> f64 {
    average(of.iter().filter(|one| kind.is_none_or(|kind| one.kind() == kind)).map(CoRun::unfairness))
}

/// Average throughput of the same.
pub fn throughput(of: &[CoRun], kind: Option<PairKind>) -> f64 {
    average(of.iter().filter(|one| kind.is_none_or(|kind| one.kind() == kind)).map(|one| one.throughput))
}

/// What came of one pair.
///
/// # Panics
/// If it was not run.
fn at(of: &CoRuns, pair: Pair) -> &[Ran] {
    &of.iter().find(|(own, _)| *own == pair).expect("the pair was run").1
}

/// The examples of §5.2.
pub const CLIP_MM: Pair = [Benchmark::Mm, Benchmark::Clip];
/// And the other.
pub const MI_EP: Pair = [Benchmark::Ep, Benchmark::Mi];

/// Figure 2, and what is said of switches, under the original and BWS.
pub fn slowdowns(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let (by_abp, by_bws) = (co_runs(original, abp), co_runs(original, bws));
    let kinds = [None, Some(PairKind::Scalable), Some(PairKind::Fair), Some(PairKind::Mixed)];
    let names = [
        ["unfair-all-abp", "unfair-all-bws"],
        ["unfair-1-abp", "unfair-1-bws"],
        ["unfair-2-abp", "unfair-2-bws"],
        ["unfair-mixed-abp", "unfair-mixed-bws"],
    ];
    let mut measures = Vec::new();
    for (kind, [with_abp, with_bws]) in kinds.into_iter().zip(names) {
        measures.push(Measure::new(with_abp, unfairness(&by_abp, kind)));
        measures.push(Measure::new(with_bws, unfairness(&by_bws, kind)));
    }
    let mixed = by_abp.iter().filter(|one| one.kind() == PairKind::Mixed);
    measures.push(Measure::new("less-scalable-slower", part(mixed, |one| one.slowdowns[1] > one.slowdowns[0])));
    measures.extend(switches(original, abp, bws));
    measures.extend(clip_mm(original, abp, bws));
    measures.extend(mi_ep(original, abp, bws));
    measures
}

/// The slowdowns of a pair's programs.
fn slowdowns_of(original: &[Ran], of: &CoRuns, pair: Pair) -> [f64; 2] {
    co_runs(original, of).iter().find(|one| one.pair == pair).expect("the pair was run").slowdowns
}

/// What is said of CLIP beside MM.
pub fn clip_mm(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let [by_abp, by_bws] = [abp, bws].map(|of| slowdowns_of(original, of, CLIP_MM));
    let to_thieves = |nth: usize| {
        let switches = at(abp, CLIP_MM)[nth].switches;
        100.0 * switches.to_thieves as f64 / switches.all as f64
    };
    // The program of group 2 is the second.
    vec![
        Measure::new("clip-mm-abp-clip", by_abp[1]),
        Measure::new("clip-mm-abp-mm", by_abp[0]),
        Measure::new("clip-mm-bws-clip", by_bws[1]),
        Measure::new("clip-mm-bws-mm", by_bws[0]),
        Measure::new("switches-clip-mm", fewer_switches(original, abp, bws, CLIP_MM)),
        Measure::new("to-thief-clip", to_thieves(1)),
        Measure::new("to-thief-mm", to_thieves(0)),
    ]
}

/// What is said of MI beside EP.
pub fn mi_ep(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let [by_abp, by_bws] = [abp, bws].map(|of| slowdowns_of(original, of, MI_EP));
    vec![
        Measure::new("mi-ep-abp-mi", by_abp[1]),
        Measure::new("mi-ep-abp-ep", by_abp[0]),
        Measure::new("mi-ep-bws-mi", by_bws[1]),
        Measure::new("mi-ep-bws-ep", by_bws[0]),
        Measure::new("switches-mi-ep", fewer_switches(original, abp, bws, MI_EP)),
        Measure::new("external-mi", fewer_external(original, abp, bws, (MI_EP, 1))),
    ]
}

/// How many executions of a program a run has, the last as far as it came.
fn executions(alone: &Ran, ran: &Ran) -> f64 {
    match ran.times.is_empty() {
        // LOOP has no executions: so much work as it does alone in a second.
        true => ran.worked as f64 / (solo::rate(alone) * 1e9),
        false => ran.there as f64 / ran.mean(),
    }
}

/// By how many per cent BWS reduces the switches in an execution of both programs.
fn fewer_switches(original: &[Ran], abp: &CoRuns, bws: &CoRuns, pair: Pair) -> f64 {
    let in_all = |of: &CoRuns| -> f64 {
        let each = at(of, pair).iter().zip(pair);
        each.map(|(ran, own)| ran.switches.all as f64 / executions(&original[own as usize], ran)).sum()
    };
    100.0 * (1.0 - in_all(bws) / in_all(abp))
}

/// By how many per cent it reduces the switches in an execution from one of a pair's programs to the other.
fn fewer_external(original: &[Ran], abp: &CoRuns, bws: &CoRuns, (pair, nth): (Pair, usize)) -> f64 {
    let external = |of: &CoRuns| {
        let ran = &at(of, pair)[nth];
        ran.switches.between_programs as f64 / executions(&original[pair[nth] as usize], ran)
    };
    100.0 * (1.0 - external(bws) / external(abp))
}

/// §5.2: switches of pairs of different groups.
fn switches(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let mixed: Vec<Pair> = all().into_iter().filter(|pair| PairKind::of(*pair) == PairKind::Mixed).collect();
    let to_thieves = |of: &CoRuns| {
        let sum = |what: fn(&Ran) -> u64| -> u64 { mixed.iter().flat_map(|pair| at(of, *pair)).map(what).sum() };
        100.0 * sum(|ran| ran.switches.to_thieves) as f64 / sum(|ran| ran.switches.all) as f64
    };
    // Of BFS and of the programs of group 2.
    let external: Vec<f64> = mixed
        .iter()
        .flat_map(|pair| [(*pair, 0), (*pair, 1)])
        .filter(|(pair, nth)| pair[*nth] == Benchmark::Bfs || !pair[*nth].is_scalable())
        .map(|one| fewer_external(original, abp, bws, one))
        .collect();
    vec![
        Measure::new("switches-most", part(&mixed, |pair| fewer_switches(original, abp, bws, *pair) > 70.0)),
        Measure::new("to-thief-abp", to_thieves(abp)),
        Measure::new("to-thief-bws", to_thieves(bws)),
        Measure::new("external-least", external.iter().copied().fold(f64::INFINITY, f64::min)),
        Measure::new("external-most", external.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
    ]
}

/// Figure 3.
pub fn throughputs(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let (abp, bws) = (co_runs(original, abp), co_runs(original, bws));
    let gain = |kind| 100.0 * (throughput(&bws, kind) / throughput(&abp, kind) - 1.0);
    vec![
        Measure::new("throughput-all-abp", throughput(&abp, None)),
        Measure::new("throughput-all-bws", throughput(&bws, None)),
        Measure::new("throughput-gain", gain(None)),
        Measure::new("throughput-gain-1", gain(Some(PairKind::Scalable))),
        Measure::new("throughput-gain-2", gain(Some(PairKind::Fair))),
        Measure::new("throughput-gain-mixed", gain(Some(PairKind::Mixed))),
    ]
}

/// The variation of each program over all pairs that it is in; LOOP has none.
pub fn by_benchmark(of: &[CoRun]) -> Vec<(Benchmark, f64)> {
    let own = |benchmark: Benchmark| {
        of.iter().flat_map(move |one| {
            (0..2).filter(move |nth| one.pair[*nth] == benchmark).filter_map(|nth| one.variations[nth])
        })
    };
    let measured = Benchmark::ALL.into_iter().filter(|benchmark| *benchmark != Benchmark::Loop);
    measured.map(|benchmark| (benchmark, average(own(benchmark)))).collect()
}

/// The variation by the types of figure 4(b). First of a program of group 2 beside one of 2, and of 1; then of one
/// of group 1 beside one of 2, and of 1.
pub fn by_type(of: &[CoRun]) -> [f64; 4] {
    let types = [(false, false), (false, true), (true, false), (true, true)];
    types.map(|(own, other)| {
        average(of.iter().flat_map(|one| {
            let is_one =
                move |nth: &usize| (one.pair[*nth].is_scalable(), one.pair[1 - *nth].is_scalable()) == (own, other);
            (0..2).filter(is_one).filter_map(|nth| one.variations[nth])
        }))
    })
}

/// Figure 4, and CG's range beside MM.
pub fn variations(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let range = |of: &CoRuns| {
        let times = &at(of, [Benchmark::Mm, Benchmark::Cg])[1].times;
        *times.iter().max().unwrap_or(&0) as f64 / *times.iter().min().unwrap_or(&0) as f64
    };
    let (by_abp, by_bws) = (co_runs(original, abp), co_runs(original, bws));
    let (type_abp, type_bws) = (by_type(&by_abp), by_type(&by_bws));
    let most = by_benchmark(&by_bws).into_iter().map(|(_, variation)| variation).fold(0.0, f64::max);
    let average = |of: &[CoRun]| average(by_benchmark(of).into_iter().map(|(_, variation)| variation));
    let largest = type_abp.iter().all(|other| *other <= type_abp[1]);
    let smallest = type_abp.iter().all(|other| *other >= type_abp[2]);
    vec![
        Measure::new("cg-mm-range-abp", range(abp)),
        Measure::new("cg-mm-range-bws", range(bws)),
        Measure::new("cv-most", most),
        Measure::new("cv-type-2-abp", type_abp[1]),
        Measure::new("cv-type-2-bws", type_bws[1]),
        Measure::new("cv-order", part([largest, smallest], |is_so| is_so)),
        Measure::new("cv-reduced", average(&by_abp) - average(&by_bws)),
    ]
}

/// Figure 5: what came of the pairs under the original and under [`OTHERS`].
pub fn alternatives(original: &[Ran], abp: &CoRuns, others: [&CoRuns; 2]) -> Vec<Measure> {
    let abp = co_runs(original, abp);
    let [selective, delay] = others.map(|other| co_runs(original, other));
    vec![
        Measure::new("selective-unfair", unfairness(&selective, None)),
        Measure::new("selective-throughput", throughput(&selective, None)),
        Measure::new("delay-fairer", unfairness(&delay, None) / unfairness(&abp, None)),
        Measure::new("delay-slower", throughput(&delay, None) / throughput(&abp, None)),
    ]
}

/// Figure 6: what came of the pairs under the original and with each of [`SLEEP_THRESHOLDS`].
pub fn thresholds(original: &[Ran], abp: &CoRuns, by_threshold: &[CoRuns]) -> Vec<Measure> {
    let abp = co_runs(original, abp);
    let all: Vec<(f64, f64)> = by_threshold
        .iter()
        .map(|of| co_runs(original, of))
        .map(|of| (unfairness(&of, None), throughput(&of, None)))
        .collect();
    let better =
        all.iter().flat_map(|one| [one.0 < unfairness(&abp, None), one.1 > throughput(&abp, None)]).collect::<Vec<_>>();
    vec![
        Measure::new("threshold-32-unfair", all[0].0),
        Measure::new("threshold-32-throughput", all[0].1),
        Measure::new("threshold-256-unfair", all[2].0),
        Measure::new("threshold-256-throughput", all[2].1),
        Measure::new("threshold-4096-unfair", all[3].0),
        Measure::new("threshold-4096-throughput", all[3].1),
        Measure::new("threshold-fairer", all[2].0 / all[0].0),
        Measure::new("threshold-slower", part(all.windows(2), |two| two[1].1 < two[0].1)),
        Measure::new("threshold-better-than-abp", part(better, |is_so| is_so)),
    ]
}

/// The policies of figure 6: BWS with each of [`SLEEP_THRESHOLDS`].
pub fn threshold_policies(bws: &str) -> [String; 4] {
    SLEEP_THRESHOLDS.map(|threshold| match threshold {
        64 => bws.to_owned(),
        _ => format!("bws:sleep_threshold={threshold}"),
    })
}
