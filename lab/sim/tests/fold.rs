//! Tests of folding: `comity` uses fewer cores while the steal time is high. The guest has eight virtual CPUs, and the
//! host grants half of their time.
//!
//! `cargo test -p comity-sim --test fold -- --ignored --nocapture` prints the tables of `docs/decisions/0039`, in
//! some ten minutes of one core.

use comity_policy::Policy;
use comity_sim::hypervisor::{Share, Vmm, WeightOf};
use comity_sim::program::{Endless, Fork, ForkJoin};
use comity_sim::random::stream;
use comity_sim::threads::linux::{Linux, Version};
use comity_sim::threads::{Costs, Host};
use comity_sim::vms::Vms;
use rand::RngExt;

const MS: u64 = 1_000_000;

/// The length of a run in nanoseconds: twice the time that a program takes to fold.
const LENGTH: u64 = 40_000 * MS;

const CPUS: usize = 8;

/// The reason why the guest gets only half of the host's time.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    /// The host has only four physical CPUs.
    Missing,
    /// The host has eight physical CPUs, and a second machine of the same weight with seven busy virtual CPUs. The
    /// parameter is the entity to which a weight applies.
    Used(WeightOf),
}

/// Programs that take some 250 ms on four CPUs.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Phases of 32 tasks of 2 ms.
    Phases,
    /// A loop of 5,000 tasks of 200 µs.
    Loop,
    /// Phases of eight tasks of 200 µs.
    ShortPhases,
}

impl Does {
    fn program(self) -> ForkJoin {
        let (length, width, phases) = match self {
            Does::Phases => (2 * MS, 32, 16),
            Does::Loop => (MS / 5, 5000, 1),
            Does::ShortPhases => (MS / 5, 8, 625),
        };
        ForkJoin::new(10_000, length, width, phases, Fork::Tree)
    }
}

/// The outcome of the programs in the guest.
#[derive(Debug)]
struct Outcome {
    /// The mean time of an execution of each program, in seconds.
    times: Vec<f64>,
    /// The mean number of cores on which the programs' thieves searched.
    searched: f64,
    /// The mean number of the guest's virtual CPUs that wanted a physical CPU and had none.
    in_vain: f64,
}

/// Runs programs in the guest, whose kernel tells them the steal time. Each program repeats.
fn run(policy: &str, half: Half, programs: &[Does], seed: u64) -> Outcome {
    let mut random = stream(seed, 0);
    let mut guest = || {
        let mut guest = Host::new(CPUS, Costs::default(), random.random());
        guest.use_linux(Linux::new(Version::V6_18));
        (guest, Share { vcpus: CPUS, weight: 256, cap: None })
    };
    let (weight_of, pcpus, guests) = match half {
        Half::Missing => (WeightOf::default(), CPUS / 2, vec![guest()]),
        Half::Used(weight_of) => (weight_of, CPUS, vec![guest(), guest()]),
    };
    // Without Domain 0, the slices of the two machines could alternate in lockstep for ever.
    let vmm = Vmm { weight_of, dom0_every: 10 * MS, ..Vmm::default() };
    let mut vms = Vms::new(vmm, pcpus, guests, seed);
    if half != Half::Missing {
        let at = random.random_range(1..50 * MS);
        vms.guest_mut(1).submit(at, Box::new(Endless::new(7)), "plain".parse().unwrap(), 8, seed);
    }
    let guest = vms.guest_mut(0);
    guest.tell_steal_time();
    let policy: Policy = policy.parse().unwrap();
    let submit = |does: &Does| {
        let at = random.random_range(1..20 * MS);
        let program = guest.submit(at, Box::new(does.program()), policy, CPUS as u32, random.random());
        guest.repeat(program);
        (program, at)
    };
    let programs: Vec<(u32, u64)> = programs.iter().map(submit).collect();
    vms.run(LENGTH, 10_000).unwrap();
    let guest = vms.guest(0);
    let mean = |(program, came): &(u32, u64)| {
        let executions = guest.executions(*program);
        (executions.last().expect("one is over") - came) as f64 / executions.len() as f64 / 1e9
    };
    let searched = |(program, _): &(u32, u64)| guest.fate(*program).spent.steal + guest.fate(*program).spent.mug;
    let (_, stolen) = guest.run_and_steal_time().unwrap();
    let cores = |time: u64| time as f64 / LENGTH as f64;
    Outcome {
        times: programs.iter().map(mean).collect(),
        searched: cores(programs.iter().map(searched).sum()),
        in_vain: cores(stolen),
    }
}

/// Runs the programs with folding and without.
fn both(half: Half, programs: &[Does], seed: u64) -> [Outcome; 2] {
    ["comity", "comity:fold=off"].map(|policy| run(policy, half, programs, seed))
}

