//! Small random hosts with faults, under every policy of the catalog. Fast checks run after every event, and all checks
//! after every `COMITY_CHECK_EVERY`-th event. `COMITY_HOSTS` sets the number of hosts for each policy; the default is
//! 150.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use comity_policy::definition::Definition;
use comity_policy::{Place, Policy, Waking};
use comity_protocol::orders::Request;
use comity_sim::conversation::{Line, replay};
use comity_sim::network::{Done, Network, Next, Step, Then};
use comity_sim::program::{Fork, ForkJoin, Program};
use comity_sim::random::stream;
use comity_sim::threads::linux::{Groups, Linux, Version};
use comity_sim::threads::{Costs, Counts, Fate, Host, Lateness};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

#[path = "threads/stretches.rs"]
mod stretches;

use stretches::Stretches;

struct Submitted {
    program: Work,
    came: u64,
}

#[derive(Debug)]
enum Work {
    Graph(ForkJoin),
    Network(Network),
}

impl Work {
    fn work(&self) -> u64 {
        match self {
            Work::Graph(program) => program.work(),
            Work::Network(network) => network.work(),
        }
    }

    fn critical_path(&self) -> u64 {
        match self {
            Work::Graph(program) => program.critical_path(),
            Work::Network(network) => network.critical_path(),
        }
    }
}

/// Creates processes that send messages to each other. A random sequence of messages is divided among the processes. No
/// process waits for a message that is later in the sequence, so all processes end, in whatever order they run.
fn network(random: &mut impl Rng) -> Network {
    let processes = random.random_range(2..12usize);
    let mut steps = vec![Vec::new(); processes];
    let (mut channels, mut capacities) = (HashMap::new(), Vec::new());
    for _ in 0..random.random_range(1..150) {
        let from = random.random_range(0..processes);
        let to = (from + random.random_range(1..processes)) % processes;
        let channel = *channels.entry((from, to)).or_insert_with(|| {
            capacities.push(random.random_range(1..4));
            capacities.len() - 1
        });
        let mut step = |then| {
            let most = 1 << random.random_range(1..18u32);
            Step::new(random.random_range(1..most), then)
        };
        steps[from].extend([step(Then::GoOn), step(Then::Send(channel))]);
        steps[to].push(step(Then::Receive(channel)));
    }
    let idle = || vec![Step::new(1, Then::GoOn)];
    let times = random.random_range(1..4);
    let steps = steps.into_iter().map(|steps| (if steps.is_empty() { idle() } else { steps }, times)).collect();
    Network::new(steps, &capacities)
}

/// Gives the policy a quantum short enough for small programs.
fn hasty(policy: Policy, random: &mut impl Rng) -> Policy {
    let has_quantum = Definition::of(&policy).parameters.iter().any(|parameter| parameter.key == "quantum_us");
    if !has_quantum || random.random_range(0..8) == 0 {
        return policy;
    }
    let separator = if policy.to_string().contains(':') { ',' } else { ':' };
    format!("{policy}{separator}quantum_us={}", random.random_range(100..2_000)).parse().unwrap()
}

/// Creates a host. The first program has the policy `policy`, and the other programs have random policies.
fn host(policy: Policy, seed: u64) -> (Host, Vec<Submitted>) {
    let mut random = stream(seed, 0);
    let all: Vec<Policy> = Policy::all().collect();
    let cores = random.random_range(1..7);
    let costs = Costs { slice: random.random_range(10_000..500_000), ..Costs::default() };
    let mut host = Host::new(cores, costs, seed);
    let mut submitted = Vec::new();
    for nth in 0..random.random_range(1..4u64) {
        let policy = if nth == 0 { policy } else { *all.choose(&mut random).unwrap() };
        let policy = hasty(policy, &mut random);
        let fork = if random.random() { Fork::AtOnce } else { Fork::Tree };
        let mut length = || 1 << random.random_range(8..21u32);
        let (serial, parallel) = (length(), length());
        let program = ForkJoin::new(serial, parallel, random.random_range(1..40), random.random_range(1..12), fork);
        let came = if random.random() { 0 } else { random.random_range(0..3_000_000) };
        let workers = random.random_range(1..10);
        host.submit(came, Box::new(program.clone()), policy, workers, seed.wrapping_add(nth));
        submitted.push(Submitted { program: Work::Graph(program), came });
    }
    break_things(&mut host, cores, submitted.len(), &mut random);
    ask_programs(&mut host, submitted.len(), &mut random);
    (host, submitted)
}

