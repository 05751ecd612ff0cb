//! The experiments of Robinhood (§6): virtual machines of 16 virtual CPUs on 16 simulated physical CPUs, under Xen's
//! Credit scheduler.
//!
//! Peng, Wu and Jin, *Robinhood: Towards Efficient Work-stealing in Virtualized Environments*. Each program or mix is
//! run once under each strategy, and the experiments share these runs.

mod figure10;
mod figure11;
mod figure12;
mod figure13;
mod figure14;
mod figure3;
mod figure4;
mod figure7;
mod figure8;
mod figure9;
mod mixes;
pub mod rates;
mod setting;
mod table2;

use serde::Serialize;

use mixes::{CoRun, CoRuns};
use rates::{Outcomes, Part, Point};
pub use setting::{Benchmark, Setting, Strategy};
use setting::{CPUS, Programs, RATE_NAMES, RATES};

use crate::corun::{Ran, Shared};
use crate::paper::{Experiment, NoOptions, Paper, Text};
use crate::report;
use crate::{Runner, Stop};

/// The outcomes of Robinhood's experiments with one setting.
pub struct Robinhood {
    programs: Programs,
    found: Outcomes,
    mixes: CoRuns,
    /// The outcomes of CG, CLIP and MI with LOOP under each of [`mixes::STRATEGIES`], followed by their outcomes with
    /// the server.
    beside: Vec<Shared>,
    decisions: Vec<Shared>,
    /// The CPU times of the poor worker of [`figure4`].
    poor_worker: Vec<u64>,
}

/// A part of the runs, which experiments can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// A program in VM0, at several online rates. An online rate is the fraction of time in which a virtual CPU has a
    /// physical CPU.
    Rates(Part),
    /// Four machines with a program each.
    Mixes,
    /// Programs that do not steal, together with three programs that steal.
    Others,
    /// Up to eight machines, with long and with short time slices.
    Decisions,
    /// A poor worker on a machine with other programs.
    PoorWorker,
}

/// The parts that contain each program alone at an online rate of 100 %: the baseline of all slowdowns and speedups.
const ALONE: [Runs; 2] = [Runs::Rates(Part::Table2), Runs::Rates(Part::Programs)];

/// Returns the parts in [`ALONE`], followed by `runs`.
const fn alone_and(runs: Runs) -> [Runs; 3] {
    let [table2, programs] = ALONE;
    [table2, programs, runs]
}

impl Paper for Robinhood {
    const TEXT: Text = Text {
        name: "robinhood",
        title: "Robinhood: virtual machines of 16 virtual CPUs on 16 simulated CPUs, under Xen's Credit scheduler, \
                with Linux 3.9 in the guests",
        about: "The programs are recorded kernels. The thieves use the same code as the runtime. --out writes \
            each figure as an SVG file, and the numbers to result.json.",
        examples: "Examples:
  comity-lab reproduce robinhood --check
  comity-lab reproduce robinhood table2 fig7 --plot .
  comity-lab reproduce robinhood --full --out results
  comity-lab reproduce robinhood table2 --vary rate=neighbours --vary length=100

If a command with --out is interrupted, run it again to continue.

Peng, Wu and Jin, Robinhood: Towards Efficient Work-stealing in Virtualized
Environments. docs/results/robinhood.md compares the paper's numbers with ours.
lab/papers/src/robinhood/claims.toml has the kind and the tolerance of each
number, and the assumptions.",
        default: "all",
        vary: (
            "KEY=VALUE",
            "Change a parameter that the paper omits; can be repeated. Machine: rate (cap, neighbours or weight), \
             weight-of (machine or vcpu), hz. Programs: slow, cg (factors of the recorded lengths), setup \
             (thousandths), length (ms). Costs in nanoseconds: steal, yield, disturb, hypercall, vcpu-switch, refill, far, \
             dom0",
        ),
        one_in: None,
        file: "lab/papers/src/robinhood/claims.toml",
        claims: include_str!("robinhood/claims.toml"),
    };

    type Options = NoOptions;
    type Setting = Setting;
    type Part = Runs;
    type Extra = Extra;

    fn with(setting: &Setting) -> Robinhood {
        let (programs, found) = (setting.programs(), Outcomes::default());
        Robinhood {
            programs,
            found,
            mixes: Vec::new(),
            beside: Vec::new(),
            decisions: Vec::new(),
            poor_worker: Vec::new(),
        }
    }

    fn experiments() -> Vec<Experiment<Robinhood>> {
        vec![
            Experiment::undrawn("figure3", "§2.2.1, §3.1: two virtual CPUs, slice by slice", [], |_| {
                figure3::measures()
            }),
            Experiment::undrawn(
                "figure4",
                "§2.2.2, §3.1: CPU time of a poor worker in a guest with other programs",
                [Runs::PoorWorker],
                |paper| figure4::measures(&paper.poor_worker),
            ),
            Experiment::new(
                "table2",
                "CG with 16, 32 and 64 threads at four online rates",
                [Runs::Rates(Part::Table2)],
                table2::measures,
                table2::figures,
            ),
            Experiment::new(
                "fig7",
                "Slowdowns of six programs at four online rates",
                ALONE,
                figure7::measures,
                figure7::figures,
            ),
            Experiment::new(
                "fig8",
                "Part of the programs' time that is useful work",
                ALONE,
                figure8::measures,
                figure8::figures,
            ),
            Experiment::new(
                "fig9",
                "Four machines: the speedup of each program",
                alone_and(Runs::Mixes),
                figure9::measures,
                figure9::figures,
            ),
            Experiment::new(
                "fig10",
                "Four machines: their throughput",
                alone_and(Runs::Mixes),
                figure10::measures,
                figure10::figures,
            ),
            Experiment::undrawn(
                "fig11",
                "Programs without work stealing, together with three that steal",
                [Runs::Others],
                figure11::measures,
            ),
            Experiment::undrawn(
                "fig12",
                "Number of the hypervisor's decisions, and their additional cost",
                [Runs::Decisions],
                figure12::measures,
            ),
            Experiment::new(
                "fig13",
                "Robinhood_u: across NUMA nodes",
                alone_and(Runs::Rates(Part::Across)),
                figure13::measures,
                figure13::figures,
            ),
            Experiment::new(
                "fig14",
                "Robinhood_s: together with loops in the same machine",
                alone_and(Runs::Rates(Part::Loops)),
                figure14::measures,
                figure14::figures,
            ),
        ]
    }

