//! Runs of a scenario, and their outcomes.

use comity_policy::Policy;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Allot, Fault, Kind, Machine, Programs, Scenario, Submission, WrittenFork, WrittenOrder, WrittenVm};
use crate::conversation::Line;
use crate::hypervisor;
use crate::network::Network;
use crate::program::{Endless, Fork, ForkJoin, Program, Recorded};
use crate::quanta::job::Cycles;
use crate::quanta::{Server, ThreadScheduler};
use crate::random::stream;
use crate::threads::{Counts, Host, Lateness, Stretch, Switches};
use crate::vms::Vms;

/// A function that receives the [conversations](crate::conversation) of thieves, line by line.
pub type Recorder = Box<dyn FnMut(Line)>;

/// The functions that receive what happens in a run on a host.
#[derive(Default)]
pub struct Observers {
    /// Receives the [conversations](crate::conversation) of thieves, line by line.
    pub conversations: Option<Recorder>,
    /// Receives the timeline: what each thread does, and where it runs. Programs are numbered as in
    /// [`Outcome::programs`].
    pub timeline: Option<Box<dyn FnMut(Stretch)>>,
}

impl Observers {
    fn is_some(&self) -> bool {
        self.conversations.is_some() || self.timeline.is_some()
    }
}

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// The step at which the run ended, because all programs had ended or the steps of the scenario were over.
    pub steps: u64,
    /// The cycles of all processors.
    pub cycles: Cycles,
    /// The part of all cycles that was spent working. Cycles of lost processors do not count.
    pub utilization: f64,
    /// Nanoseconds that cores of a host idled although there was work: a thread waited for a core, or a task waited
    /// while workers of its program rested because they had no core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_beside_work: Option<u64>,
    /// The number of switches of a host's cores from one thread to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<Switches>,
    /// Counts of switches of a hypervisor's physical CPUs from one virtual CPU to another, and of accelerations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmm: Option<hypervisor::Counts>,
    /// The outcomes of the programs, in the order in which they began.
    pub programs: Vec<ProgramOutcome>,
}

/// The outcome of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProgramOutcome {
    /// The program's name.
    pub name: String,
    /// T₁, the work.
    pub work: u64,
    /// T∞, the critical path.
    pub critical_path: u64,
    /// The step at which the program began.
    pub came: u64,
    /// The step at which the program ended.
    pub ended: Option<u64>,
    /// The step at which the program died.
    pub died: Option<u64>,
    /// The cycles of the program's processors. On a host, the nanoseconds for which the program's workers had a task,
    /// looked for a task, or mugged.
    pub cycles: Cycles,
    /// Nanoseconds that the program's threads on a host waited for a core, or for the next period of its quota,
    /// summed over the threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited: Option<u64>,
    /// Counts of events of the program's threads on a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The steps at which the executions of a repeating program ended. The first execution begins when the program
    /// begins, and every later execution begins when the execution before it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executions: Vec<u64>,
}

impl ProgramOutcome {
    /// Returns the number of steps from the program's beginning to its end. For a repeating program, returns the mean
    /// time of an execution. `None` if no execution has ended.
    pub fn time(&self) -> Option<f64> {
        match (self.executions.as_slice(), self.ended) {
            ([.., last], _) => Some((last - self.came) as f64 / self.executions.len() as f64),
            ([], Some(ended)) => Some((ended - self.came) as f64),
            ([], None) => None,
        }
    }
}

impl Outcome {
    fn new(seed: u64) -> Outcome {
        let programs = Vec::new();
        let cycles = Cycles::default();
        let (idle_beside_work, switches, vmm) = (None, None, None);
        Outcome { seed, steps: 0, cycles, utilization: 0.0, idle_beside_work, switches, vmm, programs }
    }
}

impl Machine {
    /// Creates a host with these parameters and no programs.
    fn host(&self, seed: u64) -> Host {
        let Machine { processors, costs, linux, directed_yield, table, .. } = *self;
        let mut host = Host::new(processors as usize, costs.unwrap_or_default(), seed);
        if let Some(linux) = linux {
            host.use_linux(linux);
        }
        host.yield_to_peers(directed_yield);
        if !table {
            host.without_table();
        }
        host
    }
}

impl Scenario {
    /// Runs the scenario for the `nth` time, counted from 0. Checks the invariants in every `check_every`-th quantum,
    /// or on a host after every `check_every`-th event. A host also runs fast checks after every event. `record`
    /// receives the conversations of all thieves. It is only for a host.
    ///
    /// # Errors
    /// Names the invariant that did not hold, and when. This is a bug of the simulator.
    pub fn run(&self, nth: u64, check_every: u64, record: Option<Recorder>) -> Result<Outcome, String> {
        self.observed(nth, check_every, Observers { conversations: record, ..Observers::default() })
    }

