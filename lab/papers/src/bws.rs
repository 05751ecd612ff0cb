//! The experiments of BWS (§2.3.2, §5): eight programs, alone and in all 28 pairs, on 32 simulated cores.
//!
//! Ding, Wang, Gibbons and Zhang, *BWS: Balanced Work Stealing for Time-Sharing Multicores*, EuroSys 2012. A pair under
//! a policy is one run, and experiments share them.

pub mod ablations;
mod averages;
mod benchmark;
pub mod beyond;
pub mod examples;
pub mod pairs;
mod setting;
pub mod slowdowns;
pub mod solo;
pub mod thresholds;
pub mod throughputs;
pub mod variations;
pub mod yields;

use std::fmt::Write;

use comfy_table::{Table, presets};
use comity_console::Failure;
use serde::Serialize;

pub use benchmark::Benchmark;
use pairs::{CoRun, CoRuns};
pub use setting::{CORES, ORIGINAL, Programs, Setting};

use crate::corun::Ran;
use crate::paper::{Experiment, NoOptions, Paper, Text, undrawn};
use crate::{Runner, here};

/// What came of BWS's experiments with one setting.
pub struct Bws {
    /// The programs of the setting.
    pub programs: Programs,
    alone: Option<Vec<Ran>>,
    /// The pairs under each policy.
    pairs: Vec<(String, CoRuns)>,
    beyond: Vec<beyond::Point>,
}

impl Paper for Bws {
    const TEXT: Text = Text {
        name: "bws",
        title: "BWS: eight programs alone and in all 28 pairs, on 32 simulated cores with Linux 2.6.36",
        about: "The programs are recorded kernels; the thieves are the code that runs on threads. With --out, each \
                figure is drawn as an SVG file, and the numbers are in result.json.",
        examples: "Examples:
  comity-lab reproduce bws --check
  comity-lab reproduce bws fig2 fig3 --plot .
  comity-lab reproduce bws --full --out results    # stopped, the same command
                                                   # goes on
  comity-lab reproduce bws examples --vary slow=20 --vary hz=250

Ding, Wang, Gibbons and Zhang, BWS: Balanced Work Stealing for Time-Sharing
Multicores, EuroSys 2012. docs/results/bws.md has each of the paper's numbers
beside ours; lab/papers/src/bws/claims.toml has its kind, its tolerance, and
what the model was fitted to.",
        default: "the paper's",
        vary: (
            "KEY=VALUE",
            "Choose otherwise what the paper leaves unsaid; can be repeated. Of the machine: bandwidth, cg-memory, \
             bfs-memory (thousandths), hz. Of the programs: slow, cg (factors of the recorded lengths), clip-serial \
             (µs before a batch), again (process or in-place). Costs in nanoseconds: steal, yield, switch, refill, \
             queue, bell, count",
        ),
        one_in: None,
        file: "lab/papers/src/bws/claims.toml",
        claims: include_str!("bws/claims.toml"),
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

    fn with(setting: &Setting) -> Bws {
        Bws { programs: setting.programs(), alone: None, pairs: Vec::new(), beyond: Vec::new() }
    }

    fn experiments<R: Runner>() -> Vec<Experiment<Bws, R>> {
        vec![
            Experiment::new("solo", "§5.1, footnote 4: each program alone", solo::run, undrawn),
            Experiment::new("examples", "§2.3.2: BFS beside EP, and CG beside MM", examples::run, undrawn),
            Experiment::new(
                "fig2",
                "Slowdowns, unfairness and switches of all pairs",
                slowdowns::run,
                slowdowns::figures,
            ),
            Experiment::new("fig3", "Their throughput", throughputs::run, throughputs::figures),
            Experiment::new("fig4", "How much their times vary", variations::run, variations::figures),
            Experiment::new("fig5", "Delayed and selective yields", yields::run, yields::figures),
            Experiment::new("fig6", "Other values of SleepThreshold", thresholds::run, thresholds::figures),
            Experiment::new(
                "ablations",
                "§5.5: waking by busy workers, and global information",
                ablations::run,
                undrawn,
            ),
            Experiment::beyond(
                "beyond",
                "What the authors had no machine for: 64 and 128 cores under EEVDF, and dws and comity",
                beyond::run,
                undrawn,
            ),
        ]
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "LOOP has no executions of its own: its slowdown is that of its computing time, and it has no variation."
                .into(),
        ]
    }

    fn extra(self) -> Extra {
        let mut extra = Extra { alone: Vec::new(), pairs: Vec::new(), beyond: self.beyond };
        let Some(alone) = &self.alone else { return extra };
        let speedups = solo::speedups(&self.programs, alone);
        for ((benchmark, ran), speedup) in Benchmark::ALL.into_iter().zip(alone).zip(speedups) {
            // LOOP has no time.
            if benchmark != Benchmark::Loop {
                extra.alone.push(Alone { program: benchmark.name(), seconds: ran.mean() / 1e9, speedup });
            }
        }
        for (policy, found) in &self.pairs {
            extra.pairs.extend(pairs::co_runs(alone, found).into_iter().map(|co_run| Paired {
                policy: policy.clone(),
                programs: co_run.pair.map(Benchmark::name),
                unfairness: co_run.unfairness(),
                co_run,
            }));
        }
        extra
    }

    fn table(extra: &Extra) -> String {
        extra.table()
    }
}

/// The programs alone, and all pairs under the original and under BWS.
type Compared = (Vec<Ran>, [CoRuns; 2]);

impl Bws {
    /// The programs alone under the original, unless some of the runs are elsewhere.
    fn alone<R: Runner>(&mut self, runner: &R) -> Result<Option<Vec<Ran>>, Failure> {
        if self.alone.is_none() {
            self.alone = here(self.programs.alone(ORIGINAL, runner))?;
        }
        Ok(self.alone.clone())
    }

    /// All pairs under a policy, unless some of the runs are elsewhere.
    fn pairs<R: Runner>(&mut self, policy: &str, runner: &R) -> Result<Option<CoRuns>, Failure> {
        if let Some((_, known)) = self.pairs.iter().find(|(known, _)| known == policy) {
            return Ok(Some(known.clone()));
        }
        let found = here(pairs::run(&self.programs, policy, runner))?;
        self.pairs.extend(found.clone().map(|found| (policy.to_owned(), found)));
        Ok(found)
    }

    /// The programs alone, and all pairs under the original and under BWS.
    fn compared<R: Runner>(&mut self, runner: &R) -> Result<Option<Compared>, Failure> {
        let bws = self.programs.setting.bws;
        let (alone, abp, bws) = (self.alone(runner)?, self.pairs(ORIGINAL, runner)?, self.pairs(bws, runner)?);
        Ok(alone.zip(abp.zip(bws)).map(|(alone, (abp, bws))| (alone, [abp, bws])))
    }

    /// What came of all pairs under a policy, if they were run.
    fn co_runs(&self, policy: &str) -> Option<Vec<CoRun>> {
        let (_, found) = self.pairs.iter().find(|(known, _)| known == policy)?;
        Some(pairs::co_runs(self.alone.as_ref()?, found))
    }

    /// What came of all pairs under the original and under BWS, if both were run.
    fn both(&self) -> Option<[Vec<CoRun>; 2]> {
        Some([self.co_runs(ORIGINAL)?, self.co_runs(self.programs.setting.bws)?])
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Serialize)]
pub struct Extra {
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
