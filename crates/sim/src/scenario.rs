//! A machine, its programs and what goes wrong, as somebody writes it down; and what comes of it.
//!
//! `scenarios/README.md` documents each key. Programs run under the policies whose thieves never sleep: the machine of the A-STEAL
//! paper has no sleepers.

use std::collections::BTreeMap;

use comity_policy::{Policy, Waking};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::job::{Cycles, Deques};
use crate::machine::{Feedback, Server, ThreadScheduler};
use crate::program::{Fork, ForkJoin, Program};
use crate::random::stream;

/// A scenario as it is written. [`Scenario::new`] looks whether it makes sense.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Of all that is drawn.
    #[serde(default = "one")]
    pub seed: u64,
    /// So many runs, with this seed and those that follow.
    #[serde(default = "one")]
    pub runs: u64,
    /// The machine.
    pub machine: Machine,
    /// The programs that come to it.
    pub programs: Vec<Submission>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

fn one() -> u64 {
    1
}

/// The machine and its job scheduler.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// P.
    pub processors: u32,
    /// L, in steps.
    #[serde(default = "two_hundred")]
    pub quantum: u64,
    /// After so many steps the run ends, whoever has ended by then; rounded up to whole quanta.
    pub steps: u64,
    /// How processors are allotted.
    #[serde(default)]
    pub allot: Allot,
}

fn two_hundred() -> u64 {
    200
}

/// A job scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allot {
    /// Dynamic equipartitioning: equal parts, but nobody gets more than it desires.
    #[default]
    Deq,
    /// Equipartitioning: equal parts, whatever is desired.
    Eq,
}

/// One program, or several alike.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// What it is called.
    pub name: String,
    /// As in `--policy`.
    pub policy: String,
    /// When the first comes.
    #[serde(default)]
    pub at: u64,
    /// How many come,
    #[serde(default = "one")]
    pub count: u64,
    /// one after so many steps.
    #[serde(default)]
    pub every: u64,
    /// w₁.
    pub serial: u64,
    /// w₂.
    pub parallel: u64,
    /// h.
    pub width: u32,
    /// How often both phases follow each other.
    #[serde(default = "one_iteration")]
    pub iterations: u32,
    /// How the strands of a parallel phase come into being.
    #[serde(default)]
    pub fork: WrittenFork,
}

fn one_iteration() -> u32 {
    1
}

/// [`Fork`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenFork {
    /// All at once.
    #[default]
    AtOnce,
    /// By a binary tree.
    Tree,
}

/// Something that goes wrong.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum Fault {
    /// The machine has fewer processors for a time.
    LostProcessors {
        /// From the first quantum that begins then or later,
        at: u64,
        /// to before the first that begins then or later.
        until: u64,
        /// How many.
        processors: u32,
    },
    /// A program dies, with all its work undone and its processors free from the next quantum on.
    Death {
        /// In the first quantum that begins then or later.
        at: u64,
        /// All that have this name and have come by then.
        program: String,
    },
}

/// A scenario that makes sense.
#[derive(Clone, Debug)]
pub struct Scenario {
    written: Written,
    /// One for each of the programs.
    schedulers: Vec<ThreadScheduler>,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// When it ended: all programs had, or the steps were over.
    pub steps: u64,
    /// What all processors did.
    pub cycles: Cycles,
    /// Of the cycles that there were on processors that were not lost, the part that was spent working.
    pub utilization: f64,
    /// In the order in which they came.
    pub programs: Vec<ProgramOutcome>,
}

/// What came of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramOutcome {
    /// Its name.
    pub name: String,
    /// T₁.
    pub work: u64,
    /// T∞.
    pub critical_path: u64,
    /// When it came.
    pub came: u64,
    /// When it ended.
    pub ended: Option<u64>,
    /// When it died.
    pub died: Option<u64>,
    /// What its processors did.
    pub cycles: Cycles,
}

