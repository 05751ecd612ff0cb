//! A scenario: a machine, its programs and the faults, as a user writes them; and the result of running it.
//!
//! `lab/scenarios/README.md` documents each key. The machine is the machine of the A-STEAL paper ([`crate::quanta`]) or
//! a host ([`crate::threads`]). The machine of the A-STEAL paper does not simulate sleep, so it accepts only policies
//! under which thieves never sleep. A host accepts all policies.

mod recording;
mod run;
mod vms;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use comity_graph::{Graph, Scale};
use comity_policy::definition::Definition;
use comity_policy::{Policy, Waking};
use comity_protocol::orders::{MOST_PAUSE, MOST_WEIGHT, Request};
use serde::{Deserialize, Serialize};

pub use run::{Observers, Outcome, ProgramOutcome, Recorder};
pub use vms::WrittenVm;

use crate::hypervisor::Vmm;
use crate::quanta::job::Deques;
use crate::quanta::{Feedback, ThreadScheduler};
use crate::threads::linux::Linux;
use crate::threads::{Costs, Host};

/// A scenario as it is written. [`Scenario::new`] validates it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The seed of all random numbers.
    #[serde(default = "one")]
    pub seed: u64,
    /// The number of runs. The nth run, counted from 0, uses the seed `seed` + n.
    #[serde(default = "one")]
    pub runs: u64,
    /// The machine.
    pub machine: Machine,
    /// The virtual machines, if the machine has a hypervisor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<WrittenVm>,
    /// The programs, with the times at which they begin.
    pub programs: Vec<Submission>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// The requests that programs receive while they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<WrittenOrder>,
}

fn one() -> u64 {
    1
}

/// The machine of a scenario.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The kind of machine.
    #[serde(default)]
    pub model: Model,
    /// P, the number of processors.
    #[serde(alias = "cores")]
    pub processors: u32,
    /// The number of steps after which the run ends, even if programs have not ended. A machine with quanta rounds it
    /// up to whole quanta. On a host a step is a nanosecond.
    pub steps: u64,
    /// L, the quantum in steps. The default is 200, or `steps` if that is less. Only for [`Model::ASteal`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<u64>,
    /// The job scheduler, which allots processors. Only for [`Model::ASteal`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allot: Option<Allot>,
    /// The costs of operations. Only for [`Model::Host`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// The kernel that decides which thread runs where. Without it, threads take equal turns. Only for
    /// [`Model::Host`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
    /// The hypervisor, under which each program runs in one of [`Written::vms`]. With it, `processors` is the number
    /// of physical CPUs. Only for [`Model::Host`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmm: Option<Vmm>,
    /// True if a yield to a preempted peer gives the peer the core's next turn. If false, this yield is a plain yield.
    /// Only for [`Model::Host`].
    #[serde(default)]
    pub directed_yield: bool,
    /// True if there is a core table, through which programs share cores if their policies do. Only
    /// [`Model::Host`] has a table.
    #[serde(default = "yes")]
    pub table: bool,
}

fn yes() -> bool {
    true
}

/// A kind of machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Processors that are given to programs for a quantum at a time.
    #[default]
    ASteal,
    /// Cores on which the threads of all programs take turns.
    Host,
}

/// The default of L, in steps.
const QUANTUM: u64 = 200;

/// A job scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allot {
    /// Dynamic equipartitioning: equal parts, but no program gets more than its desire.
    #[default]
    Deq,
    /// Equipartitioning: equal parts, whatever the programs request.
    Eq,
}

