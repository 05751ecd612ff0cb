//! `comity-lab reproduce robinhood`.

use std::fmt::Write;
use std::mem;

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use comity_console::Failure;
use comity_papers::claims::Claim;
use comity_papers::measure::Measure;
use comity_papers::robinhood::mixes::{self, Beside, CoRun, CoRuns, Decisions};
use comity_papers::robinhood::rates::{self, Found, Part, Point, alone};
use comity_papers::robinhood::{Benchmark, CPUS, PAPER, Programs, RATES, Setting, Strategy, figure3};
use serde::Serialize;

use super::findings::{Findings, here};
use super::options::Options;
use super::settings::{Swept, choose, settings};
use crate::figure::{Axis, Figure, Marks, Series};
use crate::sweep::Sweep;

const EXAMPLES: &str = "Examples:
  comity-lab reproduce robinhood --check
  comity-lab reproduce robinhood table2 fig7 --plot .
  comity-lab reproduce robinhood --full --out results  # stopped, the same
                                                       # command goes on
  comity-lab reproduce robinhood table2 --vary rate=neighbours --vary length=100

Peng, Wu and Jin, Robinhood: Towards Efficient Work-stealing in Virtualized
Environments. docs/results/robinhood.md has each of the paper's numbers beside
ours; lab/papers/src/robinhood/claims.toml has its kind and tolerance, and what
is assumed.";

/// Robinhood: virtual machines of 16 virtual CPUs on 16 simulated ones, under Xen's Credit scheduler, guests with
/// Linux 3.9
///
/// The programs are recorded kernels; the thieves are the code that runs on threads. With --out, each figure is
/// drawn as an SVG file, and the numbers are in result.json.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,
    /// Choose otherwise what the paper leaves unsaid; can be repeated. Of the machine: rate (cap, neighbours or
    /// weight), weight-of (machine or vcpu), hz. Of the programs: slow, cg (factors of the recorded lengths), setup
    /// (thousandths), length (ms). In nanoseconds: steal, yield, hypercall, vcpu-switch, refill, far, dom0
    #[arg(long, value_name = "KEY=VALUE")]
    vary: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// §2.2.1, §3.1: two virtual CPUs, slice by slice
    Figure3,
    /// CG with 16, 32 and 64 threads at four online rates
    Table2,
    /// Slowdowns of six programs at four online rates
    Fig7,
    /// How much of their time is useful work
    Fig8,
    /// Four machines: the speedup of each program
    Fig9,
    /// Four machines: their throughput
    Fig10,
    /// Programs that steal nothing beside three that do
    Fig11,
    /// How often the hypervisor decides, and what that costs more
    Fig12,
    /// Robinhood_u: across NUMA nodes
    Fig13,
    /// Robinhood_s: beside loops in the same machine
    Fig14,
}

/// The numbers behind the measures, with the chosen values.
#[derive(Default, Serialize)]
struct Extra {
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

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { experiments, vary, mut options } = arguments;
    let (claims, asked) = options.claims(&PAPER, &experiments)?;
    let seed = options.seed;
    let mut chosen = Setting::new(seed);
    let mut name = format!("robinhood, seed {seed}");
    choose(&vary, &mut name, |varied| chosen.vary(varied))?;
    let sweep = Sweep::new(mem::take(&mut options.sweep), name.clone())?;
    let mut findings = Findings::default();
    let mut extra = Extra::default();
    for swept in settings(&claims, options.full, &sweep, &chosen, Setting::vary)? {
        let programs = swept.setting.programs();
        let runs = |experiment: Experiment| asked.has(&experiment) && swept.moves(&experiment);
        let mut all = All::default();
        let measures = all.measure(&programs, &swept, &runs)?;
        if swept.is_chosen() {
            findings.figures = all.figures(&runs, &claims.claims);
            extra = all.extra();
        }
        findings.measured.push((swept.name.clone(), measures));
    }
    findings.notes.push(
        "Programs are shortened to 80 ms alone, again and again, and only ratios are compared. The text does not list the mixes of figure 9: all 15 are run."
            .into(),
    );
    let table = extra.table();
    findings.present((&PAPER, &claims), name, &sweep, &options, &table, extra)
}

