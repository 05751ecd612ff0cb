//! `comity-lab reproduce bws`.

use std::fmt::Write;
use std::mem;

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use comity_console::Failure;
use comity_papers::bws::pairs::{self, CoRun, CoRuns, PairKind};
use comity_papers::bws::{Benchmark, ORIGINAL, PAPER, Programs, Setting, beyond, examples, solo};
use comity_papers::claims::Claim;
use comity_papers::corun::Ran;
use comity_papers::measure::Measure;
use serde::Serialize;

use super::findings::{Findings, here};
use super::options::Options;
use super::settings::{Swept, choose, settings};
use crate::figure::{Axis, Figure, Marks, Series};
use crate::sweep::Sweep;

const EXAMPLES: &str = "Examples:
  comity-lab reproduce bws --check
  comity-lab reproduce bws fig2 fig3 --plot .
  comity-lab reproduce bws --full --out results    # stopped, the same command
                                                   # goes on
  comity-lab reproduce bws examples --vary slow=20 --vary hz=250

Ding, Wang, Gibbons and Zhang, BWS: Balanced Work Stealing for Time-Sharing
Multicores, EuroSys 2012. docs/results/bws.md has each of the paper's numbers
beside ours; lab/papers/src/bws/claims.toml has its kind, its tolerance, and
what the model was fitted to.";

/// BWS: eight programs alone and in all 28 pairs, on 32 simulated cores with Linux 2.6.36
///
/// The programs are recorded kernels; the thieves are the code that runs on threads. With --out, each figure is
/// drawn as an SVG file, and the numbers are in result.json.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which experiments [default: the paper's]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,
    /// Choose otherwise what the paper leaves unsaid; can be repeated. Of the machine: bandwidth, cg-memory,
    /// bfs-memory (thousandths), hz. Of the programs: slow, cg (factors of the recorded lengths), clip-serial (µs
    /// before a batch), again (process or in-place). Costs in nanoseconds: steal, yield, switch, refill, queue,
    /// bell, count
    #[arg(long, value_name = "KEY=VALUE")]
    vary: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// §5.1, footnote 4: each program alone
    Solo,
    /// §2.3.2: BFS beside EP, and CG beside MM
    Examples,
    /// Slowdowns, unfairness and switches of all pairs
    Fig2,
    /// Their throughput
    Fig3,
    /// How much their times vary
    Fig4,
    /// Delayed and selective yields
    Fig5,
    /// Other values of SleepThreshold
    Fig6,
    /// §5.5: waking by busy workers, and global information
    Ablations,
    /// What the authors had no machine for: 64 and 128 cores under EEVDF, and dws and comity
    Beyond,
}

/// The numbers behind the measures, with the chosen values.
#[derive(Default, Serialize)]
struct Extra {
    alone: Vec<Alone>,
    pairs: Vec<Paired>,
    beyond: Vec<beyond::Point>,
}

/// A program alone under the original.
#[derive(Serialize)]
struct Alone {
    program: &'static str,
    seconds: f64,
    speedup: f64,
}

/// A pair under a policy.
#[derive(Serialize)]
struct Paired {
    policy: String,
    programs: [&'static str; 2],
    #[serde(flatten)]
    co_run: CoRun,
    unfairness: f64,
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { experiments, vary, mut options } = arguments;
    let (claims, asked) = options.claims(&PAPER, &experiments)?;
    let seed = options.seed;
    let mut chosen = Setting::new(seed);
    let mut name = format!("bws, seed {seed}");
    choose(&vary, &mut name, |varied| chosen.vary(varied))?;
    let sweep = Sweep::new(mem::take(&mut options.sweep), name.clone())?;
    let mut findings = Findings::default();
    let mut extra = Extra::default();
    for swept in settings(&claims, options.full, &sweep, &chosen, Setting::vary)? {
        let programs = swept.setting.programs();
        let runs = |experiment: Experiment| asked.has(&experiment) && swept.moves(&experiment);
        let mut found = Found::new(&programs, &swept);
        let measures = found.measure(&runs)?;
        if swept.is_chosen() {
            findings.figures = found.figures(&runs, &claims.claims);
            extra = found.extra();
        }
        findings.measured.push((swept.name.clone(), measures));
    }
    if asked.has(&Experiment::Beyond) {
        for machine in beyond::MACHINES {
            extra.beyond.extend(here(beyond::run(seed, machine, &sweep))?.unwrap_or_default());
        }
    }
    findings.notes.push(
        "LOOP has no executions of its own: its slowdown is that of its computing time, and it has no variation."
            .into(),
    );
    let table = extra.table();
    findings.present((&PAPER, &claims), name, &sweep, &options, &table, extra)
}

/// What came of one setting: each part of it is run once, and may be left to other shards.
struct Found<'a> {
    programs: &'a Programs<'a>,
    runner: &'a Swept<'a, Setting>,
    alone: Option<Vec<Ran>>,
    /// The pairs under each policy.
    pairs: Vec<(String, CoRuns)>,
}