/// A program, or several copies of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The name of the program.
    pub name: String,
    /// The policy, in the syntax of `--policy`.
    pub policy: String,
    /// The name of the virtual machine in which the program runs. Required with a hypervisor, invalid without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// The kind of program.
    #[serde(default)]
    pub kind: Kind,
    /// The step at which the first copy begins.
    #[serde(default)]
    pub at: u64,
    /// The number of copies.
    #[serde(default = "one")]
    pub count: u64,
    /// The number of steps between the beginnings of two copies.
    #[serde(default)]
    pub every: u64,
    /// w₁: the length of a serial phase, in steps. In scatter-gather, the time to send or to receive a message. A
    /// recorded program or a loop has none of `serial`, `parallel`, `width`, `iterations` and `fork`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub serial: u64,
    /// w₂: the length of each strand of a parallel phase, in steps. In scatter-gather, the time that a worker works on
    /// a message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parallel: u64,
    /// h: the number of strands of a parallel phase. In scatter-gather, the number of workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: u32,
    /// The number of repetitions of the two phases. In scatter-gather, the number of rounds.
    #[serde(default = "one_iteration")]
    pub iterations: u32,
    /// The way in which the strands of a parallel phase are created.
    #[serde(default)]
    pub fork: WrittenFork,
    /// The number of workers of each copy. The default is the number of processors of the host, or of virtual CPUs of
    /// the program's virtual machine. Only on a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// The number of steps that each strand of a parallel phase waits in a system call before its work. Only on a host.
    #[serde(default)]
    pub sleep: u64,
    /// The processor time that each copy may use, in cores: with 1.5, it may use 150 ms in each period of 100 ms. Only
    /// on a host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<f64>,
    /// The nice value of the threads, −20 to 19. Only on a host with a Linux kernel.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nice: i8,
    /// The part of its time in which a strand waits for memory when the program runs alone, in thousandths. Only on a
    /// machine with limited memory bandwidth.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory: u32,
    /// True if each copy starts again when it has ended. Only on a host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
    /// The recording. Only for [`Kind::Recorded`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The factors by which the input is larger than the recorded input. Only for [`Kind::Recorded`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// The cost of a join for the worker that forks, in steps. Only for [`Kind::Recorded`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<f64>,
}

fn is_zero<T: PartialEq + Default>(number: &T) -> bool {
    *number == T::default()
}

fn one_iteration() -> u32 {
    1
}

/// A kind of program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// Serial and parallel phases: [`ForkJoin`](crate::program::ForkJoin).
    #[default]
    ForkJoin,
    /// Tasks that block: [`Network::scatter_gather`](crate::network::Network::scatter_gather). Only on a host.
    ScatterGather,
    /// The tasks of a recorded run: [`Recorded`](crate::program::Recorded). Only on a host.
    Recorded,
    /// Workers that compute without end: [`Endless`](crate::program::Endless). Only on a host.
    Loop,
}

/// The written form of [`Fork`](crate::program::Fork).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenFork {
    /// All strands are created at once.
    #[default]
    AtOnce,
    /// A binary tree creates the strands.
    Tree,
}

/// A fault.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum Fault {
    /// The machine has fewer processors for some time.
    LostProcessors {
        /// The step at which the fault begins. With quanta, the fault begins with the first quantum from this step on.
        at: u64,
        /// The step at which the fault ends. With quanta, the fault ends with the first quantum from this step on.
        until: u64,
        /// The number of processors that are lost.
        processors: u32,
    },
    /// A program dies: its unfinished work is lost. With quanta, its processors are free from the next quantum on.
    Death {
        /// The step at which the program dies. With quanta, it dies at the first quantum from this step on.
        at: u64,
        /// The name of the program. All copies that have begun by this step die.
        program: String,
    },
    /// Wake-ups are late for some time. Only on a host.
    LateWakeUps {
        /// The first step at which wake-ups are late.
        at: u64,
        /// The step from which on wake-ups are no longer late.
        until: u64,
        /// The maximum delay, in steps. The delay of each wake-up is random.
        by: u64,
    },
}

/// A request from outside ([`Request`]) to all copies of a program that have begun by then. Only on a host.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum WrittenOrder {
    /// Sets the weight.
    Weight {
        /// The step of the request.
        at: u64,
        /// The name of the programs.
        program: String,
        /// The new weight, or `None` for the default.
        weight: Option<u32>,
    },
    /// Limits the number of cores.
    Cores {
        /// The step of the request.
        at: u64,
        /// The name of the programs.
        program: String,
        /// The largest number of cores, or `None` for no limit.
        cores: Option<u32>,
    },
    /// Pauses the programs.
    Pause {
        /// The step at which the pause begins.
        at: u64,
        /// The name of the programs.
        program: String,
        /// The length of the pause in steps, rounded up to whole milliseconds.
        steps: u64,
    },
    /// Resumes the programs.
    Resume {
        /// The step of the request.
        at: u64,
        /// The name of the programs.
        program: String,
    },
}

impl WrittenOrder {
    /// Returns the step of the request, the name of the programs that receive it, and the request.
    fn parts(&self) -> (u64, &str, Request) {
        match self {
            WrittenOrder::Weight { at, program, weight } => (*at, program, Request::Weight(*weight)),
            WrittenOrder::Cores { at, program, cores } => (*at, program, Request::Cores(*cores)),
            WrittenOrder::Pause { at, program, steps } => (*at, program, Request::Pause(Duration::from_nanos(*steps))),
            WrittenOrder::Resume { at, program } => (*at, program, Request::Resume),
        }
    }

