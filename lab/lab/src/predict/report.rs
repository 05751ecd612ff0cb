//! What is foretold beside what is measured.

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

/// `comity-predict/1`.
#[derive(Serialize)]
pub struct PredictReport<'a> {
    /// `comity-predict/1`.
    pub schema: &'static str,
    /// Where it was foretold.
    pub machine: Machine,
    /// With what.
    pub versions: Versions,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The simulated machine.
    pub twin: &'a Twin,
    /// What things cost on it.
    pub costs: Costs,
    /// Workers of each program.
    pub workers: u16,
    /// Counted rounds of a program in a real co-run.
    pub rounds: u32,
    /// Simulated runs.
    pub starts: u32,
    /// Of the first of them.
    pub seed: u64,
    /// In the order of the command line.
    pub programs: Vec<OneProgram>,
    /// One per policy, in the order asked for.
    pub coruns: Vec<OneCorun>,
}

/// A recording.
#[derive(Serialize)]
pub struct OneProgram {
    /// As on the command line.
    pub name: String,
    /// What was recorded.
    pub recorded: String,
    /// T₁.
    pub work_s: f64,
    /// T∞.
    pub span_s: f64,
    /// What a check after a round takes; `null`: not known, and left out.
    pub check_s: Option<f64>,
}

/// The co-run of all programs under one policy.
#[derive(Serialize)]
pub struct OneCorun {
    /// With its parameters.
    pub policy: String,
    /// The largest slowdown minus the smallest.
    pub unfairness: Beside,
    /// ΣT_s/T_c.
    pub weighted_speedup: Beside,
    /// In the order of the command line.
    pub programs: Vec<Slowed>,
}

/// One program in a co-run.
#[derive(Serialize)]
pub struct Slowed {
    /// As on the command line.
    pub name: String,
    /// T_s, the mean time alone.
    pub solo_s: Beside,
    /// T_c, the mean time together.
    pub corun_s: Beside,
    /// (T_c − T_s) / T_s.
    pub slowdown: Beside,
    /// The slowdown of each start: the least and the most.
    pub range: [f64; 2],
}

/// A number that is foretold and may have been measured.
#[derive(Clone, Copy, Serialize)]
pub struct Beside {
    /// By the twin.
    pub foretold: f64,
    /// By a real co-run; `null` without `--measure`.
    pub measured: Option<f64>,
    /// `foretold / measured` − 1; `null` where nothing is measured, or nothing but 0.
    pub error: Option<f64>,
}

impl Beside {
    fn new(foretold: f64, measured: Option<f64>) -> Beside {
        let error = measured.filter(|measured| *measured != 0.0).map(|measured| foretold / measured - 1.0);
        Beside { foretold, measured, error }
    }
}

/// What is said of a recording.
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

/// One entry per policy; `measured` has as many, if there is any.
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