fn break_things(host: &mut Host, cores: usize, programs: usize, random: &mut impl Rng) {
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..10_000_000);
        match random.random_range(0..3) {
            0 => host.kill(at, random.random_range(0..programs as u32)),
            1 => {
                host.resize(at, random.random_range(0..=cores));
                host.resize(at + random.random_range(0..6_000_000), cores);
            }
            _ => host.delay(Lateness {
                from: at,
                until: at + random.random_range(0..6_000_000),
                most: 1 << random.random_range(10..22u32),
            }),
        }
    }
    host.yield_to_peers(random.random());
}

/// Sends requests to programs while they run. Some of the programs have ended or share no cores.
fn ask_programs(host: &mut Host, programs: usize, random: &mut impl Rng) {
    for _ in 0..random.random_range(0..6) {
        let request = match random.random_range(0..6) {
            0 => Request::Weight(Some(random.random_range(1..1_000))),
            1 => Request::Weight(None),
            2 => Request::Cores(Some(random.random_range(0..8))),
            3 => Request::Cores(None),
            4 => Request::Pause(Duration::from_nanos(random.random_range(0..8_000_000))),
            _ => Request::Resume,
        };
        let (at, program) = (random.random_range(0..20_000_000), random.random_range(0..programs as u32));
        host.order(at, program, request);
        // Some pauses are cut short, or made longer.
        if let Request::Pause(length) = request
            && random.random()
        {
            let again = match random.random() {
                true => Request::Resume,
                false => Request::Pause(Duration::from_nanos(random.random_range(0..4_000_000))),
            };
            host.order(at + random.random_range(0..=length.as_nanos() as u64), program, again);
        }
    }
}

/// Creates a host with networks of tasks that block. The run queues have locks on some hosts only.
fn host_of_networks(policy: Policy, seed: u64) -> (Host, Vec<Submitted>) {
    let mut random = stream(seed, 1);
    let all: Vec<Policy> = Policy::all().collect();
    let cores = random.random_range(1..7);
    let mut cost = || if random.random() { random.random_range(1..3_000) } else { 0 };
    let (queue, handover, switch_task) = (cost(), cost(), cost());
    let slice = random.random_range(10_000..500_000);
    let mut host = Host::new(cores, Costs { slice, queue, handover, switch_task, ..Costs::default() }, seed);
    let mut submitted = Vec::new();
    for nth in 0..random.random_range(1..4u64) {
        let policy = if nth == 0 { policy } else { *all.choose(&mut random).unwrap() };
        let policy = hasty(policy, &mut random);
        let came = if random.random() { 0 } else { random.random_range(0..3_000_000) };
        let (workers, own) = (random.random_range(1..10), seed.wrapping_add(nth));
        let program = if nth > 0 && random.random() {
            let program = ForkJoin::new(5_000, 1 << random.random_range(8..18u32), 10, 3, Fork::AtOnce);
            host.submit(came, Box::new(program.clone()), policy, workers, own);
            Work::Graph(program)
        } else {
            let network = if random.random_range(0..4) == 0 {
                Network::scatter_gather(random.random_range(1..30), random.random_range(1..10), 20_000, 500)
            } else {
                network(&mut random)
            };
            host.submit_network(came, network.clone(), policy, workers, own);
            Work::Network(network)
        };
        submitted.push(Submitted { program, came });
    }
    break_things(&mut host, cores, submitted.len(), &mut random);
    ask_programs(&mut host, submitted.len(), &mut random);
    (host, submitted)
}

