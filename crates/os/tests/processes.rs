//! What can only be seen on child processes: beside the tests of the library, one of which ends all that it finds.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use comity_os::{census, cpu_clock};

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
