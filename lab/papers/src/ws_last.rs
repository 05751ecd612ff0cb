//! The four experiments of WS-LAST (§4): scatter-gather under two rules for the worker that gets an unblocked task.
//!
//! Vrba, Halvorsen and Griwodz, *A Simple Improvement of the Work-stealing Scheduling Algorithm*, CISIS 2010. An
//! experiment is a list of [`Point`]s and a function of the [`Outcome`]s, which may be simulated or measured.

pub mod divisions;
mod drawing;
pub mod messages;
pub mod others;
pub mod sawtooth;
mod setting;
pub mod workers;

use std::fmt::Write;
use std::marker::PhantomData;

use clap::Args;
use comfy_table::{Table, presets};
use comity_console::Failure;
use serde::Serialize;

pub use setting::{CPUS, Measured, Outcome, Point, Setting, Shape, T, Variant};

use crate::claims::Claim;
use crate::figure::Named;
use crate::measure::Measure;
use crate::paper::{Experiment, Kept, Paper, Text};
use crate::{Runner, Stop};

/// The threads of this machine, as an alternative to the simulated machine.
pub trait Threads: 'static {
    /// Returns the number of threads.
    fn count() -> u16;

    /// Runs each point on all threads, and on one thread. Only one of every `one_in` rounds is done.
    ///
    /// # Errors
    /// If a run fails.
    fn measure(points: &[Point], one_in: u32) -> Result<Vec<Outcome>, Failure>;
}

/// An implementation without threads, for programs that only simulate.
pub struct NoThreads;

impl Threads for NoThreads {
    fn count() -> u16 {
        0
    }

    fn measure(_: &[Point], _: u32) -> Result<Vec<Outcome>, Failure> {
        Err(Failure::Usage("there are no threads here".to_owned()))
    }
}

/// The maximum work of a message on threads, in ns. Points with more work take minutes and do not depend on
/// scheduling.
const MOST: u64 = T / 1_000;

/// The outcomes of WS-LAST's experiments with one setting.
pub struct WsLast<T> {
    setting: Setting,
    /// The outcomes of each experiment that was run.
    outcomes: Kept<&'static str, Vec<Outcome>>,
    threads: PhantomData<T>,
}

/// The machine of the experiments.
#[derive(Args)]
#[group(skip)]
pub struct Options {
    /// Run on this machine's threads, one per core, instead of the simulated machine. The paper's numbers are for 8
    /// CPUs, so nothing is checked. The points with 10 ms per message are left out
    #[arg(long, conflicts_with_all = ["check", "full", "vary", "seed", "shard"])]
    real: bool,
}

impl<T: Threads> Paper for WsLast<T> {
    const TEXT: Text = Text {
        name: "ws-last",
        title: "WS-LAST: the four experiments of §4, scatter-gather under WS-CUR and WS-LAST",
        about: "The simulated machine has 8 CPUs, run queues with locks, and tasks that block on channels. Its thieves \
            and the placement of unblocked tasks use the same code as the runtime. --out writes each figure as \
            an SVG file, and the numbers to result.json.",
        examples: "Examples:
  comity-lab reproduce ws-last --check
  comity-lab reproduce ws-last exp1 exp4 --out results
  comity-lab reproduce ws-last --real
  comity-lab reproduce ws-last --vary yield=2500 --vary handover=0

Vrba, Halvorsen and Griwodz, A Simple Improvement of the Work-stealing
Scheduling Algorithm, CISIS 2010. docs/papers/ws-last.md lists the parameters
that the paper omits, the chosen values and the numbers that differ.",
        default: "all",
        vary: (
            "KEY=NS",
            "Change a parameter that the paper omits, in nanoseconds; can be repeated. Lock of a run queue: queue \
             (hold time), handover (time to pass it on), removal (additional hold time if a task is taken). Others: \
             steal (the rest of an attempt), yield, switch (from one task to another), message (sending or receiving)",
        ),
        one_in: Some("round"),
        file: "lab/papers/src/ws_last/claims.toml",
        claims: include_str!("ws_last/claims.toml"),
    };

