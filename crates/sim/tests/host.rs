//! Small random hosts with faults, under every row of the catalog: what must hold is looked at after every event.
//! `COMITY_HOSTS` is how many for each row, 150 otherwise.

use std::cell::RefCell;
use std::rc::Rc;

use comity_policy::{Policy, Waking};
use comity_sim::conversation::{Line, replay};
use comity_sim::host::{Costs, Counts, Fate, Host, Lateness};
use comity_sim::program::{Fork, ForkJoin, Program};
use comity_sim::random::stream;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

struct Submitted {
    program: ForkJoin,
    came: u64,
}

/// The policy with a quantum that small programs live to see.
fn hasty(policy: Policy, random: &mut impl Rng) -> Policy {
    let has_quantum = policy.row().parameters.iter().any(|parameter| parameter.key == "quantum_us");
    if !has_quantum || random.random_range(0..8) == 0 {
        return policy;
    }
    format!("{policy}:quantum_us={}", random.random_range(100..2_000)).parse().unwrap()
}

/// One host: its first program is under `policy`, others under any.
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
        submitted.push(Submitted { program, came });
    }
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..10_000_000);
        match random.random_range(0..3) {
            0 => host.kill(at, random.random_range(0..submitted.len() as u32)),
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
    (host, submitted)
}

fn sound(policy: Policy, seed: u64) -> Result<Vec<Fate>, String> {
    let (mut host, submitted) = host(policy, seed);
    host.run(40_000_000, 16)?;
    let fates: Vec<Fate> = (0..submitted.len() as u32).map(|program| host.fate(program)).collect();
    for (fate, Submitted { program, came }) in fates.iter().zip(submitted) {
        let expect =
            |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {fate:?}, {program:?}")) };
        expect(fate.ended.is_none() || fate.spent.work == program.work(), "who ended has done its work, once")?;
        expect(fate.ended.is_some() || fate.spent.work < program.work(), "who has not ended has work left")?;
        let soonest = came + program.critical_path();
        expect(fate.ended.is_none_or(|ended| ended >= soonest), "nobody is faster than its critical path")?;
        expect(fate.ended.is_none() || fate.died.is_none(), "nobody ends and dies")?;
    }
    Ok(fates)
}

/// Whether its workers ever rest.
fn sleeps(policy: Policy) -> bool {
    policy.row().waking != Waking::NobodySleeps || policy.sharing().is_some()
}

#[test]
fn what_must_hold_holds_under_every_row_of_the_catalog() {
    let count: u64 = std::env::var("COMITY_HOSTS").map_or(150, |count| count.parse().expect("a number of hosts"));
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
        assert_eq!(counts.sleeps > count, sleeps(policy), "{policy}: {counts:?}");
        assert!(counts.lost == 0 || policy.sharing().is_some(), "{policy}: {counts:?}");
        lost += counts.lost;
    }
    println!("{count} hosts for each of the rows: {ended} programs ended, {died} died, {left} were left");
    assert!(ended > 20 * count && died > count && left > count && lost > count / 2, "the hosts are too much alike");
}

#[test]
fn one_seed_gives_one_outcome() {
    let fates = |policy: Policy, seed| sound(policy, seed).unwrap();
    let all = || Policy::all().flat_map(|policy| (0..20).map(move |seed| fates(policy, seed)));
    let outcome: Vec<Vec<Fate>> = all().collect();
    assert!(outcome.iter().eq(all().collect::<Vec<_>>().iter()));
    // FNV-1a. The same everywhere: see `determinism.rs`.
    let digest = format!("{outcome:?}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    assert_eq!(format!("{digest:016x}"), "08afa6f2924c8500");
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
        // As it lies in a file.
        let written: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        let read: Vec<Line> = written.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, lines);
        let turns = lines.iter().filter(|line| matches!(line, Line::Turn { .. })).count() as u64;
        assert!(turns > 20, "{policy}: {turns} turns");
        assert_eq!(replay(read.clone()), Ok(turns), "{policy}");

        let other = if policy.row().name == "wsgi" { "abp" } else { "wsgi" };
        let changed = read.into_iter().map(|line| match line {
            Line::Thief { program, worker, workers, seed, .. } => {
                Line::Thief { program, worker, policy: other.to_owned(), workers, seed }
            }
            turn => turn,
        });
        let refused = replay(changed).unwrap_err();
        assert!(refused.contains("answers") && refused.contains("and answered"), "{refused}");
    }
}

#[test]
fn who_finds_the_table_full_goes_on_without_it() {
    let mut host = Host::new(8, Costs::default(), 1);
    for nth in 0..=Host::MOST_SHARING as u64 {
        let program = ForkJoin::new(1_000, 10_000, 4, 1, Fork::AtOnce);
        host.submit(0, Box::new(program), Policy::default(), 1, nth);
    }
    // The places of the dead can be had again.
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
