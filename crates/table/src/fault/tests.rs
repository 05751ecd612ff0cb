//! Tests in which a process dies or stops at each transition. The other programs must then find a consistent table.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use comity_os::census::Stat;
use rustix::process::Signal;

use super::POINTS;
use crate::Location;
use crate::harness::roles::{Process, SHARED, command, play, stand_in};
use crate::harness::{self, Seat as _, Table, claims, profile, reap, slots, wait_until};

const CHILD: &str = "fault::tests::child";

/// Points that only the process that creates the table reaches, once.
const ONCE: &[&str] = &["file-made", "file-named"];

/// Points that a program reaches only after its table was removed or replaced.
const ELSEWHERE: &[&str] = &["table-replaced"];

/// Starts this program, or a program of another version, that dies or stops at a point.
fn victim_of(program: Option<&OsString>, role: &str, fault: &str, seed: u64, table: &Table) -> Process {
    let usual = command(CHILD, role, seed, &table.path());
    let mut command = Command::new(program.map_or_else(|| env::current_exe().unwrap().into(), OsString::clone));
    // With a single test thread, the tests run on the main thread. A signal that the main thread sends to its own
    // process is delivered to it immediately.
    command
        .args(usual.get_args())
        .arg("--test-threads=1")
        .envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    Process::spawn(command.env("COMITY_FAULT", fault))
}

fn victim(role: &str, point: &str, nth: u64, table: &Table) -> Process {
    victim_of(None, role, &format!("{point}:{nth}"), nth, table)
}

/// Starts a process that stops at a point. Returns the process, and a function that lets it continue.
fn stopping(role: &str, point: &str, nth: u64, table: &Table) -> (Process, impl FnOnce(&Process)) {
    let file = table.folder().join(format!("{point} {nth} goes on"));
    let victim = victim_of(None, role, &format!("{point}:{nth}:{}", file.display()), nth, table);
    let go_on = move |victim: &Process| {
        std::fs::write(&file, "").unwrap();
        victim.signal(Signal::CONT);
    };
    (victim, go_on)
}

fn is_stopped(process: &Process) -> bool {
    Stat::of_process(process.pid()).is_some_and(|process| process.state == 'T')
}

/// Returns the points that a program reaches in a table that another program has created, each with the number of the
/// visit at which the fault happens.
fn moments() -> impl Iterator<Item = (&'static str, u64)> {
    let usual = POINTS.iter().filter(|point| !ONCE.contains(point) && !ELSEWHERE.contains(point));
    usual.flat_map(|point| [1, 2, 5].map(|nth| (*point, nth)))
}

/// Starts the two programs that keep running while others die. If `COMITY_OTHER_BUILD` names a program, that program is
/// one of the two.
fn survivors(table: &Table) -> [Process; 2] {
    [1, 2].map(|seed| Process::spawn(&mut stand_in(CHILD, "wander", seed, &table.path())))
}

fn make_progress(table: &Table, survivors: &[Process], before: &[u64]) {
    wait_until("the programs that live on make progress", || {
        let after = claims(table, survivors);
        before.iter().zip(after).all(|(before, after)| *before < after)
    });
}

/// `checks/mixed-versions.sh` may name a program of another version in `COMITY_OTHER_LIFE`. The test then also kills
/// that program, at each point that it knows.
#[test]
fn a_program_that_dies_at_any_transition_is_reaped_by_the_next_round_of_any_other() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let survivors = survivors(&table);
    let other = env::var_os("COMITY_OTHER_LIFE");
    let mut deaths_of_other = 0;
    for (nth, (point, times)) in moments().enumerate() {
        let fault = format!("{point}:{times}");
        for program in [None, other.as_ref()].into_iter().take(1 + usize::from(other.is_some())) {
            let status: ExitStatus = victim_of(program, "wander and leave", &fault, times, &table).wait();
            let dies = status.signal() == Some(9);
            deaths_of_other += u32::from(dies && program.is_some());
            assert!(dies || program.is_some(), "{fault}: {status}");
            let before = claims(&table, &survivors);
            reap(&member, &table, nth as u32 * 3 % 4);
            make_progress(&table, &survivors, &before);
        }
    }
    assert!(other.is_none() || deaths_of_other >= 30, "the other version has died {deaths_of_other} times");
}

