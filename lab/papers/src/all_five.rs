//! A comparison that none of the five papers made: the policies of the papers, `comity`, ABP and the policy of stock
//! rayon.
//!
//! All policies run the same mixes of programs, on machines of three sizes, without and with a hypervisor. Each paper's
//! own best case is one of the mixes.
//!
//! The simulated kernel is the same for all policies, and has the changes that the papers require. Operations have the
//! [costs] that the papers' data fix, data-intensive programs share the bandwidth of a socket, and the hypervisor is
//! that of Robinhood. Larger machines run larger programs, so that a program takes a tenth to a fifth of a second alone
//! on every machine.

pub mod mixes;
mod report;

use std::ops::Range;

use serde::Serialize;

use crate::corun::{self, Again, Entry, Length, Machine, Ran, Shared, Virtual};
use crate::measure::median;
use crate::{Runner, costs};
use comity_sim::hypervisor::{Scheduling, Share, Vmm};
use comity_sim::threads::Costs;
use comity_sim::threads::linux::{Groups, Linux, Version};
pub use mixes::{Mix, Piece};
pub use report::definition;

/// The compared policies: `comity`, the policies of five papers, the baselines of the papers, and `plain` (stock
/// rayon). `ws-last` runs only if tasks block, and [`CO_SCHEDULING`] only in virtual machines.
pub const POLICIES: [&str; 10] =
    ["comity", "bws", "dws", "a-steal", "robinhood", "ws-last", "equipartition", CO_SCHEDULING, "abp", "plain"];

/// Robinhood's baseline CS+Cilk++: thieves under `abp`, and a hypervisor that runs the virtual CPUs of a machine at the
/// same time.
pub const CO_SCHEDULING: &str = "co-scheduling";

/// The number of cores of each machine, which is also the number of workers of each program.
pub const CORES: [u32; 3] = [8, 32, 128];

/// The kind of machine that programs run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ground {
    /// A host.
    Bare,
    /// A virtual machine with one virtual CPU per physical CPU. A second virtual machine of the same weight computes
    /// all the time, or runs the other program of [`Mix::Vms`].
    Virtual,
}

/// The parameters that all simulations of the comparison share.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of seeds with which each cell is run. The median over the seeds is reported.
    pub runs: usize,
    /// The version of the kernel, for hosts and guests.
    pub kernel: Version,
    /// The division of the threads into task groups of the kernel: one group, or a group for each program.
    pub groups: Groups,
    /// The policy to run in place of `comity`.
    pub comity: String,
    /// The costs of operations.
    pub costs: Costs,
}

/// The maximum number of cores of a socket, which is also a NUMA node. The sockets of the papers' machines have eight
/// cores or processors.
const OF_A_SOCKET: u32 = 16;

/// The cores of a socket that its memory can serve, in thousandths for each core: half of the cores (BWS).
const BANDWIDTH: u32 = 500;

/// The minimum number of executions that are measured of each program.
const EXECUTIONS: usize = 3;

/// The maximum simulated time of a run, in nanoseconds.
const MOST: u64 = 2_000_000_000;

/// The weight of each virtual machine.
const WEIGHT: u32 = 256;

impl Setting {
    /// Returns the parameters with a kernel of 2013 that has the changes of BWS and Robinhood.
    pub fn new(seed: u64) -> Setting {
        Setting {
            seed,
            runs: 5,
            kernel: Version::V3_9,
            groups: Groups::Same,
            comity: POLICIES[0].to_owned(),
            costs: costs::all(),
        }
    }

