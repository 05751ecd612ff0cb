//! One program in VM0, at several online rates (§6.3, §6.7): the runs of table 2 and of figures 7, 8, 13 and 14. An
//! online rate is the fraction of time in which a virtual CPU has a physical CPU.

use serde::{Deserialize, Serialize};

use super::{Benchmark, CPUS, Programs, RATE_NAMES, RATES, Strategy};
use crate::Runner;
use crate::corun::Ran;
use crate::figure::{Axis, Figure, Marks, Series};

/// The strategies of table 2 and figures 7 and 8.
pub const STRATEGIES: [Strategy; 3] = [Strategy::Baseline, Strategy::Bws, Strategy::Robinhood];

/// The strategies of figure 14.
pub const WITH_LOOPS: [Strategy; 4] = [Strategy::Baseline, Strategy::Bws, Strategy::RobinhoodS, Strategy::Robinhood];

/// The numbers of CG's threads in table 2.
pub const THREADS: [u32; 3] = [16, 32, 64];

/// The numbers of LOOP programs in VM0 in figure 14. Each LOOP has 16 threads.
pub const LOOPS: [u32; 3] = [1, 2, 4];

/// The programs that have only fair scalability (§6.3).
pub const FAIR: [Benchmark; 3] = [Benchmark::Cg, Benchmark::Clip, Benchmark::Mi];

/// The programs that scale well.
pub const GOOD: [Benchmark; 3] = [Benchmark::Ep, Benchmark::Mm, Benchmark::Rt];

/// The parameters of a run of one program in VM0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// The program.
    pub benchmark: Benchmark,
    /// The number of the program's threads.
    pub threads: u32,
    /// The number n of equal machines that would share the physical CPUs. The online rate of the program's machine is
    /// 1/n.
    pub machines: u32,
    /// The number of LOOP programs in the same machine.
    pub loops: u32,
    /// The strategy of the run.
    pub strategy: Strategy,
}

/// A part of the runs, which experiments share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// CG with 16, 32 and 64 threads.
    Table2,
    /// The other programs with 16 threads.
    Programs,
    /// All programs under Robinhood_u, across NUMA nodes.
    Across,
    /// All programs together with LOOP programs.
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

/// The outcomes of runs.
#[derive(Clone, Default)]
pub struct Outcomes(pub Vec<(Point, Ran)>);

impl Outcomes {
    fn ran(&self, point: Point) -> &Ran {
        &self.0.iter().find(|(known, _)| *known == point).expect("the point was run").1
    }

    /// Returns the mean time of an execution, in nanoseconds.
    pub fn time(&self, point: Point) -> f64 {
        self.ran(point).mean()
    }

    /// Returns the slowdown T / T_b (equation 1), where T_b is the program's time alone at an online rate of 100 %.
    pub fn slowdown(&self, point: Point) -> f64 {
        let base = Point { threads: CPUS, machines: 1, loops: 0, strategy: Strategy::Baseline, ..point };
        self.time(point) / self.time(base)
    }

    /// Returns the percentage of their time on physical CPUs that a program's threads spend on useful work.
    pub fn useful(&self, point: Point) -> f64 {
        let Ran { worked, searched, .. } = *self.ran(point);
        100.0 * worked as f64 / (worked + searched) as f64
    }
}

/// Returns the point of a program with 16 threads and no loops.
pub fn alone(benchmark: Benchmark, machines: u32, strategy: Strategy) -> Point {
    Point { benchmark, threads: CPUS, machines, loops: 0, strategy }
}

/// Returns the percentage by which the first number is less than the second.
pub(super) fn saved(first: f64, second: f64) -> f64 {
    100.0 * (1.0 - first / second)
}

/// Adds the paper's points of each of [`STRATEGIES`] to the figure.
pub(super) fn add_paper(figure: &mut Figure, points: impl Fn(Strategy) -> Vec<(f64, f64)>) {
    for (of, strategy) in STRATEGIES.into_iter().enumerate() {
        let series = Series::of_paper(format!("{}: the paper's", figure.series[of].name), of, points(strategy));
        figure.series.push(series);
    }
}

/// Draws a value for each strategy over the online rate.
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

/// Draws a value for each strategy and program.
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
