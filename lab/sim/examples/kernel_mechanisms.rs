//! Shows the effect of each kernel mechanism on the examples of BWS §2.3.2: pairs of hand-written programs on 32
//! cores, under ABP. `docs/results/kernel-model.md` quotes the output.
//!
//! `cargo run --release -p comity-sim --example kernel_mechanisms [SEEDS [WORD…]]` takes some minutes for each row.
//! With words, it prints only the rows whose names contain one of them.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use comity_sim::program::{Fork, ForkJoin, Program, Strand};
use comity_sim::threads::linux::{Groups, Linux, Version};
use comity_sim::threads::{Costs, Host};

/// A serial stretch, followed by leaves that a binary tree creates. Times are in nanoseconds.
#[derive(Clone, Copy)]
struct Phase {
    serial: u64,
    leaves: u32,
    leaf: u64,
}

/// A program that repeats phases. The lengths of the phases were tuned with the first model of
/// `docs/results/kernel-model.md`.
struct Phases {
    phases: Vec<Phase>,
    nth: usize,
    left: u32,
    rounds: Arc<AtomicU32>,
}

/// The length of a fork of the tree, in nanoseconds.
const FORK: u64 = 200;

impl Phases {
    fn strand(&self, id: u32) -> Strand {
        let Phase { serial, leaves, leaf } = self.phases[self.nth];
        let length = match id {
            0 => serial,
            fork if fork < leaves => FORK,
            _leaf => leaf,
        };
        Strand { id, length: NonZeroU64::new(length).expect("no stretch is empty") }
    }
}

impl Program for Phases {
    fn root(&mut self) -> Strand {
        self.strand(0)
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        let leaves = self.phases[self.nth].leaves;
        match strand {
            0 => {
                self.left = leaves;
                ready.push(self.strand(1));
            }
            fork if fork < leaves => ready.extend([2 * fork, 2 * fork + 1].map(|node| self.strand(node))),
            _leaf => {
                self.left -= 1;
                if self.left == 0 {
                    self.nth = (self.nth + 1) % self.phases.len();
                    self.rounds.fetch_add(u32::from(self.nth == 0), Ordering::Relaxed);
                    ready.push(self.strand(0));
                }
            }
        }
    }

    fn work(&self) -> u64 {
        self.phases.iter().map(|phase| phase.serial + u64::from(phase.leaves) * phase.leaf).sum()
    }

    fn critical_path(&self) -> u64 {
        self.phases.iter().map(|phase| phase.serial + phase.leaf).sum()
    }
}

/// Returns the phases of a program, by its name in the paper.
fn phases(name: &str) -> Vec<Phase> {
    let alike = |count, serial: u64, work: u64, leaf: u64| {
        vec![Phase { serial: 1_000 * serial, leaves: (work / leaf) as u32, leaf: 1_000 * leaf }; count]
    };
    match name {
        "ep" => alike(1, 500, 50_000_000, 5_000),
        "cg" => alike(118, 3_560, 48_800, 177),
        "mm" => alike(57, 63, 280_000, 215),
        _bfs => {
            // Seventeen frontiers, the widest in the middle.
            let weight = |level: u32| (-4.0 * ((f64::from(level) + 0.5) / 17.0 - 0.5).powi(2)).exp();
            let all: f64 = (0..17).map(weight).sum();
            let leaves = |level| ((3_800_000.0 * weight(level) / all / 260.0) as u32).max(1);
            (0..17).map(|level| Phase { serial: 900_000, leaves: leaves(level), leaf: 260_000 }).collect()
        }
    }
}

/// A variant of the machine.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    /// The kernel. `None` stands for cores with equal turns.
    linux: Option<Linux>,
    refill: u64,
    /// True if short programs begin and end meanwhile.
    is_disturbed: bool,
}

/// The number of rounds of each program that a run waits for, and the longest time that it waits, in nanoseconds.
const ROUNDS: u32 = 4;
const LONGEST: u64 = 60_000_000_000;
/// The time between two looks at the number of rounds, in nanoseconds.
const STEP: u64 = 5_000_000;