    /// Checks that the programs can receive this request.
    fn check(
        &self,
        hosts: &[Machine],
        guests: &[usize],
        programs: &[Submission],
        policies: &[Policy],
    ) -> Result<(), String> {
        hosts[0].only_on_a_host("an order")?;
        let (_, name, request) = self.parts();
        let Some(nth) = programs.iter().position(|program| program.name == name) else {
            return Err(format!(
                "an order names the program '{name}', which does not exist; the programs are {}",
                listed(programs)
            ));
        };
        let machine = &hosts[guests[nth]];
        if !policies[nth].shares_cores() || !machine.table {
            return Err(format!(
                "an order names the program '{name}', which uses no core table under policy {} on its machine",
                policies[nth]
            ));
        }
        match request {
            Request::Weight(Some(weight)) => bounded("weight of an order", weight.into(), 1, MOST_WEIGHT.into()),
            Request::Cores(Some(cores)) => bounded("cores of an order", cores.into(), 1, machine.processors.into()),
            Request::Pause(length) => {
                bounded("steps of an order", length.as_nanos() as u64, 1, MOST_PAUSE.as_nanos() as u64)
            }
            Request::Weight(None) | Request::Cores(None) | Request::Resume => Ok(()),
        }
    }
}

fn listed(programs: &[Submission]) -> String {
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    names.join(", ")
}

/// A valid scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    written: Written,
    programs: Programs,
    /// The graph of each program, or `None` if the program is not a recorded one.
    graphs: Vec<Option<Arc<Graph>>>,
    /// The index in [`Written::guests`] of the machine on which each program runs.
    guests: Vec<usize>,
}

/// The thread scheduler or policy of each program.
#[derive(Clone, Debug)]
enum Programs {
    /// Thread schedulers of jobs on the machine of the A-STEAL paper.
    Jobs(Vec<ThreadScheduler>),
    /// Policies of pools on a host.
    Pools(Vec<Policy>),
}

impl Scenario {
    /// Validates a scenario without recorded programs.
    ///
    /// # Errors
    /// A message that says what is invalid, and what the user can write instead.
    pub fn new(written: Written) -> Result<Scenario, String> {
        Scenario::with_recordings(written, &mut |_| Err("recordings are not supported here".into()))
    }

    /// Validates a scenario in which `read` reads the recordings.
    ///
    /// # Errors
    /// A message that says what is invalid, or why a recording cannot be read, and what the user can write instead.
    pub fn with_recordings(
        written: Written,
        read: &mut dyn FnMut(&str) -> Result<Arc<Graph>, String>,
    ) -> Result<Scenario, String> {
        let Written { runs, machine, programs, faults, orders, .. } = &written;
        machine.check()?;
        written.check_vms()?;
        let Machine { processors, .. } = machine;
        let (hosts, mut guests) = (written.guests(), Vec::new());
        bounded("runs", *runs, 1, 1_000_000)?;
        let count = programs.iter().fold(0u64, |sum, program| sum.saturating_add(program.count));
        bounded("the number of programs", count, 1, 1_000_000)?;
        let (mut policies, mut names, mut graphs) = (Vec::new(), Vec::new(), Vec::new());
        for program in programs {
            let guest = written.guest_of(program)?;
            guests.push(guest);
            let (machine, processors) = (&hosts[guest], &hosts[guest].processors);
            let place = |key: &str| format!("{key} of program '{}'", program.name);
            bounded(&place("count"), program.count, 1, 1_000_000)?;
            bounded(&place("at"), program.at, 0, 1 << 50)?;
            bounded(&place("every"), program.every, 0, 1 << 30)?;
            program.check_repeat(machine, &place)?;
            graphs.push(program.recording(machine, &place, read)?);
            if matches!(program.kind, Kind::ForkJoin | Kind::ScatterGather) {
                program.check_phases(machine, &place)?;
            }
            if names.contains(&program.name.as_str()) {
                return Err(format!("two programs are called '{}'. Give each program its own name", program.name));
            }
            names.push(&program.name);
            let policy: Policy = program.policy.parse().map_err(|error| format!("{}: {error}", place("policy")))?;
            if policy.shares_cores() {
                written.check_table(guest, program)?;
            }
            if let Some(workers) = program.workers {
                machine.only_on_a_host(&place("workers"))?;
                bounded(&place("workers"), workers.into(), 1, 1 << 16)?;
            }
            program.check_waits(machine, &place)?;
            if machine.model == Model::Host {
                // A thread needs about 500 bytes of memory.
                let at_once = if program.every == 0 { program.count } else { 1 };
                let threads = at_once * u64::from(program.workers.unwrap_or(*processors));
                bounded(&place("the number of threads that start at once"), threads, 1, 1 << 24)?;
            }
            policies.push(policy);
        }
        orders.iter().try_for_each(|order| order.check(&hosts, &guests, programs, &policies))?;
        let programs_run = match machine.model {
            Model::Host => Programs::Pools(policies),
            Model::ASteal => Programs::Jobs(schedulers(&policies, programs, *processors)?),
        };
        for fault in faults {
            match fault {
                Fault::LostProcessors { at, until, processors: lost } => {
                    let most = processors - u32::from(machine.model == Model::Host);
                    if most == 0 {
                        return Err(
                            "a fault removes a core, and a host must keep one. Give the host more processors".into()
                        );
                    }
                    bounded("processors of a fault", (*lost).into(), 1, most.into())?;
                    bounded("until of a fault", *until, *at, u64::MAX)?;
                }
                Fault::Death { program, .. } => {
                    if !programs.iter().any(|known| known.name == *program) {
                        return Err(format!(
                            "a fault kills the program '{program}', which does not exist; the programs are {}",
                            listed(programs)
                        ));
                    }
                }
                Fault::LateWakeUps { at, until, by } => {
                    machine.only_on_a_host("a fault of late wake-ups")?;
                    bounded("until of a fault", *until, *at, u64::MAX)?;
                    bounded("by of a fault", *by, 1, 1 << 40)?;
                }
            }
        }
        Ok(Scenario { written, programs: programs_run, graphs, guests })
    }

