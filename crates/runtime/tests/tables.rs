//! A program that cannot use its core table prints one line, and continues with plain work stealing.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/member.rs"]
mod member;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use comity::{Policy, ThreadPoolBuilder};
use comity_os::cpu_clock;
use comity_table::{ADOPTED, Location, Member, Profile, Snapshot, this_program};
use fib::fib;
use member::{join, profile};
use watchdog::Watchdog;

const ANSWER: &str = "the result is right";

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("comity-tables-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a valid table without a program in it. Returns its path and its bytes.
    fn table(&self, name: &str) -> (PathBuf, Vec<u8>) {
        let path = self.at(name);
        drop(join(&Location::At(path.clone())));
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets the program compute until `is_seen` is true for its process. Without `is_seen`, lets it compute until it has
/// printed a line. Then the program must have the right result and succeed. Returns what it printed.
fn computes(mut command: Command, what: &str, is_seen: Option<&dyn Fn(u32) -> bool>) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    match is_seen {
        Some(is_seen) => {
            while !is_seen(child.id()) && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        None => _ = stderr.read_line(&mut said).unwrap(),
    }
    drop(child.stdin.take());
    stderr.read_to_string(&mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains(ANSWER), "{what}: {stdout}\n{said}");
    said
}

fn program(policy: &Policy, table: &Path) -> Command {
    let mut command = child::command("compute");
    command.env("COMITY_TABLE", table).env("COMITY_POLICY", policy.to_string());
    command
}

fn says_one_line(said: &str, table: &Path) {
    let ending = ". The program continues without sharing cores.\n";
    let start = format!("comity: the core table '{}' ", table.display());
    assert!(said.starts_with(&start) && said.ends_with(ending) && said.lines().count() == 1, "{said}");
}

#[test]
fn a_program_says_in_one_line_that_its_table_cannot_be_used_and_computes() {
    let watchdog = Watchdog::start("a_program_says_in_one_line_that_its_table_cannot_be_used_and_computes");
    let folder = Folder::new("refused");
    let (good, bytes) = folder.table("good");
    let write = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let (path, mut bytes) = (folder.at(name), bytes.clone());
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        path
    };
    let link = |name: &str, target: &Path| {
        symlink(target, folder.at(name)).unwrap();
        folder.at(name)
    };
    let mode = |name: &str, mode: u32| {
        fs::copy(&good, folder.at(name)).unwrap();
        fs::set_permissions(folder.at(name), Permissions::from_mode(mode)).unwrap();
        folder.at(name)
    };
    fs::create_dir(folder.at("folder")).unwrap();
    let given_away = mode("given away", 0o660);
    let fifo = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());

    let mut bad = vec![
        write("empty", &|bytes| bytes.clear()),
        write("truncated", &|bytes| bytes.truncate(5_000)),
        write("too large", &|bytes| bytes.push(1)),
        write("no table", &|bytes| bytes.fill(b'x')),
        link("link", &good),
        link("dangling", &folder.at("nowhere")),
        fifo,
        folder.at("folder"),
        PathBuf::from("/dev/null"),
        mode("world-writable", 0o666),
        folder.at("no/such/folder"),
    ];
    match chown(&given_away, Some(65534), Some(65534)) {
        Ok(()) => bad.push(given_away),
        Err(_) => println!("skipped: only root can give a file away"),
    }
    let sharing: Vec<Policy> = Policy::all().filter(Policy::shares_cores).collect();
    for (nth, table) in bad.iter().enumerate() {
        watchdog.step(table.display().to_string());
        let before = fs::metadata(table).ok().filter(|metadata| metadata.is_file()).map(|_| fs::read(table).unwrap());
        let said = computes(program(&sharing[nth % sharing.len()], table), "a bad table", None);
        says_one_line(&said, table);
        if let Some(before) = before {
            assert!(fs::read(table).unwrap() == before, "{} was changed", table.display());
        }
    }
    assert!(!folder.at("nowhere").exists() && fs::read(&good).unwrap() == bytes);
}

#[test]
fn a_program_computes_with_a_full_table_or_one_that_it_cannot_write() {
    let watchdog = Watchdog::start("a_program_computes_with_a_full_table_or_one_that_it_cannot_write");
    let folder = Folder::new("full");
    let policy = Policy::default();
    let table = folder.at("full");
    let members: Vec<Member> = (0..comity_table::SLOTS).map(|_| join(&Location::At(table.clone()))).collect();
    let said = computes(program(&policy, &table), "a full table", None);
    says_one_line(&said, &table);
    assert!(said.contains("is full: 256 programs"), "{said}");
    drop(members);

    watchdog.step("read-only");
    if !Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status().is_ok_and(|ended| ended.success()) {
        println!("skipped: mount namespaces are not permitted here");
        return;
    }
    for table in [table, folder.at("new")] {
        let program = program(&policy, &table);
        let mut command = Command::new("unshare");
        let script = r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@""#;
        command.args(["-m", "sh", "-c", script]).arg(&folder.0);
        command.arg(program.get_program()).args(program.get_args());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let said = computes(command, "a read-only table", None);
        says_one_line(&said, &table);
        assert!(said.contains("Read-only file system"), "{said}");
    }
}