    fn run<R: Runner<Stop = Stop>>(&mut self, part: &Runs, runner: &R) -> Result<(), Stop> {
        let programs = &self.programs;
        match *part {
            Runs::Rates(part) => self.found.0.extend(rates::run(programs, part, runner)?),
            Runs::Mixes => self.mixes = mixes::run(programs, runner)?,
            Runs::Others => self.beside = figure11::run(programs, runner)?,
            Runs::Decisions => self.decisions = figure12::run(programs, runner)?,
            Runs::PoorWorker => self.poor_worker = figure4::run(programs, runner)?,
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let note = "Programs are shortened to 80 ms alone and repeated, and only ratios are compared. The paper does \
            not list the mixes of figure 9, so all 15 mixes are run.";
        vec![note.to_owned()]
    }

    fn extra(self) -> Extra {
        let told = |(point, ran): &(Point, Ran)| Told {
            point: *point,
            seconds: ran.mean() / 1e9,
            slowdown: self.found.slowdown(*point),
            useful: self.found.useful(*point),
            accelerations: ran.accelerations,
        };
        let mixes = self.co_runs();
        let times: Vec<f64> = self.beside.iter().map(figure11::time_beside).collect();
        let count = mixes::STRATEGIES.len();
        let other = |(nth, time): (usize, &f64)| Other {
            program: figure11::OTHERS[nth / count].name(),
            strategy: mixes::STRATEGIES[nth % count],
            time: time / times[nth / count * count],
        };
        Extra {
            points: self.found.0.iter().map(told).collect(),
            mixes: mixes.into_iter().map(|co_run| Mixed { throughput: co_run.throughput(), co_run }).collect(),
            beside: times.iter().enumerate().map(other).collect(),
        }
    }

    fn table(extra: &Extra) -> String {
        let under = |point: Point, strategy: Strategy| {
            let point = Point { strategy, ..point };
            extra.points.iter().find(|other| other.point == point)
        };
        let rows = extra.points.iter().filter(|told| told.point.strategy == Strategy::Robinhood);
        let points = rows.map(|told| {
            let of = |strategy| under(told.point, strategy);
            let slowdown = |strategy| of(strategy).map_or(String::new(), |one| format!("{:.2}", one.slowdown));
            let useful: Vec<String> =
                rates::STRATEGIES.into_iter().filter_map(of).map(|one| format!("{:.0}", one.useful)).collect();
            let Point { benchmark, threads, machines, loops, .. } = told.point;
            [
                benchmark.name().to_owned(),
                threads.to_string(),
                (100.0 / f64::from(machines)).to_string(),
                loops.to_string(),
                slowdown(Strategy::Baseline),
                slowdown(Strategy::Bws),
                slowdown(Strategy::Robinhood),
                slowdown(Strategy::RobinhoodS),
                slowdown(Strategy::RobinhoodU),
                useful.join(", "),
            ]
        });
        let mixes = extra.mixes.iter().map(|Mixed { co_run, throughput }| {
            [
                co_run.mix.map(Benchmark::name).join(", "),
                co_run.strategy.name().to_owned(),
                co_run.speedups.map(|speedup| format!("{speedup:.3}")).join(", "),
                format!("{throughput:.2}"),
            ]
        });
        let beside = extra.beside.iter().map(|Other { program, strategy, time }| {
            [(*program).to_owned(), strategy.name().to_owned(), format!("{time:.3}")]
        });
        let header =
            ["program", "threads", "online, %", "loops", "baseline", "BWS", "Robinhood", "_s", "_u", "useful, %"];
        [
            report::table(header, points),
            report::table(["mix", "strategy", "speedups", "throughput"], mixes),
            report::table(["with CG, CLIP, MI", "strategy", "time / the baseline's time"], beside),
        ]
        .concat()
    }
}

impl Robinhood {
    /// Returns the speedups in all mixes.
    fn co_runs(&self) -> Vec<CoRun> {
        mixes::co_runs(&self.found, &self.mixes)
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Serialize)]
pub struct Extra {
    points: Vec<Told>,
    mixes: Vec<Mixed>,
    beside: Vec<Other>,
}

/// The outcome of a program in VM0 at an online rate.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    point: Point,
    seconds: f64,
    slowdown: f64,
    useful: f64,
    accelerations: u64,
}

/// The outcome of a mix under a strategy.
#[derive(Serialize)]
struct Mixed {
    #[serde(flatten)]
    co_run: CoRun,
    throughput: f64,
}

/// The outcome of a program that does not steal, together with CG, CLIP and MI.
#[derive(Serialize)]
struct Other {
    program: &'static str,
    strategy: Strategy,
    /// The time / the time under the strategy `baseline`.
    time: f64,
}
