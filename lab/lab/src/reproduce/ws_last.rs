//! `comity-lab reproduce ws-last`.

mod real;

use std::fmt::Write;
use std::mem;

use clap::{Args, ValueEnum};
use comity_console::Failure;
use comity_papers::claims::Claim;
use comity_papers::measure::Measure;
use comity_papers::ws_last::{
    CPUS, Outcome, PAPER, Point, Setting, T, Variant, divisions, messages, sawtooth, workers,
};
use serde::Serialize;

use super::findings::{Findings, here};
use super::options::{self, Options, one_in};
use super::settings::{choose, settings};
use crate::backend::MAX_WORKERS;
use crate::figure::{Axis, Figure, Marks, Series};
use crate::sweep::Sweep;

const EXAMPLES: &str = "Examples:
  comity-lab reproduce ws-last --check
  comity-lab reproduce ws-last exp1 exp4 --out results
  comity-lab reproduce ws-last --real
  comity-lab reproduce ws-last --vary yield=2500 --vary handover=0

Vrba, Halvorsen and Griwodz, A Simple Improvement of the Work-stealing
Scheduling Algorithm, CISIS 2010. docs/papers/ws-last.md says what the paper
leaves unsaid, what was chosen, and where numbers differ.";

/// WS-LAST: the four experiments of §4, scatter-gather under WS-CUR and WS-LAST
///
/// The machine is simulated: 8 CPUs, run queues with locks, tasks that block on channels. Its thieves, and where an
/// unblocked task goes, are the code that runs on threads. With --out, each figure is drawn as an SVG file, and the
/// numbers are in result.json.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,
    /// Run on this machine's threads, as many as it has cores, instead of the simulated machine. The paper's
    /// numbers are those of 8 CPUs, so there is nothing to check; the points with 10 ms per message are left out
    #[arg(long, conflicts_with_all = ["check", "full", "vary", "seed", "shard"])]
    real: bool,
    /// Choose otherwise what the paper leaves unsaid, in nanoseconds; can be repeated. Of a run queue's lock: queue
    /// (it is held), handover (it passes on), removal (it is held so much longer if a task is taken). Others: steal
    /// (the rest of an attempt), yield, switch (from one task to another), message (sending or receiving)
    #[arg(long, value_name = "KEY=NS")]
    vary: Vec<String>,
    /// Do one round of so many only, for a quick look, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_in, conflicts_with = "full")]
    one_in: u32,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Speedup over the division of work, from 50 to 1000 workers (figure 3)
    Exp1,
    /// Speedup and attempts to steal over the number of workers (figure 4)
    Exp2,
    /// Running time and speedup over the work per message (figure 5)
    Exp3,
    /// Speedup with 16 to 48 workers under WS-LAST (figure 6)
    Exp4,
}

impl Experiment {
    fn points(self) -> Vec<Point> {
        match self {
            Experiment::Exp1 => divisions::points(),
            Experiment::Exp2 => workers::points(),
            Experiment::Exp3 => messages::points(),
            Experiment::Exp4 => sawtooth::points(),
        }
    }

    fn measures(self, outcomes: &[Outcome]) -> Vec<Measure> {
        match self {
            Experiment::Exp1 => divisions::measures(outcomes),
            Experiment::Exp2 => workers::measures(outcomes),
            Experiment::Exp3 => messages::measures(outcomes),
            Experiment::Exp4 => sawtooth::measures(outcomes),
        }
    }

    /// With the paper's points, of those `claims`.
    fn figures(self, outcomes: &[Outcome], claims: &[Claim], cpus: u32) -> Figures {
        match self {
            Experiment::Exp1 => figure_3(outcomes, claims, cpus),
            Experiment::Exp2 => figure_4(outcomes, claims),
            Experiment::Exp3 => figure_5(outcomes),
            Experiment::Exp4 => figure_6(outcomes),
        }
    }
}