impl<'a> Found<'a> {
    fn new(programs: &'a Programs<'a>, runner: &'a Swept<'a, Setting>) -> Found<'a> {
        Found { programs, runner, alone: None, pairs: Vec::new() }
    }

    /// All pairs under a policy, unless some of the runs are elsewhere.
    fn pairs(&mut self, policy: &str) -> Result<Option<CoRuns>, Failure> {
        if let Some((_, known)) = self.pairs.iter().find(|(known, _)| known == policy) {
            return Ok(Some(known.clone()));
        }
        let found = here(pairs::run(self.programs, policy, self.runner))?;
        self.pairs.extend(found.clone().map(|found| (policy.to_owned(), found)));
        Ok(found)
    }

    fn measure(&mut self, runs: &impl Fn(Experiment) -> bool) -> Result<Vec<Measure>, Failure> {
        let (programs, runner) = (self.programs, self.runner);
        let bws = programs.bws();
        let mut measures = Vec::new();
        let paired = [Experiment::Fig2, Experiment::Fig3, Experiment::Fig4, Experiment::Fig5, Experiment::Fig6];
        if paired.into_iter().chain([Experiment::Solo, Experiment::Examples]).any(runs) {
            self.alone = here(programs.alone(ORIGINAL, runner))?;
        }
        let alone = self.alone.clone();
        if runs(Experiment::Solo) {
            let with_bws = here(programs.alone(bws, runner))?;
            if let (Some(alone), Some(with_bws)) = (&alone, &with_bws) {
                measures.extend(solo::measures(programs, alone, with_bws));
            }
        }
        if runs(Experiment::Examples) {
            let found = here(examples::run(programs, runner))?;
            if let (Some(alone), Some(found)) = (&alone, &found) {
                measures.extend(examples::measures(found, alone));
            }
        }
        if paired.into_iter().any(runs) {
            let abp = self.pairs(ORIGINAL)?;
            if paired[..3].iter().copied().any(runs) {
                let with_bws = self.pairs(bws)?;
                if let (Some(alone), Some(abp), Some(bws)) = (&alone, &abp, &with_bws) {
                    for (experiment, measure) in
                        paired.into_iter().zip([pairs::slowdowns, pairs::throughputs, pairs::variations])
                    {
                        if runs(experiment) {
                            measures.extend(measure(alone, abp, bws));
                        }
                    }
                }
            }
            if runs(Experiment::Fig5) {
                let [selective, delay] = pairs::OTHERS.map(|policy| self.pairs(policy));
                if let (Some(alone), Some(abp), Some(selective), Some(delay)) = (&alone, &abp, selective?, delay?) {
                    measures.extend(pairs::alternatives(alone, abp, [&selective, &delay]));
                }
            }
            if runs(Experiment::Fig6) {
                let mut all = Vec::new();
                for policy in pairs::threshold_policies(bws) {
                    all.extend(self.pairs(&policy)?);
                }
                if let (Some(alone), Some(abp), 4) = (&alone, &abp, all.len()) {
                    measures.extend(pairs::thresholds(alone, abp, &all));
                }
            }
        }
        if runs(Experiment::Ablations)
            && let Some([bws, busy_wakes, wsgi]) = here(solo::run_ablations(programs, runner))?
        {
            measures.extend(solo::ablations(&bws, &busy_wakes, &wsgi));
        }
        Ok(measures)
    }

    /// All pairs under the policies that were run.
    fn co_runs(&self) -> Vec<(&str, Vec<CoRun>)> {
        let Some(alone) = &self.alone else { return Vec::new() };
        self.pairs.iter().map(|(policy, found)| (policy.as_str(), pairs::co_runs(alone, found))).collect()
    }

    fn extra(&self) -> Extra {
        let mut extra = Extra::default();
        if let Some(alone) = &self.alone {
            let speedups = solo::speedups(self.programs, alone);
            for ((benchmark, ran), speedup) in Benchmark::ALL.into_iter().zip(alone).zip(speedups) {
                // LOOP has no time.
                if benchmark != Benchmark::Loop {
                    extra.alone.push(Alone { program: benchmark.name(), seconds: ran.mean() / 1e9, speedup });
                }
            }
        }
        for (policy, all) in self.co_runs() {
            extra.pairs.extend(all.into_iter().map(|co_run| Paired {
                policy: policy.to_owned(),
                programs: co_run.pair.map(Benchmark::name),
                unfairness: co_run.unfairness(),
                co_run,
            }));
        }
        extra
    }

    /// With the paper's points, of those `claims`.
    fn figures(&self, runs: &impl Fn(Experiment) -> bool, claims: &[Claim]) -> Vec<(&'static str, Figure)> {
        let all = self.co_runs();
        let of = |policy: &str| all.iter().find(|(own, _)| *own == policy).map(|(_, found)| found);
        let (abp, bws) = (of(ORIGINAL), of(self.programs.bws()));
        let mut figures = Vec::new();
        if let (Some(abp), Some(bws)) = (abp, bws) {
            if runs(Experiment::Fig2) {
                figures.push(("figure-2-slowdowns", slowdowns(abp, bws, claims)));
                let title = "BWS figure 2: average unfairness";
                let ids = [
                    ["unfair-1-abp", "unfair-2-abp", "unfair-mixed-abp", "unfair-all-abp"],
                    ["unfair-1-bws", "unfair-2-bws", "unfair-mixed-bws", "unfair-all-bws"],
                ];
                figures.push(("figure-2", by_kind(title, "unfairness, %", pairs::unfairness, [abp, bws], ids, claims)));
            }
            if runs(Experiment::Fig3) {
                let title = "BWS figure 3: average throughput";
                let ids = [["", "", "", "throughput-all-abp"], ["", "", "", "throughput-all-bws"]];
                let figure = by_kind(title, "weighted speedup", pairs::throughput, [abp, bws], ids, claims);
                figures.push(("figure-3", figure));
            }
            if runs(Experiment::Fig4) {
                figures.push(("figure-4", variations(abp, bws, claims)));
            }
        }
        let averages = |policies: &[String]| -> Option<Vec<(f64, f64)>> {
            let average =
                |policy: &String| of(policy).map(|of| (pairs::unfairness(of, None), pairs::throughput(of, None)));
            policies.iter().map(average).collect()
        };
        if runs(Experiment::Fig5) {
            let policies = [ORIGINAL, "delay-yield", "selective-yield", self.programs.bws()].map(str::to_owned);
            if let Some(averages) = averages(&policies) {
                let x = [1.0, 2.0, 3.0, 4.0];
                let ids = [
                    ["unfair-all-abp", "", "selective-unfair", "unfair-all-bws"],
                    ["throughput-all-abp", "", "selective-throughput", "throughput-all-bws"],
                ];
                let title = "BWS figure 5: other ways to yield";
                let axis = || Axis::named("", ["the original", "delayed yields", "selective yields", "BWS"]);
                figures.extend(two(
                    ["figure-5-unfairness", "figure-5-throughput"],
                    title,
                    (&axis, x),
                    &averages,
                    ids,
                    claims,
                ));
            }
        }
        if runs(Experiment::Fig6)
            && let Some(averages) = averages(&pairs::threshold_policies(self.programs.bws()))
        {
            let x = pairs::SLEEP_THRESHOLDS.map(f64::from);
            let axis = || Axis::log("SleepThreshold");
            let ids = [
                ["threshold-32-unfair", "unfair-all-bws", "threshold-256-unfair", "threshold-4096-unfair"],
                [
                    "threshold-32-throughput",
                    "throughput-all-bws",
                    "threshold-256-throughput",
                    "threshold-4096-throughput",
                ],
            ];
            let title = "BWS figure 6: over SleepThreshold";
            figures.extend(two(
                ["figure-6-unfairness", "figure-6-throughput"],
                title,
                (&axis, x),
                &averages,
                ids,
                claims,
            ));
        }
        figures
    }
}

