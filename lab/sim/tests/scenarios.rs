//! Small random scenarios with faults, under every policy that the machine accepts. The invariants are checked in
//! every quantum. `COMITY_SCENARIOS` sets the number of scenarios; the default is 2000.

use comity_sim::random::stream;
use comity_sim::scenario::{
    Allot, Fault, Kind, Machine, Model, Outcome, Scenario, Submission, Written, WrittenFork, WrittenOrder,
};
use comity_sim::threads::Costs;
use rand::RngExt;

const POLICIES: [&str; 9] = [
    "a-steal",
    "a-steal:delta_percent=50,rho_percent=300",
    "a-steal:delta_percent=100,rho_percent=101",
    "abp",
    "abp-mug",
    "abp-eq",
    "delay-yield",
    "selective-yield",
    "equipartition",
];

fn scenario(seed: u64) -> Written {
    let mut random = stream(seed, 0);
    let programs = random.random_range(1..6u32);
    let processors = random.random_range(1..40u32);
    let machine = Machine {
        model: Model::ASteal,
        processors,
        quantum: Some(random.random_range(1..80)),
        steps: random.random_range(80..20_000),
        allot: Some(if random.random() { Allot::Deq } else { Allot::Eq }),
        costs: None,
        linux: None,
        vmm: None,
        directed_yield: false,
        table: true,
    };
    let mut submission = |nth| Submission {
        name: format!("program {nth}"),
        policy: POLICIES[random.random_range(0..POLICIES.len())].to_owned(),
        vm: None,
        kind: Kind::ForkJoin,
        at: random.random_range(0..500),
        count: random.random_range(1..4),
        every: random.random_range(0..300),
        serial: random.random_range(1..100),
        parallel: random.random_range(1..100),
        width: random.random_range(1..60),
        iterations: random.random_range(1..6),
        fork: if random.random() { WrittenFork::AtOnce } else { WrittenFork::Tree },
        workers: None,
        sleep: 0,
        quota: None,
        nice: 0,
        memory: 0,
        repeat: false,
        file: None,
        scale: None,
        join: None,
    };
    let submissions = (0..programs).map(&mut submission).collect();
    let wrong = random.random_range(0..4);
    let mut fault = |_| {
        let at = random.random_range(0..2_000);
        if random.random() {
            let until = at + random.random_range(0..3_000);
            Fault::LostProcessors { at, until, processors: random.random_range(1..=processors) }
        } else {
            Fault::Death { at, program: format!("program {}", random.random_range(0..programs)) }
        }
    };
    let faults = (0..wrong).map(&mut fault).collect();
    Written { seed, runs: 1, machine, vms: Vec::new(), programs: submissions, faults, orders: Vec::new() }
}

