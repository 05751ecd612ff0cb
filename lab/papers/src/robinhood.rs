//! The experiments of Robinhood (§6): virtual machines of 16 virtual CPUs on 16 simulated physical ones, under Xen's
//! Credit scheduler.
//!
//! Peng, Wu and Jin, *Robinhood: Towards Efficient Work-stealing in Virtualized Environments*. A program or a mix under
//! a strategy is one run, and experiments share them.

mod figure10;
mod figure11;
mod figure12;
mod figure13;
mod figure14;
pub mod figure3;
mod figure7;
mod figure8;
mod figure9;
mod mixes;
pub mod rates;
mod setting;
mod table2;

use std::fmt::Write;

use comfy_table::{Table, presets};
use comity_console::Failure;
use serde::Serialize;

use figure11::Beside;
use mixes::{CoRun, CoRuns};
use rates::{Found, Part, Point};
pub use setting::{Benchmark, CPUS, Imposed, Programs, RATE_NAMES, RATES, Setting, Strategy};

use crate::corun::Ran;
use crate::paper::{Experiment, NoOptions, Paper, Text, undrawn};
use crate::{Runner, here};

/// What came of Robinhood's experiments with one setting.
pub struct Robinhood {
    programs: Programs,
    /// The parts that were run, and what came of them.
    parts: Vec<Part>,
    found: Found,
    mixes: CoRuns,
    beside: Beside,
}

impl Paper for Robinhood {
    const TEXT: Text = Text {
        name: "robinhood",
        title: "Robinhood: virtual machines of 16 virtual CPUs on 16 simulated ones, under Xen's Credit scheduler, \
                guests with Linux 3.9",
        about: "The programs are recorded kernels; the thieves are the code that runs on threads. With --out, each \
                figure is drawn as an SVG file, and the numbers are in result.json.",
        examples: "Examples:
  comity-lab reproduce robinhood --check
  comity-lab reproduce robinhood table2 fig7 --plot .
  comity-lab reproduce robinhood --full --out results  # stopped, the same
                                                       # command goes on
  comity-lab reproduce robinhood table2 --vary rate=neighbours --vary length=100

Peng, Wu and Jin, Robinhood: Towards Efficient Work-stealing in Virtualized
Environments. docs/results/robinhood.md has each of the paper's numbers beside
ours; lab/papers/src/robinhood/claims.toml has its kind and tolerance, and what
is assumed.",
        default: "all",
        vary: (
            "KEY=VALUE",
            "Choose otherwise what the paper leaves unsaid; can be repeated. Of the machine: rate (cap, neighbours \
             or weight), weight-of (machine or vcpu), hz. Of the programs: slow, cg (factors of the recorded \
             lengths), setup (thousandths), length (ms). In nanoseconds: steal, yield, hypercall, vcpu-switch, \
             refill, far, dom0",
        ),
        one_in: None,
        file: "lab/papers/src/robinhood/claims.toml",
        claims: include_str!("robinhood/claims.toml"),
    };

    type Options = NoOptions;
    type Setting = Setting;
    type Extra = Extra;

    fn usual(seed: u64) -> Result<Setting, String> {
        Ok(Setting::new(seed))
    }

    fn vary(setting: &mut Setting, text: &str) -> Result<(), String> {
        setting.vary(text)
    }

    fn with(setting: &Setting) -> Robinhood {
        let (programs, parts, found) = (setting.programs(), Vec::new(), Found::default());
        Robinhood { programs, parts, found, mixes: Vec::new(), beside: Vec::new() }
    }