    /// The number of runs.
    pub fn runs(&self) -> u64 {
        self.written.runs
    }

    /// Returns the scenario as it was written.
    pub fn written(&self) -> &Written {
        &self.written
    }
}

impl Submission {
    /// Checks the keys of phases or rounds.
    fn check_phases(&self, machine: &Machine, place: &dyn Fn(&str) -> String) -> Result<(), String> {
        bounded(&place("serial"), self.serial, 1, 1 << 40)?;
        bounded(&place("parallel"), self.parallel, 1, 1 << 40)?;
        bounded(&place("width"), self.width.into(), 1, 1 << 22)?;
        bounded(&place("iterations"), self.iterations.into(), 1, 1 << 20)?;
        if self.kind == Kind::ScatterGather {
            machine.only_on_a_host(&place("kind = \"scatter-gather\""))?;
            let messages = u64::from(self.width) * u64::from(self.iterations);
            bounded(&place("width times iterations"), messages, 1, 1 << 22)?;
            if self.fork != WrittenFork::AtOnce {
                let place = place("fork");
                return Err(format!("{place}: the tasks of scatter-gather exist from the start. Leave it out"));
            }
        }
        let iteration = u128::from(self.serial) + u128::from(self.width) * (u128::from(self.parallel) + 1);
        let work = u64::try_from(iteration * u128::from(self.iterations)).unwrap_or(u64::MAX);
        bounded(&place("the work"), work, 1, 1 << 60)
    }

    /// Checks the keys that keep threads from cores: `nice`, `memory`, `sleep` and `quota`.
    fn check_waits(&self, machine: &Machine, place: &dyn Fn(&str) -> String) -> Result<(), String> {
        if self.nice != 0 && machine.linux.is_none() {
            return Err(format!(
                "{}: only a Linux kernel supports it. Write machine.linux, or leave it out",
                place("nice")
            ));
        }
        if self.memory > 0 && machine.linux.is_none_or(|linux| linux.bandwidth.is_none()) {
            return Err(format!(
                "{}: the machine has no limit of memory bandwidth. Write machine.linux.bandwidth, or leave it out",
                place("memory")
            ));
        }
        bounded(&place("memory"), self.memory.into(), 0, 1_000)?;
        if !(-20..=19).contains(&self.nice) {
            return Err(format!("{} is {}; it must be at least -20 and at most 19", place("nice"), self.nice));
        }
        if self.sleep > 0 {
            machine.only_on_a_host(&place("sleep"))?;
            bounded(&place("sleep"), self.sleep, 0, 1 << 40)?;
            if self.kind != Kind::ForkJoin {
                return Err(format!("{}: only the tasks of fork-join sleep. Leave it out", place("sleep")));
            }
        }
        let Some(quota) = self.quota else { return Ok(()) };
        machine.only_on_a_host(&place("quota"))?;
        if (LEAST_QUOTA..=f64::from(machine.processors)).contains(&quota) {
            return Ok(());
        }
        Err(format!("{} is {quota}; it must be at least {LEAST_QUOTA} and at most machine.processors", place("quota")))
    }
}

