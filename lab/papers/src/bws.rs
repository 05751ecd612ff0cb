//! The experiments of BWS (§2.3.2, §5): eight programs, alone and in all 28 pairs, on 32 simulated cores.
//!
//! Ding, Wang, Gibbons and Zhang, *BWS: Balanced Work Stealing for Time-Sharing Multicores*, EuroSys 2012. Each pair
//! is run once under each policy, and the experiments share these runs. The paper's original, unmodified work
//! stealing is the policy `abp`.

mod ablations;
mod averages;
mod benchmark;
mod beyond;
mod examples;
mod pairs;
mod setting;
mod slowdowns;
mod solo;
mod thresholds;
mod throughputs;
mod variations;
mod yields;

use serde::Serialize;

use benchmark::Benchmark;
use pairs::{CoRun, CoRuns};
pub use setting::Setting;
use setting::{BWS, CORES, ORIGINAL, Programs};

use crate::corun::Ran;
use crate::paper::{Experiment, Kept, NoOptions, Paper, Text};
use crate::report;
use crate::{Runner, Stop};

/// The outcomes of BWS's experiments with one setting.
pub struct Bws {
    programs: Programs,
    /// The outcomes of the programs alone under each policy.
    alone: Kept<&'static str, Vec<Ran>>,
    examples: Vec<Vec<Ran>>,
    /// The outcomes of the pairs under each policy.
    pairs: Kept<&'static str, CoRuns>,
    beyond: Vec<beyond::Point>,
}