/// What came of one setting.
#[derive(Default)]
struct All {
    found: Found,
    mixes: CoRuns,
    beside: Beside,
    decisions: Decisions,
}

impl All {
    fn measure(
        &mut self,
        programs: &Programs,
        runner: &Swept<'_, Setting>,
        runs: &impl Fn(Experiment) -> bool,
    ) -> Result<Vec<Measure>, Failure> {
        use Experiment::{Fig7, Fig8, Fig9, Fig10, Fig11, Fig12, Fig13, Fig14, Figure3, Table2};
        let any = |of: &[Experiment]| of.iter().copied().any(runs);
        // All are over programs alone at 100 %, which are in the first two.
        let parts = [
            (Part::Table2, any(&[Table2, Fig7, Fig8, Fig9, Fig10, Fig13, Fig14])),
            (Part::Programs, any(&[Fig7, Fig8, Fig9, Fig10, Fig13, Fig14])),
            (Part::Across, runs(Fig13)),
            (Part::Loops, runs(Fig14)),
        ];
        let mut is_whole = true;
        for (part, _) in parts.into_iter().filter(|(_, is_run)| *is_run) {
            let found = here(rates::run(programs, part, runner))?;
            is_whole &= found.is_some();
            self.found.0.extend(found.unwrap_or_default());
        }
        if any(&[Fig9, Fig10]) {
            let found = here(mixes::run(programs, runner))?;
            is_whole &= found.is_some();
            self.mixes = found.unwrap_or_default();
        }
        if runs(Fig11) {
            self.beside = here(mixes::run_beside(programs, runner))?.unwrap_or_default();
        }
        if runs(Fig12) {
            self.decisions = here(mixes::run_decisions(programs, runner))?.unwrap_or_default();
        }
        let mut measures = if runs(Figure3) { figure3::measures() } else { Vec::new() };
        if is_whole {
            type Of = fn(&Found) -> Vec<Measure>;
            let by_rate: [(Experiment, Of); 5] = [
                (Table2, rates::table_2),
                (Fig7, rates::figure_7),
                (Fig8, rates::figure_8),
                (Fig13, rates::figure_13),
                (Fig14, rates::figure_14),
            ];
            for (_, of) in by_rate.into_iter().filter(|(experiment, _)| runs(*experiment)) {
                measures.extend(of(&self.found));
            }
            let co_runs = mixes::co_runs(&self.found, &self.mixes);
            measures.extend(if runs(Fig9) { mixes::figure_9(&co_runs) } else { Vec::new() });
            measures.extend(if runs(Fig10) { mixes::figure_10(&co_runs) } else { Vec::new() });
        }
        if !self.beside.is_empty() {
            measures.extend(mixes::figure_11(&self.beside));
        }
        if !self.decisions.is_empty() {
            measures.extend(mixes::figure_12(&self.decisions));
        }
        Ok(measures)
    }

    fn extra(&self) -> Extra {
        let told = |(point, ran): &(Point, comity_papers::corun::Ran)| Told {
            point: *point,
            seconds: ran.mean() / 1e9,
            slowdown: self.found.slowdown(*point),
            useful: self.found.useful(*point),
            accelerations: ran.accelerations,
        };
        let mixes = mixes::co_runs(&self.found, &self.mixes);
        let times: Vec<f64> = self.beside.iter().map(mixes::time_beside).collect();
        let count = mixes::STRATEGIES.len();
        let other = |(nth, time): (usize, &f64)| Other {
            program: mixes::OTHERS[nth / count].name(),
            strategy: mixes::STRATEGIES[nth % count],
            time: time / times[nth / count * count],
        };
        Extra {
            points: self.found.0.iter().map(told).collect(),
            mixes: mixes.into_iter().map(|co_run| Mixed { throughput: co_run.throughput(), co_run }).collect(),
            beside: times.iter().enumerate().map(other).collect(),
        }
    }

