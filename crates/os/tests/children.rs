//! Test of the functions that end child processes. It runs in a separate process, because `end_children` also ends the
//! children of other tests in its process and takes their exit statuses.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use comity_os::census::{self, Stat};
use comity_os::process;
use rustix::process::{Signal, WaitOptions};

/// Returns the number of children of this process that have not been waited for.
fn children() -> usize {
    let me = std::process::id();
    let is_own = |id: &u32| Stat::of_process(*id).is_some_and(|stat| stat.parent == me);
    census::processes().iter().filter(|id| is_own(id)).count()
}

#[test]
#[expect(clippy::zombie_processes, reason = "end_children waits for the sleeper")]
fn children_are_measured_found_and_ended() {
    process::adopt_orphans().unwrap();
    let count = "sleep 600 & i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7";
    let busy = Command::new("sh").args(["-c", count]).process_group(0).spawn();
    let (status, usage) = process::wait_and_end_group(busy.unwrap().id()).unwrap();
    assert_eq!(status.code(), Some(7));
    assert!(usage.cpu > Duration::ZERO);
    // The sleeper that the command left behind was adopted, and killed.
    let (_, left) = rustix::process::wait(WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(left.terminating_signal(), Some(Signal::KILL.as_raw()));
    assert_eq!(children(), 0);

    let mut sleeper = Command::new("sleep");
    let sleeper = process::die_with_this_thread(sleeper.arg("600")).spawn().unwrap();
    assert_eq!(process::wait_at_most(sleeper.id(), Duration::from_millis(5)), None);
    // The shell starts a grandchild that ignores SIGTERM and whose own parent has ended.
    let shell = Command::new("sh").args(["-c", "trap '' TERM; (sleep 600 & sleep 600) & sleep 0.1"]).spawn();
    process::wait_and_end_group(shell.unwrap().id()).unwrap();
    assert!(children() >= 2);
    process::end_children(Duration::from_millis(50)).unwrap();
    assert_eq!(children(), 0);
    assert!(process::wait_and_end_group(sleeper.id()).is_err());
}