    type Options = Options;
    type Setting = Setting;
    /// An experiment's name, and its points.
    type Part = (&'static str, Vec<Point>);
    type Extra = Extra;

    fn setting(options: &Options, seed: u64, one_in: u32) -> Result<(Setting, String), Failure> {
        let Options { real } = *options;
        let name = if real { format!("ws-last on {} threads", T::count()) } else { format!("ws-last, seed {seed}") };
        Ok((Setting { one_in, real, ..Setting::new(seed) }, name))
    }

    fn with(setting: &Setting) -> WsLast<T> {
        WsLast { setting: setting.clone(), outcomes: Kept::new(), threads: PhantomData }
    }

    fn experiments() -> Vec<Experiment<WsLast<T>>> {
        vec![
            Experiment::new(
                "exp1",
                "Speedup over the division of work, from 50 to 1000 workers (figure 3)",
                [("exp1", divisions::points())],
                |paper| paper.measure("exp1", divisions::measures),
                |paper, claims| paper.draw("exp1", claims, divisions::figures),
            ),
            Experiment::new(
                "exp2",
                "Speedup and attempts to steal over the number of workers (figure 4)",
                [("exp2", workers::points())],
                |paper| paper.measure("exp2", workers::measures),
                |paper, claims| paper.draw("exp2", claims, workers::figures),
            ),
            Experiment::new(
                "exp3",
                "Running time and speedup over the work per message (figure 5)",
                [("exp3", messages::points())],
                |paper| paper.measure("exp3", messages::measures),
                |paper, claims| paper.draw("exp3", claims, messages::figures),
            ),
            Experiment::new(
                "exp4",
                "Speedup with 16 to 48 workers under WS-LAST (figure 6)",
                [("exp4", sawtooth::points())],
                |paper| paper.measure("exp4", sawtooth::measures),
                |paper, claims| paper.draw("exp4", claims, sawtooth::figures),
            ),
            Experiment::undrawn(
                "others",
                "Time of a ring and of requests and replies, without a barrier",
                [("others", others::points())],
                |paper| paper.measure("others", others::measures),
            ),
        ]
    }

    fn run<R: Runner<Stop = Stop>>(&mut self, (name, points): &Self::Part, runner: &R) -> Result<(), Stop> {
        let setting = &self.setting;
        let outcomes = if setting.real {
            let few: Vec<Point> = points
                .iter()
                .filter(|point| point.work <= MOST && point.shape == Shape::ScatterGather)
                .copied()
                .collect();
            T::measure(&few, setting.one_in)?
        } else {
            setting.simulate(name, points, runner)?
        };
        self.outcomes.keep(name, outcomes);
        Ok(())
    }

    fn extra(self) -> Extra {
        let row = |experiment: &'static str, outcome: Outcome| Row {
            experiment,
            outcome,
            speedup: outcome.speedup(),
            steal_rate: outcome.steal_rate(),
        };
        let each = self.outcomes.0.into_iter();
        let points = each.flat_map(|(name, outcomes)| outcomes.into_iter().map(move |outcome| row(name, outcome)));
        Extra { points: points.collect(), real: self.setting.real }
    }

    /// Formats the points that were run on threads, as a table for each experiment.
    fn table(extra: &Extra) -> String {
        let mut text = String::new();
        for rows in extra.points.chunk_by(|one, other| one.experiment == other.experiment).filter(|_| extra.real) {
            let mut table = Table::new();
            let header = ["n", "w µs", "algorithm", "speedup", "attempts per s"];
            table.load_style(presets::ASCII_MARKDOWN).set_header(header);
            for Row { outcome, speedup, steal_rate, .. } in rows {
                table.add_row([
                    outcome.point.workers.to_string(),
                    (outcome.point.work / 1_000).to_string(),
                    outcome.point.variant.name().to_owned(),
                    format!("{speedup:.2}"),
                    format!("{steal_rate:.0}"),
                ]);
            }
            let _ = writeln!(text, "{}\n{table}", rows[0].experiment);
        }
        text
    }
}

impl<T: Threads> WsLast<T> {
    /// Computes the measures of an experiment. Returns no measures if the points were run on threads, because the
    /// paper's numbers are for 8 CPUs.
    fn measure(&self, experiment: &'static str, measures: fn(&[Outcome]) -> Vec<Measure>) -> Vec<Measure> {
        if self.setting.real { Vec::new() } else { measures(self.outcomes.of(experiment)) }
    }

    /// Draws the points of an experiment. The paper's numbers are left out if the points were run on threads.
    fn draw(
        &self,
        experiment: &'static str,
        claims: &[Claim],
        figures: fn(&[Outcome], &[Claim], u32) -> Vec<Named>,
    ) -> Vec<Named> {
        let (claims, cpus) = if self.setting.real { (&[][..], T::count().into()) } else { (claims, CPUS) };
        figures(self.outcomes.of(experiment), claims, cpus)
    }
}

/// The outcomes of the experiments that were run.
#[derive(Serialize)]
pub struct Extra {
    points: Vec<Row>,
    #[serde(skip)]
    real: bool,
}

#[derive(Serialize)]
struct Row {
    experiment: &'static str,
    #[serde(flatten)]
    outcome: Outcome,
    speedup: f64,
    steal_rate: f64,
}
