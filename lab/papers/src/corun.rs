//! Simulation of programs that run together on a host and start again whenever they end, as in the papers'
//! experiments.
//!
//! Each execution is a new process, with new threads that the kernel places, except with [`Again::InPlace`]. An
//! execution is measured if it is complete and began when all programs had started. The programs repeat until the
//! last of them has enough measured executions, so that each measured execution overlaps with executions of all other
//! programs.

use std::ops::Range;
use std::sync::Arc;

use comity_graph::Graph;
use comity_policy::Policy;
use comity_policy::definition::{self, Definition};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use comity_sim::hypervisor::{self, Share, Vmm};
use comity_sim::network::Network;
use comity_sim::program::{Endless, ForkJoin, Recorded, Requests};
use comity_sim::random::stream;
use comity_sim::threads::linux::Linux;
use comity_sim::threads::{Costs, Host, Switches};
use comity_sim::vms::Vms;

/// The machine that programs run on.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The number of processors.
    pub cores: u32,
    /// The parameters of its kernel.
    pub linux: Linux,
    /// The costs of operations, for example of an attempt to steal.
    pub costs: Costs,
    /// True if a thread that yields to a named thread gives this thread its core, as BWS's kernel does.
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

/// A hypervisor with its physical CPUs and its virtual machines, which are equal except for their [`Share`].
#[derive(Clone, Debug)]
pub struct Virtual {
    /// The hypervisor.
    pub vmm: Vmm,
    /// The number of physical CPUs.
    pub pcpus: u32,
    /// The machine that each guest sees. Its processors are virtual CPUs.
    pub guest: Machine,
    /// The number of virtual CPUs, the weight and the limit of each guest.
    pub shares: Vec<Share>,
}

/// The simulated machine that programs run on.
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
        done.unwrap_or_else(|what| panic!("the simulator has an error, please report it: {what}"));
    }
}

/// The work of a program.
#[derive(Clone, Debug)]
pub enum Does {
    /// A recorded graph.
    Graph(Arc<Graph>),
    /// Serial and parallel phases alternately.
    Phases(ForkJoin),
    /// A network of tasks that wait for one another.
    Network(Box<Network>),
    /// The program LOOP: each thread computes independently and never ends.
    Loop,
    /// A server that never ends. Each thread repeats: compute for the first number of ns, then wait for the second
    /// number of ns.
    Requests(u64, u64),
}

impl Does {
    /// True if the program never ends.
    pub fn is_endless(&self) -> bool {
        matches!(self, Does::Loop | Does::Requests(..))
    }
}

/// A program with the parameters of its execution.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The work of the program.
    pub does: Does,
    /// The cost of a join for the worker that forks, in nanoseconds. Only recorded graphs use it.
    pub join_ns: f64,
    /// The fraction of its time alone in which the program waits for memory, in thousandths.
    pub memory: u32,
    /// True if the program's threads are bound to a socket before its first task runs. With [`Linux::first_touch`],
    /// its memory then lies at this socket. Programs get the sockets in the order in which they start.
    pub begins_at_home: bool,
    /// The policy that schedules its workers.
    pub policy: Policy,
    /// The number of its workers.
    pub workers: u32,
    /// The index of the guest in which the program runs, under a hypervisor.
    pub vm: usize,
    /// The range, in ns, from which the time between two executions is drawn. Only [`Again::Process`] uses it.
    pub gap: Range<u64>,
}

impl Entry {
    /// Returns a program that does not wait for memory, on a host or in the first guest, with the default cost of a
    /// join and with gaps from [`GAP`].
    ///
    /// # Panics
    /// If the catalog has no policy of this name.
    pub fn new(does: Does, policy: &str, workers: u32) -> Entry {
        let policy = policy.parse().expect("the policy is in the catalog");
        Entry { does, join_ns: JOIN, memory: 0, begins_at_home: false, policy, workers, vm: 0, gap: GAP }
    }

    /// True if the policy makes the program a member of the core table, which binds its threads to cores.
    pub fn is_in_the_table(&self) -> bool {
        matches!(Definition::of(&self.policy).share, definition::Share::Cores(_))
    }
}

/// The conditions that end a co-run. The co-run ends when the first condition is met.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// The number of complete executions that each program must have. Endless programs are exempt.
    pub executions: usize,
    /// The maximum simulated time, in nanoseconds.
    pub most: u64,
}

/// The way in which a program starts again after it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Each execution is a new process with new threads.
    Process,
    /// The process and its threads remain, and run the program again.
    InPlace,
}

