//! Tests in which processes that share a table die, or are stopped, at any moment. The other processes continue, with
//! all cores.
//!
//! Deaths at chosen transitions are in `src/fault/tests.rs`. Deaths of processes that leave a forked child are in
//! `fork.rs`.

mod harness;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use comity_table::{Life, SlotId, Snapshot};
use harness::roles::{Process, Random, SHARED, command, other_build, play};
use harness::{Seat as _, Steps as _, Table, claim_all, claims, reap, slots, wait_until};
use rustix::process::Signal;

const CHILD: &str = "child";

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

fn slot(index: usize) -> SlotId {
    slots().nth(index).unwrap()
}

/// `COMITY_DEATHS` sets the number of deaths, and `COMITY_SEED` the seed of the first.
#[test]
fn a_program_that_is_killed_at_any_moment_is_reaped_by_the_next_round_of_any_other() {
    let (deaths, seed) = (number("COMITY_DEATHS", 60), number("COMITY_SEED", 1));
    let table = Table::new();
    let member = table.join(1, SHARED);
    let survivors = [1, 2].map(|seed| Process::start(CHILD, "wander", seed, &table.path()));
    wait_until("the survivors have joined", || (1..3).all(|index| table.file().is_taken(slot(index))));
    let mut random = Random(seed);
    let mut moments = BTreeMap::<&str, u64>::new();
    let mut rounds = BTreeMap::<u32, u64>::new();
    let mut most_held = 0;
    for nth in 0..deaths {
        let mut victim = Process::start(CHILD, "wander and leave", seed + nth, &table.path());
        if random.below(8) > 0 {
            wait_until("the victim joins", || table.file().is_taken(slot(3)));
        }
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
        let before = claims(&table, &survivors);
        victim.kill();
        let left = table.file();
        let held = left.held_by(slot(3)).len();
        most_held = most_held.max(held);
        let moment = match (left.is_used(slot(3)), left.is_taken(slot(3))) {
            (true, true) if held > 0 => "with cores",
            (true, true) => "without a core",
            (true, false) => "half-way in or out",
            _ => "while it was not in, or reaped at once",
        };
        *moments.entry(moment).or_default() += 1;
        *rounds.entry(reap(&member, &table, random.below(SHARED as u64 + 1) as u32)).or_default() += 1;
        wait_until("the survivors make progress", || {
            before.iter().zip(claims(&table, &survivors)).all(|(before, after)| *before < after)
        });
    }
    println!(
        "{deaths} deaths from seed {seed}: {moments:?}; most cores held: {most_held}; rounds to the end: {rounds:?}"
    );
}

/// `checks/mixed-versions.sh` sets the other program, which is built from the commit that introduced layout 2.
#[test]
fn a_table_that_another_version_has_made_is_joined_and_its_maker_buried() {
    if other_build().is_none() {
        println!("skipped: COMITY_OTHER_BUILD names no other version of this program");
        return;
    }
    let table = Table::new();
    let mut other = Process::start(CHILD, "wander", 1, &table.path());
    wait_until("the other version has made the table", || table.path().exists() && table.file().is_taken(slot(0)));
    let member = table.join(1, SHARED);
    assert_eq!(member.slot(), slot(1));
    wait_until("each sees the other", || !member.round(SHARED as u32, 1).alone);
    let before = Snapshot::take(&table.location()).unwrap().unwrap().programs[0].claimed;
    wait_until("the other version goes on", || {
        member.round(1, 1);
        Snapshot::take(&table.location()).unwrap().unwrap().programs[0].claimed > before
    });
    other.kill();
    reap(&member, &table, SHARED as u32);
    assert_eq!(claim_all(&member, true).len(), SHARED);
}

#[test]
fn two_that_die_at_once_are_both_buried() {
    for seed in 0..4 {
        let table = Table::new();
        let member = table.join(1, SHARED);
        let mut victims = [1, 2, 3].map(|nth| Process::start(CHILD, "wander and leave", seed * 3 + nth, &table.path()));
        wait_until("all are there", || (1..4).all(|index| table.file().is_used(slot(index))));
        victims.iter().for_each(|victim| victim.signal(Signal::KILL));
        for victim in &mut victims {
            victim.wait();
        }
        member.round(SHARED as u32, 0);
        assert_eq!(harness::unsound(&table.path()), [""; 0]);
        assert_eq!(claim_all(&member, true).len(), SHARED);
    }
}