impl Scenario {
    /// Looks whether what is written makes sense.
    ///
    /// # Errors
    /// Says in a sentence what does not, and what can be written instead.
    pub fn new(written: Written) -> Result<Scenario, String> {
        let Written { runs, machine, programs, faults, .. } = &written;
        let Machine { processors, quantum, steps, .. } = machine;
        // Strands are told apart by 32 bits, and so are workers.
        bounded("machine.processors", (*processors).into(), 1, 1 << 20)?;
        bounded("machine.steps", *steps, 1, 1 << 40)?;
        bounded("machine.steps over machine.quantum", steps.div_ceil(*quantum), 1, 1 << 30)?;
        // Of so many cycles 64 bits can keep account.
        bounded("machine.quantum", *quantum, 1, *steps)?;
        bounded("runs", *runs, 1, 1_000_000)?;
        bounded("the number of programs", programs.iter().map(|program| program.count).sum(), 1, 1_000_000)?;
        let (mut schedulers, mut names) = (Vec::new(), Vec::new());
        let mut deques = 0u64;
        for program in programs {
            let place = |key: &str| format!("{key} of program '{}'", program.name);
            bounded(&place("count"), program.count, 1, 1_000_000)?;
            bounded(&place("at"), program.at, 0, 1 << 50)?;
            bounded(&place("every"), program.every, 0, 1 << 30)?;
            bounded(&place("serial"), program.serial, 1, 1 << 40)?;
            bounded(&place("parallel"), program.parallel, 1, 1 << 40)?;
            bounded(&place("width"), program.width.into(), 1, 1 << 22)?;
            bounded(&place("iterations"), program.iterations.into(), 1, 1 << 20)?;
            let iteration = u128::from(program.serial) + u128::from(program.width) * (u128::from(program.parallel) + 1);
            let work = u64::try_from(iteration * u128::from(program.iterations)).unwrap_or(u64::MAX);
            bounded(&place("the work"), work, 1, 1 << 60)?;
            if names.contains(&program.name.as_str()) {
                return Err(format!(
                    "two programs are called '{}'; a fault and the results could not tell them apart",
                    program.name
                ));
            }
            names.push(&program.name);
            let policy: Policy = program.policy.parse().map_err(|error| format!("{}: {error}", place("policy")))?;
            let scheduler = scheduler(policy).map_err(|error| format!("{}: {error}", place("policy")))?;
            if scheduler.deques == Deques::PerProcessor {
                deques = deques.saturating_add(program.count.saturating_mul((*processors).into()));
            }
            schedulers.push(scheduler);
        }
        // Some 200 bytes each.
        bounded("deques, a program without mugging having one for each processor, the number", deques, 0, 1 << 25)?;
        for fault in faults {
            match fault {
                Fault::LostProcessors { at, until, processors: lost } => {
                    bounded("processors of a fault", (*lost).into(), 1, (*processors).into())?;
                    bounded("until of a fault", *until, *at, u64::MAX)?;
                }
                Fault::Death { program, .. } => {
                    if !programs.iter().any(|known| known.name == *program) {
                        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
                        return Err(format!("a fault kills '{program}'; the programs are {}", names.join(", ")));
                    }
                }
            }
        }
        Ok(Scenario { written, schedulers })
    }

    /// How many runs it asks for.
    pub fn runs(&self) -> u64 {
        self.written.runs
    }

    /// What was written.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// One of its runs, by its number from 0. What must hold at any time is looked at in every so many quanta.
    ///
    /// # Errors
    /// Names what did not hold, and when: a mistake of the simulator.
    pub fn run(&self, nth: u64, check_every: u64) -> Result<Outcome, String> {
        let seed = self.written.seed.wrapping_add(nth);
        let Machine { processors, quantum, steps, allot } = self.written.machine;
        let mut server = Server::new(processors, quantum);
        let mut arrivals = self.arrivals();
        let mut outcome = Outcome { seed, steps: 0, cycles: Cycles::default(), utilization: 0.0, programs: Vec::new() };
        let mut there_were = 0u64;
        for turn in 0.. {
            let now = server.now();
            while let Some((at, submission)) = arrivals.pop_if(|(at, _)| *at <= now) {
                let name = outcome.programs.len() as u64;
                let (program, what) = self.submit(at, submission);
                let random: ChaCha8Rng = stream(seed, name);
                server.admit(name, self.schedulers[submission].submit(Box::new(program), processors, random));
                outcome.programs.push(what);
            }
            self.kill(now, &mut server, &mut outcome);
            if now >= steps || server.jobs() == 0 && arrivals.is_empty() {
                break;
            }
            if server.jobs() == 0 {
                let next = arrivals.last().map_or(steps, |(at, _)| *at).min(steps);
                there_were += self.available(now, server.skip_to(next));
                continue;
            }
            let left = processors - self.lost(now);
            let programs = &mut outcome.programs;
            let ended = |name: u64, end| programs[name as usize].ended = Some(end);
            let each = server.quantum(left, allot == Allot::Eq, ended);
            for (name, cycles) in each {
                outcome.programs[name as usize].cycles += cycles;
                outcome.cycles += cycles;
            }
            there_were += self.available(now, server.now());
            if turn % check_every == 0 {
                server.check().map_err(|what| format!("seed {seed}, quantum {turn}: {what}"))?;
            }
        }
        outcome.steps = server.now();
        outcome.utilization = if there_were == 0 { 0.0 } else { outcome.cycles.work as f64 / there_were as f64 };
        Ok(outcome)
    }