/// A part of the runs, which experiments can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The programs alone under a policy.
    Alone(&'static str),
    /// The examples of §2.3.2.
    Examples,
    /// All pairs under a policy.
    Pairs(&'static str),
    /// The experiments that the paper does not have.
    Beyond,
}

impl Paper for Bws {
    const TEXT: Text = Text {
        name: "bws",
        title: "BWS: eight programs alone and in all 28 pairs, on 32 simulated cores with Linux 2.6.36",
        about: "The programs are recorded kernels. The thieves use the same code as the runtime. --out writes \
            each figure as an SVG file, and the numbers to result.json.",
        examples: "Examples:
  comity-lab reproduce bws --check
  comity-lab reproduce bws fig2 fig3 --plot .
  comity-lab reproduce bws --full --out results
  comity-lab reproduce bws examples --vary slow=20 --vary hz=250

If a command with --out is interrupted, run it again to continue.

Ding, Wang, Gibbons and Zhang, BWS: Balanced Work Stealing for Time-Sharing
Multicores, EuroSys 2012. docs/results/bws.md compares the paper's numbers with
ours. lab/papers/src/bws/claims.toml has the kind and the tolerance of each
number, and the data to which the model was fitted.",
        default: "the paper's",
        vary: (
            "KEY=VALUE",
            "Change a parameter that the paper omits; can be repeated. Machine: bandwidth, cg-memory, bfs-memory \
             (thousandths), hz, yield-to (always or fair). Programs: slow, cg (factors of the recorded lengths), clip-serial (µs before a batch), \
             again (process or in-place). Costs in nanoseconds: steal, yield, switch, refill, queue, bell, \
             count, disturb; noise (time between interruptions)",
        ),
        one_in: None,
        file: "lab/papers/src/bws/claims.toml",
        claims: include_str!("bws/claims.toml"),
    };

    type Options = NoOptions;
    type Setting = Setting;
    type Part = Part;
    type Extra = Extra;

    fn with(setting: &Setting) -> Bws {
        let programs = setting.programs();
        Bws { programs, alone: Kept::new(), examples: Vec::new(), pairs: Kept::new(), beyond: Vec::new() }
    }

    fn experiments() -> Vec<Experiment<Bws>> {
        use Part::{Alone, Beyond, Examples, Pairs};
        let compared = [Alone(ORIGINAL), Pairs(ORIGINAL), Pairs(BWS)];
        let with = |others: &[&'static str]| {
            let others = others.iter().map(|policy| Pairs(policy));
            [Alone(ORIGINAL), Pairs(ORIGINAL)].into_iter().chain(others).collect::<Vec<Part>>()
        };
        vec![
            Experiment::undrawn(
                "solo",
                "§5.1, footnote 4: each program alone",
                [ORIGINAL, BWS].map(Alone),
                solo::measures,
            ),
            Experiment::undrawn(
                "examples",
                "§2.3.2: BFS with EP, and CG with MM",
                [Alone(ORIGINAL), Examples],
                examples::measures,
            ),
            Experiment::new(
                "fig2",
                "Slowdowns, unfairness and switches of all pairs",
                compared,
                slowdowns::measures,
                slowdowns::figures,
            ),
            Experiment::new("fig3", "Throughput of all pairs", compared, throughputs::measures, throughputs::figures),
            Experiment::new(
                "fig4",
                "Variation of the programs' times",
                compared,
                variations::measures,
                variations::figures,
            ),
            Experiment::new(
                "fig5",
                "Delayed and selective yields",
                with(&yields::OTHERS),
                yields::measures,
                yields::figures,
            ),
            Experiment::new(
                "fig6",
                "Other values of SleepThreshold",
                with(&thresholds::POLICIES),
                thresholds::measures,
                thresholds::figures,
            ),
            Experiment::undrawn(
                "ablations",
                "§5.5: waking by busy workers, and global information",
                ablations::POLICIES.map(Alone),
                ablations::measures,
            ),
            Experiment::beyond(
                "beyond",
                "Beyond the paper: 64 and 128 cores under EEVDF, and the policies dws and comity",
                [Beyond],
                |_, _| Vec::new(),
            ),
        ]
    }

    fn run<R: Runner<Stop = Stop>>(&mut self, part: &Part, runner: &R) -> Result<(), Stop> {
        let programs = &self.programs;
        match *part {
            Part::Alone(policy) => self.alone.keep(policy, programs.alone(policy, runner)?),
            Part::Examples => self.examples = examples::run(programs, runner)?,
            Part::Pairs(policy) => self.pairs.keep(policy, pairs::run(programs, policy, runner)?),
            Part::Beyond => beyond::run(self, runner)?,
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        vec!["LOOP has no executions: its slowdown is that of its computing time, and it has no variation.".into()]
    }

    fn extra(self) -> Extra {
        let mut extra = Extra { alone: Vec::new(), pairs: Vec::new(), beyond: Vec::new() };
        if self.alone.has(ORIGINAL) {
            let alone = self.alone.of(ORIGINAL);
            let speedups = solo::speedups(&self.programs, alone);
            for ((benchmark, ran), speedup) in Benchmark::ALL.into_iter().zip(alone).zip(speedups) {
                // LOOP never ends, so it has no time.
                if benchmark != Benchmark::Loop {
                    extra.alone.push(Alone { program: benchmark.name(), seconds: ran.mean() / 1e9, speedup });
                }
            }
        }
        for (policy, _) in &self.pairs.0 {
            extra.pairs.extend(self.co_runs(policy).into_iter().map(|co_run| Paired {
                policy,
                programs: co_run.pair.map(Benchmark::name),
                unfairness: co_run.unfairness(),
                co_run,
            }));
        }
        Extra { beyond: self.beyond, ..extra }
    }

    fn table(extra: &Extra) -> String {
        let alone = extra.alone.iter().map(|Alone { program, seconds, speedup }| {
            [(*program).to_owned(), format!("{seconds:.3}"), format!("{speedup:.1}")]
        });
        let of = |policy: &'static str| extra.pairs.iter().filter(move |one| one.policy == policy);
        let slowdowns = |one: &Paired| one.co_run.slowdowns.map(|each| format!("{each:.0}")).join(", ");
        let pairs = of(ORIGINAL).zip(of(BWS)).map(|(abp, bws)| {
            [
                abp.programs.join(", "),
                slowdowns(abp),
                slowdowns(bws),
                format!("{:.2}", abp.co_run.throughput),
                format!("{:.2}", bws.co_run.throughput),
            ]
        });
        [
            report::table(["alone under ABP", "s", "speedup"], alone),
            report::table(["pair", "slowdowns under ABP, %", "under BWS", "throughput under ABP", "under BWS"], pairs),
            beyond::table(&extra.beyond),
        ]
        .concat()
    }
}

impl Bws {
    /// Returns the values that the paper plots for all pairs under a policy.
    ///
    /// # Panics
    /// If the pairs were not run under this policy, or if the programs were not run alone under ABP.
    fn co_runs(&self, policy: &'static str) -> Vec<CoRun> {
        pairs::co_runs(self.alone.of(ORIGINAL), self.pairs.of(policy))
    }

    /// Returns the values that the paper plots for all pairs under ABP and under BWS.
    fn both(&self) -> [Vec<CoRun>; 2] {
        [ORIGINAL, BWS].map(|policy| self.co_runs(policy))
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Serialize)]
pub struct Extra {
    alone: Vec<Alone>,
    pairs: Vec<Paired>,
    beyond: Vec<beyond::Point>,
}

/// The outcome of a program alone under ABP.
#[derive(Serialize)]
struct Alone {
    program: &'static str,
    seconds: f64,
    speedup: f64,
}

/// The outcome of a pair under a policy.
#[derive(Serialize)]
struct Paired {
    policy: &'static str,
    programs: [&'static str; 2],
    #[serde(flatten)]
    co_run: CoRun,
    unfairness: f64,
}
