//! The report: the predictions, together with measurements if there are any.

use comity_console::machine::{Machine, Versions};
use comity_policy::Policy;
use serde::Serialize;
use statrs::statistics::Statistics;

use super::costs::Costs;
use super::foretell::Foretold;
use super::programs::Recorded;
use super::twin::Twin;
use crate::corun::measures;
use crate::corun::report::{Corun, CorunProgram};

/// The report, in schema `comity-predict/1`.
#[derive(Serialize)]
pub struct PredictReport<'a> {
    /// The schema: `comity-predict/1`.
    pub schema: &'static str,
    /// The machine on which the prediction was made.
    pub machine: Machine,
    /// The versions of the software.
    pub versions: Versions,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The simulated machine.
    pub twin: &'a Twin,
    /// The costs of operations on the simulated machine.
    pub costs: Costs,
    /// Workers of each program.
    pub workers: u16,
    /// Counted rounds of a program in a real co-run.
    pub rounds: u32,
    /// The number of simulated runs.
    pub starts: u32,
    /// The seed of the first simulated run.
    pub seed: u64,
    /// The programs, in the order of the command line.
    pub programs: Vec<OneProgram>,
    /// The co-runs, one per policy, in the order of the command line.
    pub coruns: Vec<OneCorun>,
}

/// A recording.
#[derive(Serialize)]
pub struct OneProgram {
    /// The program, as on the command line.
    pub name: String,
    /// The program that was recorded.
    pub recorded: String,
    /// T₁, the work in seconds.
    pub work_s: f64,
    /// T∞, the span in seconds.
    pub span_s: f64,
    /// Seconds of the check after a round. `null` if they are unknown. The check is then not simulated.
    pub check_s: Option<f64>,
}

/// The co-run of all programs under one policy.
#[derive(Serialize)]
pub struct OneCorun {
    /// The policy with its parameters.
    pub policy: String,
    /// The largest slowdown minus the smallest.
    pub unfairness: Beside,
    /// The weighted speedup ΣT_s/T_c.
    pub weighted_speedup: Beside,
    /// The programs, in the order of the command line.
    pub programs: Vec<Slowed>,
}

/// The results of a program in a co-run.
#[derive(Serialize)]
pub struct Slowed {
    /// The program, as on the command line.
    pub name: String,
    /// T_s, the mean time alone.
    pub solo_s: Beside,
    /// T_c, the mean time together.
    pub corun_s: Beside,
    /// The slowdown (T_c − T_s) / T_s.
    pub slowdown: Beside,
    /// The smallest and the largest slowdown of all starts.
    pub range: [f64; 2],
}

/// A predicted number, and its measurement if there is one.
#[derive(Clone, Copy, Serialize)]
pub struct Beside {
    /// The number that the simulation predicts.
    pub foretold: f64,
    /// The number that a real co-run gave; `null` without `--measure`.
    pub measured: Option<f64>,
    /// The error, `foretold / measured - 1`. `null` if the number was not measured, or if its measurement is 0.
    pub error: Option<f64>,
}

impl Beside {
    fn new(foretold: f64, measured: Option<f64>) -> Beside {
        let error = measured.filter(|measured| *measured != 0.0).map(|measured| foretold / measured - 1.0);
        Beside { foretold, measured, error }
    }
}

/// Describes a recording.
pub fn program(recorded: &Recorded) -> OneProgram {
    let found = recorded.graph.measure(0);
    OneProgram {
        name: recorded.name.clone(),
        recorded: recorded.graph.about.program.clone(),
        work_s: found.work as f64 / 1e9,
        span_s: found.span as f64 / 1e9,
        check_s: recorded.graph.about.check_ns.map(|ns| ns as f64 / 1e9),
    }
}

/// Returns one entry per policy. `measured` also has one entry per policy, if the co-runs were measured.
pub fn coruns(
    policies: &[Policy],
    programs: &[Recorded],
    foretold: &[Foretold],
    measured: Option<&[Corun]>,
) -> Vec<OneCorun> {
    let of = |(nth, (policy, foretold)): (usize, (&Policy, &Foretold))| {
        corun(policy, programs, foretold, measured.map(|measured| &measured[nth]))
    };
    policies.iter().zip(foretold).enumerate().map(of).collect()
}

fn corun(policy: &Policy, programs: &[Recorded], foretold: &Foretold, measured: Option<&Corun>) -> OneCorun {
    let programs: Vec<Slowed> = programs
        .iter()
        .zip(foretold.alone.iter().zip(&foretold.together))
        .enumerate()
        .map(|(nth, (program, (alone, together)))| {
            slowed(&program.name, foretold.starts, alone, together, measured.map(|measured| &measured.programs[nth]))
        })
        .collect();
    let slowdowns: Vec<f64> = programs.iter().map(|program| program.slowdown.foretold).collect();
    let speedup = programs.iter().map(|program| program.solo_s.foretold / program.corun_s.foretold).sum();
    OneCorun {
        policy: policy.to_string(),
        unfairness: Beside::new(measures::range(&slowdowns), measured.map(|measured| measured.unfairness)),
        weighted_speedup: Beside::new(speedup, measured.map(|measured| measured.weighted_speedup)),
        programs,
    }
}

fn slowed(name: &str, starts: usize, alone: &[u64], together: &[u64], measured: Option<&CorunProgram>) -> Slowed {
    let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e9;
    let (solo, corun) = (mean(alone), mean(together));
    let rounds = alone.len() / starts;
    let each = alone.chunks(rounds).zip(together.chunks(rounds));
    let each: Vec<f64> = each.map(|(alone, together)| mean(together) / mean(alone) - 1.0).collect();
    Slowed {
        name: name.to_owned(),
        solo_s: Beside::new(solo, measured.map(|program| program.solo_s)),
        corun_s: Beside::new(corun, measured.map(|program| program.corun_s)),
        slowdown: Beside::new(corun / solo - 1.0, measured.map(|program| program.slowdown)),
        range: [Statistics::min(&each), Statistics::max(&each)],
    }
}