    /// Sets a parameter, written as `key=value`.
    ///
    /// # Errors
    /// A sentence that says what can be written instead.
    pub fn vary(&mut self, text: &str) -> Result<(), String> {
        match text.split_once('=').unwrap_or((text, "")) {
            ("kernel", "3.9") => self.kernel = Version::V3_9,
            ("kernel", "6.18") => self.kernel = Version::V6_18,
            ("groups", "same") => self.groups = Groups::Same,
            ("groups", "separate") => self.groups = Groups::Separate,
            ("steal", time) => {
                let wrong = || format!("steal={time}: give a whole number of nanoseconds from 1 to 1000000");
                self.costs.steal = time.parse().ok().filter(|time| (1..=1_000_000).contains(time)).ok_or_else(wrong)?;
            }
            ("queues", "mutex") => {
                let Costs { queue, removal, handover, .. } = costs::all();
                self.costs = Costs { queue, removal, handover, ..self.costs };
            }
            ("queues", "lock-free") => self.costs = Costs { queue: 0, removal: 0, handover: 0, ..self.costs },
            ("comity", policy) => {
                let parsed: comity_policy::Policy = policy.parse().map_err(|why| format!("comity={policy}: {why}"))?;
                self.comity = parsed.to_string();
            }
            _ => {
                return Err(format!(
                    "'{text}' is not one of kernel=3.9, kernel=6.18, groups=same, groups=separate, queues=mutex, \
                     queues=lock-free, steal=NANOSECONDS, comity=POLICY"
                ));
            }
        }
        Ok(())
    }

    fn machine(&self, cores: u32) -> Machine {
        // BWS requires a yield that gives the core to a peer, and Robinhood requires the Thread Accelerator. The
        // authors implemented them in kernels of the age of 3.9.
        let is_changed = self.kernel == Version::V3_9 && self.groups == Groups::Same;
        // All sockets have the same number of cores.
        let divides = |sockets: &u32| cores.is_multiple_of(*sockets) && cores / sockets <= OF_A_SOCKET;
        let sockets = (1..=cores).find(divides).expect("a socket can have a single core");
        let linux = Linux {
            groups: self.groups,
            accelerates: is_changed,
            sockets,
            bandwidth: Some(BANDWIDTH * cores / sockets),
            first_touch: true,
            ..Linux::new(self.kernel)
        };
        Machine { cores, linux, costs: self.costs, directed_yield: is_changed }
    }

    fn entry(&self, piece: Piece, policy: &str, cores: u32, vm: usize) -> Entry {
        let policy = match policy {
            "comity" => &self.comity,
            CO_SCHEDULING => "abp",
            _ => policy,
        };
        let entry = Entry::new(piece.does(cores), policy, cores);
        // The core table binds the threads of its members before their first task.
        let begins_at_home = entry.is_in_the_table();
        Entry { join_ns: 0.0, memory: piece.memory(), begins_at_home, vm, gap: piece.gap(), ..entry }
    }

    /// Runs a program alone on the bare machine.
    fn alone(&self, Alone { piece, policy, cores }: Alone, seed: u64) -> Ran {
        let length = Length { executions: EXECUTIONS, most: MOST };
        let entries = [self.entry(piece, policy, cores, 0)];
        corun::together(&self.machine(cores), &entries, Again::Process, length, seed).remove(0)
    }

    /// Runs a mix.
    fn together(&self, cell: Cell, seed: u64) -> Shared {
        let Cell { mix, ground, cores, policy } = cell;
        let machine = self.machine(cores);
        let length = Length { executions: EXECUTIONS, most: MOST };
        let guest = |nth: usize| if mix == Mix::Vms { nth } else { 0 };
        let mut entries: Vec<Entry> =
            mix.pieces().iter().enumerate().map(|(nth, piece)| self.entry(*piece, policy, cores, guest(nth))).collect();
        if ground == Ground::Bare {
            return corun::together_on(&machine, &entries, Again::Process, length, seed);
        }
        if mix != Mix::Vms {
            entries.push(self.entry(Piece::Loop, "abp", cores, 1));
        }
        let scheduler = if policy == CO_SCHEDULING { Scheduling::CoScheduling } else { Scheduling::Balance };
        let vmm = Vmm { scheduler, nodes: machine.linux.sockets, ..costs::hypervisor() };
        let share = Share { vcpus: cores as usize, weight: WEIGHT, cap: None };
        let machines = Virtual { vmm, pcpus: cores, guest: machine, shares: vec![share; 2] };
        corun::together_in(&machines, &entries, Again::Process, length, seed)
    }
}

/// The parameters of a run of one program alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alone {
    piece: Piece,
    policy: &'static str,
    cores: u32,
}

/// A mix under a policy on a machine: a cell of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The mix.
    pub mix: Mix,
    /// The kind of machine.
    pub ground: Ground,
    /// The number of cores of the machine.
    pub cores: u32,
    /// The policy of all programs.
    pub policy: &'static str,
}

