//! Table 2 (§6.3): CG with 16, 32 and 64 threads at four online rates.

use super::rates::{Point, STRATEGIES, THREADS, add_paper, alone, by_rate};
use super::{Benchmark, CPUS, RATE_NAMES, RATES, Robinhood, Strategy};
use crate::claims::{Claim, number};
use crate::figure::{Axis, Named};
use crate::measure::{Measure, percent};

/// Returns the name of the slowdown measure at an online rate in per cent.
fn name_of(rate: &str, threads: u32, strategy: Strategy) -> String {
    format!("t2-{rate}-{threads}-{}", strategy.name().to_lowercase())
}

/// Returns the online rate in per cent.
fn rate_name(machines: u32) -> &'static str {
    RATE_NAMES[RATES.iter().position(|one| *one == machines).expect("it is one of the rates")]
}

/// Returns the paper's slowdown of CG with 16 threads, at an online rate in per cent.
pub(super) fn cell(claims: &[Claim], rate: &str, strategy: Strategy) -> Option<f64> {
    number(claims, &name_of(rate, CPUS, strategy))
}

/// Returns the percentage of the three pairs of times that are in ascending order.
fn order(times: [f64; 3]) -> f64 {
    percent([(0, 1), (0, 2), (1, 2)], |(first, second)| times[first] < times[second])
}

/// Computes the measures.
pub(super) fn measures(paper: &Robinhood) -> Vec<Measure> {
    let found = &paper.found;
    let cell = |machines, threads, strategy| Point { threads, ..alone(Benchmark::Cg, machines, strategy) };
    let slowdown = |machines, threads, strategy| found.slowdown(cell(machines, threads, strategy));
    let rows: Vec<(u32, u32)> =
        RATES.iter().flat_map(|machines| THREADS.iter().map(move |threads| (*machines, *threads))).collect();
    let cells = rows.iter().flat_map(|(machines, threads)| STRATEGIES.map(|one| (*machines, *threads, one)));
    let measure = |(machines, threads, one)| {
        Measure::new(name_of(rate_name(machines), threads, one), slowdown(machines, threads, one))
    };
    let mut measures: Vec<Measure> = cells.map(measure).collect();
    // The order of the paper's rows, with the fastest strategy first.
    use Strategy::{Baseline as A, Bws as B, Robinhood as R};
    let orders = [
        ((1, 32), [A, B, R]),
        ((1, 64), [B, R, A]),
        ((2, 32), [R, B, A]),
        ((2, 64), [R, B, A]),
        ((4, 32), [A, R, B]),
        ((4, 64), [R, B, A]),
        ((8, 32), [R, A, B]),
        ((8, 64), [R, B, A]),
    ];
    for ((machines, threads), strategies) in orders {
        let name = format!("t2-order-{}-{threads}", rate_name(machines));
        measures.push(Measure::new(name, order(strategies.map(|one| slowdown(machines, threads, one)))));
    }
    let is_best = |(machines, threads): &(u32, u32)| {
        let [a, b, r] = STRATEGIES.map(|one| slowdown(*machines, *threads, one));
        r < a && r < b
    };
    let slower = |(machines, threads), [one, other]: [Strategy; 2]| {
        slowdown(machines, threads, one) > slowdown(machines, threads, other)
    };
    let robinhood_loses = [((1, 32), [R, A]), ((1, 64), [R, B]), ((4, 32), [R, A])];
    let bws_loses = [((4, 32), [B, A]), ((8, 32), [B, A])];
    let more_threads = rows.iter().filter(|(_, threads)| *threads > CPUS);
    let cells = more_threads.flat_map(|row| STRATEGIES.map(|one| (*row, one)));
    measures.push(Measure::new("t2-best", percent(&rows, is_best)));
    measures.push(Measure::new("t2-robinhood-loses", percent(robinhood_loses, |(row, pair)| slower(row, pair))));
    measures.push(Measure::new("t2-bws-loses", percent(bws_loses, |(row, pair)| slower(row, pair))));
    let is_slower = |((machines, threads), one)| slowdown(machines, CPUS, one) < slowdown(machines, threads, one);
    measures.push(Measure::new("t2-16-threads-fastest", percent(cells, is_slower)));
    measures
}

/// Draws the slowdowns of CG with 16 threads, here and in the paper.
pub(super) fn figures(paper: &Robinhood, claims: &[Claim]) -> Vec<Named> {
    let slowdown = |machines, strategy| paper.found.slowdown(alone(Benchmark::Cg, machines, strategy));
    let title = "Robinhood table 2: CG with 16 threads";
    let mut figure = by_rate(title, "time / time alone", &STRATEGIES, &slowdown);
    figure.y = Axis::log("time / time alone");
    add_paper(&mut figure, |of| {
        let point = |(rate, x): (&&str, i32)| Some((f64::from(x), cell(claims, rate, of)?));
        RATE_NAMES.iter().zip(1..).filter_map(point).collect()
    });
    vec![("table-2", figure)]
}