    /// Runs the scenario like [`Scenario::run`], with all observers. Only a host can be observed.
    ///
    /// # Errors
    /// See [`Scenario::run`].
    pub fn observed(&self, nth: u64, check_every: u64, observers: Observers) -> Result<Outcome, String> {
        let seed = self.written.seed.wrapping_add(nth);
        let outcome = match &self.programs {
            Programs::Jobs(_) if observers.is_some() => return Err("only a host can be observed".into()),
            Programs::Jobs(schedulers) => self.run_jobs(schedulers, seed, check_every),
            Programs::Pools(policies) => self.run_host(policies, seed, check_every, observers),
        };
        outcome.map_err(|what| format!("seed {seed}, {what}"))
    }

    fn run_host(
        &self,
        policies: &[Policy],
        seed: u64,
        check_every: u64,
        observers: Observers,
    ) -> Result<Outcome, String> {
        let Machine { processors, steps, vmm, .. } = self.written.machine;
        let machines = self.written.guests();
        let mut hosts: Vec<Host> = machines.iter().map(|machine| machine.host(seed)).collect();
        if vmm.is_some() && observers.is_some() {
            return Err(
                "conversations and timelines need a single kernel, and here each guest has its own kernel".into()
            );
        }
        let told = hosts.iter_mut().zip(&self.written.vms).filter(|(_, vm)| vm.steal_time);
        told.for_each(|(host, _)| host.tell_steal_time());
        let Observers { conversations, timeline } = observers;
        if let Some(record) = conversations {
            hosts[0].record(record);
        }
        if let Some(tell) = timeline {
            hosts[0].trace(tell);
        }
        // For each program, the index of its host and the program's number on that host.
        let mut places: Vec<(usize, u32)> = Vec::new();
        let mut outcome = Outcome::new(seed);
        for (at, submission) in self.arrivals().into_iter().rev() {
            let Submission { kind, serial, parallel, width, iterations, workers, quota, repeat, join, .. } =
                self.written.programs[submission];
            let guest = self.guests[submission];
            let host = &mut hosts[guest];
            let (policy, workers) = (policies[submission], workers.unwrap_or(machines[guest].processors));
            let own = stream(seed, outcome.programs.len() as u64).random();
            let (number, what) = match kind {
                Kind::ForkJoin => {
                    let (program, what) = self.submit(at, submission);
                    (host.submit(at, Box::new(program), policy, workers, own), what)
                }
                Kind::ScatterGather => {
                    let network = Network::scatter_gather(width as usize, iterations, parallel, serial);
                    let what = self.begins(at, submission, network.work(), network.critical_path());
                    (host.submit_network(at, network, policy, workers, own), what)
                }
                Kind::Recorded => {
                    let graph = self.graphs[submission].clone().expect("the recording was read");
                    let program = Recorded::with_joins(graph, join.unwrap_or(0.0), own);
                    let what = self.begins(at, submission, program.work(), program.critical_path());
                    (host.submit(at, Box::new(program), policy, workers, own), what)
                }
                Kind::Loop => {
                    let program = Endless::new(workers);
                    let what = self.begins(at, submission, program.work(), program.critical_path());
                    (host.submit(at, Box::new(program), policy, workers, own), what)
                }
            };
            host.set_nice(number, self.written.programs[submission].nice);
            host.set_memory(number, self.written.programs[submission].memory);
            if repeat {
                host.repeat(number);
            }
            if let Some(cores) = quota {
                host.limit(number, cores);
            }
            places.push((guest, number));
            outcome.programs.push(what);
        }
        // The times at which physical CPUs go online or offline, and the number of online physical CPUs from then on.
        let mut resizes = Vec::new();
        for fault in &self.written.faults {
            match fault {
                Fault::LostProcessors { at, until, .. } => {
                    for at in [*at, *until] {
                        let left = (processors - self.lost(at)) as usize;
                        if vmm.is_none() { hosts[0].resize(at, left) } else { resizes.push((at, left)) }
                    }
                }
                Fault::Death { at, program } => {
                    for (what, (guest, number)) in outcome.programs.iter().zip(&places) {
                        if what.name == *program && what.came <= *at {
                            hosts[*guest].kill(*at, *number);
                        }
                    }
                }
                Fault::LateWakeUps { at, until, by } => {
                    let late = Lateness { from: *at, until: *until, most: *by };
                    hosts.iter_mut().for_each(|host| host.delay(late));
                }
            }
        }
        for (at, program, order) in self.written.orders.iter().map(WrittenOrder::parts) {
            let asked = outcome.programs.iter().zip(&places).filter(|(one, _)| one.name == program && one.came <= at);
            asked.for_each(|(_, (guest, number))| hosts[*guest].order(at, *number, order));
        }
        let hosts = match vmm {
            None => {
                hosts[0].run(steps, check_every)?;
                (outcome.steps, outcome.idle_beside_work) = (hosts[0].now(), Some(hosts[0].idle_beside_work()));
                hosts
            }
            Some(vmm) => {
                let guests = hosts.into_iter().zip(self.written.vms.iter().map(WrittenVm::share)).collect();
                let mut vms = Vms::new(vmm, processors as usize, guests, seed);
                resizes.into_iter().for_each(|(at, left)| vms.resize(at, left));
                vms.run(steps, check_every)?;
                (outcome.steps, outcome.idle_beside_work) = (vms.now(), Some(vms.idle_beside_work()));
                outcome.vmm = Some(vms.counts());
                vms.into_guests()
            }
        };
        for (program, (guest, number)) in outcome.programs.iter_mut().zip(places) {
            let host = &hosts[guest];
            let fate = host.fate(number);
            (program.ended, program.died) = (fate.ended, fate.died);
            (program.cycles, program.counts) = (fate.spent, Some(fate.counts));
            program.executions = host.executions(number).to_vec();
            program.waited = Some(host.waited(number));
            outcome.cycles += fate.spent;
        }
        outcome.switches = Some(hosts.iter().map(Host::switches).sum());
        let there_were = self.core_time(outcome.steps);
        outcome.utilization = if there_were == 0 { 0.0 } else { outcome.cycles.work as f64 / there_were as f64 };
        Ok(outcome)
    }