/// Creates a host with programs whose threads wait in system calls, or are throttled.
fn host_that_waits(policy: Policy, seed: u64) -> (Host, Vec<Submitted>) {
    let mut random = stream(seed, 2);
    let all: Vec<Policy> = Policy::all().collect();
    let cores = random.random_range(1..7);
    let costs = Costs { slice: random.random_range(10_000..500_000), ..Costs::default() };
    let mut host = Host::new(cores, costs, seed);
    let mut submitted = Vec::new();
    for nth in 0..random.random_range(1..4u64) {
        let policy = if nth == 0 { policy } else { *all.choose(&mut random).unwrap() };
        let policy = hasty(policy, &mut random);
        let parallel = 1 << random.random_range(8..20u32);
        let program = ForkJoin::new(1_000, parallel, random.random_range(1..40), random.random_range(1..6), Fork::Tree);
        let sleep = if random.random() { 1 << random.random_range(8..21u32) } else { 0 };
        let program = program.sleeping(sleep);
        let came = random.random_range(0..3_000_000);
        let workers = random.random_range(1..10);
        let number = host.submit(came, Box::new(program.clone()), policy, workers, seed.wrapping_add(nth));
        if random.random() {
            host.limit(number, f64::from(random.random_range(1..200u32)) / 100.0);
        }
        submitted.push(Submitted { program: Work::Graph(program), came });
    }
    break_things(&mut host, cores, submitted.len(), &mut random);
    ask_programs(&mut host, submitted.len(), &mut random);
    (host, submitted)
}

fn sound(policy: Policy, seed: u64) -> Result<Vec<Fate>, String> {
    let (host, submitted) = host(policy, seed);
    outcome(host, submitted)
}

fn sound_with_networks(policy: Policy, seed: u64) -> Result<Vec<Fate>, String> {
    let (host, submitted) = host_of_networks(policy, seed);
    outcome(host, submitted)
}

fn sound_with_waits(policy: Policy, seed: u64) -> Result<Vec<Fate>, String> {
    let (host, submitted) = host_that_waits(policy, seed);
    outcome(host, submitted)
}

/// Draws a kernel for a host of `cores` cores: any version, with any task groups, ticks, sockets, hardware threads,
/// bandwidth, places of memory, limit of yields to a peer, and threads of the kernel.
fn linux(cores: usize, seed: u64) -> Linux {
    let mut random = stream(seed, 3);
    let version = *[Version::V2_6_32, Version::V2_6_36, Version::V3_9, Version::V6_18].choose(&mut random).unwrap();
    let halves = cores.is_multiple_of(2);
    Linux {
        compat_yield: version <= Version::V2_6_36 && random.random(),
        hz: *[100, 250, 1_000].choose(&mut random).unwrap(),
        groups: if random.random() { Groups::Same } else { Groups::Separate },
        sockets: if halves && random.random() { 2 } else { 1 },
        threads_per_core: if cores.is_multiple_of(4) && random.random() { 2 } else { 1 },
        smt_speed: random.random_range(300..=1_000),
        bandwidth: if random.random() { Some(random.random_range(200..=1_000) * cores as u32) } else { None },
        first_touch: random.random(),
        fair_yield_to: version < Version::V6_18 && random.random(),
        noise_every: if random.random_range(0..4) == 0 { random.random_range(100_000..5_000_000) } else { 0 },
        ..Linux::new(version)
    }
}

/// Creates a host with a Linux kernel. The seed chooses one of the three kinds of hosts.
fn host_on_linux(policy: Policy, seed: u64) -> (Host, Vec<Submitted>, Linux) {
    let (mut host, submitted) = match seed % 3 {
        0 => host(policy, seed),
        1 => host_of_networks(policy, seed),
        _ => host_that_waits(policy, seed),
    };
    let linux = linux(host.cores(), seed);
    host.use_linux(linux);
    let mut random = stream(seed, 4);
    (0..submitted.len() as u32).for_each(|program| host.set_memory(program, random.random_range(0..=1_000)));
    (host, submitted, linux)
}

fn sound_on_linux(policy: Policy, seed: u64) -> Result<Vec<Fate>, String> {
    let (host, submitted, linux) = host_on_linux(policy, seed);
    outcome(host, submitted).map_err(|what| format!("{linux:?}: {what}"))
}

/// Returns the digests of what the processes receive if they run one at a time.
fn received(mut network: Network) -> Vec<u64> {
    let mut ready: Vec<u32> = network.start().iter().map(|strand| strand.id).collect();
    while let Some(process) = ready.pop() {
        let Done { next, unblocked, .. } = network.done(process);
        ready.extend(unblocked.map(|strand| strand.id));
        if let Next::GoesOn(strand) = next {
            ready.push(strand.id);
        }
    }
    network.digests()
}

/// The number of events between two complete checks: `COMITY_CHECK_EVERY`.
fn check_every() -> u64 {
    std::env::var("COMITY_CHECK_EVERY").map_or(16, |every| every.parse().expect("a number of events"))
}

