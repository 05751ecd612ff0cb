//! A process dies at each transition, and those that live on find a table that says nothing of it.

use std::os::unix::process::ExitStatusExt;

use super::POINTS;
use crate::Location;
use crate::harness::roles::{Process, SHARED, command, play};
use crate::harness::{self, Table, claims, profile, reap, slots, wait_until};

const CHILD: &str = "fault::tests::child";

fn victim(role: &str, point: &str, nth: u64, table: &Table) -> Process {
    Process::spawn(command(CHILD, role, nth, &table.path()).env("COMITY_FAULT", format!("{point}:{nth}")))
}

#[test]
fn a_program_that_dies_at_any_transition_is_reaped_by_the_next_round_of_any_other() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let survivors = [1, 2].map(|seed| Process::start(CHILD, "wander", seed, &table.path()));
    for (nth, point) in POINTS.iter().flat_map(|point| [1, 2, 5].map(|nth| (nth, point))) {
        let status = victim("wander and leave", point, nth, &table).wait();
        assert_eq!(status.signal(), Some(9), "{point}:{nth}: {status}");
        let before = claims(&table, &survivors);
        reap(&member, &table, nth as u32 * 3 % 4);
        wait_until("the programs that live on make progress", || {
            let after = claims(&table, &survivors);
            before.iter().zip(after).all(|(before, after)| *before < after)
        });
    }
}

#[test]
fn a_program_that_dies_while_it_reaps_another_is_reaped_with_it() {
    // The first time that a process comes by some of them is while it takes its own place.
    for (point, nth) in [("reaping", 2), ("reaped-half", 1), ("reaped-half", 3), ("slot-freed", 2), ("reaped", 2)] {
        let table = Table::new();
        let member = table.join(1, SHARED);
        let mut dead = Process::start(CHILD, "hold half", 1, &table.path());
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
                member.round(1, 1);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        other => panic!("no role is called '{other}'"),
    });
}
