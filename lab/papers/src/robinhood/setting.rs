//! The machine of Robinhood (§6), its programs and strategies. Values that the paper does not give are chosen here,
//! once for all experiments. For each of these values, `claims.toml` names the datum that fixes it, or lists the
//! values that are swept.

use std::sync::Arc;

use comity_graph::{Graph, Scale};
use comity_sim::hypervisor::{Scheduling, Share, Vmm, WeightOf};
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::Costs;
use comity_sim::threads::linux::{Linux, Version};
use serde::{Deserialize, Serialize};

use super::rates;
use crate::corun::{Again, Does, Entry, Length, Machine, Ran, Shared, Virtual, together, together_in};
use crate::vary::{Varied, Vary};
use crate::{costs, programs};

/// The number of physical CPUs, of virtual CPUs of each machine, and of threads of each program by default (§6).
pub const CPUS: u32 = 16;

/// A program of table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Benchmark {
    /// Conjugate gradients: many short phases.
    Cg,
    /// Intersections of pairs of polygons.
    Clip,
    /// Random numbers: independent computation only.
    Ep,
    /// The inverse of a matrix: many short phases.
    Mi,
    /// The product of matrices.
    Mm,
    /// The rendering of a picture.
    Rt,
    /// Threads that compute and do not steal.
    Loop,
    /// SPECjbb: threads that compute when requests arrive, and do not steal.
    Server,
}

impl Benchmark {
    /// The programs whose threads steal.
    pub const STEALING: [Benchmark; 6] =
        [Benchmark::Cg, Benchmark::Clip, Benchmark::Ep, Benchmark::Mi, Benchmark::Mm, Benchmark::Rt];

    /// Returns the paper's name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Cg => "CG",
            Benchmark::Clip => "CLIP",
            Benchmark::Ep => "EP",
            Benchmark::Mi => "MI",
            Benchmark::Mm => "MM",
            Benchmark::Rt => "RT",
            Benchmark::Loop => "Loop",
            Benchmark::Server => "SPECjbb",
        }
    }
}

/// A scheduler of virtual CPUs, together with a policy for thieves (§6.2, §6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Strategy {
    /// Cilk++ under Credit.
    Baseline,
    /// Cilk++ under co-scheduling.
    CoScheduling,
    /// BWS under balance scheduling.
    Bws,
    /// Robinhood under balance scheduling.
    Robinhood,
    /// Robinhood under balance scheduling, with accelerations across NUMA nodes.
    RobinhoodU,
    /// Robinhood under balance scheduling, with BWS's yields in the guest.
    RobinhoodS,
}

impl Strategy {
    /// Returns the paper's name of the strategy.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Baseline => "baseline",
            Strategy::CoScheduling => "CS+Cilk++",
            Strategy::Bws => "BWS",
            Strategy::Robinhood => "Robinhood",
            Strategy::RobinhoodU => "Robinhood_u",
            Strategy::RobinhoodS => "Robinhood_s",
        }
    }

    fn policy(self) -> &'static str {
        match self {
            Strategy::Baseline | Strategy::CoScheduling => "abp",
            Strategy::Bws => "bws",
            Strategy::Robinhood => "robinhood",
            Strategy::RobinhoodU => "robinhood-u",
            Strategy::RobinhoodS => "robinhood-s",
        }
    }

    fn scheduler(self) -> Scheduling {
        match self {
            Strategy::Baseline => Scheduling::Credit,
            Strategy::CoScheduling => Scheduling::CoScheduling,
            _ => Scheduling::Balance,
        }
    }
}

/// The way in which the virtual CPUs of a machine are limited to an online rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imposed {
    /// The cap of the Credit scheduler.
    Cap,
    /// Other machines of the same weight, with threads that always compute.
    Neighbours,
    /// A single other machine with threads that always compute. Its weight is the sum of the weights of the machines
    /// of `Neighbours`.
    Weight,
}

/// The online rates of §6.3, as the number of machines that share the physical CPUs evenly: 100, 50, 25 and 12.5 %.
pub const RATES: [u32; 4] = [1, 2, 4, 8];

/// The online rates in per cent.
pub const RATE_NAMES: [&str; 4] = ["100", "50", "25", "12.5"];

/// The parameters that all simulations of the paper share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The way in which online rates are imposed.
    pub rate: Imposed,
    /// The factor by which the paper's machine is slower than the machine on which the programs were recorded.
    pub slow: f64,
    /// The factor for CG, in place of `slow`.
    pub cg: f64,
    /// The serial fraction of each process's time alone, in thousandths.
    pub setup: u32,
    /// The target time of an execution alone, in milliseconds. An execution repeats the program's work a whole number
    /// of times.
    pub length: u32,
    /// The costs of operations in a guest.
    pub costs: Costs,
    /// The hypervisor with the costs of its operations.
    pub vmm: Vmm,
    /// The clock ticks of a guest per second.
    pub hz: u32,
    /// The minimum number of executions that are measured of each program.
    pub executions: usize,
}