/// The minimum quota, in cores: 1 ms in each period of 100 ms, the minimum that Linux accepts.
const LEAST_QUOTA: f64 = 0.01;

impl Machine {
    /// Returns L, the quantum in steps.
    fn quantum(&self) -> u64 {
        self.quantum.unwrap_or(QUANTUM.min(self.steps))
    }

    fn check(&self) -> Result<(), String> {
        let Machine { model, processors, steps, quantum, allot, costs, linux, directed_yield, table, .. } = self;
        bounded("machine.steps", *steps, 1, 1 << 40)?;
        match model {
            Model::ASteal => {
                // Strands and workers have numbers of 32 bits.
                bounded("machine.processors", (*processors).into(), 1, 1 << 20)?;
                let quantum = self.quantum();
                // With these bounds, the number of cycles in a quantum fits into 64 bits.
                bounded("machine.quantum", quantum, 1, *steps)?;
                bounded("machine.steps over machine.quantum", steps.div_ceil(quantum), 1, 1 << 30)?;
                if *directed_yield {
                    self.only_on_a_host("machine.directed_yield")?;
                }
                if !table {
                    self.only_on_a_host("machine.table")?;
                }
                if linux.is_some() {
                    self.only_on_a_host("machine.linux")?;
                }
                costs.map_or(Ok(()), |_| self.only_on_a_host("machine.costs"))
            }
            Model::Host => {
                bounded("machine.processors", (*processors).into(), 1, Host::MOST_CORES as u64)?;
                if let Some(linux) = linux {
                    linux.check(*processors)?;
                }
                if let Some(costs) = costs {
                    bounded("a cost of machine.costs", costs.most(), 0, 1 << 40)?;
                }
                if quantum.is_some() || allot.is_some() {
                    return Err(
                        "machine.quantum and machine.allot have no effect on a host: each policy has its quantum, and \
                         the core table allots cores. Leave out these keys, or machine.model"
                            .into(),
                    );
                }
                Ok(())
            }
        }
    }

    fn only_on_a_host(&self, what: &str) -> Result<(), String> {
        match self.model {
            Model::Host => Ok(()),
            Model::ASteal => {
                Err(format!("{what}: only a host supports it. Write machine.model = \"host\", or leave it out"))
            }
        }
    }
}

/// Returns the thread scheduler of each program. Under `a-steal` and `abp-mug`, whose thieves mug, a job has a deque
/// for each allotted processor. Under other policies it has a deque for each processor of the machine.
fn schedulers(policies: &[Policy], programs: &[Submission], processors: u32) -> Result<Vec<ThreadScheduler>, String> {
    let known: BTreeMap<&str, ThreadScheduler> = [
        ("a-steal", ThreadScheduler::a_steal(80, 150)),
        ("abp-mug", ThreadScheduler::abp_mug()),
        ("abp", ThreadScheduler::abp()),
    ]
    .into();
    let (mut schedulers, mut deques) = (Vec::new(), 0u64);
    for (policy, program) in policies.iter().copied().zip(programs) {
        if Definition::of(&policy).waking != Waking::AlwaysAwake {
            let can = Policy::all().filter(|policy| Definition::of(policy).waking == Waking::AlwaysAwake);
            let names: Vec<&str> = can.map(|policy| policy.name()).collect();
            return Err(format!(
                "policy of program '{}': the thieves of {policy} sleep, but this machine does not support sleep. Write \
                 machine.model = \"host\", or choose one of {}",
                program.name,
                names.join(", ")
            ));
        }
        let plain = ThreadScheduler { policy, deques: Deques::PerProcessor, feedback: Feedback::None };
        let like = known.get(policy.name()).copied().unwrap_or(plain);
        if like.deques == Deques::PerProcessor {
            deques = deques.saturating_add(program.count.saturating_mul(processors.into()));
        }
        schedulers.push(ThreadScheduler { policy, ..like });
    }
    // A deque needs about 200 bytes of memory.
    bounded("the number of deques (one for each processor in a program without mugging)", deques, 0, 1 << 25)?;
    Ok(schedulers)
}

fn bounded(what: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let most = if most == u64::MAX { String::new() } else { format!(" and at most {most}") };
    Err(format!("{what} is {value}; it must be at least {least}{most}"))
}