#[test]
fn a_program_says_in_one_line_which_programs_of_another_build_it_cannot_share_with() {
    let watchdog = Watchdog::start("a_program_says_in_one_line_which_programs_of_another_build_it_cannot_share_with");
    let folder = Folder::new("layouts");
    for (nth, policy) in Policy::all().filter(Policy::shares_cores).enumerate() {
        watchdog.step(policy.to_string());
        let table = folder.at(&nth.to_string());
        let other = join(&Location::At(table.clone()));
        let mut bytes = fs::read(&table).unwrap();
        bytes[8] = 9;
        // The file is changed in place, so that the other program's lock stays.
        fs::OpenOptions::new().write(true).open(&table).unwrap().write_all(&bytes).unwrap();
        let said = computes(program(&policy, &table), "another layout", None);
        let start = format!("comity: the core table '{}' has layout 9 and is used by test (process ", table.display());
        assert!(said.starts_with(&start) && said.lines().count() == 1, "{said}");
        drop(other);
        assert!(folder.at(&format!("{nth}.layout-2")).exists());
    }
}

#[test]
fn a_program_shares_in_silence_where_the_table_holds_nonsense() {
    let watchdog = Watchdog::start("a_program_shares_in_silence_where_the_table_holds_nonsense");
    let folder = Folder::new("nonsense");
    for (nth, policy) in Policy::all().filter(Policy::shares_cores).enumerate() {
        watchdog.step(policy.to_string());
        let (table, mut bytes) = folder.table(&nth.to_string());
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ nth as u64;
        for byte in &mut bytes[16..] {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        if nth % 2 == 0 {
            // All cores belong to dead programs.
            for word in bytes[1024..1024 + 8 * 1024].chunks_exact_mut(8) {
                word.copy_from_slice(&(5u64 << 16 | 3).to_le_bytes());
            }
        }
        fs::write(&table, bytes).unwrap();
        let takes_part = |pid| {
            let snapshot = Snapshot::take(&Location::At(table.clone())).unwrap().unwrap();
            snapshot.programs.iter().any(|program| program.pid == pid && program.name.starts_with("tables"))
        };
        assert_eq!(computes(program(&policy, &table), "nonsense", Some(&takes_part)), "");
    }
}

#[test]
fn a_program_whose_table_is_removed_is_in_the_next_one() {
    let watchdog = Watchdog::start("a_program_whose_table_is_removed_is_in_the_next_one");
    let folder = Folder::new("removed");
    for (nth, policy) in Policy::all().filter(Policy::shares_cores).enumerate() {
        watchdog.step(policy.to_string());
        let table = folder.at(&nth.to_string());
        let removals = Cell::new(0);
        let is_there = |pid| {
            let snapshot = Snapshot::take(&Location::At(table.clone())).unwrap();
            let is_there = snapshot.is_some_and(|snapshot| snapshot.programs.iter().any(|program| program.pid == pid));
            if is_there && removals.get() < 2 {
                fs::remove_file(&table).unwrap();
                removals.set(removals.get() + 1);
                return false;
            }
            is_there
        };
        assert_eq!(computes(program(&policy, &table), "a removed table", Some(&is_there)), "");
        assert_eq!(removals.get(), 2);
    }
}

/// The adopted command is this test, which is the program's parent and its own coordinator.
#[test]
fn a_program_inside_of_an_adopted_command_joins_only_after_its_release() {
    let watchdog = Watchdog::start("a_program_inside_of_an_adopted_command_joins_only_after_its_release");
    let folder = Folder::new("adopted");
    for (nth, policy) in Policy::all().filter(Policy::shares_cores).enumerate() {
        watchdog.step(policy.to_string());
        let location = Location::At(folder.at(&nth.to_string()));
        let profile = Profile { program: this_program(), policy: ADOPTED.to_owned(), ..profile() };
        let command = Member::join(&location, &profile).unwrap();
        command.stand_for(std::process::id());
        let command = Cell::new(Some(command));
        let pids = || -> Vec<u32> {
            let programs = Snapshot::take(&location).unwrap().map(|snapshot| snapshot.programs);
            programs.unwrap_or_default().into_iter().map(|program| program.pid).collect()
        };
        let joins_later = |pid| {
            if cpu_clock::of_process(pid).is_some_and(|used| used > Duration::from_millis(300)) {
                if let Some(command) = command.take() {
                    assert_eq!(pids(), [std::process::id()]);
                    drop(command);
                }
                return pids() == [pid];
            }
            false
        };
        let Location::At(table) = &location else { unreachable!("it is named") };
        assert_eq!(computes(program(&policy, table), "inside of an adopted command", Some(&joins_later)), "");
        assert!(command.take().is_none(), "it was in the table at its end");
    }
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    if child::role().is_none() {
        return;
    }
    let end = child::end();
    // Two pools, one after the other, and the global pool print the line once. A pool that ends at once does not use
    // the table.
    for _ in 0..2 {
        let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(pool.install(|| fib(18)), 2584);
        pool.shutdown();
    }
    while !end.load(Ordering::Relaxed) {
        assert_eq!(fib(18), 2584);
    }
    println!("\n{ANSWER}");
}