impl Cell {
    /// True if the policy and the machine suit the mix. WS-LAST needs tasks that block. Co-scheduling and the mix
    /// `vms` need virtual machines.
    fn tests_anything(&self) -> bool {
        (self.policy != "ws-last" || self.mix.blocks())
            && ((self.mix != Mix::Vms && self.policy != CO_SCHEDULING) || self.ground == Ground::Virtual)
    }
}

/// The measurements of a cell: medians over its runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// The largest slowdown minus the smallest (BWS §5.1). A slowdown is relative to the program's time alone under
    /// the same policy.
    pub unfairness: f64,
    /// The weighted speedup / its bound, as defined in `docs/guide/src/measures.md`. The baseline of a speedup is the
    /// program's shortest time alone under any of the policies.
    pub efficiency: f64,
    /// The number of switches of a core from one thread to another, per second.
    pub switches: f64,
    /// The fraction of the programs' time on cores in which threads searched for tasks, or tasks polled a flag.
    pub waste: f64,
    /// The fraction of the time of all cores in which they were idle although there was work.
    pub idle: f64,
    /// The median time from the start of a [`Piece::Late`] until it had a core and a task, in microseconds. NaN if
    /// the mix does not contain this program.
    pub delay: f64,
    /// The time of a server's burst / the time of the burst alone. NaN if the mix has no server.
    pub burst: f64,
    /// True if a program has no measured execution: no execution that began when all programs were present has ended.
    /// The program's time is then the total time for which it was present.
    pub unfinished: bool,
}

/// A cell with its measurements.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredCell {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// The medians over its runs.
    pub median: Measured,
    /// The measurements of each run.
    pub runs: Vec<Measured>,
    /// The execution time of each program / its shortest time alone under any policy. It is the mean over executions,
    /// and the median over runs.
    pub times: Vec<f64>,
}

/// Runs the mixes under all policies, on each kind of machine in `grounds` with each number of `cores`.
///
/// # Errors
/// If not all of the runs are done.
pub fn run<R: Runner>(
    setting: &Setting,
    mixes: &[Mix],
    grounds: &[Ground],
    cores: &[u32],
    runner: &R,
) -> Result<Vec<MeasuredCell>, R::Stop> {
    let mut cells = Vec::new();
    let mut alone = Vec::new();
    for cores in cores {
        for mix in mixes {
            for policy in POLICIES {
                let cell = |ground: &Ground| Cell { mix: *mix, ground: *ground, cores: *cores, policy };
                let some: Vec<Cell> = grounds.iter().map(cell).filter(Cell::tests_anything).collect();
                if some.is_empty() {
                    continue;
                }
                cells.extend(some);
                for piece in mix.pieces() {
                    let one = Alone { piece: *piece, policy, cores: *cores };
                    if !alone.contains(&one) {
                        alone.push(one);
                    }
                }
            }
        }
    }
    let runs = setting.runs;
    // All cells use the same seeds, so that all policies get the same random numbers.
    let seed = |nth: usize| setting.seed.wrapping_add((nth % runs) as u64);
    let solos = runner.run("alone", alone.len() * runs, |nth| setting.alone(alone[nth / runs], seed(nth)))?;
    let shared = runner.run("together", cells.len() * runs, |nth| setting.together(cells[nth / runs], seed(nth)))?;
    let time = |one: &Alone| {
        let nth = alone.iter().position(|other| other == one)?;
        Some(median(solos[nth * runs..][..runs].iter().map(Ran::mean)))
    };
    // To find the work of a recorded program takes as long as to unfold it.
    let mut works: Vec<((Piece, u32), f64)> = Vec::new();
    for Alone { piece, cores, .. } in &alone {
        if works.iter().all(|(of, _)| *of != (*piece, *cores)) {
            works.push(((*piece, *cores), piece.work(*cores, setting.seed)));
        }
    }
    let work = |of: (Piece, u32)| works.iter().find(|(one, _)| *one == of).expect("the program was run alone").1;
    let measured = |(cell, ran): (&Cell, &[Shared])| {
        let Cell { mix, cores, policy, .. } = *cell;
        let own = |piece: Piece| time(&Alone { piece, policy, cores }).expect("the program was run alone");
        let shortest = |piece: Piece| {
            POLICIES.iter().filter_map(|policy| time(&Alone { piece, policy, cores })).fold(f64::INFINITY, f64::min)
        };
        let known = |piece: &Piece| (*piece, [own(*piece), shortest(*piece), work((*piece, cores))]);
        let times: Vec<(Piece, [f64; 3])> = mix.pieces().iter().map(known).collect();
        let runs: Vec<Measured> = ran.iter().map(|ran| measure(*cell, &times, ran)).collect();
        let of = |get: fn(&Measured) -> f64| median(runs.iter().map(get));
        let median_of = Measured {
            unfairness: of(|one| one.unfairness),
            efficiency: of(|one| one.efficiency),
            switches: of(|one| one.switches),
            waste: of(|one| one.waste),
            idle: of(|one| one.idle),
            delay: of(|one| one.delay),
            burst: of(|one| one.burst),
            unfinished: runs.iter().any(|one| one.unfinished),
        };
        let program = |nth: usize| median(ran.iter().map(|ran| time_of(&ran.programs[nth]) / times[nth].1[1]));
        MeasuredCell { cell: *cell, median: median_of, runs, times: (0..times.len()).map(program).collect() }
    };
    Ok(cells.iter().zip(shared.chunks(runs)).map(measured).collect())
}