/// The points of the experiments that were run.
#[derive(Serialize)]
struct Extra {
    points: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    experiment: String,
    #[serde(flatten)]
    outcome: Outcome,
    speedup: f64,
    steal_rate: f64,
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { experiments, real, vary, one_in, mut options } = arguments;
    let (claims, asked) = options.claims(&PAPER, &experiments)?;
    let seed = options.seed;
    let mut chosen = Setting { one_in, ..Setting::new(seed) };
    let cores = u16::try_from(comity_os::cores::usable().get()).unwrap_or(MAX_WORKERS).min(MAX_WORKERS);
    let mut name = if real { format!("ws-last on {cores} threads") } else { format!("ws-last, seed {seed}") };
    choose(&vary, &mut name, |varied| chosen.vary(varied))?;
    if one_in > 1 {
        let _ = write!(name, ", one round in {one_in}");
    }
    let sweep = Sweep::new(mem::take(&mut options.sweep), name.clone())?;
    let mut findings = Findings::default();
    let mut points = Vec::new();
    let mut table = String::new();
    for swept in settings(&claims, options.full, &sweep, &chosen, Setting::vary)? {
        let mut measured = Vec::new();
        for experiment in Experiment::value_variants().iter().copied() {
            if !asked.has(&experiment) || !swept.moves(&experiment) {
                continue;
            }
            let named = options::name(&experiment);
            let outcomes = if real {
                let points: Vec<Point> = experiment.points().into_iter().filter(real::is_measured).collect();
                let outcomes = real::measure(&points, cores, one_in)?;
                table += &real::table(&named, &outcomes);
                outcomes
            } else {
                let points = experiment.points();
                let Some(outcomes) = here(swept.setting.simulate(&named, &points, &swept))? else {
                    continue;
                };
                // The paper's numbers are those of 8 CPUs.
                measured.extend(experiment.measures(&outcomes));
                outcomes
            };
            if !swept.is_chosen() {
                continue;
            }
            let (of_paper, cpus) = if real { (&[][..], cores.into()) } else { (&claims.claims[..], CPUS) };
            findings.figures.extend(experiment.figures(&outcomes, of_paper, cpus));
            let row = |outcome: Outcome| Row {
                experiment: named.clone(),
                outcome,
                speedup: outcome.speedup(),
                steal_rate: outcome.steal_rate(),
            };
            points.extend(outcomes.into_iter().map(row));
        }
        findings.measured.push((swept.name.clone(), measured));
    }
    findings.present((&PAPER, &claims), name, &sweep, &options, &table, Extra { points })
}

/// A line for each algorithm and each of these numbers of workers, or for all together.
fn lines(
    outcomes: &[Outcome],
    workers: &[u32],
    x: impl Fn(&Outcome) -> f64,
    y: impl Fn(&Outcome) -> f64,
) -> Vec<Series> {
    let mut series = Vec::new();
    for variant in Variant::ALL {
        let all = if workers.is_empty() { vec![None] } else { workers.iter().copied().map(Some).collect() };
        for n in all {
            let is_one =
                |outcome: &&Outcome| outcome.point.variant == variant && n.is_none_or(|n| outcome.point.workers == n);
            let points: Vec<(f64, f64)> =
                outcomes.iter().filter(is_one).map(|outcome| (x(outcome), y(outcome))).collect();
            let name = n.map_or(variant.name().to_owned(), |n| format!("{}, {n} workers", variant.name()));
            if !points.is_empty() {
                series.push(Series::new(name, Marks::Line, points));
            }
        }
    }
    series
}

fn division(outcome: &Outcome) -> f64 {
    T as f64 / outcome.point.work as f64
}

fn workers_of(outcome: &Outcome) -> f64 {
    f64::from(outcome.point.workers)
}

fn microseconds(outcome: &Outcome) -> f64 {
    outcome.point.work as f64 / 1e3
}

fn figure(title: &str, x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    Figure { title: format!("WS-LAST {title}"), x, y, series }
}

