//! Tests of programs that fork: the child has the program's memory and descriptors, but is not a member of the table.

mod harness;

use std::io::Write;

use comity_table::{Location, Member};
use harness::roles::{Process, SHARED, play};
use harness::{Seat as _, Table, claim_all, profile, reap, slots, wait_until};

const CHILD: &str = "child";

/// Forks. The child calls `body` and then waits to be killed, for a minute at most.
fn fork(body: impl FnOnce()) -> i32 {
    // SAFETY: this process has two threads. The other thread only reads standard input, and holds no lock that `body`
    // needs. The child never returns into its parent's frames.
    match unsafe { libc::fork() } {
        0 => {
            body();
            // SAFETY: the child waits for a signal, or ends.
            unsafe {
                libc::alarm(60);
                libc::pause();
                libc::_exit(0)
            }
        }
        pid => pid,
    }
}

#[test]
fn the_cores_of_a_dead_program_come_back_although_a_forked_child_lives_on() {
    for role in [
        "hold and fork",
        "hold, fork and drop the copy",
        "hold, fork and fork again",
        "hold, fork and join in the child",
    ] {
        let table = Table::new();
        let member = table.join(1, SHARED);
        let mut program = Process::start(CHILD, role, 1, &table.path());
        let said = table.folder().join("forked");
        let orphan =
            || std::fs::read_to_string(&said).ok().and_then(|text| text.strip_suffix('\n')?.parse::<i32>().ok());
        wait_until("it has forked", || orphan().is_some());
        let its = slots().nth(1).unwrap();
        assert_eq!(
            table.file().held_by(its).len(),
            SHARED,
            "{role}: what the child does with its copy changes nothing"
        );
        program.kill();
        let orphan = orphan().unwrap();
        let lives = || rustix::process::test_kill_process(rustix::process::Pid::from_raw(orphan).unwrap()).is_ok();
        assert!(lives(), "{role}: the child is there");
        assert_eq!(reap(&member, &table, SHARED as u32), 1, "{role}");
        assert_eq!(claim_all(&member, true).len(), SHARED);
        assert!(lives(), "{role}: the child was there all the time");
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(orphan).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    play(|role| {
        let location = Location::from_environment().unwrap();
        let member = Member::join(&location, &profile(7, 0..SHARED)).unwrap();
        claim_all(&member, false);
        let mut member = Some(member);
        let pid = match role {
            "hold and fork" => fork(|| ()),
            "hold, fork and drop the copy" => fork(|| drop(member.take())),
            // The child's own member may get the descriptor number that its parent's member had.
            "hold, fork and join in the child" => fork(|| {
                let own = Member::join(&location, &profile(8, 0..SHARED)).unwrap();
                drop(member.take());
                own.round(0, 0);
                std::mem::forget(own);
            }),
            "hold, fork and fork again" => fork(|| {
                fork(|| ());
            }),
            other => panic!("no role is called '{other}'"),
        };
        let path = location.path().with_file_name("forked");
        // Give the child time to run.
        std::thread::sleep(std::time::Duration::from_millis(50));
        writeln!(std::fs::File::create(path).unwrap(), "{pid}").unwrap();
        loop {
            std::thread::park();
        }
    });
}