    /// When each comes and which of the programs it is, the first last.
    fn arrivals(&self) -> Vec<(u64, usize)> {
        let each = self.written.programs.iter().enumerate();
        let mut arrivals: Vec<(u64, usize)> =
            each.flat_map(|(nth, one)| (0..one.count).map(move |later| (one.at + later * one.every, nth))).collect();
        arrivals.sort_unstable();
        arrivals.reverse();
        arrivals
    }

    fn submit(&self, came: u64, submission: usize) -> (ForkJoin, ProgramOutcome) {
        let Submission { name, serial, parallel, width, iterations, fork, .. } = &self.written.programs[submission];
        let fork = match fork {
            WrittenFork::AtOnce => Fork::AtOnce,
            WrittenFork::Tree => Fork::Tree,
        };
        let program = ForkJoin::new(*serial, *parallel, *width, *iterations, fork);
        let outcome = ProgramOutcome {
            name: name.clone(),
            work: program.work(),
            critical_path: program.critical_path(),
            came,
            ended: None,
            died: None,
            cycles: Cycles::default(),
        };
        (program, outcome)
    }

    /// The cycles of the quanta from one time to before another, on processors that are not lost.
    fn available(&self, from: u64, to: u64) -> u64 {
        let Machine { processors, quantum, .. } = self.written.machine;
        (from..to).step_by(quantum as usize).map(|now| u64::from(processors - self.lost(now)) * quantum).sum()
    }

    fn lost(&self, now: u64) -> u32 {
        let lost = |fault: &Fault| match fault {
            Fault::LostProcessors { at, until, processors } if (*at..*until).contains(&now) => *processors,
            _ => 0,
        };
        let lost: u64 = self.written.faults.iter().map(|fault| u64::from(lost(fault))).sum();
        lost.min(self.written.machine.processors.into()) as u32
    }

    fn kill(&self, now: u64, server: &mut Server, outcome: &mut Outcome) {
        let first = |at: u64| (now.saturating_sub(self.written.machine.quantum - 1)..=now).contains(&at);
        for fault in &self.written.faults {
            let Fault::Death { at, program } = fault else { continue };
            if first(*at) {
                let dies = |name: u64| outcome.programs[name as usize].name == *program;
                let dead: Vec<u64> = server.kill(dies);
                dead.into_iter().for_each(|name| outcome.programs[name as usize].died = Some(now));
            }
        }
    }
}

/// The thread scheduler of a policy: those whose thieves mug have a deque for each allotted processor.
fn scheduler(policy: Policy) -> Result<ThreadScheduler, String> {
    if policy.row().waking != Waking::NobodySleeps {
        let can = Policy::all().filter(|policy| policy.row().waking == Waking::NobodySleeps);
        let names: Vec<&str> = can.map(|policy| policy.row().name).collect();
        return Err(format!(
            "the thieves of {policy} sleep, and on this machine nobody does yet; choose one of {}",
            names.join(", ")
        ));
    }
    let known: BTreeMap<&str, ThreadScheduler> = [
        ("a-steal", ThreadScheduler::a_steal(80, 150)),
        ("abp-mug", ThreadScheduler::abp_mug()),
        ("abp", ThreadScheduler::abp()),
    ]
    .into();
    let like = known.get(policy.row().name).copied();
    let plain = ThreadScheduler { policy, deques: Deques::PerProcessor, feedback: Feedback::None };
    Ok(ThreadScheduler { policy, ..like.unwrap_or(plain) })
}

fn bounded(what: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let most = if most == u64::MAX { String::new() } else { format!(" and at most {most}") };
    Err(format!("{what} is {value}; it must be at least {least}{most}"))
}
