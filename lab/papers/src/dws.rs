//! The experiments of DWS (§4): eight programs, alone and in all 28 mixes, on 16 simulated processors.
//!
//! Chen, Zheng and Guo, *Adaptive demand-aware work-stealing in multi-programmed multi-core architectures*, CCPE 2016.
//! Each mix is run once under each policy, and the experiments share these runs.

mod compute;
mod data;
mod mixed;
mod mixes;
mod no_coordinator;
mod setting;
mod solo;
mod t_sleep;

use serde::Serialize;

use mixes::{Compared, Mix, Set};
pub use setting::Setting;
use setting::{ABP, DWS, EP, NO_COORDINATOR, PROGRAMS, Programs, is_data_intensive};

use crate::corun::Ran;
use crate::paper::{Experiment, Kept, NoOptions, Paper, Text};
use crate::report;
use crate::{Runner, Stop};

/// The outcomes of DWS's experiments with one setting.
pub struct Dws {
    programs: Programs,
    /// The outcomes of each program alone under a policy, p-1 first.
    alone: Kept<&'static str, Vec<Ran>>,
    /// The outcomes of the mixes of a set under a policy.
    mixes: Kept<(Set, &'static str), Vec<Vec<Ran>>>,
    /// The outcomes of the mix of figure 8, with each value of T_SLEEP.
    thresholds: Vec<Vec<Ran>>,
}

/// A part of the runs, which experiments can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The programs alone under a policy.
    Alone(&'static str),
    /// The mixes of a set under a policy.
    Mixes(Set, &'static str),
    /// The mix of figure 8 with each value of T_SLEEP.
    Thresholds,
}

impl Part {
    /// Returns the parts for a comparison of the three policies on one set of mixes: the programs alone, and the set
    /// under DWS, ABP and equipartition.
    fn compared(set: Set) -> [Part; 4] {
        [Part::Alone(ABP), Part::Mixes(set, DWS), Part::Mixes(set, ABP), Part::Mixes(set, EP)]
    }
}

impl Paper for Dws {
    const TEXT: Text = Text {
        name: "dws",
        title: "DWS: eight programs alone and in all 28 mixes, on 16 simulated processors with Linux 2.6.32",
        about: "The programs are recorded kernels. The thieves, the coordinators and the core table use the same code \
            as the runtime. --out writes each figure as an SVG file, and the numbers to result.json.",
        examples: "Examples:
  comity-lab reproduce dws --check
  comity-lab reproduce dws fig4 fig8 --plot .
  comity-lab reproduce dws --full --out results
  comity-lab reproduce dws fig6 --vary memory=900 --vary refill=100000

If a command with --out is interrupted, run it again to continue.

Chen, Zheng and Guo, Adaptive demand-aware work-stealing in multi-programmed
multi-core architectures, CCPE 2016. docs/results/dws.md compares the paper's
numbers with ours. lab/papers/src/dws/claims.toml has the tolerance of each
number, and the assumptions.",
        default: "all",
        vary: (
            "KEY=VALUE",
            "Change a parameter that the paper omits; can be repeated. Machine: bandwidth, memory, smt (thousandths), \
             first-touch, compat-yield (0 or 1), hz. Programs: slow (a factor of the recorded lengths), at-home (none, \
             table or all). Costs in nanoseconds: steal, yield, refill, disturb; noise (time between interruptions)",
        ),
        one_in: None,
        file: "lab/papers/src/dws/claims.toml",
        claims: include_str!("dws/claims.toml"),
    };

    type Options = NoOptions;
    type Setting = Setting;
    type Part = Part;
    type Extra = Extra;

    fn with(setting: &Setting) -> Dws {
        Dws { programs: setting.programs(), alone: Kept::new(), mixes: Kept::new(), thresholds: Vec::new() }
    }

    fn experiments() -> Vec<Experiment<Dws>> {
        vec![
            Experiment::new("fig4", "Mixes of both kinds", Part::compared(Set::Mixed), mixed::measures, mixed::figures),
            Experiment::new(
                "fig5",
                "Mixes of compute-intensive programs",
                Part::compared(Set::Compute),
                compute::measures,
                compute::figures,
            ),
            Experiment::new(
                "fig6",
                "Mixes of data-intensive programs",
                Part::compared(Set::Data),
                data::measures,
                data::figures,
            ),
            Experiment::new(
                "fig7",
                "DWS without a coordinator",
                no_coordinator::parts(),
                no_coordinator::measures,
                no_coordinator::figures,
            ),
            Experiment::new(
                "fig8",
                "Other values of T_SLEEP, for FFT and Mergesort",
                [Part::Alone(ABP), Part::Thresholds],
                t_sleep::measures,
                t_sleep::figures,
            ),
            Experiment::undrawn("solo", "§3.5: each program alone", [ABP, DWS].map(Part::Alone), solo::measures),
        ]
    }

    fn run<R: Runner<Stop = Stop>>(&mut self, part: &Part, runner: &R) -> Result<(), Stop> {
        let programs = &self.programs;
        match *part {
            Part::Alone(policy) => self.alone.keep(policy, programs.alone(policy, runner)?),
            Part::Mixes(set, policy) => self.mixes.keep((set, policy), mixes::run(programs, set, policy, runner)?),
            Part::Thresholds => self.thresholds = t_sleep::run(programs, runner)?,
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let note = "The paper gives one size and no times alone. The programs' sizes and the machine's costs are \
            assumed, and most of them are swept.";
        vec![note.to_owned()]
    }

    fn extra(self) -> Extra {
        // The programs were run alone under ABP, because every experiment needs these runs.
        let original = self.alone.of(ABP);
        let alone = PROGRAMS.into_iter().zip(original);
        let alone = alone.map(|(program, ran)| Alone { program, seconds: ran.mean() / 1e9 }).collect();
        let mut mixes = Vec::new();
        let mut add = |policy: &str, of: Vec<Mix>| {
            let told = |mix: Mix| Mixed { policy: policy.to_owned(), difference: mix.difference(), mix };
            mixes.extend(of.into_iter().map(told));
        };
        for set in Set::ALL.into_iter().filter(|set| self.mixes.has((*set, DWS))) {
            let Compared { dws, abp, ep } = self.compared(set);
            add(DWS, dws);
            add(ABP, abp);
            add(EP, ep);
        }
        if self.mixes.has((Set::Mixed, NO_COORDINATOR)) {
            add(NO_COORDINATOR, self.mixes(Set::Mixed, NO_COORDINATOR));
        }
        for (ran, threshold) in self.thresholds.iter().zip(t_sleep::THRESHOLDS) {
            add(&t_sleep::policy(threshold), vec![mixes::told(t_sleep::MIX, ran, original)]);
        }
        Extra { alone, mixes }
    }

    fn table(extra: &Extra) -> String {
        let numbered = extra.alone.iter().zip(1..);
        let alone = numbered
            .map(|(Alone { program, seconds }, number)| [format!("p-{number}, {program}"), format!("{seconds:.3}")]);
        let of = |policy: &'static str| extra.mixes.iter().filter(move |one| one.policy == policy);
        let told = |one: &Mixed| {
            let [first, second] = one.mix.ratios;
            format!("{first:.2}, {second:.2}; {:.2}", one.difference)
        };
        let mixes = of(DWS).zip(of(ABP)).zip(of(EP)).map(|((dws, abp), ep)| {
            [format!("({}, {})", dws.mix.of[0], dws.mix.of[1]), told(dws), told(abp), told(ep)]
        });
        let header = ["mix", "ratios under DWS; D", "under ABP", "under EP"];
        report::table(["alone under ABP", "s"], alone) + &report::table(header, mixes)
    }
}

impl Dws {
    /// Returns the mixes of a set under a policy.
    ///
    /// # Panics
    /// If the mixes were not run.
    fn mixes(&self, set: Set, policy: &'static str) -> Vec<Mix> {
        let each = set.mixes().into_iter().zip(self.mixes.of((set, policy)));
        each.map(|(mix, ran)| mixes::told(mix, ran, self.alone.of(ABP))).collect()
    }

    /// Returns the mixes of a set under each of the three compared policies.
    ///
    /// # Panics
    /// If the set was not run under these policies.
    fn compared(&self, set: Set) -> Compared {
        let [dws, abp, ep] = [DWS, ABP, EP].map(|policy| self.mixes(set, policy));
        Compared { dws, abp, ep }
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Serialize)]
pub struct Extra {
    alone: Vec<Alone>,
    mixes: Vec<Mixed>,
}

/// The outcome of a program alone under ABP.
#[derive(Serialize)]
struct Alone {
    program: &'static str,
    seconds: f64,
}

/// The outcome of a mix under a policy.
#[derive(Serialize)]
struct Mixed {
    policy: String,
    #[serde(flatten)]
    mix: Mix,
    difference: f64,
}
