//! One program in VM0, at several online rates of its virtual CPUs (§6.3, §6.7): table 2 and figures 7, 8, 13 and 14.

use serde::{Deserialize, Serialize};

use super::{Benchmark, CPUS, Programs, RATES, Strategy};
use crate::Runner;
use crate::corun::Ran;
use crate::measure::{Measure, average, part};

/// What is measured of table 2,
pub const TABLE_2: &[&str] = &[
    "t2-100-16-baseline",
    "t2-100-16-bws",
    "t2-100-16-robinhood",
    "t2-100-32-baseline",
    "t2-100-32-bws",
    "t2-100-32-robinhood",
    "t2-100-64-baseline",
    "t2-100-64-bws",
    "t2-100-64-robinhood",
    "t2-50-16-baseline",
    "t2-50-16-bws",
    "t2-50-16-robinhood",
    "t2-50-32-baseline",
    "t2-50-32-bws",
    "t2-50-32-robinhood",
    "t2-50-64-baseline",
    "t2-50-64-bws",
    "t2-50-64-robinhood",
    "t2-25-16-baseline",
    "t2-25-16-bws",
    "t2-25-16-robinhood",
    "t2-25-32-baseline",
    "t2-25-32-bws",
    "t2-25-32-robinhood",
    "t2-25-64-baseline",
    "t2-25-64-bws",
    "t2-25-64-robinhood",
    "t2-12.5-16-baseline",
    "t2-12.5-16-bws",
    "t2-12.5-16-robinhood",
    "t2-12.5-32-baseline",
    "t2-12.5-32-bws",
    "t2-12.5-32-robinhood",
    "t2-12.5-64-baseline",
    "t2-12.5-64-bws",
    "t2-12.5-64-robinhood",
    "t2-order-100-32",
    "t2-order-100-64",
    "t2-order-50-32",
    "t2-order-50-64",
    "t2-order-25-32",
    "t2-order-25-64",
    "t2-order-12.5-32",
    "t2-order-12.5-64",
    "t2-best",
    "t2-robinhood-loses",
    "t2-bws-loses",
    "t2-16-threads-fastest",
];

/// of figure 7,
pub const FIGURE_7: &[&str] = &[
    "fig7-saves-baseline",
    "fig7-saves-bws",
    "fig7-100-alike",
    "fig7-100-clip-differs",
    "fig7-100-mi-differs",
    "fig7-cg-robinhood-below-bws",
    "fig7-cg-robinhood-below-baseline",
    "fig7-cg-bws-below-baseline",
    "fig7-clip-robinhood-below-bws",
    "fig7-clip-robinhood-below-baseline",
    "fig7-clip-bws-below-baseline",
    "fig7-mi-robinhood-below-bws",
    "fig7-mi-robinhood-below-baseline",
    "fig7-mi-bws-below-baseline",
    "fig7-clip-suffers",
    "fig7-mi-suffers",
    "fig7-ep-like-baseline",
    "fig7-ep-like-bws",
    "fig7-mm-like-baseline",
    "fig7-mm-like-bws",
    "fig7-rt-like-baseline",
    "fig7-rt-like-bws",
    "fig7-alike-most",
];

/// of figure 8,
pub const FIGURE_8: &[&str] = &["fig8-highest", "fig8-over-baseline", "fig8-over-bws", "fig8-others", "fig8-scalable"];

/// of figure 13,
pub const FIGURE_13: &[&str] = &["fig13-u-worse", "fig13-u-much", "fig13-u-no-gain", "fig13-others"];

/// and of figure 14.
pub const FIGURE_14: &[&str] =
    &["fig14-best-1", "fig14-best-2", "fig14-best-4", "fig14-saves-baseline", "fig14-saves-bws", "fig14-saves-s"];

/// The strategies of table 2 and figures 7 and 8,
pub const STRATEGIES: [Strategy; 3] = [Strategy::Baseline, Strategy::Bws, Strategy::Robinhood];