    fn experiments<R: Runner>() -> Vec<Experiment<Robinhood, R>> {
        vec![
            Experiment::new("figure3", "§2.2.1, §3.1: two virtual CPUs, slice by slice", figure3::run, undrawn),
            Experiment::new(
                "table2",
                "CG with 16, 32 and 64 threads at four online rates",
                table2::run,
                table2::figures,
            ),
            Experiment::new("fig7", "Slowdowns of six programs at four online rates", figure7::run, figure7::figures),
            Experiment::new("fig8", "How much of their time is useful work", figure8::run, figure8::figures),
            Experiment::new("fig9", "Four machines: the speedup of each program", figure9::run, figure9::figures),
            Experiment::new("fig10", "Four machines: their throughput", figure10::run, figure10::figures),
            Experiment::new("fig11", "Programs that steal nothing beside three that do", figure11::run, undrawn),
            Experiment::new(
                "fig12",
                "How often the hypervisor decides, and what that costs more",
                figure12::run,
                undrawn,
            ),
            Experiment::new("fig13", "Robinhood_u: across NUMA nodes", figure13::run, figure13::figures),
            Experiment::new("fig14", "Robinhood_s: beside loops in the same machine", figure14::run, figure14::figures),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let note = "Programs are shortened to 80 ms alone, again and again, and only ratios are compared. The text \
                    does not list the mixes of figure 9: all 15 are run.";
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
        let mixes = mixes::co_runs(&self.found, &self.mixes);
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
        extra.table()
    }
}

impl Robinhood {
    /// What came of these parts, unless some of the runs are elsewhere. All experiments are over programs alone at
    /// 100 %, which are in the first two parts.
    fn found<R: Runner>(&mut self, parts: &[Part], runner: &R) -> Result<Option<&Found>, Failure> {
        for part in parts {
            if !self.parts.contains(part)
                && let Some(found) = here(rates::run(&self.programs, *part, runner))?
            {
                self.parts.push(*part);
                self.found.0.extend(found);
            }
        }
        let is_whole = parts.iter().all(|part| self.parts.contains(part));
        Ok(is_whole.then_some(&self.found))
    }

    /// What came of all mixes, unless some of the runs are elsewhere.
    fn co_runs<R: Runner>(&mut self, runner: &R) -> Result<Option<Vec<CoRun>>, Failure> {
        let has_alone = self.found(&[Part::Table2, Part::Programs], runner)?.is_some();
        if self.mixes.is_empty() {
            self.mixes = here(mixes::run(&self.programs, runner))?.unwrap_or_default();
        }
        Ok((has_alone && !self.mixes.is_empty()).then(|| mixes::co_runs(&self.found, &self.mixes)))
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Serialize)]
pub struct Extra {
    points: Vec<Told>,
    mixes: Vec<Mixed>,
    beside: Vec<Other>,
}

/// A program in VM0 at an online rate.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    point: Point,
    seconds: f64,
    slowdown: f64,
    useful: f64,
    accelerations: u64,
}

/// A mix under a strategy.
#[derive(Serialize)]
struct Mixed {
    #[serde(flatten)]
    co_run: CoRun,
    throughput: f64,
}

/// A program that steals nothing, beside CG, CLIP and MI.
#[derive(Serialize)]
struct Other {
    program: &'static str,
    strategy: Strategy,
    /// Over that under the baseline.
    time: f64,
}

impl Extra {
    /// What the paper draws and has no number for.
    fn table(&self) -> String {
        let mut text = String::new();
        let new = |header: Vec<String>| {
            let mut table = Table::new();
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
            table
        };
        let rows: Vec<&Told> = self.points.iter().filter(|told| told.point.strategy == Strategy::Robinhood).collect();
        if !rows.is_empty() {
            let header =
                ["program", "threads", "online, %", "loops", "baseline", "BWS", "Robinhood", "_s", "_u", "useful, %"];
            let mut table = new(header.map(str::to_owned).into());
            for told in rows {
                let of = |strategy| {
                    let point = Point { strategy, ..told.point };
                    self.points.iter().find(|other| other.point == point)
                };
                let slowdown = |strategy| of(strategy).map_or(String::new(), |one| format!("{:.2}", one.slowdown));
                let useful: Vec<String> =
                    rates::STRATEGIES.into_iter().filter_map(of).map(|one| format!("{:.0}", one.useful)).collect();
                let Point { benchmark, threads, machines, loops, .. } = told.point;
                table.add_row([
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
                ]);
            }
            let _ = writeln!(text, "{table}");
        }
        if !self.mixes.is_empty() {
            let mut table = new(["mix", "strategy", "speedups", "throughput"].map(str::to_owned).into());
            for Mixed { co_run, throughput } in &self.mixes {
                let speedups = co_run.speedups.map(|speedup| format!("{speedup:.3}")).join(", ");
                table.add_row([
                    co_run.mix.map(Benchmark::name).join(", "),
                    co_run.strategy.name().to_owned(),
                    speedups,
                    format!("{throughput:.2}"),
                ]);
            }
            let _ = writeln!(text, "{table}");
        }
        if !self.beside.is_empty() {
            let mut table =
                new(["beside CG, CLIP, MI", "strategy", "time over the baseline's"].map(str::to_owned).into());
            for Other { program, strategy, time } in &self.beside {
                table.add_row([(*program).to_owned(), strategy.name().to_owned(), format!("{time:.3}")]);
            }
            let _ = writeln!(text, "{table}");
        }
        text
    }
}