fn outcome(mut host: Host, submitted: Vec<Submitted>) -> Result<Vec<Fate>, String> {
    let is_slowed = host.shares_speed();
    let stretches = Stretches::of(&mut host);
    host.run(40_000_000, check_every())?;
    let fates: Vec<Fate> = (0..submitted.len() as u32).map(|program| host.fate(program)).collect();
    let came: Vec<u64> = submitted.iter().map(|submitted| submitted.came).collect();
    stretches.check(&host, &came)?;
    for (nth, (fate, Submitted { program, came })) in (0..).zip(fates.iter().zip(submitted)) {
        let expect =
            |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {fate:?}, {program:?}")) };
        let (spent, work) = (fate.spent.work, program.work());
        // The same work takes longer while the core's other hardware thread is in use, or while other cores use the
        // memory.
        let is_done = spent == work || is_slowed && spent > work && spent < 24 * work;
        expect(fate.ended.is_none() || is_done, "a program that ended has done its work, once")?;
        expect(fate.ended.is_some() || spent < work || is_slowed, "a program that has not ended has work left")?;
        let soonest = came + program.critical_path();
        expect(fate.ended.is_none_or(|ended| ended >= soonest), "no program is faster than its critical path")?;
        expect(fate.ended.is_none() || fate.died.is_none(), "no program ends and dies")?;
        if let (Work::Network(network), Some(after), Some(_)) = (&program, host.network(nth), fate.ended) {
            expect(after.digests() == received(network.clone()), "what is received does not depend on what runs when")?;
        }
    }
    Ok(fates)
}

/// True if the policy's workers ever rest.
fn sleeps(policy: Policy) -> bool {
    Definition::of(&policy).waking != Waking::AlwaysAwake || policy.shares_cores()
}

/// The number of hosts for each policy of the catalog.
fn hosts() -> u64 {
    std::env::var("COMITY_HOSTS").map_or(150, |count| count.parse().expect("a number of hosts"))
}

/// Runs [`hosts`] hosts under each policy. Some programs must end in time, and some must not end in time.
fn run_hosts_of_every_policy(host: impl Fn(Policy, u64) -> Result<Vec<Fate>, String>) {
    let count = hosts();
    let (mut ended, mut left) = (0, 0);
    for policy in Policy::all() {
        for seed in 0..count {
            let fates = host(policy, seed).unwrap_or_else(|what| panic!("{policy}, seed {seed}: {what}"));
            ended += fates.iter().filter(|fate| fate.ended.is_some()).count() as u64;
            left += fates.iter().filter(|fate| fate.ended.is_none() && fate.died.is_none()).count() as u64;
        }
    }
    println!("{ended} programs ended, {left} were left");
    assert!(ended > 10 * count && left > count / 2, "the hosts are too much alike");
}

#[test]
fn what_must_hold_holds_under_every_row_of_the_catalog() {
    let count = hosts();
    let (mut ended, mut died, mut left, mut lost) = (0, 0, 0, 0);
    for policy in Policy::all() {
        let mut counts = Counts::default();
        for seed in 0..count {
            let fates = sound(policy, seed).unwrap_or_else(|what| panic!("{policy}, seed {seed}: {what}"));
            counts.sleeps += fates[0].counts.sleeps;
            counts.preemptions += fates[0].counts.preemptions;
            counts.lost += fates[0].counts.lost;
            for fate in fates {
                match (fate.ended, fate.died) {
                    (Some(_), _) => ended += 1,
                    (_, Some(_)) => died += 1,
                    _ => left += 1,
                }
            }
        }
        println!("{policy}: {counts:?}");
        assert!(counts.preemptions > count, "{policy}: the hosts are too much alike");
        // A worker under DWS retires, and sleeps only if its program is alone: about once on a host.
        assert_eq!(counts.sleeps > count / 2, sleeps(policy), "{policy}: {counts:?}");
        assert!(counts.lost == 0 || policy.shares_cores(), "{policy}: {counts:?}");
        lost += counts.lost;
    }
    println!("{count} hosts for each of the rows: {ended} programs ended, {died} died, {left} were left");
    assert!(ended > 20 * count && died > count && left > count && lost > count / 2, "the hosts are too much alike");
}