/// and of figure 14.
pub const WITH_LOOPS: [Strategy; 4] = [Strategy::Baseline, Strategy::Bws, Strategy::RobinhoodS, Strategy::Robinhood];

/// Threads of CG in table 2.
pub const THREADS: [u32; 3] = [16, 32, 64];

/// Loops in VM0 in figure 14, each of 16 threads.
pub const LOOPS: [u32; 3] = [1, 2, 4];

/// Those that have only fair scalability (§6.3).
pub const FAIR: [Benchmark; 3] = [Benchmark::Cg, Benchmark::Clip, Benchmark::Mi];

/// Those that scale well.
pub const GOOD: [Benchmark; 3] = [Benchmark::Ep, Benchmark::Mm, Benchmark::Rt];

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The program.
    pub benchmark: Benchmark,
    /// How many threads it has.
    pub threads: u32,
    /// Of as many machines it has an even part of the physical CPUs.
    pub machines: u32,
    /// Loops in the same machine.
    pub loops: u32,
    /// The strategy that it runs under.
    pub strategy: Strategy,
}

/// A part of the runs, which experiments share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// CG with 16, 32 and 64 threads.
    Table2,
    /// The other programs with 16 threads.
    Programs,
    /// All of them across nodes.
    Across,
    /// All programs beside loops.
    Loops,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Table2 => "table-2",
            Part::Programs => "programs",
            Part::Across => "across-nodes",
            Part::Loops => "loops",
        }
    }

    fn points(self) -> Vec<Point> {
        let mut points = Vec::new();
        let mut add = |benchmark, threads, machines, loops, strategies: &[Strategy]| {
            let point = |strategy| Point { benchmark, threads, machines, loops, strategy };
            points.extend(strategies.iter().copied().map(point));
        };
        match self {
            Part::Table2 => RATES.iter().for_each(|machines| {
                THREADS.iter().for_each(|threads| add(Benchmark::Cg, *threads, *machines, 0, &STRATEGIES));
            }),
            Part::Programs => RATES.iter().for_each(|machines| {
                let others = Benchmark::STEALING.iter().filter(|benchmark| **benchmark != Benchmark::Cg);
                others.for_each(|benchmark| add(*benchmark, CPUS, *machines, 0, &STRATEGIES));
            }),
            Part::Across => RATES[1..].iter().for_each(|machines| {
                Benchmark::STEALING.iter().for_each(|one| add(*one, CPUS, *machines, 0, &[Strategy::RobinhoodU]));
            }),
            Part::Loops => LOOPS.iter().for_each(|loops| {
                Benchmark::STEALING.iter().for_each(|one| add(*one, CPUS, 4, *loops, &WITH_LOOPS));
            }),
        }
        points
    }
}

/// Runs a part.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(programs: &Programs, part: Part, runner: &R) -> Result<Vec<(Point, Ran)>, R::Stop> {
    let points = part.points();
    let ran = runner.run(part.name(), points.len(), |nth| programs.at_rate(&points[nth]))?;
    Ok(points.into_iter().zip(ran).collect())
}

/// What came of runs.
#[derive(Clone, Default)]
pub struct Found(pub Vec<(Point, Ran)>);

impl Found {
    fn ran(&self, point: Point) -> &Ran {
        &self.0.iter().find(|(known, _)| *known == point).expect("it was run").1
    }

    /// A whole execution in the mean, in nanoseconds.
    pub fn time(&self, point: Point) -> f64 {
        self.ran(point).mean()
    }

    /// T over T_b (equation 1).
    pub fn slowdown(&self, point: Point) -> f64 {
        let base = Point { threads: CPUS, machines: 1, loops: 0, strategy: Strategy::Baseline, ..point };
        self.time(point) / self.time(base)
    }

    /// The part of its time on a physical CPU in which a program's threads do useful work, in per cent.
    pub fn useful(&self, point: Point) -> f64 {
        let Ran { worked, searched, .. } = *self.ran(point);
        100.0 * worked as f64 / (worked + searched) as f64
    }
}

