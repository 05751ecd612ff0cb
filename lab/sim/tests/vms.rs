//! Small random scenarios of virtual machines with deaths and lost physical CPUs. All invariants are checked after
//! every event. `COMITY_SCENARIOS` sets the number of scenarios; the default is 2000.

use comity_policy::Policy;
use comity_sim::hypervisor::{Scheduling, Vmm};
use comity_sim::random::stream;
use comity_sim::scenario::{
    Fault, Kind, Machine, Model, Outcome, Scenario, Submission, Written, WrittenFork, WrittenOrder, WrittenVm,
};
use comity_sim::threads::linux::{Linux, Version};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

const SCHEDULERS: [Scheduling; 3] = [Scheduling::Credit, Scheduling::Balance, Scheduling::CoScheduling];

/// Draws a policy. In two of three cases, the policy asks for accelerations.
fn policy(random: &mut ChaCha8Rng) -> String {
    let accelerates: Vec<Policy> = Policy::all().filter(|policy| policy.accelerates().is_some()).collect();
    let all: Vec<Policy> = Policy::all().collect();
    let from = if random.random_range(0..3) > 0 { accelerates } else { all };
    from[random.random_range(0..from.len())].name().to_owned()
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
            steal_time: random.random(),
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

/// Runs every second scenario, beginning with number `first`.
fn what_must_hold_holds_from(first: u64) {
    let count = std::env::var("COMITY_SCENARIOS").map_or(2_000, |count| count.parse().expect("a number of scenarios"));
    let (mut ended, mut left, mut vcpus, mut threads, mut moves) = (0, 0, 0, 0, [0; 2]);
    for seed in (first..count).step_by(2) {
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
        "half of {count} scenarios: {ended} programs ended, {left} did not; {vcpus} virtual CPUs and {threads} threads were accelerated; virtual \
         CPUs moved within nodes and across: {moves:?}"
    );
    assert!(ended > count / 2 && left > count / 40, "the scenarios are too much alike");
    let of = count / 4;
    assert!(vcpus > of && threads > of && moves[0] > of && moves[1] > of, "too little happens");
}

#[test]
fn what_must_hold_holds_in_random_scenarios_with_virtual_machines() {
    what_must_hold_holds_from(0);
}

/// The scenarios are divided between two tests, so that they can use two cores.
#[test]
fn what_must_hold_holds_in_the_other_half_of_them() {
    what_must_hold_holds_from(1);
}

/// Returns a valid scenario of two machines with a program each.
fn fine() -> Written {
    let text = include_str!("../../scenarios/vms.toml");
    toml_edit::de::from_str(text).unwrap()
}

/// Returns the error that a changed scenario gets.
fn refused(change: impl FnOnce(&mut Written)) -> String {
    let mut written = fine();
    change(&mut written);
    Scenario::new(written).err().unwrap_or_default()
}

#[test]
fn what_makes_no_sense_is_said_in_a_sentence() {
    type Change = fn(&mut Written);
    assert!(Scenario::new(fine()).is_ok());
    let vmm = |written: &mut Written, change: fn(&mut Vmm)| change(written.machine.vmm.as_mut().unwrap());
    for (change, part) in [
        (
            (|written| written.machine.vmm = None) as Change,
            "'phases' is a virtual machine, but the machine has no hypervisor",
        ),
        (
            |written| (written.machine.vmm, written.vms) = (None, Vec::new()),
            "vm of program 'phases' is 'phases', but the machine has no hypervisor. Write [machine.vmm]",
        ),
        (
            |written| written.programs[0].vm = None,
            "program 'phases' has no virtual machine, and under a hypervisor each program needs one",
        ),
        (
            |written| written.programs[0].vm = Some("none".into()),
            "vm of program 'phases' is 'none'; the virtual machines are phases, busy",
        ),
        (|written| written.vms[1].name = "phases".into(), "two virtual machines are called 'phases'"),
        (|written| written.vms.clear(), "the number of virtual machines is 0"),
        (
            |written| written.vms[0].cpus = 0,
            "cpus of virtual machine 'phases' is 0; it must be at least 1 and at most 1024",
        ),
        (
            |written| written.vms[0].cpus = 2_000,
            "cpus of virtual machine 'phases' is 2000; it must be at least 1 and at most 1024",
        ),
        (|written| written.vms[0].weight = 0, "weight of virtual machine 'phases' is 0"),
        (
            |written| written.vms[0].cap = Some(101),
            "cap of virtual machine 'phases' is 101; it must be at least 1 and at most 100",
        ),
        (|written| written.vms[0].linux.as_mut().unwrap().hz = 1, "virtual machine 'phases': machine.linux.hz is 1;"),
        (|written| written.vms[0].linux.as_mut().unwrap().threads_per_core = 2, "which virtual CPUs share a core"),
        (
            |written| written.vms[0].linux.as_mut().unwrap().version = Version::V6_18,
            "machine.linux.accelerates: Robinhood's Thread Accelerator needs the completely fair scheduler",
        ),
        (
            |written| written.machine.table = false,
            "machine.table: under a hypervisor each guest has its own table. Write it in [[vms]]",
        ),
        (|written| written.machine.directed_yield = true, "machine.directed_yield: under a hypervisor"),
        (
            |written| written.machine.linux = written.vms[0].linux.take(),
            "machine.linux: under a hypervisor each guest has its own",
        ),
        (
            |written| written.programs[0].policy = "comity".into(),
            "comity shares cores through the core table, but each virtual machine has its own table. Write table",
        ),
        (|written| written.machine.model = Model::ASteal, "machine.vmm: only a host supports it"),
        (|written| written.programs[0].quota = Some(17.0), "quota of program 'phases' is 17"),
    ] {
        let said = refused(change);
        assert!(said.contains(part), "{part:?} is not what is said: {said:?}");
    }
    let said = refused(|written| vmm(written, |vmm| vmm.nodes = 3));
    assert!(said.contains("machine.vmm.nodes: 16 processors cannot be divided evenly among 3 nodes"), "{said}");
    for (change, part) in [
        (
            (|written| written.vms[0].cpus = 17) as Change,
            "under co-scheduling all virtual CPUs run at once, and machine.processors is 16",
        ),
        (|written| written.vms[0].cap = Some(50), "cap of virtual machine 'phases': co-scheduling has no caps"),
    ] {
        let said = refused(|written| {
            vmm(written, |vmm| vmm.scheduler = Scheduling::CoScheduling);
            change(written);
        });
        assert!(said.contains(part), "{part:?} is not what is said: {said:?}");
    }
}

#[test]
fn a_guest_has_a_core_table_of_its_own_if_it_is_written() {
    let mut written = fine();
    (written.machine.steps, written.vms[0].table) = (400_000_000, Some(true));
    let mut other = written.programs[0].clone();
    (other.name, other.policy) = ("other".into(), "comity".into());
    written.programs[0].policy = "comity".into();
    written.programs.push(other);
    let worked = |written: &Written| {
        let outcome = Scenario::new(written.clone()).unwrap().run(0, 100, None).unwrap();
        outcome.programs.iter().find(|one| one.name == "other").unwrap().cycles.work
    };
    let unasked = worked(&written);
    // The program is in the guest's table, so a request can pause it.
    written.orders = vec![WrittenOrder::Pause { at: 1_000_000, program: "other".into(), steps: 400_000_000 }];
    let paused = worked(&written);
    assert!(
        unasked > 100_000_000 && paused < unasked / 5,
        "it worked for {unasked} ns, and asked to rest for {paused}"
    );
    written.vms[0].table = Some(false);
    let said = Scenario::new(written).unwrap_err();
    assert!(said.contains("an order names the program 'other', which uses no core table"), "{said}");
}

#[test]
fn a_guest_is_told_its_steal_time_if_it_is_written() {
    let outcome = |policy: &str, told: &str| {
        let text = format!(
            r#"
            machine = {{ model = "host", processors = 2, steps = 25_000_000_000, vmm = {{}} }}
            vms = [{{ name = "guest", cpus = 4, linux = {{ version = "6.18" }}, table = true{told} }}]

            [[programs]]
            name = "program"
            policy = "{policy}"
            vm = "guest"
            serial = 10_000
            parallel = 10_000_000
            width = 64
            iterations = 1_000
            fork = "tree"
            "#
        );
        Scenario::new(toml_edit::de::from_str(&text).unwrap()).unwrap().run(0, 1000, None).unwrap()
    };
    let untold = outcome("comity", "");
    assert_eq!(outcome("comity", ", steal_time = false"), untold);
    assert_eq!(outcome("comity:fold=off", ", steal_time = true"), untold);
    // The program has folded: the guest does not use more virtual CPUs than there are physical CPUs, so the host
    // switches less often.
    let switches = |outcome: &Outcome| outcome.vmm.unwrap().switches;
    let told = outcome("comity", ", steal_time = true");
    assert!(switches(&told) * 10 < switches(&untold) * 9, "{told:?}, {untold:?}");
}

#[test]
fn only_one_kernel_is_observed() {
    let scenario = Scenario::new(fine()).unwrap();
    let said = scenario.run(0, 1, Some(Box::new(|_| ()))).unwrap_err();
    assert!(said.contains("conversations and timelines need a single kernel"), "{said}");
}