    /// Returns the time until `end` of all cores that were online, summed over the cores.
    fn core_time(&self, end: u64) -> u64 {
        let mut changes = vec![0, end];
        for fault in &self.written.faults {
            if let Fault::LostProcessors { at, until, .. } = fault {
                changes.extend([*at, *until].map(|at| at.min(end)));
            }
        }
        changes.sort_unstable();
        let cores = |at| u64::from((self.written.machine.processors - self.lost(at)).max(1));
        changes.windows(2).map(|pair| cores(pair[0]) * (pair[1] - pair[0])).sum()
    }

    fn run_jobs(&self, schedulers: &[ThreadScheduler], seed: u64, check_every: u64) -> Result<Outcome, String> {
        let Machine { processors, steps, allot, .. } = self.written.machine;
        let quantum = self.written.machine.quantum();
        let mut server = Server::new(processors, quantum);
        let mut arrivals = self.arrivals();
        let mut outcome = Outcome::new(seed);
        let mut there_were = 0u64;
        for turn in 0.. {
            let now = server.now();
            while let Some((at, submission)) = arrivals.pop_if(|(at, _)| *at <= now) {
                let name = outcome.programs.len() as u64;
                let (program, what) = self.submit(at, submission);
                let random: ChaCha8Rng = stream(seed, name);
                server.admit(name, schedulers[submission].submit(Box::new(program), processors, random));
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
            let each = server.quantum(left, allot == Some(Allot::Eq), ended);
            for (name, cycles) in each {
                outcome.programs[name as usize].cycles += cycles;
                outcome.cycles += cycles;
            }
            there_were += self.available(now, server.now());
            if turn % check_every == 0 {
                server.check().map_err(|what| format!("quantum {turn}: {what}"))?;
            }
        }
        outcome.steps = server.now();
        outcome.utilization = if there_were == 0 { 0.0 } else { outcome.cycles.work as f64 / there_were as f64 };
        Ok(outcome)
    }

    /// Returns, for each program, the step at which it begins and the index of its submission. The program that begins
    /// first is at the end of the list.
    fn arrivals(&self) -> Vec<(u64, usize)> {
        let each = self.written.programs.iter().enumerate();
        let mut arrivals: Vec<(u64, usize)> =
            each.flat_map(|(nth, one)| (0..one.count).map(move |later| (one.at + later * one.every, nth))).collect();
        arrivals.sort_unstable();
        arrivals.reverse();
        arrivals
    }

    fn submit(&self, came: u64, submission: usize) -> (ForkJoin, ProgramOutcome) {
        let Submission { serial, parallel, width, iterations, fork, sleep, .. } = &self.written.programs[submission];
        let fork = match fork {
            WrittenFork::AtOnce => Fork::AtOnce,
            WrittenFork::Tree => Fork::Tree,
        };
        let program = ForkJoin::new(*serial, *parallel, *width, *iterations, fork).sleeping(*sleep);
        let outcome = self.begins(came, submission, program.work(), program.critical_path());
        (program, outcome)
    }

    fn begins(&self, came: u64, submission: usize, work: u64, critical_path: u64) -> ProgramOutcome {
        ProgramOutcome {
            name: self.written.programs[submission].name.clone(),
            work,
            critical_path,
            came,
            ended: None,
            died: None,
            cycles: Cycles::default(),
            waited: None,
            counts: None,
            executions: Vec::new(),
        }
    }

    /// Returns the cycles of the quanta from `from` to before `to`, on processors that are not lost.
    fn available(&self, from: u64, to: u64) -> u64 {
        let Machine { processors, .. } = self.written.machine;
        let quantum = self.written.machine.quantum();
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
        let first = |at: u64| (now.saturating_sub(self.written.machine.quantum() - 1)..=now).contains(&at);
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