/// Submits six short programs, one every 300 ms. A program with n threads computes 7n leaves of 7.3 ms each.
fn disturb(host: &mut Host) {
    for (nth, threads) in (0..).zip([7, 11, 5, 13, 3, 17]) {
        let program = ForkJoin::new(1, 7_300_000, 7 * threads, 1, Fork::Tree);
        host.submit(
            1 + 300_000_000 * nth,
            Box::new(program),
            "plain".parse().expect("it is in the catalog"),
            threads,
            nth,
        );
    }
}

/// Returns the mean length of a round of each program, in seconds.
fn run(variant: Variant, policy: &str, seed: u64, programs: &[(&str, u32)]) -> Vec<f64> {
    let (mut host, rounds) = host(variant, policy, seed, programs);
    let mut last = vec![(0, 0); programs.len()];
    while last.iter().any(|(done, _)| *done < ROUNDS) && host.now() < LONGEST {
        host.run(host.now() + STEP, u64::MAX).unwrap_or_else(|what| panic!("please report it: {what}"));
        for (last, rounds) in last.iter_mut().zip(&rounds) {
            let done = rounds.load(Ordering::Relaxed);
            if done > last.0 {
                *last = (done, host.now());
            }
        }
    }
    last.iter().map(|(done, at)| *at as f64 / 1e9 / f64::from(*done)).collect()
}

/// Creates a host with these programs. Returns it with the counters of their rounds.
fn host(variant: Variant, policy: &str, seed: u64, programs: &[(&str, u32)]) -> (Host, Vec<Arc<AtomicU32>>) {
    let costs = Costs { steal: 500, yield_core: 700, refill: variant.refill, ..Costs::default() };
    let mut host = Host::new(32, costs, seed);
    if let Some(linux) = variant.linux {
        host.use_linux(linux);
    }
    let policy = policy.parse().expect("it is in the catalog");
    if variant.is_disturbed {
        disturb(&mut host);
    }
    let mut rounds = Vec::new();
    for (nth, (name, workers)) in (0..).zip(programs) {
        rounds.push(Arc::new(AtomicU32::new(0)));
        let program = Phases { phases: phases(name), nth: 0, left: 0, rounds: Arc::clone(&rounds[nth as usize]) };
        let number = host.submit(0, Box::new(program), policy, *workers, seed + nth);
        // BFS does nothing but wait for memory.
        host.set_memory(number, if *name == "bfs" { 1_000 } else { 0 });
    }
    (host, rounds)
}

/// Counts the cores that CG has while MM runs too, in each of 400 milliseconds, from three seconds on. Returns the
/// number of milliseconds with at most one core, the number with at least 31 cores, and the smallest and the largest
/// number of cores.
fn cores_of_cg(variant: Variant) -> (usize, usize, u64, u64) {
    let (mut host, _) = host(variant, NO_YIELDS, 1, &[("cg", 32), ("mm", 32)]);
    // The short programs are submitted first.
    let cg = if variant.is_disturbed { 6 } else { 0 };
    let mut used = |at: u64| {
        host.run(at, u64::MAX).unwrap_or_else(|what| panic!("please report it: {what}"));
        let spent = host.fate(cg).spent;
        spent.work + spent.steal + spent.mug
    };
    let at = |ms: u64| 3_000_000_000 + ms * 1_000_000;
    let until: Vec<u64> = (0..=400).map(|ms| used(at(ms))).collect();
    let cores: Vec<u64> = until.windows(2).map(|ends| (ends[1] - ends[0] + 500_000) / 1_000_000).collect();
    let count = |is: fn(&u64) -> bool| cores.iter().filter(|cores| is(cores)).count();
    let ends = (cores.iter().min(), cores.iter().max());
    (count(|cores| *cores <= 1), count(|cores| *cores >= 31), *ends.0.unwrap_or(&0), *ends.1.unwrap_or(&0))
}

/// A policy with practically no yields: a thief yields after 4096 failed steals per peer, which take a dozen slices.
const NO_YIELDS: &str = "delay-yield:failures_per_worker=4096";