impl Setting {
    /// Returns the machine of §6, with the parameters of `claims.toml`.
    pub fn new(seed: u64) -> Setting {
        Setting {
            seed,
            rate: Imposed::Weight,
            slow: 4.0,
            cg: 8.6,
            setup: 0,
            length: 80,
            costs: costs::robinhood(),
            vmm: costs::hypervisor(),
            hz: 1_000,
            executions: 3,
        }
    }
}

impl Vary for Setting {
    fn usual(seed: u64) -> Result<Setting, String> {
        Ok(Setting::new(seed))
    }

    fn vary(&mut self, text: &str) -> Result<(), String> {
        let varied = Varied::new(text);
        let (costs, vmm) = (&mut self.costs, &mut self.vmm);
        match varied.key {
            "rate" => {
                let all = [("cap", Imposed::Cap), ("neighbours", Imposed::Neighbours), ("weight", Imposed::Weight)];
                self.rate = varied.one_of(&all, "cap, neighbours or weight")?;
            }
            "weight-of" => {
                let all = [("machine", WeightOf::Machine), ("vcpu", WeightOf::Vcpu)];
                vmm.weight_of = varied.one_of(&all, "machine or vcpu")?;
            }
            "seed" => self.seed = varied.whole(1, 1_000_000)?,
            "slow" => self.slow = varied.factor()?,
            "cg" => self.cg = varied.factor()?,
            "setup" => self.setup = varied.whole(0, 900)?,
            "length" => self.length = varied.whole(10, 100_000)?,
            "hz" => self.hz = varied.whole(10, 10_000)?,
            "dom0" if varied.value == "0" => vmm.dom0_every = 0,
            "dom0" => vmm.dom0_every = varied.whole(100_000, 1_000_000_000)?,
            "steal" => costs.steal = varied.whole(1, 100_000_000)?,
            "yield" => costs.yield_core = varied.whole(1, 100_000_000)?,
            "disturb" => costs.disturb = varied.whole(0, 1_000_000)?,
            "hypercall" => vmm.hypercall = varied.whole(0, 100_000_000)?,
            "vcpu-switch" => vmm.switch = varied.whole(0, 100_000_000)?,
            "refill" => vmm.near = varied.whole(0, 100_000_000)?,
            "far" => vmm.far = varied.whole(0, 100_000_000)?,
            _ => {
                return Err(format!(
                    "'{text}' is not one of rate (cap, neighbours or weight), weight-of (machine or vcpu), slow, cg \
                     (factors), setup (thousandths), length (ms), hz, or steal, yield, disturb, hypercall, vcpu-switch, \
                     refill, far, dom0 (nanoseconds)=VALUE"
                ));
            }
        }
        Ok(())
    }
}

impl Setting {
    fn machine(&self, strategy: Strategy) -> Machine {
        let is_bws = strategy >= Strategy::Bws;
        let accelerates = matches!(strategy, Strategy::Robinhood | Strategy::RobinhoodU);
        let linux = Linux { hz: self.hz, accelerates, ..Linux::new(Version::V3_9) };
        Machine { cores: CPUS, linux, costs: self.costs, directed_yield: is_bws }
    }

    /// Returns the program at the paper's size, but with another number of repetitions. `None` if the program never
    /// ends.
    fn graph(&self, benchmark: Benchmark) -> Option<Arc<Graph>> {
        let plain = programs::slower(self.slow);
        let often = |usually: u32| (f64::from(usually * self.length) / 1e3).ceil() as u32;
        let again = |name: &str, width: f64, usually: u32| {
            programs::repeated(&programs::recorded(name, Scale { width, ..plain }), often(usually))
        };
        let graph = match benchmark {
            Benchmark::Cg => programs::conjugate_gradients(often(172), programs::class_b(self.cg, 1.0)),
            Benchmark::Clip => programs::clip_in_batches(often(1_150), (65e3 * self.slow) as u64, plain),
            // A sixteenth of class B; the recording has class S.
            Benchmark::Ep => again("ep", 4.0, 6),
            Benchmark::Mi => again("mi", 1.0, 74),
            Benchmark::Mm => again("mm", 1.0, 7),
            // 800 × 600 pixels; the recording has 400 × 300.
            Benchmark::Rt => again("raytrace", 4.0, 7),
            Benchmark::Loop | Benchmark::Server => return None,
        };
        let alone = graph.measure(self.seed).work as f64 / f64::from(CPUS);
        Some(programs::set_up(&graph, alone, self.setup))
    }

    /// Returns the programs of this setting.
    pub fn programs(&self) -> Programs {
        Programs { setting: self.clone(), graphs: Benchmark::STEALING.map(|benchmark| self.graph(benchmark)) }
    }
}

