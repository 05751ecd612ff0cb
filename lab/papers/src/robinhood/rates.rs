//! One program in VM0, at several online rates of its virtual CPUs (§6.3, §6.7): what table 2 and figures 7, 8, 13 and
//! 14 run and draw.

use serde::{Deserialize, Serialize};

use super::{Benchmark, CPUS, Programs, RATE_NAMES, RATES, Strategy};
use crate::Runner;
use crate::corun::Ran;
use crate::figure::{Axis, Figure, Marks, Series};

/// The strategies of table 2 and figures 7 and 8.
pub const STRATEGIES: [Strategy; 3] = [Strategy::Baseline, Strategy::Bws, Strategy::Robinhood];

/// The strategies of figure 14.
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

/// By how many per cent the first is less than the second.
pub(super) fn saved(first: f64, second: f64) -> f64 {
    100.0 * (1.0 - first / second)
}

/// Adds the paper's points of each of the three strategies, as far as there are any.
pub(super) fn add_paper(figure: &mut Figure, points: impl Fn(Strategy) -> Vec<(f64, f64)>) {
    for (of, strategy) in STRATEGIES.into_iter().enumerate() {
        let series = Series::of_paper(format!("{}: the paper's", figure.series[of].name), of, points(strategy));
        figure.series.push(series);
    }
}

/// A number of each strategy over the online rate.
pub(super) fn by_rate(title: &str, y: &str, strategies: &[Strategy], value: &dyn Fn(u32, Strategy) -> f64) -> Figure {
    let series = |strategy: &Strategy| {
        let points = RATES.iter().zip(1..).map(|(machines, x)| (f64::from(x), value(*machines, *strategy)));
        Series::new(strategy.name(), Marks::Line, points.filter(|(_, y)| y.is_finite()).collect())
    };
    Figure {
        title: title.into(),
        x: Axis::named("online rate, %", RATE_NAMES),
        y: Axis::linear(y),
        series: strategies.iter().map(series).collect(),
    }
}

/// A number of each strategy and program.
pub(super) fn by_program(
    title: &str,
    y: &str,
    strategies: &[Strategy],
    value: &dyn Fn(Benchmark, Strategy) -> f64,
) -> Figure {
    let series = |strategy: &Strategy| {
        Series::in_order(strategy.name(), Marks::Points, Benchmark::STEALING.map(|one| value(one, *strategy)))
    };
    Figure {
        title: title.into(),
        x: Axis::named("program", Benchmark::STEALING.map(Benchmark::name)),
        y: Axis::log(y),
        series: strategies.iter().map(series).collect(),
    }
}
