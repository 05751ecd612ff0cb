//! The machine of DWS (§4) and its programs. The paper gives no time alone and only one size, so most of the values
//! here are assumed. `claims.toml` lists the values that are swept, and names the data that fix the other values.

use std::sync::Arc;

use comity_graph::{Graph, Scale};
use comity_sim::threads::Costs;
use comity_sim::threads::linux::{Linux, Version};

use crate::corun::{Again, Does, Entry, Length, Machine, Ran, together};
use crate::vary::{Varied, Vary};
use crate::{Runner, costs, programs};

/// The number k of processors of the paper's machine, and of workers of each program (§4).
pub const PROCESSORS: u32 = 16;

/// The policy of Cilk, whose thieves yield. The paper calls it ABP, and measures programs alone under it.
pub const ABP: &str = "abp";

/// The policy of the paper.
pub const DWS: &str = "dws";

/// DWS without a coordinator.
pub const NO_COORDINATOR: &str = "dws-nc";

/// Equipartition: each program gets an equal part of the cores.
pub const EP: &str = "equipartition";

/// The programs of table III: p-1 to p-4 are compute-intensive, p-5 to p-8 data-intensive.
pub const PROGRAMS: [&str; 8] = ["fft", "pnn", "cholesky", "lu", "ge", "heat", "sor", "mergesort"];

/// The programs of a mix whose threads are bound to a socket of their own before the first task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtHome {
    /// No program: the kernel places the first thread of each program.
    None,
    /// The programs that are members of the core table, which binds their threads before the first task.
    InTheTable,
    /// All programs.
    All,
}

/// The parameters that all simulations of the paper share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The factor by which the paper's machine is slower than the machine on which the programs were recorded.
    pub slow: f64,
    /// The number of cores that the memory bandwidth of a socket can supply, in thousandths of a core.
    pub bandwidth: u32,
    /// The fraction of its time alone in which a data-intensive program waits for memory, in thousandths.
    pub memory: u32,
    /// True if a program's memory lies at the socket on which its first task ran.
    pub first_touch: bool,
    /// The programs that begin on a socket of their own, if `first_touch` is true.
    pub at_home: AtHome,
    /// The speed of a hardware thread whose sibling is busy, in thousandths of its speed alone.
    pub smt: u32,
    /// True if the kernel queues a thread that yields behind all other threads of the core.
    pub compat_yield: bool,
    /// The costs of operations on the paper's machine.
    pub costs: Costs,
    /// The mean time between two wake-ups of a thread of the kernel on each core, in nanoseconds. 0: there are none.
    pub noise: u64,
    /// The clock ticks of the kernel per second.
    pub hz: u32,
    /// The minimum number of executions that are measured of each program in a mix.
    pub executions: usize,
}

impl Setting {
    /// Returns the machine of §4, with the parameters of `claims.toml`.
    pub fn new(seed: u64) -> Setting {
        Setting {
            seed,
            slow: 100.0,
            bandwidth: 3_600,
            memory: costs::DATA_MEMORY,
            first_touch: true,
            at_home: AtHome::InTheTable,
            smt: 625,
            compat_yield: true,
            costs: costs::dws(),
            noise: 0,
            hz: 1_000,
            executions: 5,
        }
    }
}

impl Vary for Setting {
    fn usual(seed: u64) -> Result<Setting, String> {
        Ok(Setting::new(seed))
    }

    fn vary(&mut self, text: &str) -> Result<(), String> {
        let varied = Varied::new(text);
        match varied.key {
            "seed" => self.seed = varied.whole(1, 1_000_000)?,
            "slow" => self.slow = varied.factor()?,
            "bandwidth" => self.bandwidth = varied.whole(100, 8_000)?,
            "memory" => self.memory = varied.whole(0, 1_000)?,
            "first-touch" => self.first_touch = varied.whole::<u32>(0, 1)? == 1,
            "at-home" => {
                let all = [("none", AtHome::None), ("table", AtHome::InTheTable), ("all", AtHome::All)];
                self.at_home = varied.one_of(&all, "none, table or all")?;
            }
            "smt" => self.smt = varied.whole(100, 1_000)?,
            "compat-yield" => self.compat_yield = varied.whole::<u32>(0, 1)? == 1,
            "noise" if varied.value == "0" => self.noise = 0,
            "noise" => self.noise = varied.whole(100_000, 1_000_000_000)?,
            "hz" => self.hz = varied.whole(10, 10_000)?,
            "steal" => self.costs.steal = varied.whole(1, 1_000_000)?,
            "yield" => self.costs.yield_core = varied.whole(1, 1_000_000)?,
            "refill" => self.costs.refill = varied.whole(0, 1_000_000)?,
            "disturb" => self.costs.disturb = varied.whole(0, 1_000_000)?,
            _ => {
                return Err(format!(
                    "'{text}' is not one of slow (a factor), bandwidth, memory, smt (thousandths), first-touch, \
                     compat-yield (0 or 1), at-home (none, table or all), hz, or steal, yield, refill, \
                     disturb, noise (nanoseconds)=VALUE"
                ));
            }
        }
        Ok(())
    }
}