/// The paper's number of a claim.
fn number(claims: &[Claim], id: &str) -> Option<f64> {
    claims.iter().find(|claim| claim.id == id)?.number
}

/// The slowdowns of both programs of each pair, in table 1's order.
fn slowdowns(abp: &[CoRun], bws: &[CoRun], claims: &[Claim]) -> Figure {
    let series = |name: &str, of: &[CoRun], nth: usize| {
        let points = of.iter().zip(1..).map(|(one, x)| (f64::from(x), one.slowdowns[nth])).collect();
        Series::new(format!("{name}, its {} program", ["first", "second"][nth]), Marks::Points, points)
    };
    let mut all = vec![series("ABP", abp, 0), series("ABP", abp, 1), series("BWS", bws, 0), series("BWS", bws, 1)];
    let x = |first: Benchmark, second: Benchmark| {
        pairs::all().iter().position(|pair| *pair == [first, second]).map_or(0.0, |nth| nth as f64 + 1.0)
    };
    let (clip_mm, mi_ep) = (x(Benchmark::Mm, Benchmark::Clip), x(Benchmark::Ep, Benchmark::Mi));
    let (cg_mm, bfs_ep) = (x(Benchmark::Mm, Benchmark::Cg), x(Benchmark::Bfs, Benchmark::Ep));
    for (of, ids) in [
        (0, vec![("clip-mm-abp-mm", clip_mm), ("mi-ep-abp-ep", mi_ep), ("cg-mm-mm", cg_mm), ("bfs-ep-bfs", bfs_ep)]),
        (1, vec![("clip-mm-abp-clip", clip_mm), ("mi-ep-abp-mi", mi_ep), ("cg-mm-cg", cg_mm), ("bfs-ep-ep", bfs_ep)]),
        (2, vec![("clip-mm-bws-mm", clip_mm), ("mi-ep-bws-ep", mi_ep)]),
        (3, vec![("clip-mm-bws-clip", clip_mm), ("mi-ep-bws-mi", mi_ep)]),
    ] {
        let points: Vec<(f64, f64)> = ids.iter().filter_map(|(id, x)| Some((*x, number(claims, id)?))).collect();
        if !points.is_empty() {
            all.push(Series::of_paper(format!("{}: the paper's", all[of].name), of, points));
        }
    }
    Figure {
        title: "BWS figure 2: slowdowns of the 28 pairs".into(),
        x: Axis::named("pair", pairs::all().into_iter().map(|pair| pair.map(Benchmark::name).join(", "))),
        y: Axis::linear("slowdown, %"),
        series: all,
    }
}

