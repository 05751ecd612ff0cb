//! Test of `detached`. It is a program without the test harness, because only a process with one thread can be copied.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use comity_os::census::Stat;
use comity_os::pidfd::Pidfd;
use comity_os::{affinity, detached};
use rustix::process::{Pid, Signal, WaitOptions, getsid, kill_process, wait};

fn main() {
    let me = std::process::id();
    let own = Pidfd::of_this_process().unwrap();
    assert!(!own.has_ended_within(Duration::ZERO));
    let free = affinity::of(comity_os::cpu_clock::ThreadId::current());

    let (mut answer, kept) = io::pipe().unwrap();
    let (mut closed, other) = io::pipe().unwrap();
    rustix::io::fcntl_setfd(&other, rustix::io::FdFlags::empty()).unwrap();
    detached::start("copy", &[kept.as_raw_fd()], || {
        let folder = std::env::current_dir().unwrap();
        let mut kept = kept.try_clone().unwrap();
        let is_free = affinity::of(comity_os::cpu_clock::ThreadId::current()) == free;
        let line = format!("{} {} {is_free}", std::process::id(), folder.display());
        kept.write_all(line.as_bytes()).unwrap();
        // The copy ends when the test kills it below, or when the test process is gone.
        while !own_is_gone(me) {
            std::thread::sleep(Duration::from_millis(20));
        }
    })
    .unwrap();
    assert_eq!(affinity::of(comity_os::cpu_clock::ThreadId::current()), free);
    // The pipe `closed` reaches its end although the copy lives, so the copy does not have the descriptor `other`.
    drop(other);
    assert_eq!(closed.read(&mut [0]).unwrap(), 0);
    let mut line = [0; 100];
    let length = answer.read(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..length]).into_owned();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..], ["/", "true"]);
    let copy: u32 = words[0].parse().unwrap();
    assert!(copy != me && Stat::of_process(copy).unwrap().parent != me);
    assert!(wait(WaitOptions::NOHANG).is_err(), "there is no child to wait for");
    let pid = Pid::from_raw(copy as i32).unwrap();
    assert_eq!(std::fs::read_to_string(format!("/proc/{copy}/comm")).unwrap(), "copy\n");
    assert_eq!(getsid(Some(pid)).unwrap(), pid);
    kill_process(pid, Signal::KILL).unwrap();

    // A panic in a copy ends only the copy.
    drop(kept);
    let (mut answer, kept) = io::pipe().unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    detached::start("copy", &[kept.as_raw_fd()], || panic!("in the copy")).unwrap();
    drop(kept);
    assert_eq!(answer.read(&mut [0]).unwrap(), 0);
    assert_eq!(std::process::id(), me);

    let refused = std::thread::scope(|scope| {
        let (_answer, kept) = io::pipe().unwrap();
        scope.spawn(move || detached::start("copy", &[kept.as_raw_fd()], || ()).unwrap_err()).join().unwrap()
    });
    assert!(refused.to_string().contains("several threads"), "{refused}");
}

fn own_is_gone(process: u32) -> bool {
    Stat::of_process(process).is_none_or(|stat| stat.state == 'Z')
}