#[test]
fn a_program_that_stops_at_any_transition_holds_nobody_up_and_goes_on() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let survivors = survivors(&table);
    for (point, times) in moments().filter(|(_, times)| *times < 5) {
        let (mut victim, go_on) = stopping("wander and leave", point, times, &table);
        wait_until(&format!("{point}:{times}: it stops"), || is_stopped(&victim));
        let before = claims(&table, &survivors);
        member.round(SHARED as u32, 1);
        make_progress(&table, &survivors, &before);
        let victims = || claims(&table, std::slice::from_ref(&victim))[0];
        let before = victims();
        go_on(&victim);
        // The victim leaves and joins again and again, and its counters start from 0 each time.
        wait_until(&format!("{point}:{times}: it goes on"), || ![0, before].contains(&victims()));
        victim.kill();
        reap(&member, &table, SHARED as u32);
    }
}

#[test]
fn a_program_that_dies_or_stops_while_it_makes_a_table_leaves_none_or_a_good_one() {
    for (point, is_there) in [("file-made", false), ("file-named", true), ("mapped", true)] {
        let table = Table::new();
        let (stopped, go_on) = stopping("wander and leave", point, 1, &table);
        wait_until("it stops", || is_stopped(&stopped));
        assert_eq!(table.path().exists(), is_there, "{point}");
        let member = table.join(1, SHARED);
        assert!(member.round(SHARED as u32, 1).alone);
        go_on(&stopped);
        wait_until("the two meet", || !member.round(SHARED as u32, 1).alone);

        let table = Table::new();
        assert_eq!(victim("wander and leave", point, 1, &table).wait().signal(), Some(9), "{point}");
        assert_eq!(table.path().exists(), is_there, "{point}");
        reap(&table.join(1, SHARED), &table, SHARED as u32);
    }
}

#[test]
fn a_program_that_dies_or_stops_while_it_moves_to_another_table_is_in_none() {
    let moves = |table: &Table, member: &crate::Member| {
        wait_until("it has joined", || table.file().is_taken(slots().nth(1).unwrap()));
        std::fs::remove_file(table.path()).unwrap();
        member.follow().unwrap();
    };
    let table = Table::new();
    let member = table.join(1, SHARED);
    let (mut stopped, go_on) = stopping("come by", "table-replaced", 1, &table);
    moves(&table, &member);
    wait_until("it stops", || is_stopped(&stopped));
    member.follow().unwrap();
    assert!(member.round(SHARED as u32, 1).alone);
    go_on(&stopped);
    wait_until("the two meet", || !member.round(SHARED as u32, 1).alone);
    stopped.kill();
    reap(&member, &table, SHARED as u32);

    let mut dead = victim("come by", "table-replaced", 1, &table);
    moves(&table, &member);
    assert_eq!(dead.wait().signal(), Some(9));
    member.follow().unwrap();
    assert!(member.round(SHARED as u32, 1).alone);
    reap(&member, &table, SHARED as u32);
}

#[test]
fn a_program_that_dies_while_it_reaps_another_is_reaped_with_it() {
    // A process passes some of these points a first time when it takes its own slot. At those, `nth` is 2.
    for (point, nth) in [("reaping", 2), ("reaped-half", 1), ("reaped-half", 3), ("slot-freed", 2), ("reaped", 2)] {
        let table = Table::new();
        let member = table.join(1, SHARED);
        let mut dead = Process::spawn(&mut stand_in(CHILD, "hold half", 1, &table.path()));
        let [_, of_the_dead, of_the_reaper] = [0, 1, 2].map(|index| slots().nth(index).unwrap());
        wait_until("the first to die holds cores", || {
            table.path().exists() && table.file().held_by(of_the_dead).len() == SHARED / 2
        });
        let mut reaper = victim("come by", point, nth, &table);
        wait_until("the reaper has joined", || table.file().is_taken(of_the_reaper));
        dead.kill();
        assert_eq!(reaper.wait().signal(), Some(9), "{point}:{nth}");
        assert!(!harness::unsound(&table.path()).is_empty(), "{point}: there is nothing left to do");
        member.round(SHARED as u32, 0);
        assert_eq!(harness::unsound(&table.path()), [""; 0], "{point}:{nth}");
        assert_eq!(harness::claim_all(&member, true).len(), SHARED);
    }
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| match role {
        "come by" => {
            let location = Location::from_environment().unwrap();
            let member = crate::Member::join(&location, &profile(3, 0..SHARED)).unwrap();
            loop {
                member.follow().unwrap();
                member.round(1, 1);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        other => panic!("no role is called '{other}'"),
    });
}