/// The maximum simulated time of a run, in nanoseconds, for executions of 1 s alone.
const MOST: u64 = 400_000_000_000;

/// The assumed times, in nanoseconds, that a server's thread computes for a request and waits for the next request.
const REQUEST: (u64, u64) = (5_000_000, 500_000);

/// The programs of a setting.
#[derive(Clone)]
pub struct Programs {
    setting: Setting,
    graphs: [Option<Arc<Graph>>; 6],
}

impl Programs {
    fn entry(&self, vm: usize, benchmark: Benchmark, policy: &str, workers: u32) -> Entry {
        let does = match self.graphs.get(benchmark as usize).cloned().flatten() {
            Some(graph) => Does::Graph(graph),
            None if benchmark == Benchmark::Server => Does::Requests(REQUEST.0, REQUEST.1),
            None => Does::Loop,
        };
        Entry { vm, ..Entry::new(does, policy, workers) }
    }

    /// Returns these programs under a hypervisor with slices of this many nanoseconds.
    pub(super) fn with_interval(&self, slice: u64) -> Programs {
        let mut programs = self.clone();
        programs.setting.vmm.slice = slice;
        programs
    }

    /// Runs a program in VM0 at an online rate.
    pub fn at_rate(&self, point: &rates::Point) -> Ran {
        let rates::Point { benchmark, threads, machines, loops, strategy } = *point;
        let mut entries = vec![self.entry(0, benchmark, strategy.policy(), threads)];
        entries.extend((0..loops).map(|_| self.entry(0, Benchmark::Loop, PTHREADS, CPUS)));
        let mut shares = vec![SHARE];
        match self.setting.rate {
            _ if machines == 1 => {}
            Imposed::Cap => shares[0].cap = Some(100 / machines),
            Imposed::Weight => shares.push(Share { weight: SHARE.weight * (machines - 1), ..SHARE }),
            Imposed::Neighbours => shares.extend((1..machines).map(|_| SHARE)),
        }
        entries.extend((1..shares.len()).map(|vm| self.entry(vm, Benchmark::Loop, PTHREADS, CPUS)));
        self.run(&entries, shares, strategy, u64::from(machines)).programs.remove(0)
    }

    /// Runs each program of a mix in a machine of its own.
    pub(super) fn in_machines(&self, mix: &[Benchmark], strategy: Strategy, nth: u64) -> Shared {
        let entry = |(vm, one): (usize, &Benchmark)| {
            let steals = Benchmark::STEALING.contains(one);
            self.entry(vm, *one, if steals { strategy.policy() } else { PTHREADS }, CPUS)
        };
        let entries: Vec<Entry> = mix.iter().enumerate().map(entry).collect();
        self.run(&entries, vec![SHARE; mix.len()], strategy, 100 + nth)
    }

    /// Runs a program with one long task and a thief on two CPUs of a guest, together with two threads per CPU that
    /// compute all the time. The guest has all CPU time of its virtual CPUs, so there is no hypervisor here. A yield of BWS
    /// to a peer has the rule of Linux 3.9's `yield_to`. Without this rule the poor worker would have a whole CPU.
    pub(super) fn poor_worker(&self, strategy: Strategy, nth: u64) -> Ran {
        let task = ForkJoin::new(MOST, 1, 1, 1, Fork::AtOnce);
        let mut entries = vec![Entry::new(Does::Phases(task), strategy.policy(), 2)];
        entries.extend([(); 2].map(|()| Entry::new(Does::Loop, PTHREADS, 2)));
        // Without the short interruptions, the threads on both CPUs change at the same ticks for ever. The thief then never
        // finds the poor worker without a CPU.
        let machine = self.setting.machine(strategy);
        let linux = Linux { noise_every: costs::NOISE_EVERY, fair_yield_to: true, ..machine.linux };
        let machine = Machine { cores: 2, linux, ..machine };
        let length = Length { executions: 1, most: 2_000_000_000 };
        let seed = self.setting.seed.wrapping_mul(1_000) + 200 + nth;
        together(&machine, &entries, Again::Process, length, seed).remove(0)
    }

    fn run(&self, entries: &[Entry], shares: Vec<Share>, strategy: Strategy, nth: u64) -> Shared {
        let Setting { executions, seed, vmm, length, .. } = self.setting;
        let vmm = Vmm { scheduler: strategy.scheduler(), ..vmm };
        let machines = Virtual { vmm, pcpus: CPUS, guest: self.setting.machine(strategy), shares };
        let length = Length { executions, most: MOST / 1_000 * u64::from(length) };
        together_in(&machines, entries, Again::InPlace, length, seed.wrapping_mul(1_000) + nth)
    }
}

/// The share of each machine, except for the second machine of [`Imposed::Weight`].
const SHARE: Share = Share { vcpus: CPUS as usize, weight: 256, cap: None };

/// The policy of programs that do not steal.
const PTHREADS: &str = "abp";