/// A number of each kind of pairs, and of all, under the original and BWS.
fn by_kind(
    title: &str,
    y: &str,
    value: fn(&[CoRun], Option<PairKind>) -> f64,
    of: [&Vec<CoRun>; 2],
    ids: [[&str; 4]; 2],
    claims: &[Claim],
) -> Figure {
    let kinds = [Some(PairKind::Scalable), Some(PairKind::Fair), Some(PairKind::Mixed), None];
    let mut series: Vec<Series> = ["ABP", "BWS"]
        .into_iter()
        .zip(of)
        .map(|(name, of)| {
            let points = kinds.into_iter().zip(1..).map(|(kind, x)| (f64::from(x), value(of, kind))).collect();
            Series::new(name, Marks::Points, points)
        })
        .collect();
    for (of, ids) in ids.into_iter().enumerate() {
        let points = ids.into_iter().zip(1..).filter_map(|(id, x)| Some((f64::from(x), number(claims, id)?))).collect();
        series.push(Series::of_paper(format!("{}: the paper's", series[of].name), of, points));
    }
    let x = Axis::named("pairs", ["of group 1", "of group 2", "of both", "all"]);
    Figure { title: title.into(), x, y: Axis::linear(y), series }
}

/// Figure 4: by program and, behind them, by type.
fn variations(abp: &[CoRun], bws: &[CoRun], claims: &[Claim]) -> Figure {
    let series = |name: &str, of: &[CoRun]| {
        let each = pairs::by_benchmark(of).into_iter().map(|(_, variation)| variation).chain(pairs::by_type(of));
        Series::new(name, Marks::Points, (1..).zip(each).map(|(x, y)| (f64::from(x), y)).collect())
    };
    let mut all = vec![series("ABP", abp), series("BWS", bws)];
    let programs = pairs::by_benchmark(abp).into_iter().map(|(benchmark, _)| benchmark.name());
    let names = programs.chain(["type 1", "type 2", "type 3", "type 4"]);
    // Type 2 is the second behind seven programs.
    for (of, id) in [(0, "cv-type-2-abp"), (1, "cv-type-2-bws")] {
        if let Some(number) = number(claims, id) {
            all.push(Series::of_paper(format!("{}: the paper's", all[of].name), of, vec![(9.0, number)]));
        }
    }
    Figure {
        title: "BWS figure 4: how much times vary".into(),
        x: Axis::named("program, or type of execution", names),
        y: Axis::linear("coefficient of variation of its times, %"),
        series: all,
    }
}