fn sound(seed: u64) -> Result<Outcome, String> {
    let written = scenario(seed);
    let scenario = Scenario::new(written.clone())?;
    let outcome = scenario.run(0, 1, None)?;
    let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {outcome:#?}")) };
    for program in &outcome.programs {
        let done = program.cycles.work;
        expect(program.ended.is_none() || done == program.work, "a program that ended has done its work, once")?;
        expect(program.ended.is_some() || done < program.work, "a program that has not ended has work left")?;
        let soonest = program.came + program.critical_path;
        expect(program.ended.is_none_or(|ended| ended >= soonest), "no program is faster than its critical path")?;
        expect(program.ended.is_none() || program.died.is_none(), "no program ends and dies")?;
    }
    let sum: u64 = outcome.programs.iter().map(|program| program.cycles.total()).sum();
    expect(sum == outcome.cycles.total(), "no cycle is lost")?;
    expect((0.0..=1.0).contains(&outcome.utilization), "utilization is a part")?;
    expect(scenario.run(0, 1, None)? == outcome, "one seed, one outcome")?;
    Ok(outcome)
}

#[test]
fn what_must_hold_holds_in_random_scenarios() {
    let count = std::env::var("COMITY_SCENARIOS").map_or(2_000, |count| count.parse().expect("a number of scenarios"));
    let (mut ended, mut died, mut left) = (0, 0, 0);
    for seed in 0..count {
        let outcome = sound(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}\n{:#?}", scenario(seed)));
        for program in outcome.programs {
            match (program.ended, program.died) {
                (Some(_), _) => ended += 1,
                (_, Some(_)) => died += 1,
                _ => left += 1,
            }
        }
    }
    println!("{count} scenarios: {ended} programs ended, {died} died, {left} were left");
    assert!(ended > count && died > count / 20 && left > count / 20, "the scenarios are too much alike");
}

#[test]
fn tasks_that_block_share_a_host_with_those_that_do_not() {
    let mut written = scenario(1);
    on_a_host(&mut written);
    (written.machine.processors, written.machine.steps) = (4, 1 << 40);
    (written.faults, written.programs) = (Vec::new(), written.programs[..1].to_vec());
    let mut other = written.programs[0].clone();
    (other.name, other.count, other.policy) = ("other".into(), 1, "comity".into());
    (written.programs[0].kind, written.programs[0].fork) = (Kind::ScatterGather, WrittenFork::AtOnce);
    written.programs.push(other);
    for policy in ["comity:place=last", "ws-last", "dws:place=last-if-up"] {
        written.programs[0].policy = policy.into();
        let outcome = Scenario::new(written.clone()).unwrap().run(0, 1, None).unwrap();
        let first = &outcome.programs[0];
        assert!(outcome.programs.iter().all(|program| program.ended.is_some()), "{policy}: {outcome:#?}");
        assert!(first.cycles.work == first.work && first.counts.unwrap().placed > 0, "{policy}: {outcome:#?}");
    }
}

fn on_a_host(scenario: &mut Written) {
    scenario.machine = Machine { model: Model::Host, quantum: None, allot: None, ..scenario.machine.clone() };
}

fn rests(program: &str, steps: u64) -> WrittenOrder {
    WrittenOrder::Pause { at: 0, program: program.into(), steps }
}

/// Runs `lab/scenarios/orders.toml` until a time. Returns the time for which the workers of each program have worked.
fn worked(until: u64) -> [u64; 2] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/orders.toml");
    let mut written: Written = toml_edit::de::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    written.machine.steps = until;
    let outcome = Scenario::new(written).unwrap().run(0, 100, None).unwrap();
    [0, 1].map(|nth| outcome.programs[nth].cycles.work)
}

#[test]
fn programs_do_as_they_are_asked() {
    const MS: u64 = 1_000_000;
    // Returns the mean number of cores on which each program works between two times.
    let between = |from: u64, to: u64| {
        let (before, after) = (worked(from * MS), worked(to * MS));
        [0, 1].map(|nth| (after[nth] - before[nth]) as f64 / ((to - from) * MS) as f64)
    };
    let is = |what: [f64; 2], like: [f64; 2]| {
        assert!(what.iter().zip(like).all(|(what, like)| (what - like).abs() < 0.15), "{what:?}, and not {like:?}");
    };
    is(between(40, 100), [2.0, 2.0]);
    // The requests to the first program are, in this order: the triple weight, a single core, and a pause. After the
    // pause, the limit to a single core is in force again.
    is(between(120, 200), [3.0, 1.0]);
    is(between(220, 300), [1.0, 3.0]);
    is(between(320, 390), [0.0, 4.0]);
    is(between(420, 500), [1.0, 3.0]);
}

fn without_phases(program: &mut Submission) {
    (program.serial, program.parallel, program.width, program.iterations) = (0, 0, 0, 1);
    program.fork = WrittenFork::AtOnce;
}

#[test]
fn what_makes_no_sense_is_answered_with_what_would() {
    let refused = |change: fn(&mut Written)| {
        let mut written = scenario(1);
        written.programs[0].name = "first".into();
        change(&mut written);
        Scenario::new(written).unwrap_err()
    };
    for (error, part) in [
        (
            refused(|scenario| scenario.machine.processors = 0),
            "machine.processors is 0; it must be at least 1 and at most",
        ),
        (refused(|scenario| scenario.programs[0].width = 0), "width of program 'first' is 0; it must be at least 1"),
        (
            refused(|scenario| scenario.programs[0].policy = "cilk".into()),
            "policy of program 'first': no policy is called",
        ),
        (refused(|scenario| scenario.programs[0].policy = "bws".into()), "the thieves of bws sleep"),
        (refused(|scenario| scenario.machine.steps = 1 << 45), "machine.steps is 35184372088832; it must be"),
        (
            refused(|scenario| {
                (scenario.programs[0].width, scenario.programs[0].parallel) = (1 << 22, 1 << 40);
            }),
            "the work of program 'first' is",
        ),
        (
            refused(|scenario| {
                let again = scenario.programs[0].clone();
                scenario.programs.push(again);
            }),
            "two programs are called 'first'",
        ),
        (refused(|scenario| scenario.programs.clear()), "the number of programs is 0"),
        (
            refused(|scenario| {
                let mut other = scenario.programs[0].clone();
                other.name = "other".into();
                (scenario.programs[0].count, other.count) = (u64::MAX, u64::MAX);
                scenario.programs.push(other);
            }),
            "the number of programs is 18446744073709551615",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.machine.costs = Some(Costs { switch: 1 << 50, ..Costs::default() });
            }),
            "a cost of machine.costs is 1125899906842624; it must be",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                (scenario.programs[0].count, scenario.programs[0].every) = (1 << 19, 0);
                scenario.programs[0].workers = Some(1 << 16);
            }),
            "the number of threads that start at once of program 'first' is",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.machine.processors = 1;
                scenario.faults = vec![Fault::LostProcessors { at: 0, until: 9, processors: 1 }];
            }),
            "a fault removes a core, and a host must keep one",
        ),
        (
            refused(|scenario| scenario.programs[0].kind = Kind::ScatterGather),
            "kind = \"scatter-gather\" of program 'first': only a host supports it",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                let first = &mut scenario.programs[0];
                (first.kind, first.fork) = (Kind::ScatterGather, WrittenFork::Tree);
            }),
            "fork of program 'first': the tasks of scatter-gather exist from the start",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                let first = &mut scenario.programs[0];
                (first.kind, first.iterations) = (Kind::ScatterGather, 1 << 20);
            }),
            "width times iterations of program 'first' is",
        ),
        (
            refused(|scenario| scenario.faults = vec![Fault::Death { at: 0, program: "missing".into() }]),
            "a fault kills the program 'missing', which does not exist; the programs are first",
        ),
        (refused(|scenario| scenario.orders = vec![rests("first", 9)]), "an order: only a host supports it"),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.orders = vec![rests("second", 9)];
            }),
            "an order names the program 'second', which does not exist; the programs are first",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].policy = "bws".into();
                scenario.orders = vec![rests("first", 9)];
            }),
            "an order names the program 'first', which uses no core table under policy bws on its machine",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].policy = "comity".into();
                scenario.orders = vec![rests("first", u64::MAX)];
            }),
            "steps of an order is 18446744073709551615; it must be at least 1 and at most 86400000000000",
        ),
        (refused(|scenario| scenario.programs[0].repeat = true), "repeat of program 'first': only a host supports it"),
        (
            refused(|scenario| scenario.programs[0].kind = Kind::Recorded),
            "kind = \"recorded\" of program 'first': only a host supports it",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].kind = Kind::Loop;
            }),
            "a program of kind = \"loop\" has no phases. Leave it out",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].kind = Kind::Loop;
                without_phases(&mut scenario.programs[0]);
                scenario.programs[0].repeat = true;
            }),
            "repeat of program 'first': a loop never ends",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].kind = Kind::Loop;
                without_phases(&mut scenario.programs[0]);
                scenario.programs[0].file = Some("cg.graph".into());
            }),
            "file of program 'first': only a program of kind = \"recorded\" supports it",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].kind = Kind::Recorded;
                without_phases(&mut scenario.programs[0]);
            }),
            "file of program 'first': a recorded program needs a recording. Make one with comity-lab record",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].kind = Kind::Recorded;
                without_phases(&mut scenario.programs[0]);
                scenario.programs[0].file = Some("cg.graph".into());
            }),
            "file of program 'first': recording 'cg.graph': recordings are not supported here",
        ),
        (
            refused(|scenario| {
                on_a_host(scenario);
                scenario.programs[0].kind = Kind::Recorded;
                without_phases(&mut scenario.programs[0]);
                scenario.programs[0].file = Some("cg.graph".into());
                scenario.programs[0].join = Some(-1.0);
            }),
            "join of program 'first' is -1; it must be at least 0",
        ),
        (refused(|scenario| scenario.programs[0].join = Some(2.0)), "join of program 'first': only a program of kind"),
        (
            refused(|scenario| scenario.faults = vec![Fault::LostProcessors { at: 9, until: 3, processors: 1 }]),
            "until of a fault is 3; it must be at least 9",
        ),
    ] {
        assert!(error.contains(part), "{error}");
    }
}