fn main() {
    let seeds: u64 = std::env::args().nth(1).map_or(3, |seeds| seeds.parse().expect("a number of seeds"));
    let bws = Linux { compat_yield: true, hz: 1_000, sockets: 4, ..Linux::new(Version::V2_6_36) };
    let with = |name, linux| Variant { name, linux: Some(linux), refill: 0, is_disturbed: false };
    let variants = [
        Variant { name: "equal turns of 3 ms, no kernel", linux: None, refill: 0, is_disturbed: false },
        with("2.6.36, a yield stays where it is", Linux { compat_yield: false, ..bws }),
        with("2.6.36, `sched_compat_yield` = 1", bws),
        with("the same in one socket", Linux { sockets: 1, ..bws }),
        with("the same with 250 ticks a second", Linux { hz: 250, ..bws }),
        with("the same with 100 ticks a second", Linux { hz: 100, ..bws }),
        with("the same with 16 cores of two hardware threads", Linux { threads_per_core: 2, ..bws }),
        with("the same, each program a task group", Linux { groups: Groups::Separate, ..bws }),
        Variant { refill: 20_000, ..with("the same, 20 µs to fill the caches", bws) },
        Variant { is_disturbed: true, ..with("the same, and short programs come and go", bws) },
        // With this bandwidth BFS alone has the paper's speedup of 21.
        with("the same, memory for 5.7 of a socket's 8 cores", Linux { bandwidth: Some(5_700), ..bws }),
        with("2.6.32, `sched_compat_yield` = 1", Linux { version: Version::V2_6_32, ..bws }),
        with("3.9", Linux { version: Version::V3_9, compat_yield: false, ..bws }),
        with("6.18", Linux { version: Version::V6_18, compat_yield: false, ..bws }),
    ];
    println!("| kernel | BFS, EP | CG, MM | CG of 16, MM | CG, MM without yields |\n|---|---|---|---|---|");
    // The words that choose rows.
    let chosen: Vec<String> = std::env::args().skip(2).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|word| name.contains(word.as_str()));
    for variant in variants.into_iter().filter(|variant| is_chosen(variant.name)) {
        print!("| {} |", variant.name);
        for (pair, policy) in [
            ([("bfs", 32), ("ep", 32)], "abp"),
            ([("cg", 32), ("mm", 32)], "abp"),
            ([("cg", 16), ("mm", 32)], "abp"),
            ([("cg", 32), ("mm", 32)], NO_YIELDS),
        ] {
            let mut slowdowns = [Vec::new(), Vec::new()];
            for seed in 1..=seeds {
                let together = run(variant, policy, seed, &pair);
                for (nth, (name, _)) in pair.into_iter().enumerate() {
                    let alone = run(variant, "abp", seed, &[(name, 32)])[0];
                    slowdowns[nth].push(100.0 * (together[nth] / alone - 1.0));
                }
            }
            let told = slowdowns.map(|mut all| {
                all.sort_by(f64::total_cmp);
                format!("{:.0} ({:.0}–{:.0})", all[all.len() / 2], all[0], all[all.len() - 1])
            });
            print!(" {} |", told.join(", "));
        }
        println!();
    }
    if is_chosen("bandwidth") {
        let work: u64 = phases("bfs").iter().map(|phase| phase.serial + u64::from(phase.leaves) * phase.leaf).sum();
        for bandwidth in [None, Some(5_700), Some(5_000), Some(4_000)] {
            let variant = with("bandwidth", Linux { bandwidth, ..bws });
            let mut slowdowns: Vec<f64> = Vec::new();
            let mut speedup = 0.0;
            for seed in 1..=seeds {
                let alone = run(variant, "abp", seed, &[("bfs", 32)])[0];
                speedup = work as f64 / 1e9 / alone;
                slowdowns.push(100.0 * (run(variant, "abp", seed, &[("bfs", 32), ("ep", 32)])[0] / alone - 1.0));
            }
            println!(
                "memory for {bandwidth:?} thousandths of a core in a socket: BFS alone {speedup:.1}, beside EP {slowdowns:.0?}"
            );
        }
    }
    if is_chosen("lockstep") {
        for is_disturbed in [false, true] {
            let (none, all, least, most) = cores_of_cg(Variant { is_disturbed, ..with("lockstep", bws) });
            println!(
                "CG beside MM without yields, others come and go: {is_disturbed}. Of 400 ms it has one core at most in {none}, 31 or 32 \
                 in {all}; {least} to {most} cores"
            );
        }
    }
}