impl Setting {
    fn machine(&self) -> Machine {
        let linux = Linux {
            compat_yield: self.compat_yield,
            hz: self.hz,
            sockets: 2,
            threads_per_core: 2,
            smt_speed: self.smt,
            bandwidth: Some(self.bandwidth),
            first_touch: self.first_touch,
            noise_every: self.noise,
            ..Linux::new(Version::V2_6_32)
        };
        Machine { cores: PROCESSORS, linux, costs: self.costs, directed_yield: false }
    }

    /// Returns the graph of p-`number`. The phases of data-intensive programs are longer than the coordinator's
    /// quantum T. The paper's programs probably have more phases.
    fn graph(&self, number: usize) -> Arc<Graph> {
        let plain = programs::slower(self.slow);
        let larger = |width: f64, length: f64| Scale { width, length: length * self.slow, ..plain };
        let name = PROGRAMS[number - 1];
        let scale = match name {
            // n = 4096, where the recording has 1024; about twenty of the 1023 pivots.
            "ge" => Scale { phases: 0.02, ..larger(4.0, 4.0) },
            // 4096 × 2048, where the recording has 4096 × 512; ten steps.
            "heat" => Scale { repeats: 0.25, ..larger(1.0, 4.0) },
            // 4096 × 4096, where the recording has 1024 × 1024; ten phases.
            "sor" => Scale { repeats: 0.05, ..larger(4.0, 4.0) },
            // 4,000,000 numbers, where the recording has 500,000; three levels in addition to seven.
            "mergesort" => larger(8.0 * 10.0 / 7.0, 1.0),
            _ => plain,
        };
        programs::recorded(name, scale)
    }

    /// Returns the programs of this setting.
    pub fn programs(&self) -> Programs {
        Programs { setting: self.clone(), graphs: std::array::from_fn(|nth| self.graph(nth + 1)) }
    }
}

/// The maximum simulated time of a run, in nanoseconds for each unit of `slow`. It is twice the time of five
/// executions of the two longest programs together.
const MOST: f64 = 4e8;

/// The programs of a setting.
pub struct Programs {
    /// The setting.
    pub setting: Setting,
    graphs: [Arc<Graph>; 8],
}

impl Programs {
    /// Runs the programs with these numbers together. `nth` is the number of the run in its experiment, and changes
    /// the seed.
    pub(super) fn run(&self, of: &[usize], policy: &str, nth: usize) -> Vec<Ran> {
        let Setting { executions, seed, memory, slow, at_home, .. } = self.setting;
        let entry = |number: &usize| {
            let does = Does::Graph(Arc::clone(&self.graphs[number - 1]));
            let entry = Entry::new(does, policy, PROCESSORS);
            let begins_at_home = match at_home {
                AtHome::None => false,
                AtHome::InTheTable => entry.is_in_the_table(),
                AtHome::All => true,
            };
            Entry { memory: if is_data_intensive(*number) { memory } else { 0 }, begins_at_home, ..entry }
        };
        let entries: Vec<Entry> = of.iter().map(entry).collect();
        let seed = seed.wrapping_mul(1_000) + nth as u64;
        let length = Length { executions, most: (MOST * slow) as u64 };
        together(&self.setting.machine(), &entries, Again::Process, length, seed)
    }

    /// Returns the outcome of each program alone under a policy, p-1 first.
    ///
    /// # Errors
    /// If not all of the runs are done.
    pub fn alone<R: Runner>(&self, policy: &str, runner: &R) -> Result<Vec<Ran>, R::Stop> {
        runner.run(&format!("solo-{policy}"), PROGRAMS.len(), |nth| self.run(&[nth + 1], policy, nth).remove(0))
    }
}

/// True if p-`number` is data-intensive.
pub fn is_data_intensive(number: usize) -> bool {
    number > 4
}