#[test]
fn what_must_hold_holds_of_tasks_that_block_wherever_they_are_placed() {
    let count = hosts() / 3;
    let (mut ended, mut placed) = (0, [0; 3]);
    for policy in Policy::all() {
        for (nth, place) in Place::ALL.into_iter().enumerate() {
            let policy: Policy = format!("{}:place={place}", policy.name()).parse().unwrap();
            for seed in 0..count {
                let fates =
                    sound_with_networks(policy, seed).unwrap_or_else(|what| panic!("{policy}, seed {seed}: {what}"));
                ended += fates.iter().filter(|fate| fate.ended.is_some()).count() as u64;
                placed[nth] += fates[0].counts.placed;
            }
        }
    }
    println!("{ended} programs ended; placed elsewhere, by place: {placed:?}");
    assert!(ended > 50 * count, "the hosts are too much alike");
    assert!(placed[0] == 0 && placed[1] > placed[2] && placed[2] > 0, "{placed:?}");
}

#[test]
fn what_must_hold_holds_of_threads_that_wait_and_are_throttled() {
    run_hosts_of_every_policy(sound_with_waits);
}

#[test]
fn what_must_hold_holds_on_kernels_of_linux() {
    run_hosts_of_every_policy(sound_on_linux);
}

#[test]
fn what_is_deferred_comes_out_as_if_it_were_stepped_through() {
    let (mut events, mut stepped, mut alike, mut compared, mut attempts) = (0, 0, 0, 0, [0; 2]);
    for policy in Policy::all().filter(|policy| Definition::of(policy).waking == Waking::AlwaysAwake) {
        for seed in 0..100 {
            let run = |steps: bool| {
                let (mut host, submitted, _) = host_on_linux(policy, seed);
                if steps {
                    host.step_through();
                }
                host.run(40_000_000, 1_000).unwrap();
                let fates: Vec<Fate> = (0..submitted.len() as u32).map(|program| host.fate(program)).collect();
                (fates, host.events())
            };
            let (bulk, one_by_one) = (run(false), run(true));
            alike += u32::from(bulk.0 == one_by_one.0);
            events += bulk.1;
            stepped += one_by_one.1;
            for (sum, fates) in attempts.iter_mut().zip([&bulk.0, &one_by_one.0]) {
                *sum += fates.iter().map(|fate| fate.counts.attempts).sum::<u64>();
            }
            compared += 1;
        }
    }
    println!("{alike} of {compared} alike, {events} events in place of {stepped}, attempts {attempts:?}");
    // In the other runs, an attempt and a push happened in the same nanosecond, and then the runs differ.
    assert!(alike * 20 >= compared * 19, "{alike} of {compared}");
    assert!(attempts[0].abs_diff(attempts[1]) < attempts[1] / 1_000, "{attempts:?}");
    assert!(events * 20 < stepped * 19, "{events} events, {stepped} one by one");
}

#[test]
fn one_seed_gives_one_outcome() {
    let digest = |fates: fn(Policy, u64) -> Result<Vec<Fate>, String>| {
        let all = || Policy::all().flat_map(move |policy| (0..20).map(move |seed| fates(policy, seed).unwrap()));
        let outcome: Vec<Vec<Fate>> = all().collect();
        assert!(outcome.iter().eq(all().collect::<Vec<_>>().iter()));
        // FNV-1a gives the same value on all machines: see `lab/papers/tests/determinism.rs`.
        let digest = format!("{outcome:?}")
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("{digest:016x}")
    };
    // A new policy in the catalog changes all digests, because most programs have random policies.
    let digests = [sound, sound_with_networks, sound_with_waits, sound_on_linux].map(digest);
    assert_eq!(digests, ["ce2dbb4ea7c89ae1", "339f49aeae91b073", "b509b93d4d2e81ce", "856d0b07cdc4da04"]);
}