/// `COMITY_STOPPED_MS` sets for how long the program is stopped, in milliseconds, for example 5000.
#[test]
fn the_cores_of_one_that_is_stopped_are_used_and_it_takes_its_own_back() {
    let stopped_for = Duration::from_millis(number("COMITY_STOPPED_MS", 2_000));
    let table = Table::new();
    let member = table.join(1, SHARED + 1);
    let mut other = Process::start(CHILD, "hold half", 1, &table.path());
    let of_the_other = slot(1);
    let come_by = || member.round(SHARED as u32 + 1, 1);
    wait_until("the other holds half", || {
        come_by();
        table.path().exists() && table.file().held_by(of_the_other).len() == SHARED / 2
    });
    come_by();
    let free = claim_all(&member, false).len();
    assert_eq!(free, SHARED / 2 + 1);

    other.signal(Signal::STOP);
    let stopped = Instant::now();
    assert!(member.release(None).is_some() && member.claim(false).is_some(), "what is free is to be had at once");
    wait_until("all cores are held by the one that runs", || {
        come_by();
        while member.claim(false).or_else(|| member.take_back()).is_some() {}
        member.held().len() == SHARED + 1
    });
    while stopped.elapsed() < stopped_for {
        assert_eq!((come_by().held, come_by().alone), (SHARED as u32 + 1, true));
        std::thread::sleep(Duration::from_millis(20));
    }
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    assert_eq!(snapshot.programs[1].life, Life::Stopped);
    let before = snapshot.programs[1].taken_back;

    other.signal(Signal::CONT);
    wait_until("the other has taken its own back", || {
        come_by();
        table.file().held_by(of_the_other).len() == SHARED / 2
    });
    assert_eq!(member.held().len(), SHARED / 2 + 1);
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    assert_eq!((snapshot.programs[1].life, snapshot.programs[1].taken_back - before), (Life::Living, 3));
    other.kill();
    assert_eq!(reap(&member, &table, 1), 1);
}

#[test]
fn one_that_is_killed_while_it_is_stopped_is_reaped() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let mut other = Process::start(CHILD, "wander and leave", 1, &table.path());
    wait_until("it has joined", || table.file().is_taken(slot(1)));
    other.signal(Signal::STOP);
    other.kill();
    assert_eq!(reap(&member, &table, SHARED as u32), 1);
}

/// Starts a process that plays `role` in a new PID namespace. `None`: PID namespaces are not permitted here.
fn in_a_namespace(role: &str, seed: u64, table: &Table) -> Option<Process> {
    const UNSHARE: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child=KILL"];
    let permitted = Command::new("unshare").args(UNSHARE).arg("true").stderr(Stdio::null()).status();
    if !permitted.is_ok_and(|status| status.success()) {
        println!("skipped: PID namespaces are not permitted here");
        return None;
    }
    let program = command(CHILD, role, seed, &table.path());
    let mut unshare = Command::new("unshare");
    unshare.args(UNSHARE).arg(program.get_program()).args(program.get_args());
    unshare.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    unshare.stdin(Stdio::piped()).stdout(Stdio::null());
    Some(Process::spawn(&mut unshare))
}

#[test]
fn programs_in_pid_namespaces_of_their_own_share_a_table_and_bury_each_other() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let Some(mut one) = in_a_namespace("hold half", 1, &table) else { return };
    wait_until("one holds half", || table.file().held_by(slot(1)).len() == SHARED / 2);
    let mut other = in_a_namespace("hold half", 2, &table).unwrap();
    wait_until("each sees the other, and takes its share", || {
        (1..3).all(|index| table.file().held_by(slot(index)).len() == SHARED / 2)
    });
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    let [_, first, second] = snapshot.programs.as_slice() else { panic!("{snapshot:?}") };
    assert_eq!((first.life, second.life), (Life::Living, Life::Living));
    assert_eq!(first.pid, second.pid, "each is the first process of its own namespace");

    // The member of this process looks at the table only after `one` has reaped `other`.
    other.kill();
    wait_until("the one reaps the other", || !table.file().is_used(slot(2)));
    wait_until("all that the dead had is the one's", || {
        (0..SHARED).all(|core| table.file().core(core).owner() == Some(slot(1)))
    });
    one.kill();
    wait_until("nothing is left of both", || {
        member.round(SHARED as u32, 0);
        !table.file().is_used(slot(1)) && harness::unsound(&table.path()).is_empty()
    });
    assert_eq!(claim_all(&member, true).len(), SHARED);
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| panic!("no role is called '{role}'"));
}
