//! The experiments of DWS (§4): eight programs, alone and in all 28 mixes, on 16 simulated processors.
//!
//! Chen, Zheng and Guo, *Adaptive demand-aware work-stealing in multi-programmed multi-core architectures*, CCPE 2016.
//! A mix under a policy is one run, and experiments share them.

pub mod compute;
mod data;
mod mixed;
pub mod mixes;
mod no_coordinator;
mod setting;
mod solo;
mod t_sleep;

use std::fmt::Write;

use comfy_table::{Table, presets};
use comity_console::Failure;
use serde::Serialize;

use mixes::{Compared, Mix, Set};
pub use setting::{ABP, AtHome, EP, PROCESSORS, PROGRAMS, Programs, Setting, is_data_intensive};

use crate::corun::Ran;
use crate::paper::{Experiment, NoOptions, Paper, Text, undrawn};
use crate::{Runner, here};

/// What came of DWS's experiments with one setting.
pub struct Dws {
    programs: Programs,
    /// Each program alone under ABP, p-1 first.
    alone: Option<Vec<Ran>>,
    sets: Vec<(Set, Compared)>,
    /// Without a coordinator, of the mixed set.
    no_coordinator: Vec<Mix>,
    thresholds: Vec<Mix>,
}

impl Paper for Dws {
    const TEXT: Text = Text {
        name: "dws",
        title: "DWS: eight programs alone and in all 28 mixes, on 16 simulated processors with Linux 2.6.32",
        about: "The programs are recorded kernels; the thieves, coordinators and the core table are the code that \
                runs on threads. With --out, each figure is drawn as an SVG file, and the numbers are in \
                result.json.",
        examples: "Examples:
  comity-lab reproduce dws --check
  comity-lab reproduce dws fig4 fig8 --plot .
  comity-lab reproduce dws --full --out results    # stopped, the same command
                                                   # goes on
  comity-lab reproduce dws fig6 --vary memory=900 --vary refill=100000

Chen, Zheng and Guo, Adaptive demand-aware work-stealing in multi-programmed
multi-core architectures, CCPE 2016. docs/results/dws.md has each of the paper's
numbers beside ours; lab/papers/src/dws/claims.toml has its tolerance, and what
is assumed.",
        default: "all",
        vary: (
            "KEY=VALUE",
            "Choose otherwise what the paper leaves unsaid; can be repeated. Of the machine: bandwidth, memory, smt \
             (thousandths), first-touch, compat-yield (0 or 1), hz. Of the programs: slow (a factor of the recorded \
             lengths), at-home (none, table or all). Costs in nanoseconds: steal, yield, refill",
        ),
        one_in: None,
        file: "lab/papers/src/dws/claims.toml",
        claims: include_str!("dws/claims.toml"),
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

    fn with(setting: &Setting) -> Dws {
        let programs = setting.programs();
        Dws { programs, alone: None, sets: Vec::new(), no_coordinator: Vec::new(), thresholds: Vec::new() }
    }

    fn experiments<R: Runner>() -> Vec<Experiment<Dws, R>> {
        vec![
            Experiment::new("fig4", "Mixes of both kinds", mixed::run, mixed::figures),
            Experiment::new("fig5", "Mixes of compute-intensive programs", compute::run, compute::figures),
            Experiment::new("fig6", "Mixes of data-intensive programs", data::run, data::figures),
            Experiment::new("fig7", "DWS without a coordinator", no_coordinator::run, no_coordinator::figures),
            Experiment::new("fig8", "Other values of T_SLEEP, for FFT and Mergesort", t_sleep::run, t_sleep::figures),
            Experiment::new("solo", "§3.5: each program alone", solo::run, undrawn),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let note = "The paper gives no time alone and one size: programs' sizes and the machine's costs are assumed, \
                    and most of them swept.";
        vec![note.to_owned()]
    }

    fn extra(mut self) -> Extra {
        let alone = PROGRAMS.into_iter().zip(self.alone.iter().flatten());
        let alone = alone.map(|(program, ran)| Alone { program, seconds: ran.mean() / 1e9 }).collect();
        let mut mixes = Vec::new();
        let mut add = |policy: &str, of: Vec<Mix>| {
            let told = |mix: Mix| Mixed { policy: policy.to_owned(), difference: mix.difference(), mix };
            mixes.extend(of.into_iter().map(told));
        };
        self.sets.sort_by_key(|(set, _)| *set);
        for (_, Compared { dws, abp, ep }) in self.sets {
            add(self.programs.setting.dws, dws);
            add(ABP, abp);
            add(EP, ep);
        }
        add(no_coordinator::POLICY, self.no_coordinator);
        for (mix, threshold) in self.thresholds.into_iter().zip(t_sleep::THRESHOLDS) {
            add(&format!("dws:t_sleep={threshold}"), vec![mix]);
        }
        Extra { alone, mixes }
    }

    fn table(extra: &Extra) -> String {
        extra.table()
    }
}

impl Dws {
    /// The programs alone under ABP, and whether they were run. Without these nothing can be said, but what can be run
    /// is.
    fn alone<R: Runner>(&mut self, runner: &R) -> Result<(Vec<Ran>, bool), Failure> {
        if self.alone.is_none() {
            self.alone = here(self.programs.alone(ABP, runner))?;
        }
        let unknown = || vec![Ran::default(); PROGRAMS.len()];
        Ok((self.alone.clone().unwrap_or_else(unknown), self.alone.is_some()))
    }

    /// A set under all three policies, unless some of the runs are elsewhere.
    fn compared<R: Runner>(&mut self, set: Set, runner: &R) -> Result<Option<&Compared>, Failure> {
        let (alone, has_alone) = self.alone(runner)?;
        if self.of_set(set).is_none() {
            let compared = here(mixes::compare(&self.programs, set, &alone, runner))?.filter(|_| has_alone);
            self.sets.extend(compared.map(|compared| (set, compared)));
        }
        Ok(self.of_set(set))
    }

    /// A set under all three policies, if it was run.
    fn of_set(&self, set: Set) -> Option<&Compared> {
        self.sets.iter().find(|(own, _)| *own == set).map(|(_, compared)| compared)
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Serialize)]
pub struct Extra {
    alone: Vec<Alone>,
    mixes: Vec<Mixed>,
}

/// A program alone under ABP.
#[derive(Serialize)]
struct Alone {
    program: &'static str,
    seconds: f64,
}

/// A mix under a policy.
#[derive(Serialize)]
struct Mixed {
    policy: String,
    #[serde(flatten)]
    mix: Mix,
    difference: f64,
}

impl Extra {
    /// What the paper draws and has no number for.
    fn table(&self) -> String {
        let mut text = String::new();
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["alone under ABP", "s"]);
        for (Alone { program, seconds }, number) in self.alone.iter().zip(1..) {
            table.add_row([format!("p-{number}, {program}"), format!("{seconds:.3}")]);
        }
        let _ = writeln!(text, "{table}");
        let of = |policy: &'static str| self.mixes.iter().filter(move |one| one.policy == policy);
        if of(ABP).next().is_some() {
            let mut table = Table::new();
            let header = ["mix", "ratios under DWS; D", "under ABP", "under EP"];
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
            let told = |one: &Mixed| {
                let [first, second] = one.mix.ratios;
                format!("{first:.2}, {second:.2}; {:.2}", one.difference)
            };
            for ((dws, abp), ep) in of("dws").zip(of(ABP)).zip(of(EP)) {
                let mix = format!("({}, {})", dws.mix.of[0], dws.mix.of[1]);
                table.add_row([mix, told(dws), told(abp), told(ep)]);
            }
            let _ = writeln!(text, "{table}");
        }
        text
    }
}
