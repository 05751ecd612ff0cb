//! Virtual machines: small random scenarios with deaths and lost physical CPUs, in which everything that must hold is looked at after every
//! event. `COMITY_SCENARIOS` is how many, 2000 otherwise.

use comity_policy::Policy;
use comity_sim::hypervisor::{Scheduling, Vmm};
use comity_sim::random::stream;
use comity_sim::scenario::{
    Fault, Kind, Machine, Model, Outcome, Scenario, Submission, Written, WrittenFork, WrittenVm,
};
use comity_sim::threads::linux::{Linux, Version};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const SCHEDULERS: [Scheduling; 3] = [Scheduling::Credit, Scheduling::Balance, Scheduling::CoScheduling];

/// Two in three are policies that ask for accelerations.
fn policy(random: &mut ChaCha8Rng) -> String {
    let accelerates: Vec<Policy> = Policy::all().filter(|policy| policy.accelerates().is_some()).collect();
    let all: Vec<Policy> = Policy::all().collect();
    let from = if random.random_range(0..3) > 0 { accelerates } else { all };
    from[random.random_range(0..from.len())].row().name.to_owned()
}

fn submission(nth: usize, vm: String, random: &mut ChaCha8Rng) -> Submission {
    let kind = match random.random_range(0..8) {
        0 => Kind::Loop,
        1 => Kind::ScatterGather,
        _ => Kind::ForkJoin,
    };
    let is_loop = kind == Kind::Loop;
    let fork = if kind == Kind::ForkJoin && random.random() { WrittenFork::Tree } else { WrittenFork::AtOnce };
    Submission {
        name: format!("program {nth}"),
        policy: policy(random),
        vm: Some(vm),
        kind,
        at: random.random_range(0..20_000_000),
        count: 1,
        every: 0,
        serial: if is_loop { 0 } else { random.random_range(1..2_000_000) },
        parallel: if is_loop { 0 } else { random.random_range(1..3_000_000) },
        width: if is_loop { 0 } else { random.random_range(1..20) },
        iterations: if is_loop { 1 } else { random.random_range(1..4) },
        fork,
        workers: Some(random.random_range(1..7)),
        sleep: if kind == Kind::ForkJoin && random.random_range(0..4) == 0 { 300_000 } else { 0 },
        quota: None,
        nice: 0,
        memory: 0,
        repeat: false,
        file: None,
        scale: None,
        join: None,
    }
}

fn scenario(seed: u64) -> Written {
    let mut random = stream(seed, 0);
    let nodes = random.random_range(1..3);
    let processors = nodes * random.random_range(1..4);
    let scheduler = SCHEDULERS[random.random_range(0..SCHEDULERS.len())];
    let slice = [1_000_000, 5_000_000, 30_000_000][random.random_range(0..3)];
    let vmm = Vmm {
        scheduler,
        nodes,
        slice,
        ratelimit: slice / 30,
        near: random.random_range(0..20_000),
        far: random.random_range(0..200_000),
        ..Vmm::default()
    };
    let machine = Machine {
        model: Model::Host,
        processors,
        quantum: None,
        steps: random.random_range(20_000_000..120_000_000),
        allot: None,
        costs: None,
        linux: None,
        vmm: Some(vmm),
        directed_yield: false,
        table: true,
    };
    let most = if scheduler == Scheduling::CoScheduling { processors } else { 6 };
    let mut vm = |nth| {
        let cpus = random.random_range(1..=most);
        let sockets = if cpus % 2 == 0 { random.random_range(1..3) } else { 1 };
        let version = [Version::V2_6_36, Version::V3_9, Version::V6_18][random.random_range(0..3)];
        let accelerates = version < Version::V6_18 && random.random_range(0..4) > 0;
        WrittenVm {
            name: format!("machine {nth}"),
            cpus,
            weight: [64, 256, 512][random.random_range(0..3)],
            cap: (scheduler != Scheduling::CoScheduling && random.random_range(0..4) == 0)
                .then(|| random.random_range(10..=100)),
            linux: (random.random_range(0..5) > 0).then_some(Linux { sockets, accelerates, ..Linux::new(version) }),
            directed_yield: random.random(),
            table: Some(random.random()),
        }
    };
    let vms: Vec<WrittenVm> = (0..1 + seed % 4).map(&mut vm).collect();
    let mut random = stream(seed, 1);
    let count = random.random_range(vms.len()..vms.len() + 4);
    let programs = (0..count).map(|nth| submission(nth, vms[nth % vms.len()].name.clone(), &mut random)).collect();
    let mut fault = |_| {
        let at = random.random_range(0..30_000_000);
        if random.random() && processors > 1 {
            let until = at + random.random_range(0..30_000_000);
            Fault::LostProcessors { at, until, processors: random.random_range(1..processors) }
        } else {
            Fault::Death { at, program: format!("program {}", random.random_range(0..count)) }
        }
    };
    let faults = (0..seed % 3).map(&mut fault).collect();
    Written { seed, runs: 1, machine, vms, programs, faults, orders: Vec::new() }
}

fn sound(written: &Written) -> Result<Outcome, String> {
    let scenario = Scenario::new(written.clone())?;
    let outcome = scenario.run(0, 1, None)?;
    for program in &outcome.programs {
        let done = program.cycles.work;
        if program.ended.is_some() && done != program.work || program.ended.is_some() && program.died.is_some() {
            return Err(format!("a program has ended, and not done its work: {outcome:#?}"));
        }
    }
    if scenario.run(0, 100, None)? != outcome {
        return Err("one seed, and two outcomes".into());
    }
    Ok(outcome)
}

#[test]
fn what_must_hold_holds_in_random_scenarios_with_virtual_machines() {
    let count = std::env::var("COMITY_SCENARIOS").map_or(2_000, |count| count.parse().expect("a number of scenarios"));
    let (mut ended, mut left, mut vcpus, mut threads, mut moves) = (0, 0, 0, 0, [0; 2]);
    for seed in 0..count {
        let written = scenario(seed);
        let outcome = sound(&written).unwrap_or_else(|what| panic!("seed {seed}: {what}\n{written:?}"));
        let counts = outcome.vmm.unwrap();
        vcpus += counts.accelerations;
        moves[0] += counts.moves_within;
        moves[1] += counts.moves_across;
        for program in outcome.programs {
            threads += program.counts.unwrap().accelerations;
            match program.ended {
                Some(_) => ended += 1,
                None => left += 1,
            }
        }
    }
    threads -= vcpus;
    println!(
        "{count} scenarios: {ended} programs ended, {left} did not; {vcpus} virtual CPUs and {threads} threads were accelerated; virtual \
         CPUs moved within nodes and across: {moves:?}"
    );
    assert!(ended > count && left > count / 20, "the scenarios are too much alike");
    assert!(vcpus > count && threads > count / 2 && moves[0] > count && moves[1] > count, "too little happens");
}