type Figures = Vec<(&'static str, Figure)>;

/// The paper's points beside our series of these names: of each, the claim with its number, where it lies, and in
/// how many units.
fn beside(series: &mut Vec<Series>, claims: &[Claim], points: &[(&str, &[(&str, f64)])], unit: f64, caveat: &str) {
    let number = |id: &str| claims.iter().find(|claim| claim.id == id)?.number;
    for (name, own) in points {
        let of = series.iter().position(|series| series.name == *name);
        let points: Vec<(f64, f64)> = own.iter().filter_map(|(id, x)| Some((*x, number(id)? * unit))).collect();
        if let Some(of) = of.filter(|_| !points.is_empty()) {
            series.push(Series::of_paper(format!("{name}: the paper's{caveat}"), of, points));
        }
    }
}

fn figure_3(outcomes: &[Outcome], claims: &[Claim], cpus: u32) -> Figures {
    // The divisions are 1000, 2000, 5000, 10000 and so on.
    let x = || Axis::log("work division, d");
    let series = |y: fn(&Outcome) -> f64| lines(outcomes, &[50, 250], division, y);
    let mut speedups = series(Outcome::speedup);
    let cur = [("cur-1000", 1e3), ("cur-100", 1e4)];
    let last = [("last-1000", 1e3), ("last-100", 1e4)];
    let points: [(&str, &[(&str, f64)]); 2] = [("WS-CUR, 50 workers", &cur), ("WS-LAST, 50 workers", &last)];
    beside(&mut speedups, claims, &points, 1.0, "");
    let mut steals = series(Outcome::steal_rate);
    let cur = [("cur-rate", 1e4)];
    let last = [("last-rate", 1e4)];
    let points: [(&str, &[(&str, f64)]); 2] = [("WS-CUR, 50 workers", &cur), ("WS-LAST, 50 workers", &last)];
    beside(&mut steals, claims, &points, 1e5, ", which does not say n");
    let rates = Axis::linear("attempts to steal per second");
    vec![
        (
            "figure-3",
            figure(&format!("figure 3: speedup of {cpus} over 1 CPUs"), x(), Axis::linear("speedup"), speedups),
        ),
        ("figure-3-steals", figure("experiment 1: attempts to steal", x(), rates, steals)),
    ]
}

fn figure_4(outcomes: &[Outcome], claims: &[Claim]) -> Figures {
    let x = || Axis::linear("workers, n");
    let series = |y: fn(&Outcome) -> f64| lines(outcomes, &[], workers_of, y);
    let mut speedups = series(Outcome::speedup);
    let cur = [("cur-256", 256.0)];
    let last = [("last-256", 256.0)];
    beside(&mut speedups, claims, &[("WS-CUR", &cur), ("WS-LAST", &last)], 1.0, "");
    let rates = Axis::linear("attempts to steal per second");
    vec![
        ("figure-4-speedup", figure("figure 4: speedup", x(), Axis::linear("speedup"), speedups)),
        ("figure-4-steals", figure("figure 4: attempts to steal", x(), rates, series(Outcome::steal_rate))),
    ]
}

fn figure_5(outcomes: &[Outcome]) -> Figures {
    let x = || Axis::log("work per message, µs");
    let of_few: Vec<Outcome> = outcomes.iter().filter(|outcome| outcome.point.workers == 16).copied().collect();
    let time = |outcome: &Outcome| (outcome.round() * f64::from(messages::ROUNDS) / 1e9).log2();
    let times = Axis::linear("log₂ of the running time of 12500 rounds, s");
    let rates = Axis::linear("attempts to steal per second");
    vec![
        (
            "figure-5-time",
            figure("figure 5: running time", x(), times, lines(outcomes, &messages::WORKERS, microseconds, time)),
        ),
        (
            "figure-5-speedup",
            figure(
                "figure 5: speedup",
                x(),
                Axis::linear("speedup"),
                lines(outcomes, &messages::WORKERS, microseconds, Outcome::speedup),
            ),
        ),
        (
            "figure-5-steals",
            figure(
                "figure 5: attempts to steal, 16 workers",
                x(),
                rates,
                lines(&of_few, &[], microseconds, Outcome::steal_rate),
            ),
        ),
    ]
}

fn figure_6(outcomes: &[Outcome]) -> Figures {
    let series = lines(outcomes, &[], workers_of, Outcome::speedup);
    let title = "figure 6: speedup under WS-LAST, w = 800 µs";
    let figure = figure(title, Axis::linear("workers, n"), Axis::linear("speedup"), series);
    vec![("figure-6", figure)]
}