/// A program with 16 threads.
pub fn alone(benchmark: Benchmark, machines: u32, strategy: Strategy) -> Point {
    Point { benchmark, threads: CPUS, machines, loops: 0, strategy }
}

/// The part of the pairs that are in this order, the fastest first, in per cent.
fn order(times: [f64; 3]) -> f64 {
    percent([(0, 1), (0, 2), (1, 2)], |(first, second)| times[first] < times[second])
}

fn percent<T>(all: impl IntoIterator<Item = T>, is_so: impl Fn(T) -> bool) -> f64 {
    100.0 * part(all, is_so)
}

fn most(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// By how many per cent the first is less than the second.
fn saved(first: f64, second: f64) -> f64 {
    100.0 * (1.0 - first / second)
}

/// The measures of table 2.
pub fn table_2(found: &Found) -> Vec<Measure> {
    let cell = |machines, threads, strategy| Point { threads, ..alone(Benchmark::Cg, machines, strategy) };
    let slowdown = |machines, threads, strategy| found.slowdown(cell(machines, threads, strategy));
    let rows: Vec<(u32, u32)> =
        RATES.iter().flat_map(|machines| THREADS.iter().map(move |threads| (*machines, *threads))).collect();
    let cells = rows.iter().flat_map(|(machines, threads)| STRATEGIES.map(|one| slowdown(*machines, *threads, one)));
    let mut measures: Vec<Measure> = TABLE_2.iter().zip(cells).map(|(name, value)| Measure::new(name, value)).collect();
    // As the paper's rows have them, the fastest first.
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
    let names = &TABLE_2[rows.len() * STRATEGIES.len()..];
    for (name, ((machines, threads), strategies)) in names.iter().zip(orders) {
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

/// The measures of figure 7.
pub fn figure_7(found: &Found) -> Vec<Measure> {
    use Strategy::{Baseline, Bws, Robinhood};
    let time = |benchmark, machines, strategy| found.time(alone(benchmark, machines, strategy));
    let all = || Benchmark::STEALING.into_iter().flat_map(|one| RATES.map(|machines| (one, machines)));
    let saves = |other| most(all().map(|(one, at)| saved(time(one, at, Robinhood), time(one, at, other))));
    let over = |one, at, other| time(one, at, Robinhood) / time(one, at, other);
    let at_100 = |one| STRATEGIES.map(|strategy| time(one, 1, strategy));
    let alike = [Benchmark::Cg].into_iter().chain(GOOD).flat_map(|one| {
        let [base, bws, robinhood] = at_100(one);
        [bws, robinhood].map(|time| 100.0 * (time / base - 1.0).abs())
    });
    let differs = |one| {
        let times = at_100(one);
        100.0 * (most(times) / times.into_iter().fold(f64::INFINITY, f64::min) - 1.0)
    };
    let mut measures = vec![
        Measure::new("fig7-saves-baseline", saves(Baseline)),
        Measure::new("fig7-saves-bws", saves(Bws)),
        Measure::new("fig7-100-alike", most(alike)),
        Measure::new("fig7-100-clip-differs", differs(Benchmark::Clip)),
        Measure::new("fig7-100-mi-differs", differs(Benchmark::Mi)),
    ];
    let pairs = [(Robinhood, Bws), (Robinhood, Baseline), (Bws, Baseline)];
    let cases = FAIR.into_iter().flat_map(|one| pairs.map(|pair| (one, pair)));
    for (name, (one, (faster, slower))) in FIGURE_7[5..14].iter().zip(cases) {
        let is_below = |machines: &u32| time(one, *machines, faster) < time(one, *machines, slower);
        measures.push(Measure::new(name, percent(&RATES[1..], is_below)));
    }
    for (name, one) in [("fig7-clip-suffers", Benchmark::Clip), ("fig7-mi-suffers", Benchmark::Mi)] {
        let suffers = |machines: &u32| found.slowdown(alone(one, *machines, Baseline)) > f64::from(*machines);
        measures.push(Measure::new(name, percent(&RATES[1..], suffers)));
    }
    let cases = GOOD.into_iter().flat_map(|one| [Baseline, Bws].map(|other| (one, other)));
    for (name, (one, other)) in FIGURE_7[16..22].iter().zip(cases.clone()) {
        measures.push(Measure::new(name, average(RATES[1..].iter().map(|machines| over(one, *machines, other)))));
    }
    let factors = cases.flat_map(|(one, other)| RATES[1..].iter().map(move |machines| over(one, *machines, other)));
    measures.push(Measure::new("fig7-alike-most", most(factors.map(|factor| factor.max(1.0 / factor)))));
    measures
}

/// The measures of figure 8.
pub fn figure_8(found: &Found) -> Vec<Measure> {
    use Strategy::{Baseline, Bws, Robinhood};
    let useful = |benchmark, machines, strategy| found.useful(alone(benchmark, machines, strategy));
    let is_highest = |(one, machines)| {
        most(STRATEGIES.map(|strategy| useful(one, machines, strategy))) <= useful(one, machines, Robinhood) + 1.0
    };
    let cg = Benchmark::Cg;
    let over = |other| {
        average(RATES[1..].iter().map(|machines| useful(cg, *machines, Robinhood) / useful(cg, *machines, other)))
    };
    let others = Benchmark::STEALING[1..].iter().flat_map(|one| RATES.map(|machines| (*one, machines)));
    let pairs = GOOD.into_iter().flat_map(|good| FAIR.map(|fair| (good, fair)));
    vec![
        Measure::new("fig8-highest", percent(RATES.map(|machines| (cg, machines)), is_highest)),
        Measure::new("fig8-over-baseline", over(Baseline)),
        Measure::new("fig8-over-bws", over(Bws)),
        Measure::new("fig8-others", percent(others, is_highest)),
        Measure::new(
            "fig8-scalable",
            percent(pairs, |(good, fair)| useful(good, 1, Baseline) > useful(fair, 1, Baseline)),
        ),
    ]
}

/// The measures of figure 13.
pub fn figure_13(found: &Found) -> Vec<Measure> {
    use Strategy::{Bws, Robinhood, RobinhoodU};
    let time = |benchmark, machines, strategy| found.time(alone(benchmark, machines, strategy));
    let over = |one| {
        average(RATES[1..].iter().map(|machines| time(one, *machines, RobinhoodU) / time(one, *machines, Robinhood)))
    };
    let cg = Benchmark::Cg;
    let slower_than =
        |other| percent(&RATES[1..], |machines: &u32| time(cg, *machines, RobinhoodU) > time(cg, *machines, other));
    vec![
        Measure::new("fig13-u-worse", slower_than(Robinhood)),
        Measure::new("fig13-u-much", over(cg)),
        Measure::new("fig13-u-no-gain", slower_than(Bws)),
        Measure::new("fig13-others", percent(&Benchmark::STEALING[1..], |one| over(*one) > 1.0)),
    ]
}

/// The measures of figure 14.
pub fn figure_14(found: &Found) -> Vec<Measure> {
    let time = |benchmark, loops, strategy| found.time(Point { loops, ..alone(benchmark, 4, strategy) });
    let mut measures = Vec::new();
    for (name, loops) in FIGURE_14.iter().zip(LOOPS) {
        let is_best = |one: &Benchmark| {
            let others = [Strategy::Baseline, Strategy::Bws, Strategy::RobinhoodS];
            others.iter().all(|other| time(*one, loops, Strategy::Robinhood) < time(*one, loops, *other))
        };
        measures.push(Measure::new(name, percent(&Benchmark::STEALING, is_best)));
    }
    for (name, other) in FIGURE_14[3..].iter().zip([Strategy::Baseline, Strategy::Bws, Strategy::RobinhoodS]) {
        let all = Benchmark::STEALING.into_iter().flat_map(|one| LOOPS.map(|loops| (one, loops)));
        let saves = |(one, loops)| saved(time(one, loops, Strategy::Robinhood), time(one, loops, other));
        measures.push(Measure::new(name, most(all.map(saves))));
    }
    measures
}
