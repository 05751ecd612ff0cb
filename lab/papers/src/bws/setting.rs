//! The machine of BWS (§5.1) and its programs. Values that the paper does not give are chosen here, once for all
//! experiments. For each of these values, `claims.toml` names the datum that fixes it, or lists the values that are
//! swept.

use std::sync::Arc;

use comity_graph::{Graph, Scale};
use comity_sim::threads::Costs;
use comity_sim::threads::linux::{Groups, Linux, Version};

use super::Benchmark;
use crate::corun::{Again, Does, Entry, Length, Machine, Ran, together};
use crate::vary::{Varied, Vary};
use crate::{Runner, costs, programs};

/// The number of cores of the paper's machine, and of workers of each program (§5.1).
pub const CORES: u32 = 32;

/// The policy of the paper's original, unmodified work stealing.
pub const ORIGINAL: &str = "abp";

/// The policy of the paper.
pub const BWS: &str = "bws";

/// The parameters that all simulations of the paper share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The factor by which the paper's machine is slower than the machine on which the programs were recorded.
    pub slow: f64,
    /// The factor for CG, in place of `slow`: the paper does not describe CG's code and memory.
    pub cg: f64,
    /// The serial fraction of each process's time alone, in thousandths. In this time, the process starts, reads,
    /// makes its input, and writes.
    pub setup: u32,
    /// The number of cores that the memory bandwidth of a socket can supply, in thousandths of a core.
    pub bandwidth: u32,
    /// The fraction of its time alone in which CG waits for memory, in thousandths.
    pub cg_memory: u32,
    /// The fraction of its time alone in which BFS waits for memory, in thousandths.
    pub bfs_memory: u32,
    /// The serial time before each batch of CLIP's polygons, in µs of the machine on which it was recorded.
    pub clip_serial: u64,
    /// The costs of operations on the paper's machine.
    pub costs: Costs,
    /// The mean time between two wake-ups of a thread of the kernel on each core, in nanoseconds. 0: there are none.
    pub noise: u64,
    /// True if a yield to a peer is fair to other threads ([`Linux::fair_yield_to`]).
    pub fair_yield_to: bool,
    /// The clock ticks of the kernel per second.
    pub hz: u32,
    /// The way in which a program starts again: in a new process, or in the same process.
    pub again: Again,
    /// The minimum number of executions that are measured of each program in a pair.
    pub executions: usize,
    /// The number of cores, and of workers of each program. The number of tasks of a program is the paper's number
    /// times `cores` / 32.
    pub cores: u32,
    /// The number of sockets.
    pub sockets: u32,
    /// The version of the kernel.
    pub kernel: Version,
    /// The division of threads into task groups of the kernel.
    pub groups: Groups,
}

impl Setting {
    /// Returns the machine of §5.1, with the parameters of `claims.toml`.
    pub fn new(seed: u64) -> Setting {
        Setting {
            seed,
            slow: 10.0,
            cg: 15.0,
            setup: 200,
            bandwidth: 4_000,
            cg_memory: costs::CG_MEMORY,
            bfs_memory: 600,
            clip_serial: 65,
            costs: costs::bws(),
            noise: 0,
            fair_yield_to: false,
            hz: 1_000,
            again: Again::Process,
            executions: 4,
            cores: CORES,
            sockets: 4,
            kernel: Version::V2_6_36,
            groups: Groups::Same,
        }
    }

    /// Returns the paper's programs on a current machine: the machine on which they were recorded, but with `cores`
    /// cores. The machine has EEVDF, the default costs of the simulator, and a socket for each 64 cores.
    pub fn today(seed: u64, cores: u32, groups: Groups) -> Setting {
        let sockets = cores.div_ceil(64);
        Setting {
            slow: 1.0,
            // The measured time of class B / the time that the scaled recording predicts.
            cg: 1.5,
            // Memory can supply half of the cores, as on the machine of §5.1.
            bandwidth: 500 * cores / sockets,
            costs: Costs::default(),
            hz: 250,
            cores,
            sockets,
            kernel: Version::V6_18,
            groups,
            ..Setting::new(seed)
        }
    }
}

impl Vary for Setting {
    fn usual(seed: u64) -> Result<Setting, String> {
        Ok(Setting::new(seed))
    }

    fn vary(&mut self, text: &str) -> Result<(), String> {
        let varied = Varied::new(text);
        let costs = &mut self.costs;
        match varied.key {
            "seed" => self.seed = varied.whole(1, 1_000_000)?,
            "slow" => self.slow = varied.factor()?,
            "cg" => self.cg = varied.factor()?,
            "setup" => self.setup = varied.whole(0, 900)?,
            "bandwidth" => self.bandwidth = varied.whole(100, 8_000)?,
            "cg-memory" => self.cg_memory = varied.whole(0, 1_000)?,
            "bfs-memory" => self.bfs_memory = varied.whole(0, 1_000)?,
            "clip-serial" => self.clip_serial = varied.whole(1, 1_000_000)?,
            "hz" => self.hz = varied.whole(10, 10_000)?,
            "yield-to" => self.fair_yield_to = varied.one_of(&[("always", false), ("fair", true)], "always or fair")?,
            "noise" if varied.value == "0" => self.noise = 0,
            "noise" => self.noise = varied.whole(100_000, 1_000_000_000)?,
            "again" => {
                let all = [("process", Again::Process), ("in-place", Again::InPlace)];
                self.again = varied.one_of(&all, "process or in-place")?;
            }
            "steal" => costs.steal = varied.whole(1, 1_000_000)?,
            "yield" => costs.yield_core = varied.whole(1, 1_000_000)?,
            "switch" => costs.switch = varied.whole(0, 1_000_000)?,
            "refill" => costs.refill = varied.whole(0, 1_000_000)?,
            "queue" => costs.queue = varied.whole(0, 1_000_000)?,
            "bell" => costs.bell = varied.whole(0, 1_000_000)?,
            "count" => costs.count = varied.whole(0, 1_000_000)?,
            "disturb" => costs.disturb = varied.whole(0, 1_000_000)?,
            _ => {
                return Err(format!(
                    "'{text}' is not one of slow, cg (factors), setup, bandwidth, cg-memory, bfs-memory (thousandths), \
                     clip-serial (µs), hz, again (process or in-place), yield-to (always or fair), or steal, yield, switch, \
                     refill, queue, bell, count, disturb, noise (nanoseconds)=VALUE"
                ));
            }
        }
        Ok(())
    }
}

