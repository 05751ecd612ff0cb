//! Figure 4 (§5.2): the variation of the times of a program, and the range of CG's times when it runs with MM.

use super::pairs::{CoRun, CoRuns, at};
use super::{BWS, Benchmark, Bws, ORIGINAL};
use crate::claims::{Claim, number};
use crate::figure::{Axis, Figure, Marks, Named, Series};
use crate::measure::{Measure, average, part};

/// The measures of the variation of type 2 (see [`by_type`]) under ABP and under BWS.
const TYPE_2: [&str; 2] = ["cv-type-2-abp", "cv-type-2-bws"];

/// Returns the mean variation of each program except LOOP, over all pairs that contain the program.
fn by_benchmark(of: &[CoRun]) -> Vec<(Benchmark, f64)> {
    let own = |benchmark: Benchmark| {
        of.iter().flat_map(move |one| {
            (0..2).filter(move |nth| one.pair[*nth] == benchmark).filter_map(|nth| one.variations[nth])
        })
    };
    let measured = Benchmark::ALL.into_iter().filter(|benchmark| *benchmark != Benchmark::Loop);
    measured.map(|benchmark| (benchmark, average(own(benchmark)))).collect()
}

/// Returns the mean variation of types 1 to 4 of figure 4(b). A type is (group of the program, group of the other
/// program): (2, 2), (2, 1), (1, 2), (1, 1).
fn by_type(of: &[CoRun]) -> [f64; 4] {
    let types = [(false, false), (false, true), (true, false), (true, true)];
    types.map(|(own, other)| {
        average(of.iter().flat_map(|one| {
            let is_one =
                move |nth: &usize| (one.pair[*nth].is_scalable(), one.pair[1 - *nth].is_scalable()) == (own, other);
            (0..2).filter(is_one).filter_map(|nth| one.variations[nth])
        }))
    })
}

/// Computes the measures.
pub(super) fn measures(paper: &Bws) -> Vec<Measure> {
    let [abp, bws] = [ORIGINAL, BWS].map(|policy| paper.pairs.of(policy));
    let range = |of: &CoRuns| {
        let times = &at(of, [Benchmark::Mm, Benchmark::Cg])[1].times;
        *times.iter().max().unwrap_or(&0) as f64 / *times.iter().min().unwrap_or(&0) as f64
    };
    let [by_abp, by_bws] = paper.both();
    let (type_abp, type_bws) = (by_type(&by_abp), by_type(&by_bws));
    let most = by_benchmark(&by_bws).into_iter().map(|(_, variation)| variation).fold(0.0, f64::max);
    let average = |of: &[CoRun]| average(by_benchmark(of).into_iter().map(|(_, variation)| variation));
    let largest = type_abp.iter().all(|other| *other <= type_abp[1]);
    let smallest = type_abp.iter().all(|other| *other >= type_abp[2]);
    // The comparisons of each program whose workers yield more frequently with each of the others.
    let is_yielding = |program: Benchmark| !program.is_scalable() || program == Benchmark::Bfs;
    let variations = by_benchmark(&by_abp);
    let (yielding, others): (Vec<_>, Vec<_>) = variations.into_iter().partition(|(program, _)| is_yielding(*program));
    let compared = yielding.iter().flat_map(|one| others.iter().map(move |other| (one.1, other.1)));
    vec![
        Measure::new("cv-yielding-larger", part(compared, |(one, other)| one > other)),
        Measure::new("cg-mm-range-abp", range(abp)),
        Measure::new("cg-mm-range-bws", range(bws)),
        Measure::new("cv-most", most),
        Measure::new(TYPE_2[0], type_abp[1]),
        Measure::new(TYPE_2[1], type_bws[1]),
        Measure::new("cv-order", part([largest, smallest], |is_so| is_so)),
        Measure::new("cv-reduced", average(&by_abp) - average(&by_bws)),
    ]
}

/// Draws the variation of each program, followed by the variation of each type.
pub(super) fn figures(paper: &Bws, claims: &[Claim]) -> Vec<Named> {
    let [abp, bws] = &paper.both();
    let series = |name: &str, of: &[CoRun]| {
        let each = by_benchmark(of).into_iter().map(|(_, variation)| variation).chain(by_type(of));
        Series::in_order(name, Marks::Points, each)
    };
    let mut all = vec![series("ABP", abp), series("BWS", bws)];
    let programs = by_benchmark(abp).into_iter().map(|(benchmark, _)| benchmark.name());
    let names = programs.chain(["type 1", "type 2", "type 3", "type 4"]);
    // Type 2 is at 9 on the axis, because seven programs and type 1 come first.
    for (of, id) in TYPE_2.into_iter().enumerate() {
        if let Some(number) = number(claims, id) {
            all.push(Series::of_paper(format!("{}: the paper's", all[of].name), of, vec![(9.0, number)]));
        }
    }
    let figure = Figure {
        title: "BWS figure 4: variation of the times".into(),
        x: Axis::named("program, or type of execution", names),
        y: Axis::linear("coefficient of variation of the times, %"),
        series: all,
    };
    vec![("figure-4", figure)]
}