#[test]
fn a_record_is_answered_again_and_by_another_policy_is_not() {
    for policy in Policy::all() {
        let lines = Rc::new(RefCell::new(Vec::new()));
        let (mut host, _) = host(policy, 5);
        let record = Rc::clone(&lines);
        host.record(move |line| record.borrow_mut().push(line));
        host.run(10_000_000, 1_000).unwrap();
        drop(host);
        let lines = Rc::into_inner(lines).unwrap().into_inner();
        // The lines take the form that they have in a file.
        let written: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        let read: Vec<Line> = written.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, lines);
        let turns = lines.iter().filter(|line| matches!(line, Line::Turn { .. })).count() as u64;
        assert!(turns > 20, "{policy}: {turns} turns");
        assert_eq!(replay(read.clone()), Ok(turns), "{policy}");

        let other = if policy.name() == "wsgi" { "abp" } else { "wsgi" };
        let changed = read.into_iter().map(|line| match line {
            Line::Thief { program, worker, workers, seed, .. } => {
                Line::Thief { program, worker, policy: other.to_owned(), workers, seed }
            }
            turn => turn,
        });
        let refused = replay(changed).unwrap_err();
        assert!(refused.contains("answers") && refused.contains("the recorded answer is"), "{refused}");
    }
}

#[test]
fn a_program_that_finds_the_table_full_goes_on_without_it() {
    let mut host = Host::new(8, Costs::default(), 1);
    for nth in 0..=Host::MOST_SHARING as u64 {
        let program = ForkJoin::new(1_000, 10_000, 4, 1, Fork::AtOnce);
        host.submit(0, Box::new(program), Policy::default(), 1, nth);
    }
    // The slots of dead programs can be taken again.
    for nth in 0..10 {
        host.kill(10, nth);
        host.submit(20 + u64::from(nth), Box::new(ForkJoin::new(1, 1, 1, 1, Fork::AtOnce)), Policy::default(), 1, 7);
    }
    host.run(1_000_000_000, 10_000).unwrap();
    let fates: Vec<Fate> = (0..=Host::MOST_SHARING as u32 + 10).map(|program| host.fate(program)).collect();
    assert_eq!(fates.iter().filter(|fate| fate.died.is_some()).count(), 10);
    assert!(fates.iter().all(|fate| fate.ended.is_some() != fate.died.is_some()));
    assert_eq!(fates.iter().map(|fate| fate.counts.unshared).sum::<u64>(), 1);
}

/// Checks that tasks that spin on flags end under every policy. The tasks keep their workers, on fewer cores than
/// tasks, while another program of the same policy runs. Each task waits only for the task before it, and the tasks
/// begin in order, so all tasks end.
#[test]
fn a_wavefront_ends_under_every_policy_on_any_number_of_workers() {
    let mut in_vain = 0;
    for policy in Policy::all() {
        for workers in [1, 3, 9] {
            let mut host = Host::new(2, Costs::default(), 1);
            let network = Network::wavefront(6, 20, 50_000, 10_000);
            let work = network.work();
            let waves = host.submit_network(0, network, policy, workers, 1);
            host.submit(0, Box::new(ForkJoin::new(1_000, 100_000, 40, 5, Fork::Tree)), policy, workers, 2);
            host.run(2_000_000_000, 1).unwrap_or_else(|what| panic!("{policy}, {workers} workers: {what}"));
            let (fate, looked) = (host.fate(waves), host.network(waves).unwrap().looked());
            assert!(fate.ended.is_some() && fate.began.is_some(), "{policy}, {workers} workers: {fate:?}");
            in_vain += u32::from(looked > 0);
            assert_eq!(fate.spent.work, work + looked, "{policy}: what was looked for in vain is in no other sum");
        }
    }
    // If each program has one core, no look is in vain, so only some of the runs have such looks.
    assert!(in_vain >= 20, "{in_vain}");
}

/// Checks tasks that sleep in their workers until another task wakes them, while another program of the same policy
/// runs. If each task has a worker, all tasks end.
#[test]
fn a_ring_of_tasks_that_keep_their_workers_ends_under_every_policy() {
    for policy in Policy::all() {
        for workers in [4, 9] {
            let mut host = Host::new(2, Costs::default(), 1);
            let network = Network::ring(4, 20, 50_000, 100);
            let work = network.work();
            let ring = host.submit_network(0, network, policy, workers, 1);
            host.submit(0, Box::new(ForkJoin::new(1_000, 100_000, 40, 5, Fork::Tree)), policy, workers, 2);
            host.run(20_000_000_000, 1).unwrap_or_else(|what| panic!("{policy}, {workers} workers: {what}"));
            let fate = host.fate(ring);
            assert!(fate.ended.is_some(), "{policy}, {workers} workers: {fate:?}");
            assert_eq!(fate.spent.work, work, "{policy}: a task that was woken does not look again");
            host.network(ring).unwrap().check().unwrap();
        }
    }
}
