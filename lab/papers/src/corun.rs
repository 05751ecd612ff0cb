//! Programs that run together on a host, each again and again, as the papers measure them.
//!
//! An execution is a process of its own: its threads are new, and the kernel places them. Executions count that are
//! whole and began when all programs were there; each is overlapped by those of the others, since all go on until
//! the last has enough.

use std::ops::Range;
use std::sync::Arc;

use comity_graph::Graph;
use comity_policy::Policy;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use comity_sim::hypervisor::{self, Share, Vmm};
use comity_sim::network::Network;
use comity_sim::program::{Endless, ForkJoin, Recorded, Requests};
use comity_sim::random::stream;
use comity_sim::threads::linux::Linux;
use comity_sim::threads::{Costs, Host, Switches};
use comity_sim::vms::Vms;

/// What programs run on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its processors.
    pub cores: u32,
    /// Its kernel.
    pub linux: Linux,
    /// What things cost there.
    pub costs: Costs,
    /// Whether a yield to a peer gives it this core.
    pub directed_yield: bool,
}

impl Machine {
    fn host(&self, seed: u64) -> Host {
        let mut host = Host::new(self.cores as usize, self.costs, seed);
        host.use_linux(self.linux);
        host.yield_to_peers(self.directed_yield);
        host
    }
}

/// Physical CPUs and virtual machines on them, all of which look to their guests like one machine.
#[derive(Clone, Debug)]
pub struct Virtual {
    /// The hypervisor.
    pub vmm: Vmm,
    /// Physical CPUs.
    pub pcpus: u32,
    /// Each of the guests; its processors are virtual CPUs.
    pub guest: Machine,
    /// Of each guest how much it counts and what it may have at most.
    pub shares: Vec<Share>,
}

/// What programs run on in the simulator.
enum Ground {
    Bare(Box<Host>),
    Virtual(Box<Vms>),
}

impl Ground {
    fn host(&self, vm: usize) -> &Host {
        match self {
            Ground::Bare(host) => host,
            Ground::Virtual(vms) => vms.guest(vm),
        }
    }

    fn host_mut(&mut self, vm: usize) -> &mut Host {
        match self {
            Ground::Bare(host) => host,
            Ground::Virtual(vms) => vms.guest_mut(vm),
        }
    }

    fn now(&self) -> u64 {
        match self {
            Ground::Bare(host) => host.now(),
            Ground::Virtual(vms) => vms.now(),
        }
    }

    fn run_to_next_end(&mut self, end: u64) {
        let done = match self {
            Ground::Bare(host) => host.run_to_next_end(end, u64::MAX),
            Ground::Virtual(vms) => vms.run_to_next_end(end, u64::MAX),
        };
        done.unwrap_or_else(|what| panic!("please report it: {what}"));
    }
}

/// What a program does.
#[derive(Clone, Debug)]
pub enum Does {
    /// What was recorded.
    Graph(Arc<Graph>),
    /// Phases.
    Phases(ForkJoin),
    /// Its tasks wait for one another.
    Network(Box<Network>),
    /// LOOP: its threads compute for themselves, and never end.
    Loop,
    /// After so many nanoseconds of computing its threads wait for so many, again and again, as a server's do, and
    /// never end.
    Requests(u64, u64),
}

impl Does {
    /// Whether it never ends.
    pub fn is_endless(&self) -> bool {
        matches!(self, Does::Loop | Does::Requests(..))
    }
}

/// A program and how it is run.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it does.
    pub does: Does,
    /// What a join of a graph costs the worker that forks, in nanoseconds.
    pub join_ns: f64,
    /// The part of its time alone in which it waits for memory, in thousandths.
    pub memory: u32,
    /// Whether its memory lies at a socket of its own, where a program's lies at one ([`Linux::first_touch`]): its
    /// threads are bound before its first task runs. Programs have the sockets in the order in which they come.
    pub begins_at_home: bool,
    /// How its workers are scheduled.
    pub policy: Policy,
    /// How many it has.
    pub workers: u32,
    /// In which guest it runs, under a hypervisor.
    pub vm: usize,
    /// From the end of an execution to the next, where each is a process: a length in nanoseconds that is drawn.
    pub gap: Range<u64>,
}

impl Entry {
    /// A program that waits for no memory, on a host or in the first guest, with the usual costs and gaps.
    ///
    /// # Panics
    /// If the catalog has no such policy.
    pub fn new(does: Does, policy: &str, workers: u32) -> Entry {
        let policy = policy.parse().expect("it is in the catalog");
        Entry { does, join_ns: JOIN, memory: 0, begins_at_home: false, policy, workers, vm: 0, gap: GAP }
    }
}