/// Returns the mean time of an execution, or the time for which the program was present if no execution was measured.
fn time_of(ran: &Ran) -> f64 {
    if ran.times.is_empty() { ran.there as f64 } else { ran.mean() }
}

/// Returns the smallest slowdown with which `cores` cores are enough for all programs, if all programs have the same
/// slowdown. `load` returns the number of cores that useful work needs at a given slowdown.
///
/// A program needs no core in the gap between two executions. Without gaps, the slowdown is Σ(W / T_b) / P, where W
/// is the work of a program, T_b its time alone, and P the number of cores.
fn slowed_alike(load: impl Fn(f64) -> f64, cores: f64) -> f64 {
    let (mut least, mut most) = (1.0, 1.0);
    while load(most) > cores {
        (least, most) = (most, 2.0 * most);
    }
    for _ in 0..50 {
        let middle = f64::midpoint(least, most);
        if load(middle) > cores { least = middle } else { most = middle }
    }
    most
}

/// Computes the measurements of one run. `times` has three times of each program: its time alone under the policy of the
/// cell, its shortest time alone under any policy, and its work.
fn measure(cell: Cell, times: &[(Piece, [f64; 3])], ran: &Shared) -> Measured {
    let cores = f64::from(cell.cores);
    let programs = || times.iter().zip(&ran.programs);
    let slowdowns: Vec<f64> = programs().map(|((_, [own, ..]), ran)| time_of(ran) / own - 1.0).collect();
    let most = slowdowns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = slowdowns.iter().copied().fold(f64::INFINITY, f64::min);
    let speedup: f64 = programs().map(|((_, [_, shortest, _]), ran)| shortest / time_of(ran)).sum();
    // The virtual machine with the programs gets half of the CPUs, because a second virtual machine of the same
    // weight computes all the time.
    let part = if cell.ground == Ground::Virtual && cell.mix != Mix::Vms { 0.5 } else { 1.0 };
    let load = |slowed: f64| -> f64 {
        let one = |(piece, [_, shortest, work]): &(Piece, [f64; 3])| {
            let Range { start, end } = piece.gap();
            work / (slowed * shortest + (start + end) as f64 / 2.0)
        };
        times.iter().map(one).sum()
    };
    let bound = times.len() as f64 / slowed_alike(load, cores * part);
    let sum = |get: fn(&Ran) -> u64| programs().map(|(_, ran)| get(ran)).sum::<u64>() as f64;
    let (worked, searched, looked) = (sum(|ran| ran.worked), sum(|ran| ran.searched), sum(|ran| ran.looked));
    let lasted = cores * ran.lasted as f64;
    let late = programs().filter(|((piece, _), _)| *piece == Piece::Late);
    let delays = late.flat_map(|(_, ran)| &ran.delays).map(|delay| *delay as f64 / 1e3);
    let burst = programs().find(|((piece, _), _)| *piece == Piece::Server).map(|((piece, [own, ..]), ran)| {
        let waits = piece.waits() as f64;
        (time_of(ran) - waits) / (own - waits)
    });
    Measured {
        unfairness: most - least,
        efficiency: speedup / bound,
        switches: sum(|ran| ran.switches.all) * 1e9 / lasted,
        waste: (searched + looked) / (worked + searched),
        idle: ran.idle_beside_work as f64 / lasted,
        delay: median(delays),
        burst: burst.unwrap_or(f64::NAN),
        unfinished: ran.programs.iter().take(times.len()).any(|ran| ran.times.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn the_bound_is_that_of_programs_that_are_slowed_alike() {
        // Two programs can use eight cores each, and one can use four. Together they can use 2.5 times the machine.
        let always = |slowed: f64| (8.0 + 8.0 + 4.0) / slowed;
        assert!((slowed_alike(always, 8.0) - 2.5).abs() < 1e-9);
        assert_eq!(slowed_alike(|slowed| 3.0 / slowed, 8.0), 1.0, "there is room for all");
        // One program has gaps as long as its time alone: 8 = 8 / f + 8 / (f + 1).
        let away = slowed_alike(|slowed| 8.0 / slowed + 8.0 / (slowed + 1.0), 8.0);
        assert!((1.0 / away + 1.0 / (away + 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn whatever_is_varied_in_whatever_order_a_machine_can_be_so() {
        let mut setting = Setting::new(1);
        assert!(setting.machine(8).linux.accelerates && setting.machine(8).directed_yield);
        for (varied, is_changed) in [
            ("groups=separate", false),
            ("kernel=3.9", false),
            ("kernel=6.18", false),
            ("groups=same", false),
            ("kernel=3.9", true),
        ] {
            setting.vary(varied).unwrap();
            for cores in 8..=256 {
                setting.machine(cores).linux.check(cores).unwrap();
            }
            let machine = setting.machine(128);
            assert_eq!((machine.linux.accelerates, machine.directed_yield), (is_changed, is_changed), "{varied}");
        }
        assert!(setting.vary("kernel=2.4").is_err() && setting.vary("comity=fast").is_err());
        setting.vary("steal=5000").unwrap();
        setting.vary("queues=lock-free").unwrap();
        assert_eq!((setting.costs.steal, setting.costs.queue, setting.costs.handover), (5_000, 0, 0));
        setting.vary("queues=mutex").unwrap();
        assert_eq!(setting.costs, Costs { steal: 5_000, ..costs::all() });
        assert!(setting.vary("steal=0").is_err());
    }

    #[test]
    fn programs_take_about_as_long_on_machines_of_all_sizes() {
        // These programs are shorter, or as long with fewer cores.
        let differs = |piece: Piece| matches!(piece, Piece::Late | Piece::Messages10 | Piece::Messages100);
        for piece in Mix::ALL.iter().flat_map(|mix| mix.pieces()).filter(|piece| !differs(**piece)) {
            for cores in [8, 32, 256] {
                let each = piece.work(cores, 1) / f64::from(cores) + piece.waits() as f64;
                assert!((50e6..160e6).contains(&each), "{piece:?} on {cores} cores: {each}");
            }
        }
    }

    #[test]
    fn cells_that_test_nothing_are_left_out_and_the_rest_is_measured() {
        let setting = Setting { runs: 1, ..Setting::new(1) };
        let found = run(&setting, &[Mix::Bursts, Mix::Vms], &[Ground::Bare], &[8], &Serial);
        let found = found.unwrap_or_else(|never| match never {});
        let policies: Vec<&str> = found.iter().map(|found| found.cell.policy).collect();
        assert_eq!(policies, ["comity", "bws", "dws", "a-steal", "robinhood", "equipartition", "abp", "plain"]);
        for MeasuredCell { cell, median, times, .. } in &found {
            assert_eq!((cell.mix, times.len()), (Mix::Bursts, 2));
            assert!(median.burst > 1.0 && median.delay.is_nan() && !median.unfinished, "{cell:?}: {median:?}");
            assert!(times.iter().all(|time| (1.0..3.0).contains(time)), "{cell:?}: {times:?}");
        }
    }
}
