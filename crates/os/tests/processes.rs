//! What can only be seen on child processes: beside the tests of the library, one of which ends all that it finds.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use comity_os::process::start_detached;
use comity_os::{census, cpu_clock};
use rustix::process::{Pid, Signal};

#[test]
fn what_is_detached_is_nobodys_child_and_keeps_no_descriptor() {
    let (mut reader, writer) = io::pipe().unwrap();
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ $PPID; exec >&-; exec sleep 600"]).stdout(Stdio::piped());
    let mut detached = start_detached(&mut command).unwrap();
    let mut line = String::new();
    detached.stdout.take().unwrap().read_to_string(&mut line).unwrap();
    let ids: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
    // The end of the pipe comes although the new process lives, so it does not have it.
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    let pid = Pid::from_raw(ids[0] as i32).unwrap();
    let session = rustix::process::getsid(Some(pid)).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    // The session of the process that has ended. Our own may have no number here: its leader may be outside of a namespace.
    assert_eq!(session.as_raw_nonzero().get() as u32, detached.id());
    assert!(ids[1] != std::process::id() && ids[1] != detached.id());
    detached.wait().unwrap();
    assert!(start_detached(&mut Command::new("/no/such")).is_err());
}

#[test]
fn another_process_has_a_clock_until_it_is_gone() {
    let spin = ["-c", "while :; do :; done"];
    let mut child = Command::new("sh").args(spin).spawn().unwrap();
    let gained = (0..10_000).any(|_| {
        sleep(Duration::from_millis(1));
        cpu_clock::of_process(child.id()).unwrap() > Duration::from_millis(2)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(gained && cpu_clock::of_process(child.id()).is_none());
    assert!(cpu_clock::of_process(std::process::id()).unwrap() > Duration::ZERO);
    assert!(cpu_clock::of_process(0).is_none() && cpu_clock::of_process(u32::MAX).is_none());
}

#[test]
fn a_process_that_nobody_has_waited_for_has_ended() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let start = census::Stat::of_process(child.id()).unwrap().start;
    assert!(census::lives(child.id(), start));
    child.kill().unwrap();
    let ended = (0..10_000).any(|_| {
        sleep(Duration::from_millis(1));
        !census::lives(child.id(), start)
    });
    child.wait().unwrap();
    assert!(ended && !census::lives(child.id(), start) && census::threads(child.id()).is_empty());
}