/// The outcome of a program that ran together with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// The time of each measured execution, in nanoseconds, in the order of execution. A measured execution is
    /// complete, and began when all programs had started.
    pub times: Vec<u64>,
    /// The total time for which the program was present, in nanoseconds.
    pub there: u64,
    /// The time from the start of each execution until it had a core and a task, in nanoseconds. Empty with
    /// [`Again::InPlace`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<u64>,
    /// The time for which the program's threads had a task and a core, in nanoseconds, summed over threads.
    pub worked: u64,
    /// The time for which the program's threads had a task, with or without a core, in nanoseconds, summed over
    /// threads.
    pub busy: u64,
    /// The time for which the program's threads had a core and searched for a task, in nanoseconds, summed over
    /// threads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub searched: u64,
    /// The time for which the program's tasks had a core and polled a flag that was not set, in nanoseconds, summed
    /// over tasks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub looked: u64,
    /// The number of time slices, of threads or of virtual CPUs, that the program's thieves gave to its workers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub accelerations: u64,
    /// The counts of context switches to the program's threads.
    pub switches: Switches,
    /// The counts of three costly operations: barriers on all threads of the program, fences of one thread, and
    /// system calls that wake a thread.
    pub heavy: [u64; 3],
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Ran {
    /// Returns the mean time of a measured execution, in nanoseconds. NaN if no execution was measured.
    pub fn mean(&self) -> f64 {
        self.times.iter().sum::<u64>() as f64 / self.times.len() as f64
    }
}

/// The range, in ns, of the time between the end of a process and the start of the next. The time is drawn at random,
/// so that programs do not stay synchronized.
pub const GAP: Range<u64> = 0..2_000_000;

/// The assumed cost of a join for the worker that forks, in nanoseconds.
const JOIN: f64 = 20.0;

/// The interval, in nanoseconds, at which executions that repeat in place are counted.
const STEP: u64 = 2_000_000;

/// The time within which the first executions begin, in nanoseconds.
const STARTS: u64 = 20_000_000;

/// Runs programs together, and returns their outcomes in the order of `entries`.
///
/// # Panics
/// If the simulator finds an internal error.
pub fn together(machine: &Machine, entries: &[Entry], again: Again, length: Length, seed: u64) -> Vec<Ran> {
    together_on(machine, entries, again, length, seed).programs
}

/// Runs programs together like [`together`], and also returns the outcome of the machine.
///
/// # Panics
/// If the simulator finds an internal error.
pub fn together_on(machine: &Machine, entries: &[Entry], again: Again, length: Length, seed: u64) -> Shared {
    let mut ground = Ground::Bare(Box::new(machine.host(seed)));
    let programs = run(&mut ground, machine.linux.sockets, entries, again, length, seed);
    let host = ground.host(0);
    let (lasted, idle_beside_work) = (host.now(), host.idle_beside_work());
    Shared { programs, counts: hypervisor::Counts::default(), ran: Vec::new(), lasted, idle_beside_work }
}

/// The outcomes of programs and of the machine on which they ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared {
    /// The outcome of each program, in the order of the entries.
    pub programs: Vec<Ran>,
    /// The counts of the hypervisor's actions.
    pub counts: hypervisor::Counts,
    /// The time for which the virtual CPUs of each guest had a physical CPU, in nanoseconds, summed over virtual
    /// CPUs.
    pub ran: Vec<u64>,
    /// The length of the simulation, in nanoseconds.
    pub lasted: u64,
    /// The time for which cores were idle although there was work, in nanoseconds, summed over cores. See
    /// [`Host::idle_beside_work`] and [`Vms::idle_beside_work`].
    pub idle_beside_work: u64,
}

/// Runs programs together in virtual machines.
///
/// # Panics
/// If the simulator finds an internal error, or if the configuration of the machines is not possible.
pub fn together_in(machines: &Virtual, entries: &[Entry], again: Again, length: Length, seed: u64) -> Shared {
    let guest = |(nth, share): (usize, &Share)| (machines.guest.host(seed.wrapping_add(nth as u64)), *share);
    let guests = machines.shares.iter().enumerate().map(guest).collect();
    let vms = Vms::new(machines.vmm, machines.pcpus as usize, guests, seed);
    let mut ground = Ground::Virtual(Box::new(vms));
    let programs = run(&mut ground, machines.guest.linux.sockets, entries, again, length, seed);
    let Ground::Virtual(vms) = ground else { unreachable!("the ground has virtual machines") };
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
    // A program that is alone begins at once.
    let starts = if entries.len() > 1 { STARTS } else { 1 };
    let draws: Vec<(u64, u64)> =
        entries.iter().map(|_| (1 + random.random_range(0..starts), random.random())).collect();
    // The place of a program in the order of starts decides its socket. A program that ends and starts again keeps
    // its place. In a real core table, two programs that start again may swap their sockets. This has no effect,
    // because all sockets are equal.
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
    // The number of executions in place that have been counted, for each program.
    let mut counted = vec![0; entries.len()];
    // In the simulator, programs that repeat in place never end, so their executions are counted at intervals.
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

/// Adds the counts and times of a process until now to the outcome of its program.
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
