//! Figure 2 and the numbers of context switches (§5.2): slowdowns and unfairness of all pairs, under ABP and BWS.

use super::pairs::{CoRun, CoRuns, KINDS, Pair, PairKind, all, at, by_kind, co_runs, unfairness};
use super::{BWS, Benchmark, Bws, ORIGINAL, examples, solo};
use crate::claims::{Claim, number};
use crate::corun::Ran;
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::measure::{Measure, part};

/// The measures of the average unfairness under ABP and under BWS, for each of [`KINDS`].
pub(super) const UNFAIRNESS: [[&str; 4]; 2] = [
    ["unfair-1-abp", "unfair-2-abp", "unfair-mixed-abp", "unfair-all-abp"],
    ["unfair-1-bws", "unfair-2-bws", "unfair-mixed-bws", "unfair-all-bws"],
];

/// The first example of §5.2.
const CLIP_MM: Pair = [Benchmark::Mm, Benchmark::Clip];

/// The second example of §5.2.
const MI_EP: Pair = [Benchmark::Ep, Benchmark::Mi];

/// Returns the names of the slowdown measures of an example of §5.2, under ABP and under BWS.
fn slowdown_names(example: &str, pair: Pair) -> [[String; 2]; 2] {
    ["abp", "bws"].map(|policy| pair.map(|program| format!("{example}-{policy}-{}", program.name().to_lowercase())))
}

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let original = paper.alone.of(ORIGINAL);
    let [abp, bws] = [ORIGINAL, BWS].map(|policy| paper.pairs.of(policy));
    let both = paper.both();
    let mut measures = Vec::new();
    for (of, names) in both.iter().zip(UNFAIRNESS) {
        measures.extend(KINDS.into_iter().zip(names).map(|(kind, name)| Measure::new(name, unfairness(of, kind))));
    }
    let is_fairer = |(abp, bws): (&CoRun, &CoRun)| bws.unfairness() < abp.unfairness();
    measures.push(Measure::new("fairer-each-pair", part(both[0].iter().zip(&both[1]), is_fairer)));
    let mixed = both[0].iter().filter(|one| one.kind() == PairKind::Mixed);
    measures.push(Measure::new("less-scalable-slower", part(mixed, |one| one.slowdowns[1] > one.slowdowns[0])));
    measures.extend(switches(original, abp, bws));
    measures.extend(clip_mm(original, abp, bws));
    measures.extend(mi_ep(original, abp, bws));
    measures
}

/// Returns the slowdowns of a pair's programs.
fn slowdowns_of(original: &[Ran], of: &CoRuns, pair: Pair) -> [f64; 2] {
    co_runs(original, of).iter().find(|one| one.pair == pair).expect("the pair was run").slowdowns
}

/// Returns the slowdowns of both programs of an example of §5.2, under ABP and under BWS.
fn example(original: &[Ran], of: [&CoRuns; 2], name: &str, pair: Pair) -> Vec<Measure> {
    let slowdowns = of.map(|of| slowdowns_of(original, of, pair)).into_iter().flatten();
    let names = slowdown_names(name, pair).into_iter().flatten();
    names.zip(slowdowns).map(|(name, slowdown)| Measure::new(name, slowdown)).collect()
}

/// Computes the measures of the first example, CLIP with MM.
fn clip_mm(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let to_thieves = |nth: usize| {
        let switches = at(abp, CLIP_MM)[nth].switches;
        100.0 * switches.to_thieves as f64 / switches.all as f64
    };
    let mut measures = example(original, [abp, bws], "clip-mm", CLIP_MM);
    measures.extend([
        Measure::new("switches-clip-mm", fewer_switches(original, abp, bws, CLIP_MM)),
        Measure::new("to-thief-clip", to_thieves(1)),
        Measure::new("to-thief-mm", to_thieves(0)),
    ]);
    measures
}

/// Computes the measures of the second example, MI with EP.
fn mi_ep(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let mut measures = example(original, [abp, bws], "mi-ep", MI_EP);
    measures.extend([
        Measure::new("switches-mi-ep", fewer_switches(original, abp, bws, MI_EP)),
        Measure::new("external-mi", fewer_external(original, abp, bws, (MI_EP, 1))),
    ]);
    measures
}

/// Returns the number of executions of a program in a run, including the fraction of the last execution.
fn executions(alone: &Ran, ran: &Ran) -> f64 {
    match ran.times.is_empty() {
        // LOOP has no executions. One execution stands for the work that it does alone in a second.
        true => ran.worked as f64 / (solo::rate(alone) * 1e9),
        false => ran.there as f64 / ran.mean(),
    }
}

