//! Tests in which a program closes all its descriptors, as daemons do, and opens files that get the same numbers. One
//! of the closed descriptors holds the lock of the program's slot.

mod harness;

use std::fs::{self, File};
use std::time::Duration;

use comity_table::{Life, Snapshot};
use harness::roles::{Process, SHARED, join, play};
use harness::{Seat as _, Steps as _, Table, claim_all, reap, slots, wait_until};

const CHILD: &str = "child";

#[test]
fn one_that_loses_its_descriptor_reaps_no_neighbour_and_joins_anew() {
    // In the first role, the numbers of the closed descriptors then belong to other files. In the second role, the
    // member itself reuses them.
    for role in ["close all descriptors", "close all descriptors and open none"] {
        loses_its_descriptor(role);
    }
}

fn loses_its_descriptor(role: &str) {
    let table = Table::new();
    let member = table.join(1, SHARED);
    member.round(SHARED as u32, 1);
    let held = claim_all(&member, true).len();
    assert_eq!(held, SHARED);
    let other = Process::start(CHILD, "wander", 1, &table.path());
    wait_until("the other neighbour has joined", || table.file().is_taken(slots().nth(1).unwrap()));
    let closer = Process::start(CHILD, role, 2, &table.path());
    let said = table.folder().join("closed");
    wait_until("it has closed all, and come by a hundred times since", || said.exists());
    // The rounds of another program reap `closer` in its old slot. `closer` has already taken another slot, or it takes
    // one at its next round.
    let living = |process: &Process| {
        let programs = Snapshot::take(&table.location()).unwrap().unwrap().programs;
        programs.iter().filter(|program| program.pid == process.pid()).any(|program| program.life == Life::Living)
    };
    wait_until("it is in the table again, with a lock", || {
        member.round(SHARED as u32, 1);
        living(&closer)
    });
    wait_until("the neighbour lives", || living(&other));
    // `closer` stays in its new slot: the descriptors of its later rounds do not release the new lock.
    let is_settled = || {
        let programs = Snapshot::take(&table.location()).unwrap().unwrap().programs;
        let own: Vec<_> = programs.iter().filter(|program| program.pid == closer.pid()).collect();
        own.len() == 2 && own.iter().all(|own| own.life == Life::Living && own.age > Duration::from_millis(200))
    };
    wait_until("both of its parties have been in for a while", || {
        member.round(SHARED as u32, 1);
        is_settled()
    });
    assert_eq!(member.slot().index(), 0, "it was never reaped");
    assert!(!member.held().is_empty() && table.file().is_taken(member.slot()));
    let snapshot = Snapshot::take(&table.location()).unwrap().unwrap();
    assert!(snapshot.programs[0].claimed >= held as u64, "nor did it join anew: {snapshot:?}");
    // The files that the program opened are unchanged, so the member wrote to none of them.
    let files = if role == "close all descriptors" { FILES } else { 0 };
    let whole = (0..files).all(|nth| fs::read(table.folder().join(nth.to_string())).unwrap() == b"mine");
    assert!(whole);
}

#[test]
fn where_the_path_names_another_file_no_program_is_taken_for_dead() {
    let table = Table::new();
    let member = table.join(1, SHARED);
    let mut other = Process::start(CHILD, "hold half", 1, &table.path());
    let its = slots().nth(1).unwrap();
    wait_until("the other holds half", || {
        member.round(SHARED as u32, 1);
        table.file().held_by(its).len() == SHARED / 2
    });
    let away = table.folder().join("away");
    fs::rename(table.path(), &away).unwrap();
    other.kill();
    for _ in 0..20 {
        member.round(SHARED as u32, 1);
    }
    let replaced = table.join(7, SHARED);
    for _ in 0..20 {
        member.round(SHARED as u32, 1);
    }
    drop(replaced);
    assert!(harness::TableFile::read(&away).is_taken(its), "a program that cannot be asked for is not dead");
    fs::rename(&away, table.path()).unwrap();
    reap(&member, &table, SHARED as u32);
    assert!(!table.file().is_taken(its));
}

/// The number of files to open. It exceeds the number of closed descriptors, so the files get all of their numbers.
const FILES: usize = 64;

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| match role {
        "close all descriptors" | "close all descriptors and open none" => {
            let files = if role == "close all descriptors" { FILES } else { 0 };
            let path = comity_table::Location::from_environment().unwrap().path();
            // Join twice, like a process whose pools have two policies.
            let (member, second) = (join(), join());
            member.round(SHARED as u32, 1);
            // SAFETY: closing descriptors that others own is the subject of this test. Standard input stays open,
            // because its end tells this role that the test has ended.
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
            let files: Vec<File> = (0..files)
                .map(|nth| {
                    let own = path.with_file_name(nth.to_string());
                    fs::write(&own, "mine").unwrap();
                    File::options().read(true).write(true).open(own).unwrap()
                })
                .collect();
            for round in 0.. {
                member.round(SHARED as u32, 1);
                second.round(1, 1);
                member.claim(false);
                if round == 100 {
                    let open = files.iter().all(|file| file.metadata().is_ok());
                    assert!(open, "no file of the program's own was closed");
                    fs::write(path.with_file_name("closed"), "").unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        other => panic!("no role is called '{other}'"),
    });
}