/// How long programs run together.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Until each has so many whole executions, but for those that never end,
    pub executions: usize,
    /// or for so many nanoseconds.
    pub most: u64,
}

/// Whether an execution is a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It is: its threads are new.
    Process,
    /// It is not: the same threads begin again.
    InPlace,
}

/// What came of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// How long each of its whole executions took, in nanoseconds, in their order.
    pub times: Vec<u64>,
    /// For how long it was there, in nanoseconds.
    pub there: u64,
    /// How long after it came each of its executions had a core and a task, those that are no process of their own
    /// left out, in nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<u64>,
    /// How long its threads had a task on a core, summed over them.
    pub worked: u64,
    /// How long they had a task, on a core or not.
    pub busy: u64,
    /// How long they looked for one on a core, summed over them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub searched: u64,
    /// How long its tasks, on a core, looked for a flag that was not set, summed over them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub looked: u64,
    /// Turns, and slices of virtual CPUs, that its thieves gave to its workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accelerations: u64,
    /// Switches to its threads, of these to thieves, and from its threads to those of another program.
    pub switches: Switches,
    /// Barriers on all its threads, fences of one, and calls that wake one.
    pub heavy: [u64; 3],
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Ran {
    /// A whole execution in the mean, in nanoseconds. Not a number, if there is none.
    pub fn mean(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64 / self.times.len() as f64
    }
}

/// From the end of an execution to the next, in nanoseconds, where a process ends, and another begins at once. The
/// length is drawn, so that programs do not keep step.
pub const GAP: Range<u64> = 0..2_000_000;

/// What a join costs the worker that forks, in nanoseconds: assumed.
const JOIN: f64 = 20.0;

/// So often it is looked how often programs have begun again in place, in nanoseconds.
const STEP: u64 = 2_000_000;

/// The first executions begin within this time, in nanoseconds.
const STARTS: u64 = 20_000_000;

/// Runs programs together; what came of each, in their order.
///
/// # Panics
/// If the simulator finds a mistake of its own.
pub fn together(machine: &Machine, entries: &[Entry], again: Again, length: Length, seed: u64) -> Vec<Ran> {
    together_on(machine, entries, again, length, seed).programs
}

/// The same; what came of the machine, too.
///
/// # Panics
/// As [`together`].
pub fn together_on(machine: &Machine, entries: &[Entry], again: Again, length: Length, seed: u64) -> Shared {
    let mut ground = Ground::Bare(Box::new(machine.host(seed)));
    let programs = run(&mut ground, machine.linux.sockets, entries, again, length, seed);
    let host = ground.host(0);
    let (lasted, idle_beside_work) = (host.now(), host.idle_beside_work());
    Shared { programs, counts: hypervisor::Counts::default(), ran: Vec::new(), lasted, idle_beside_work }
}

/// What came of programs, and of what they ran on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared {
    /// Of each program, in their order.
    pub programs: Vec<Ran>,
    /// What the hypervisor did.
    pub counts: hypervisor::Counts,
    /// How long the virtual CPUs of each machine had physical ones, in nanoseconds, summed over them.
    pub ran: Vec<u64>,
    /// How long all of it took, in nanoseconds.
    pub lasted: u64,
    /// How long cores idled beside work, as [`Host::idle_beside_work`] and [`Vms::idle_beside_work`] have it, in
    /// nanoseconds, summed over them.
    pub idle_beside_work: u64,
}

/// Runs programs in virtual machines together.
///
/// # Panics
/// As [`together`], or if the machines cannot be so.
pub fn together_in(machines: &Virtual, entries: &[Entry], again: Again, length: Length, seed: u64) -> Shared {
    let guest = |(nth, share): (usize, &Share)| (machines.guest.host(seed.wrapping_add(nth as u64)), *share);
    let guests = machines.shares.iter().enumerate().map(guest).collect();
    let vms = Vms::new(machines.vmm, machines.pcpus as usize, guests, seed);
    let mut ground = Ground::Virtual(Box::new(vms));
    let programs = run(&mut ground, machines.guest.linux.sockets, entries, again, length, seed);
    let Ground::Virtual(vms) = ground else { unreachable!("it was one of virtual machines") };
    let ran = |vm| vms.guest(vm).run_and_steal_time().map_or(0, |(ran, _)| ran);
    let ran = (0..machines.shares.len()).map(ran).collect();
    let (counts, lasted, idle_beside_work) = (vms.counts(), vms.now(), vms.idle_beside_work());
    Shared { programs, counts, ran, lasted, idle_beside_work }
}

