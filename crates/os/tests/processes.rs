//! Tests with child processes.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use comity_os::freezer::{Membership, Place, can_freeze};
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

/// Waits until the process has used processor time between two checks, or no time if `uses` is false.
fn wait_until_it_uses_time(process: u32, uses: bool) {
    let used = || cpu_clock::of_process(process).unwrap();
    loop {
        let before = used();
        sleep(Duration::from_millis(100));
        if (used() > before) == uses {
            break;
        }
    }
}

#[test]
fn a_frozen_process_goes_on_when_it_is_thawed_and_its_group_is_removed() {
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let (id, start) = (child.id(), census::Stat::of_process(child.id()).unwrap().start);
    let place = Place::of(id, start).filter(|_| can_freeze());
    if let Some(place) = place {
        let before = census::control_groups(id);
        let freezer = place.make().unwrap();
        assert_eq!(place.membership(id), Membership::Beside);
        assert!(freezer.take(id) && freezer.members() == [id]);
        assert_eq!(place.membership(id), Membership::Inside);
        wait_until_it_uses_time(id, true);
        assert!(freezer.freeze());
        wait_until_it_uses_time(id, false);
        assert_eq!(census::Stat::of_process(id).map(|stat| stat.state), Some('S'));
        // If the coordinator of a command is killed, its companion process makes this call.
        place.clear();
        wait_until_it_uses_time(id, true);
        assert!(census::control_groups(id) == before && !freezer.freeze() && freezer.thaw());
    } else {
        println!("skipped: this process can make no control group");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