    /// With the paper's points, of those `claims`.
    fn figures(&self, runs: &impl Fn(Experiment) -> bool, claims: &[Claim]) -> Vec<(&'static str, Figure)> {
        let mut figures = Vec::new();
        let has = |experiment| runs(experiment) && !self.found.0.is_empty();
        if has(Experiment::Table2) {
            figures.push(("table-2", self.table_2(claims)));
        }
        if has(Experiment::Fig7) {
            for (name, nth, title) in [
                ("figure-7-50", 1, "Robinhood figure 7: slowdowns at an online rate of 50 %"),
                ("figure-7-25", 2, "Robinhood figure 7: slowdowns at an online rate of 25 %"),
                ("figure-7-12.5", 3, "Robinhood figure 7: slowdowns at an online rate of 12.5 %"),
            ] {
                let slowdown = |one, strategy| self.found.slowdown(alone(one, RATES[nth], strategy));
                let mut figure = by_program(title, "slowdown", &rates::STRATEGIES, &slowdown);
                // Of the programs the text has CG alone, in table 2; it is the first.
                add_paper(&mut figure, |of| {
                    cell(claims, RATE_NAMES[nth], of).map(|number| (1.0, number)).into_iter().collect()
                });
                figures.push((name, figure));
            }
        }
        if has(Experiment::Fig8) {
            let useful = |machines, strategy| self.found.useful(alone(Benchmark::Cg, machines, strategy));
            let title = "Robinhood figure 8: CG's useful work";
            figures.push(("figure-8", by_rate(title, "of its time, %", &rates::STRATEGIES, &useful)));
        }
        if has(Experiment::Fig13) {
            let strategies = [Strategy::Bws, Strategy::Robinhood, Strategy::RobinhoodU];
            let slowdown = |machines, strategy| match (machines, strategy) {
                (1, Strategy::RobinhoodU) => f64::NAN,
                _ => self.found.slowdown(alone(Benchmark::Cg, machines, strategy)),
            };
            let title = "Robinhood figure 13: CG across NUMA nodes";
            figures.push(("figure-13", by_rate(title, "slowdown", &strategies, &slowdown)));
        }
        if has(Experiment::Fig14) {
            for (name, loops, title) in [
                ("figure-14-1", 1, "Robinhood figure 14: slowdowns at 25 % beside a loop in the machine"),
                ("figure-14-2", 2, "Robinhood figure 14: slowdowns at 25 % beside two loops"),
                ("figure-14-4", 4, "Robinhood figure 14: slowdowns at 25 % beside four loops"),
            ] {
                let slowdown = |one, strategy| self.found.slowdown(Point { loops, ..alone(one, 4, strategy) });
                figures.push((name, by_program(title, "slowdown", &rates::WITH_LOOPS, &slowdown)));
            }
        }
        if !self.mixes.is_empty() && !self.found.0.is_empty() {
            let co_runs = mixes::co_runs(&self.found, &self.mixes);
            if runs(Experiment::Fig10) {
                figures.push(("figure-10", throughputs(&co_runs)));
            }
            if runs(Experiment::Fig9) {
                for (name, benchmark, title) in [
                    ("figure-9-cg", Benchmark::Cg, "Robinhood figure 9: the speedup of CG beside three others"),
                    ("figure-9-mi", Benchmark::Mi, "Robinhood figure 9: the speedup of MI beside three others"),
                    ("figure-9-ep", Benchmark::Ep, "Robinhood figure 9: the speedup of EP beside three others"),
                ] {
                    figures.push((name, speedups(title, &co_runs, benchmark)));
                }
            }
        }
        figures
    }