/// Average unfairness and throughput over `x` on such an axis, a figure each.
fn two(
    names: [&'static str; 2],
    title: &str,
    (axis, x): (&dyn Fn() -> Axis, [f64; 4]),
    averages: &[(f64, f64)],
    ids: [[&str; 4]; 2],
    claims: &[Claim],
) -> [(&'static str, Figure); 2] {
    let figure = |nth: usize, y: &str| {
        let value = |average: &(f64, f64)| if nth == 0 { average.0 } else { average.1 };
        let points = x.into_iter().zip(averages.iter().map(value)).collect();
        let of_paper = x.into_iter().zip(ids[nth]).filter_map(|(x, id)| Some((x, number(claims, id)?))).collect();
        Figure {
            title: title.into(),
            x: axis(),
            y: Axis::linear(y),
            series: vec![Series::new("here", Marks::Line, points), Series::of_paper("the paper's", 0, of_paper)],
        }
    };
    [(names[0], figure(0, "average unfairness, %")), (names[1], figure(1, "average weighted speedup"))]
}

impl Extra {
    /// What the paper draws and has no number for.
    fn table(&self) -> String {
        let mut text = String::new();
        if !self.alone.is_empty() {
            let mut table = Table::new();
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["alone under ABP", "s", "speedup"]);
            for Alone { program, seconds, speedup } in &self.alone {
                table.add_row([(*program).to_owned(), format!("{seconds:.3}"), format!("{speedup:.1}")]);
            }
            let _ = writeln!(text, "{table}");
        }
        let of = |policy: &'static str| self.pairs.iter().filter(move |one| one.policy == policy);
        let policies = [ORIGINAL, "bws"];
        if policies.iter().all(|policy| of(policy).next().is_some()) {
            let mut table = Table::new();
            let header = ["pair", "slowdowns under ABP, %", "under BWS", "throughput under ABP", "under BWS"];
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
            for (abp, bws) in of(policies[0]).zip(of(policies[1])) {
                let slowdowns = |one: &Paired| one.co_run.slowdowns.map(|each| format!("{each:.0}")).join(", ");
                table.add_row([
                    abp.programs.join(", "),
                    slowdowns(abp),
                    slowdowns(bws),
                    format!("{:.2}", abp.co_run.throughput),
                    format!("{:.2}", bws.co_run.throughput),
                ]);
            }
            let _ = writeln!(text, "{table}");
        }
        if !self.beyond.is_empty() {
            let mut table = Table::new();
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
                "cores",
                "groups",
                "policy",
                "unfairness, % (most)",
                "throughput (least)",
                "alone over abp",
                "barriers",
                "fences",
                "wake-ups",
                "switches a core and s",
            ]);
            for point in &self.beyond {
                table.add_row([
                    point.cores.to_string(),
                    format!("{:?}", point.groups).to_lowercase(),
                    point.policy.to_owned(),
                    format!("{:.0} ({:.0})", point.unfairness, point.most_unfair),
                    format!("{:.2} ({:.2})", point.throughput, point.least_throughput),
                    format!("{:.3}", point.alone),
                    format!("{:.1}", point.barriers),
                    format!("{:.0}", point.fences),
                    format!("{:.0}", point.wakeups),
                    format!("{:.0}", point.switches),
                ]);
            }
            let _ = writeln!(text, "{table}");
        }
        text
    }
}