impl Setting {
    fn machine(&self) -> Machine {
        let is_papers = self.kernel == Version::V2_6_36;
        let linux = Linux {
            compat_yield: is_papers,
            hz: self.hz,
            groups: self.groups,
            sockets: self.sockets,
            bandwidth: Some(self.bandwidth),
            noise_every: self.noise,
            fair_yield_to: self.fair_yield_to,
            ..Linux::new(self.kernel)
        };
        Machine { cores: self.cores, linux, costs: self.costs, directed_yield: is_papers }
    }

    /// Returns the program at the paper's size, but with fewer repetitions of similar phases and tasks. `None` for
    /// LOOP.
    fn graph(&self, benchmark: Benchmark) -> Option<Arc<Graph>> {
        let more = f64::from(self.cores) / f64::from(CORES);
        let plain = Scale { width: more, ..programs::slower(self.slow) };
        let wider = |width: f64| Scale { width: width * more, ..plain };
        let graph = match benchmark {
            // 10 million nodes; the recording has 250,000. BFS sets its distances before it is timed.
            Benchmark::Bfs => programs::recorded("bfs", Scale { serial: 1.0, ..wider(40.0) }),
            // A sixteenth of class B; the recording has class S.
            Benchmark::Ep => programs::recorded("ep", wider(4.0)),
            Benchmark::Mm => programs::recorded("mm", plain),
            // 800 × 600 pixels; the recording has 400 × 300.
            Benchmark::RayTracer => programs::recorded("raytrace", wider(4.0)),
            Benchmark::Cg => programs::conjugate_gradients(CG_STEPS, programs::class_b(self.cg, more)),
            Benchmark::Clip => {
                let serial = (self.clip_serial as f64 * 1e3 * self.slow) as u64;
                programs::clip_in_batches(CLIP_BATCHES, serial, plain)
            }
            Benchmark::Mi => programs::recorded("mi", plain),
            Benchmark::Loop => return None,
        };
        let alone = graph.measure(self.seed).work as f64 / (benchmark.parallel_speedup() * more);
        Some(programs::set_up(&graph, alone, self.setup))
    }

    /// Returns the programs of this setting.
    pub fn programs(&self) -> Programs {
        Programs { setting: self.clone(), graphs: Benchmark::ALL.map(|benchmark| self.graph(benchmark)) }
    }
}

/// The number of CG's steps in an execution.
const CG_STEPS: u32 = 6;

/// The number of batches of CLIP's polygons in an execution.
const CLIP_BATCHES: u32 = 100;

/// The maximum simulated time of a run, in nanoseconds.
const MOST: u64 = 20_000_000_000;

/// The programs of a setting.
pub struct Programs {
    /// The setting.
    pub setting: Setting,
    pub(super) graphs: [Option<Arc<Graph>>; 8],
}

impl Programs {
    fn entry(&self, benchmark: Benchmark, policy: &str, workers: u32) -> Entry {
        let memory = match benchmark {
            Benchmark::Cg => self.setting.cg_memory,
            Benchmark::Bfs => self.setting.bfs_memory,
            _ => 0,
        };
        let does = self.graphs[benchmark as usize].clone().map_or(Does::Loop, Does::Graph);
        Entry { memory, ..Entry::new(does, policy, workers) }
    }

    /// Runs these programs together. `nth` is the number of the run in its experiment, and changes the seed.
    pub(super) fn run(&self, of: &[(Benchmark, u32)], policy: &str, nth: usize) -> Vec<Ran> {
        let Setting { again, executions, seed, .. } = self.setting;
        let entries: Vec<Entry> =
            of.iter().map(|(benchmark, workers)| self.entry(*benchmark, policy, *workers)).collect();
        let length = Length { executions, most: if of.len() > 1 { MOST } else { MOST / 4 } };
        let length = if of.iter().all(|(benchmark, _)| *benchmark == Benchmark::Loop) {
            // LOOP never ends, so it runs for a fixed time.
            Length { most: LOOP, ..length }
        } else {
            length
        };
        together(&self.setting.machine(), &entries, again, length, seed.wrapping_mul(1_000) + nth as u64)
    }

    /// Returns the outcome of each program alone under a policy, in the order of [`Benchmark::ALL`].
    ///
    /// # Errors
    /// If not all of the runs are done.
    pub fn alone<R: Runner>(&self, policy: &str, runner: &R) -> Result<Vec<Ran>, R::Stop> {
        let name = format!("solo-{}", named(policy));
        runner.run(&name, Benchmark::ALL.len(), |nth| {
            self.run(&[(Benchmark::ALL[nth], self.setting.cores)], policy, nth).remove(0)
        })
    }
}

/// The simulated time of LOOP alone, in nanoseconds.
const LOOP: u64 = 200_000_000;

/// Returns the name of a policy in the form for file names.
pub(super) fn named(policy: &str) -> String {
    policy.replace([':', '='], "-")
}
