//! Tests that other users cannot affect a command of `comity run`, as docs/guide/src/security.md states.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use comity_os::freezer::can_freeze;

use crate::run::{BURN, Running, children, coordinator, cores, is_empty, mask, place};
use crate::ways::{crowd, group};
use crate::{send, wait_until};

/// The number of an unprivileged user.
const OTHER: u32 = 54_321;

/// True if this process runs as root, so that it can start processes of another user.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can start processes of two users");
    }
    is_root
}

/// A process of another user. It is killed when the value is dropped.
struct Attacker(Child);

impl Attacker {
    fn start(words: &[&str], variables: &[(&str, &str)]) -> Attacker {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(variables.iter().copied()).uid(OTHER).gid(OTHER).current_dir("/");
        Attacker(command.stdout(Stdio::null()).process_group(0).spawn().unwrap())
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _gone = Command::new("sh").args(["-c", &format!("kill -KILL -{} 2>&-", self.0.id())]).status();
        let _gone = self.0.wait();
    }
}

/// Returns the value of `COMITY_RUN` that the processes of a command have.
fn mark_of(command: u32) -> String {
    let environment = || fs::read(format!("/proc/{command}/environ")).unwrap_or_default();
    let mark = || {
        let text = String::from_utf8_lossy(&environment()).into_owned();
        text.split('\0').find_map(|variable| variable.strip_prefix("COMITY_RUN=").map(str::to_owned))
    };
    wait_until("the command has begun", || mark().is_some());
    mark().unwrap()
}

/// Tests processes of another user with a command's mark. Without checks of the user, a coordinator of root would
/// move and stop such processes, and wait for their end.
#[test]
fn a_mark_does_not_make_a_process_of_another_user_part_of_a_command() {
    if !is_root() || cores() != 2 {
        println!("skipped: this takes root and two cores");
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let command = Running::start(&table, &["sh", "-c", BURN]);
    let _neighbour = Running::start(&table, &["sh", "-c", BURN]);
    let mark = mark_of(command.id());
    // One of the attackers runs as root, by a set-user-id program, with an environment from the other user.
    let bin = tempfile::tempdir().unwrap();
    fs::set_permissions(bin.path(), Permissions::from_mode(0o755)).unwrap();
    let program = bin.path().join("sleep");
    assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    // The coordinator reads the environment of a new process only once. A process that has just been forked still has
    // the environment of this test. Therefore each shell starts a child, which has the mark from the beginning.
    let lines = ["while :; do :; done".to_owned(), "sleep 600".to_owned(), format!("{} 600", program.display())];
    let attackers =
        lines.map(|line| Attacker::start(&["sh", "-c", &format!("{line} & wait")], &[("COMITY_RUN", &mark)]));
    wait_until("the attackers have begun", || attackers.iter().all(|attacker| children(attacker.0.id()).len() == 1));
    let with_child = |attacker: Attacker| {
        let child = children(attacker.0.id())[0];
        (attacker, child)
    };
    let attackers = attackers.map(with_child);
    // `marked` also has the mark, and runs as root. Once its children are confined, the coordinator has looked at all
    // processes.
    let mut marked = Command::new("sh");
    marked.args(["-c", BURN]).env("COMITY_RUN", &mark).process_group(0);
    let marked = Running { child: marked.spawn().unwrap() };
    wait_until("the coordinator has confined its command", || {
        let are_confined = |of: u32| children(of).len() == 2 && children(of).iter().all(|id| mask(*id) != free);
        are_confined(marked.id()) && are_confined(command.id())
    });
    let masks: Vec<String> = attackers.iter().flat_map(|(shell, child)| [mask(shell.0.id()), mask(*child)]).collect();
    assert!(masks.iter().all(|mask| *mask == free), "{masks:?} instead of {free}");
    let coordinator = coordinator(command.id()).unwrap();
    drop(command);
    drop(marked);
    drop(_neighbour);
    wait_until("the coordinator has ended", || !Path::new(&format!("/proc/{coordinator}")).exists());
    assert!(is_empty(&table));
    assert!(attackers.iter().all(|(_, child)| Path::new(&format!("/proc/{child}")).exists()));
}

/// Tests locks of another user: a user who may read a file can lock it.
#[test]
fn a_lock_of_another_user_does_not_keep_a_command_from_being_frozen_and_freed() {
    if !is_root() || cores() != 2 || !can_freeze() {
        println!("skipped: this takes root, two cores, and the right to make control groups of version 2");
        return;
    }
    let (_folder, table) = place();
    let own = group(std::process::id()).unwrap();
    // `flock` is part of util-linux. Its lock is released when the attacker is killed.
    let outside = own.to_str().unwrap();
    let attacker = Attacker::start(&["flock", outside, "sleep", "600"], &[]);
    let is_locked = || {
        let file = File::open(&own).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
    };
    wait_until("another user has the lock", is_locked);
    let crowd = crowd(&table);
    let command = Running::start(&table, &["--weight", "100", "sh", "-c", BURN]);
    wait_until("the command has a group of its own", || group(command.id()).is_some_and(|group| group != own));
    let folder = group(command.id()).unwrap();
    let list = folder.join("cgroup.procs");
    // The coordinator locks `cgroup.procs` as long as it lives.
    let attempt = Command::new("sh").args(["-c", "exec 9<\"$0\""]).arg(&list).uid(OTHER).gid(OTHER).output().unwrap();
    assert!(!attempt.status.success(), "others can open {}", list.display());
    // The coordinator and its companion are killed, so only the coordinator of another command can thaw this command.
    let companion = |process: &u32| {
        fs::read_to_string(format!("/proc/{process}/comm"))
            .is_ok_and(|name| name.trim() == format!("comity+{}", command.id()))
    };
    let coordinator = coordinator(command.id()).unwrap();
    let companions: Vec<u32> = comity_os::census::processes().into_iter().filter(companion).collect();
    assert_eq!(companions.len(), 1);
    for process in companions.into_iter().chain([coordinator]) {
        send("KILL", process);
    }
    wait_until("it is where it was", || group(command.id()).is_some_and(|group| group == own) && !folder.exists());
    drop(crowd);
    drop(attacker);
    drop(command);
}