#[test]
fn where_the_host_grants_the_machine_half_it_wants_less_in_vain_and_is_no_slower() {
    for half in [Half::Missing, Half::Used(WeightOf::Machine)] {
        let [on, off] = both(half, &[Does::Phases], 1);
        println!("{on:?} {off:?}");
        assert!(on.times[0] <= 1.01 * off.times[0], "{on:?} {off:?}");
        assert!(on.in_vain <= 0.85 * off.in_vain, "{on:?} {off:?}");
    }
}

#[test]
fn where_fewer_virtual_cpus_get_less_it_does_not_stay_folded() {
    let [on, off] = both(Half::Used(WeightOf::Vcpu), &[Does::Phases], 1);
    assert!(on.times[0] <= 1.02 * off.times[0], "{on:?} {off:?}");
}

#[test]
fn short_phases_are_shorter_on_no_more_virtual_cpus_than_are_granted() {
    let [on, off] = both(Half::Used(WeightOf::Machine), &[Does::ShortPhases], 1);
    assert!(on.times[0] <= 0.95 * off.times[0], "{on:?} {off:?}");
}

const HALVES: [(&str, Half); 3] = [
    ("four of eight physical CPUs are missing", Half::Missing),
    ("a busy machine has it; weights are of machines", Half::Used(WeightOf::Machine)),
    ("a busy machine has it; weights are of virtual CPUs", Half::Used(WeightOf::Vcpu)),
];

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// Returns the median of one number for each seed, and a text with the median and the range. The text has `digits`
/// digits after the point.
fn spread(digits: usize, each: impl Iterator<Item = f64>) -> (f64, String) {
    let mut each: Vec<f64> = each.collect();
    each.sort_by(f64::total_cmp);
    let [least, median, most] = [0, each.len() / 2, each.len() - 1].map(|nth| each[nth]);
    (median, format!("{median:.digits$} ({least:.digits$} to {most:.digits$})"))
}

/// Returns the texts of [`spread`] with folding and without.
fn spreads(digits: usize, runs: &[[Outcome; 2]], of: impl Fn(&Outcome) -> f64) -> String {
    [0, 1].map(|nth| spread(digits, runs.iter().map(|both| of(&both[nth]))).1).join(", ")
}

#[test]
#[ignore = "it prints what folding gains and costs over several seeds, in some ten minutes"]
fn over_several_seeds_it_costs_neither_time_nor_fairness() {
    let over_seeds = |half, programs: &[Does]| SEEDS.map(|seed| both(half, programs, seed)).collect::<Vec<_>>();
    println!(
        "| what takes the other half | program | ms, without | of that without | searched, without | in vain, without |"
    );
    println!("|---|---|---|---|---|---|");
    let mut pairs = Vec::new();
    for (name, half) in HALVES {
        let alone = [Does::Phases, Does::Loop, Does::ShortPhases].map(|does| {
            let runs = over_seeds(half, &[does]);
            let times = spreads(0, &runs, |one| one.times[0] * 1e3);
            let (ratio, ratios) = spread(3, runs.iter().map(|[on, off]| on.times[0] / off.times[0]));
            let [searched, in_vain] = [spreads(3, &runs, |one| one.searched), spreads(2, &runs, |one| one.in_vain)];
            println!("| {name} | {does:?} | {times} | {ratios} | {searched} | {in_vain} |");
            assert!(ratio <= 1.01, "{name}, {does:?}: {ratios}");
            runs
        });
        for (does, others) in [([Does::Phases, Does::Loop], [0, 1]), ([Does::ShortPhases, Does::Loop], [2, 1])] {
            let runs = over_seeds(half, &does);
            let slowdown = |seed: usize, fold: usize, nth: usize| {
                runs[seed][fold].times[nth] / alone[others[nth]][seed][fold].times[0] - 1.0
            };
            let unfairness = |seed, fold| (slowdown(seed, fold, 0) - slowdown(seed, fold, 1)).abs();
            let unfair = [0, 1].map(|fold| spread(2, (0..runs.len()).map(|seed| unfairness(seed, fold))));
            let slowdowns =
                [0, 1].map(|nth| [0, 1].map(|fold| spread(2, (0..runs.len()).map(|seed| slowdown(seed, fold, nth))).1));
            assert!(unfair[0].0 <= unfair[1].0 + 0.1, "{name}, {does:?}: {unfair:?}");
            let [one, other] = slowdowns.map(|both| both.join(", "));
            pairs.push(format!("| {name} | {does:?} | {}, {} | {one} | {other} |", unfair[0].1, unfair[1].1));
        }
    }
    println!(
        "\n| what takes the other half | programs | unfairness, without | slowdown of the first, without | of the second, without |"
    );
    println!("|---|---|---|---|---|\n{}", pairs.join("\n"));
}