    /// The slowdowns of CG with 16 threads, and the paper's.
    fn table_2(&self, claims: &[Claim]) -> Figure {
        let slowdown = |machines, strategy| self.found.slowdown(alone(Benchmark::Cg, machines, strategy));
        let title = "Robinhood table 2: CG with 16 threads";
        let mut figure = by_rate(title, "time over that alone", &rates::STRATEGIES, &slowdown);
        figure.y = Axis::log("time over that alone");
        add_paper(&mut figure, |of| {
            let point = |(rate, x): (&&str, i32)| Some((f64::from(x), cell(claims, rate, of)?));
            RATE_NAMES.iter().zip(1..).filter_map(point).collect()
        });
        figure
    }
}

/// The paper's slowdown of CG with 16 threads, under one of the three strategies of table 2.
fn cell(claims: &[Claim], rate: &str, strategy: &str) -> Option<f64> {
    claims.iter().find(|claim| claim.id == format!("t2-{rate}-{CPUS}-{strategy}"))?.number
}

/// Adds the paper's points of each of the three strategies, as far as there are any.
fn add_paper(figure: &mut Figure, points: impl Fn(&str) -> Vec<(f64, f64)>) {
    for (of, strategy) in ["baseline", "bws", "robinhood"].into_iter().enumerate() {
        let series = Series::of_paper(format!("{}: the paper's", figure.series[of].name), of, points(strategy));
        figure.series.push(series);
    }
}

/// The online rates of [`RATES`], in per cent.
const RATE_NAMES: [&str; 4] = ["100", "50", "25", "12.5"];

/// A number of each strategy over the online rate.
fn by_rate(title: &str, y: &str, strategies: &[Strategy], value: &dyn Fn(u32, Strategy) -> f64) -> Figure {
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

/// The same of each program.
fn by_program(title: &str, y: &str, strategies: &[Strategy], value: &dyn Fn(Benchmark, Strategy) -> f64) -> Figure {
    let series = |strategy: &Strategy| {
        let points = Benchmark::STEALING.iter().zip(1..).map(|(one, x)| (f64::from(x), value(*one, *strategy)));
        Series::new(strategy.name(), Marks::Points, points.collect())
    };
    Figure {
        title: title.into(),
        x: Axis::named("program", Benchmark::STEALING.map(Benchmark::name)),
        y: Axis::log(y),
        series: strategies.iter().map(series).collect(),
    }
}

/// The other three of a mix.
fn beside(one: &CoRun, benchmark: Benchmark) -> String {
    let others = one.mix.iter().filter(|other| **other != benchmark).map(|other| other.name());
    others.collect::<Vec<_>>().join(", ")
}

/// A program's speedup in each mix that has it.
fn speedups(title: &str, of: &[CoRun], benchmark: Benchmark) -> Figure {
    let with =
        |strategy: Strategy| of.iter().filter(move |one| one.strategy == strategy && one.mix.contains(&benchmark));
    let speedup = |one: &CoRun| one.speedups[one.mix.iter().position(|own| *own == benchmark).unwrap_or(0)];
    let series = |strategy: Strategy| {
        let points = with(strategy).zip(1..).map(|(one, x)| (f64::from(x), speedup(one))).collect();
        Series::new(strategy.name(), Marks::Points, points)
    };
    Figure {
        title: title.into(),
        x: Axis::named("beside", with(Strategy::Baseline).map(|one| beside(one, benchmark))),
        y: Axis::linear("speedup"),
        series: mixes::STRATEGIES.map(series).into(),
    }
}

/// The throughput of all mixes.
fn throughputs(of: &[CoRun]) -> Figure {
    let with = |strategy: Strategy| of.iter().filter(move |one| one.strategy == strategy);
    let series = |strategy: Strategy| {
        let points = with(strategy).zip(1..).map(|(one, x)| (f64::from(x), one.throughput())).collect();
        Series::new(strategy.name(), Marks::Points, points)
    };
    let name = |one: &CoRun| one.mix.map(Benchmark::name).join(", ");
    Figure {
        title: "Robinhood figure 10: throughput of four machines".into(),
        x: Axis::named("mix", with(Strategy::Baseline).map(name)),
        y: Axis::linear("weighted speedup"),
        series: mixes::STRATEGIES.map(series).into(),
    }
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