/// Returns the percentage by which BWS reduces the switches per execution, summed over both programs of a pair.
fn fewer_switches(original: &[Ran], abp: &CoRuns, bws: &CoRuns, pair: Pair) -> f64 {
    let in_all = |of: &CoRuns| -> f64 {
        let each = at(of, pair).iter().zip(pair);
        each.map(|(ran, own)| ran.switches.all as f64 / executions(&original[own as usize], ran)).sum()
    };
    100.0 * (1.0 - in_all(bws) / in_all(abp))
}

/// Returns the percentage by which BWS reduces the switches per execution from the other program of the pair to
/// program `nth`.
fn fewer_external(original: &[Ran], abp: &CoRuns, bws: &CoRuns, (pair, nth): (Pair, usize)) -> f64 {
    let external = |of: &CoRuns| {
        let ran = &at(of, pair)[nth];
        ran.switches.between_programs as f64 / executions(&original[pair[nth] as usize], ran)
    };
    100.0 * (1.0 - external(bws) / external(abp))
}

/// Computes the measures of the switches of pairs of different groups (§5.2).
fn switches(original: &[Ran], abp: &CoRuns, bws: &CoRuns) -> Vec<Measure> {
    let mixed: Vec<Pair> = all().into_iter().filter(|pair| PairKind::of(*pair) == PairKind::Mixed).collect();
    let to_thieves = |of: &CoRuns| {
        let sum = |what: fn(&Ran) -> u64| -> u64 { mixed.iter().flat_map(|pair| at(of, *pair)).map(what).sum() };
        100.0 * sum(|ran| ran.switches.to_thieves) as f64 / sum(|ran| ran.switches.all) as f64
    };
    // The paper's numbers are for BFS and the programs of group 2.
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

/// Draws the slowdowns of all pairs, and their average unfairness.
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let both = paper.both();
    let title = "BWS figure 2: average unfairness";
    vec![
        ("figure-2-slowdowns", slowdowns(&both, claims)),
        ("figure-2", by_kind(title, "unfairness, %", unfairness, &both, UNFAIRNESS, claims)),
    ]
}

/// Draws the slowdowns of both programs of each pair, in the order of table 1.
fn slowdowns([abp, bws]: &[Vec<CoRun>; 2], claims: &[Claim]) -> Figure {
    let series = |name: &str, of: &[CoRun], nth: usize| {
        let name = format!("{name}, its {} program", ["first", "second"][nth]);
        Series::in_order(name, Marks::Points, of.iter().map(|one| one.slowdowns[nth]))
    };
    let mut series = vec![series("ABP", abp, 0), series("ABP", abp, 1), series("BWS", bws, 0), series("BWS", bws, 1)];
    let x = |pair: Pair| all().iter().position(|one| *one == pair).map_or(0.0, |nth| nth as f64 + 1.0);
    // The paper's numbers, by policy, pair and program. The paper gives no number for most pairs.
    let [clip_mm, mi_ep] = [("clip-mm", CLIP_MM), ("mi-ep", MI_EP)].map(|(name, pair)| slowdown_names(name, pair));
    let numbers = |names: [&str; 2]| names.map(|name| number(claims, name));
    let of = |names: &[String; 2]| numbers([&names[0], &names[1]]);
    let [bfs_ep, [cg, mm]] = [examples::BFS_EP, examples::CG_MM].map(numbers);
    let by_policy = [
        vec![
            (x(CLIP_MM), of(&clip_mm[0])),
            (x(MI_EP), of(&mi_ep[0])),
            (x([Benchmark::Mm, Benchmark::Cg]), [mm, cg]),
            (x([Benchmark::Bfs, Benchmark::Ep]), bfs_ep),
        ],
        vec![(x(CLIP_MM), of(&clip_mm[1])), (x(MI_EP), of(&mi_ep[1]))],
    ];
    for (of, nth) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let points: Vec<_> = by_policy[of].iter().filter_map(|(x, numbers)| Some((*x, numbers[nth]?))).collect();
        let own = 2 * of + nth;
        if !points.is_empty() {
            series.push(Series::of_paper(format!("{}: the paper's", series[own].name), own, points));
        }
    }
    Figure {
        title: "BWS figure 2: slowdowns of the 28 pairs".into(),
        x: Axis::named("pair", all().into_iter().map(|pair| pair.map(Benchmark::name).join(", "))),
        y: Axis::linear("slowdown, %"),
        series,
    }
}