fn run(ground: &mut Ground, sockets: u32, entries: &[Entry], again: Again, length: Length, seed: u64) -> Vec<Ran> {
    let mut random = stream(seed, 1);
    let mut ran = vec![Ran::default(); entries.len()];
    let submit = |ground: &mut Ground, entry: &Entry, place: usize, at: u64, seed: u64| {
        let host = ground.host_mut(entry.vm);
        let Entry { policy, workers, .. } = *entry;
        let number = match &entry.does {
            Does::Graph(graph) => {
                let program = Recorded::with_joins(Arc::clone(graph), entry.join_ns, seed);
                host.submit(at, Box::new(program), policy, workers, seed)
            }
            Does::Phases(phases) => host.submit(at, Box::new(phases.clone()), policy, workers, seed),
            Does::Network(network) => host.submit_network(at, Network::clone(network), policy, workers, seed),
            Does::Loop => host.submit(at, Box::new(Endless::new(workers)), policy, workers, seed),
            Does::Requests(length, wait) => {
                host.submit(at, Box::new(Requests::new(workers, *length, *wait)), policy, workers, seed)
            }
        };
        host.set_memory(number, entry.memory);
        if entry.begins_at_home {
            host.set_first_touch(number, place * sockets as usize / entries.len());
        }
        if again == Again::InPlace {
            host.repeat(number);
        }
        (number, at)
    };
    // The first begins at once where it is alone.
    let starts = if entries.len() > 1 { STARTS } else { 1 };
    let draws: Vec<(u64, u64)> =
        entries.iter().map(|_| (1 + random.random_range(0..starts), random.random())).collect();
    // A program that ends and comes again has its place of before. Which of two has which part of the table by then
    // makes no difference: all sockets are alike.
    let order = |nth: usize| (draws[nth].0, nth);
    let places: Vec<usize> =
        (0..draws.len()).map(|nth| (0..draws.len()).filter(|other| order(*other) < order(nth)).count()).collect();
    let firsts = entries.iter().zip(&places).zip(&draws);
    let mut current: Vec<(u32, u64)> =
        firsts.map(|((entry, place), (at, seed))| submit(ground, entry, *place, *at, *seed)).collect();
    let all_there = current.iter().map(|(_, came)| *came).max().unwrap_or(0);
    let ends = entries.iter().any(|entry| !entry.does.is_endless());
    let is_done = |ran: &[Ran]| {
        let has_enough = |(entry, ran): (&Entry, &Ran)| entry.does.is_endless() || ran.times.len() >= length.executions;
        ends && entries.iter().zip(ran).all(has_enough)
    };
    // Of each program, how many of its executions in place have been looked at.
    let mut counted = vec![0; entries.len()];
    // Where programs repeat in place none ends, and it is looked so often.
    let step = if again == Again::InPlace { STEP } else { length.most };
    while !is_done(&ran) && ground.now() < length.most {
        let end = (ground.now() + step).min(length.most);
        ground.run_to_next_end(end);
        let each = entries.iter().zip(&places).zip(&mut ran).zip(&mut current).zip(&mut counted);
        for ((((entry, place), ran), current), counted) in each {
            let (number, came) = *current;
            let host = ground.host(entry.vm);
            let executions = host.executions(number);
            for nth in *counted..executions.len() {
                let began = if nth == 0 { came } else { executions[nth - 1] };
                if began >= all_there {
                    ran.times.push(executions[nth] - began);
                }
            }
            *counted = executions.len();
            if let Some(ended) = host.fate(number).ended {
                if came >= all_there {
                    ran.times.push(ended - came);
                    ran.delays.extend(host.fate(number).began.map(|began| began - came));
                }
                note(host, number, ended - came, ran);
                let at = ended + 1 + random.random_range(entry.gap.clone());
                *current = submit(ground, entry, *place, at, random.random());
            }
        }
    }
    for ((entry, ran), (number, came)) in entries.iter().zip(&mut ran).zip(current) {
        note(ground.host(entry.vm), number, ground.now().saturating_sub(came), ran);
    }
    ran
}

/// Adds what a process did until now.
fn note(host: &Host, number: u32, there: u64, ran: &mut Ran) {
    let fate = host.fate(number);
    ran.there += there;
    ran.worked += fate.spent.work;
    ran.busy += host.busy_time(number);
    ran.searched += fate.spent.steal + fate.spent.mug;
    ran.looked += host.network(number).map_or(0, Network::looked);
    ran.accelerations += fate.counts.accelerations;
    let Switches { all, to_thieves, between_programs } = host.switches_of(number);
    ran.switches.all += all;
    ran.switches.to_thieves += to_thieves;
    ran.switches.between_programs += between_programs;
    for (sum, one) in ran.heavy.iter_mut().zip([fate.counts.barriers, fate.counts.fences, fate.counts.wakeups]) {
        *sum += one;
    }
}
