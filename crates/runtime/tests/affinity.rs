//! The affinity of a program's threads while another program runs. Tasks, and threads and processes that tasks start,
//! run on the cores that the program wants. A mask that the program or an administrator sets takes precedence over
//! Comity's.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/cpuset.rs"]
mod cpuset;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/forked.rs"]
mod forked;
#[path = "harness/neighbour.rs"]
mod neighbour;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use comity::{ThreadPool, ThreadPoolBuilder};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity};
use comity_table::{Life, Location, Snapshot};
use cpuset::Cpuset;
use fib::fib;
use neighbour::Neighbour;
use wait::wait_until;
use watchdog::Watchdog;

/// The policies that share cores.
const POLICIES: [&str; 4] = ["comity", "dws", "a-steal", "equipartition"];

/// Returns the cores on which the calling thread may run.
fn here() -> CoreSet {
    affinity::of(ThreadId::current())
}

fn pin(cores: CoreSet) {
    assert!(affinity::confine(ThreadId::current(), cores));
}

fn two_cores() -> bool {
    let enough = comity_os::cores::usable().get() >= 2;
    if !enough {
        println!("skipped: this takes two cores");
    }
    enough
}

/// A table that no other test uses, in a separate folder.
struct Table(PathBuf);

impl Table {
    fn new(name: &str) -> Table {
        let folder = std::env::temp_dir().join(format!("comity-affinity-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        Table(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.join("table")
    }

    fn command(&self, role: &str, policy: &str) -> Command {
        let mut command = child::command(role);
        command.env("COMITY_TABLE", self.path()).env("COMITY_POLICY", policy).current_dir(&self.0);
        command.env("COMITY_TEST_ALL", here().len().to_string());
        command
    }

    fn play(&self, role: &str, policy: &str) {
        let output = child::run(self.command(role, policy));
        assert!(output.status.success(), "{role} under {policy}: {}", child::stderr(&output));
        for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("skipped")) {
            println!("{line}");
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_confined_tasks_start_is_let_go() {
    if two_cores() {
        for policy in POLICIES {
            Table::new(&format!("tasks-{policy}")).play("tasks", policy);
        }
    }
}

#[test]
fn a_mask_that_the_program_sets_later_stays_and_the_table_hears_of_it() {
    if two_cores() {
        for policy in POLICIES {
            Table::new(&format!("pin-{policy}")).play("pin", policy);
        }
    }
}

#[test]
fn a_thread_that_waits_beside_the_workers_has_its_own_mask_again() {
    if two_cores() {
        Table::new("caller").play("caller", "comity");
    }
}

#[test]
fn a_cpuset_that_changes_is_followed_and_is_no_wish() {
    if two_cores() {
        // Under `comity`, threads are moved to cores but not bound. Under `dws`, they are bound.
        for policy in ["comity", "dws"] {
            Table::new(&format!("cpuset-{policy}")).play("cpuset", policy);
        }
    }
}

#[test]
fn children_have_no_lock_no_descriptor_and_the_programs_own_mask() {
    if !two_cores() {
        return;
    }
    let watchdog = Watchdog::start("children_have_no_lock_no_descriptor_and_the_programs_own_mask");
    for policy in ["comity", "dws"] {
        for way in ["fork", "exec", "spawn", "daemon"] {
            for moment in ["task", "blocked", "between"] {
                watchdog.step(format!("{way}, {moment}, {policy}"));
                a_child_is_free(way, moment, policy);
            }
        }
    }
}

/// Checks a program that ends before a child that it has started. The child reports its state. The table forgets the
/// program although the child still runs.
fn a_child_is_free(way: &str, moment: &str, policy: &str) {
    let table = Table::new(&format!("child-{way}-{moment}-{policy}"));
    let (parent, child) = UnixStream::pair().unwrap();
    let mut program = table.command(&format!("{way} {moment}"), policy);
    program.stdin(Stdio::from(OwnedFd::from(child)));
    let mut running = program.stdout(Stdio::null()).spawn().unwrap();
    let (id, mut said) = (running.id(), String::new());
    // Closes this copy of the socket's end, so that only the child has the end.
    drop(program);
    BufReader::new(&parent).read_line(&mut said).unwrap();
    let expected = format!("all {} descriptors 0 right true\n", here().len());
    assert_eq!(said, expected, "{way}, {moment}, {policy}");
    // The program ended after its child had begun, without dropping any value.
    running.wait().unwrap();
    let entry = || {
        let snapshot = Snapshot::take(&Location::At(table.path())).unwrap()?;
        snapshot.programs.iter().find(|program| program.pid == id).map(|program| program.life)
    };
    wait_until("no process keeps the dead program's lock", || entry().is_none_or(|life| life == Life::Dead));
    // The child runs until this line reaches it.
    (&parent).write_all(b"end\n").unwrap();
    let mut rest = String::new();
    BufReader::new(&parent).read_line(&mut rest).unwrap();
    assert_eq!(rest, "ends\n", "{way}, {moment}, {policy}");
}

/// The file that a child leaves in its folder.
const REPORTED: &str = "reported";

/// Plays a child: reports its state on the socket that is its standard input, and waits until it is told to end.
fn report(works: impl FnOnce() -> bool) {
    let table = std::env::var_os("COMITY_TABLE").map(|path| fs::canonicalize(path).unwrap()).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let descriptors = open.filter(|path| *path == table).count();
    // The child's own pool must get a place in the table.
    let right = works();
    let mut socket = stdin();
    fs::write(REPORTED, "").unwrap();
    let line = format!("all {} descriptors {descriptors} right {right}\n", here().len());
    socket.write_all(line.as_bytes()).unwrap();
    let mut answer = [0; 4];
    let _ = socket.read_exact(&mut answer);
    let _ = socket.write_all(b"ends\n");
}

/// Returns standard input, which is a socket.
fn stdin() -> fs::File {
    fs::File::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap())
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    match role.as_str() {
        // These roles have a watchdog, because only the child knows its progress.
        "tasks" => tasks(&Watchdog::start("tasks")),
        "pin" => pins(&Watchdog::start("pin")),
        "caller" => calls(&Watchdog::start("caller")),
        "cpuset" => cpusets(&Watchdog::start("cpuset")),
        "report" => {
            // The parent corrects the mask of a child of `posix_spawn` a moment later.
            wait_until("it roams", || here().len().to_string() == std::env::var("COMITY_TEST_ALL").unwrap());
            report(|| true);
        }
        role => {
            let (way, moment) = role.split_once(' ').expect("a way to start a child, and when");
            start_a_child(way, moment);
        }
    }
}

/// Computes while a neighbour requests and releases cores. So workers retire, are woken again, and lose their cores
/// in the middle of tasks. Workers that are confined at that time start threads and processes.
fn tasks(watchdog: &Watchdog) {
    let all = here();
    let last: CoreSet = all.iter().last().into_iter().collect();
    let (end_of_bound, ended) = mpsc::channel::<()>();
    let bound = std::thread::spawn(move || {
        pin(last);
        let _ = ended.recv();
        here()
    });
    // The kernel records start times in hundredths of a second. The pause makes the start times of earlier and later
    // threads differ.
    std::thread::sleep(Duration::from_millis(50));
    let neighbour = Neighbour::start();
    let pool = ThreadPoolBuilder::new().num_threads(2 * all.len()).build().unwrap();
    let narrow = AtomicU64::new(0);
    let started = Mutex::new(Vec::new());
    let see = || {
        if here() != all {
            narrow.fetch_add(1, Ordering::Relaxed);
            let mut started = started.lock().unwrap();
            if started.len() < 20 {
                let (tell, told) = mpsc::channel();
                let (end, ended) = mpsc::channel::<()>();
                let thread = std::thread::spawn(move || {
                    tell.send((ThreadId::current(), here())).unwrap();
                    let _ = ended.recv();
                });
                let (id, mask) = told.recv().unwrap();
                let child = Command::new("sleep").arg("60").spawn().unwrap();
                started.push((id, mask, thread, end, child));
            }
        }
        fib(12);
    };
    let inherited = || started.lock().unwrap().iter().filter(|(_, mask, ..)| *mask != all).count();
    let mut turns = 0u32;
    // The first limit is high. If that takes more than 100 turns, two are enough: while other programs also use the
    // cores, the other workers often do all tasks before a confined worker gets processor time.
    while inherited() < if turns < 100 { 10 } else { 2 } {
        watchdog.step(format!("turn {turns}"));
        for _ in 0..200 {
            pool.scope(|scope| (0..6).for_each(|_| scope.spawn(|_| see())));
        }
        turns += 1;
        neighbour.desire(if turns.is_multiple_of(2) { all.len() as u32 } else { 0 });
        assert!(turns < 2_000, "{} tasks of {turns} turns were confined", narrow.load(Ordering::Relaxed));
    }
    for (id, _, thread, end, mut child) in started.into_inner().unwrap() {
        watchdog.step("what was started is let go");
        work_until(&pool, "the thread is let go", || affinity::of(id) == all);
        work_until(&pool, "the process is let go", || affinity::of(ThreadId::from_raw(child.id() as i32)) == all);
        drop(end);
        thread.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    drop(end_of_bound);
    assert_eq!(bound.join().unwrap(), last, "one that had bound itself before stays there");
}

/// Returns the cores that this program may use according to the table.
fn in_the_table() -> Option<CoreSet> {
    let snapshot = Snapshot::take(&Location::from_environment().unwrap()).unwrap()?;
    let own = snapshot.programs.iter().find(|program| program.pid == std::process::id() && program.program != 1)?;
    Some(own.may_use)
}

/// Computes until `condition` is true.
fn work_until(pool: &ThreadPool, sentence: &str, condition: impl Fn() -> bool) {
    wait_until(sentence, || {
        assert_eq!(pool.install(|| fib(18)), 2584);
        condition()
    });
}

fn shared_pool() -> (Neighbour, ThreadPool) {
    let neighbour = Neighbour::start();
    let pool = ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    work_until(&pool, "the program is in the table", || in_the_table() == Some(here()));
    // Long enough for several quanta together with the neighbour.
    (0..50).for_each(|_| assert_eq!(pool.install(|| fib(22)), 17_711));
    (neighbour, pool)
}

fn pins(watchdog: &Watchdog) {
    let all = here();
    let (neighbour, pool) = shared_pool();
    let last: CoreSet = all.iter().last().into_iter().collect();
    // The threads must not be confined now: if Comity has just given a thread the same mask, the mask does not count
    // as the program's wish.
    neighbour.desire(0);
    work_until(&pool, "alone, all threads roam", || pool.broadcast(|_| here()) == [all; 4]);
    pool.broadcast(|_| pin(last));
    work_until(&pool, "the table hears of it", || in_the_table() == Some(last));
    for turn in 0..200 {
        watchdog.step(format!("turn {turn}"));
        neighbour.desire(if turn % 20 < 10 { all.len() as u32 } else { 0 });
        let elsewhere = AtomicU64::new(0);
        let see = || _ = elsewhere.fetch_add(u64::from(here() != last), Ordering::Relaxed);
        pool.scope(|scope| (0..4).for_each(|_| scope.spawn(|_| (see(), assert_eq!(fib(15), 610)).0)));
        assert_eq!(elsewhere.into_inner(), 0, "in turn {turn} so many tasks were where the program had not put them");
    }
    assert_eq!(pool.broadcast(|_| here()), [last; 4]);
    pool.broadcast(|_| pin(all));
    work_until(&pool, "the table hears that it roams", || in_the_table() == Some(all));
}

/// Calls the pool from a thread that is not a worker, on a core that the neighbour may hold.
fn calls(watchdog: &Watchdog) {
    let all = here();
    let (_neighbour, pool) = shared_pool();
    let me = ThreadId::current();
    let (mut free, mut bound) = (0, 0);
    for turn in 0.. {
        watchdog.step(format!("turn {turn}: {free} times it was narrow and free before, and {bound} times bound"));
        for core in all.iter() {
            let one: CoreSet = [core].into_iter().collect();
            pin(one);
            // The program's wish is either all cores, or this core.
            let own = if turn % 2 == 0 { all } else { one };
            pin(own);
            let seen = pool.install(|| (fib(20), affinity::of(me)).1);
            assert_eq!(here(), own, "as it was before it waited");
            match turn % 2 {
                0 => free += u32::from(seen != own),
                _ => bound += u32::from(seen != own),
            }
        }
        if free >= 20 && turn >= 40 {
            break;
        }
    }
    assert_eq!(bound, 0, "a thread that was bound to one core stays there");
}

fn cpusets(watchdog: &Watchdog) {
    let all = here();
    let (neighbour, pool) = shared_pool();
    let Some(cpuset) = Cpuset::new(all) else {
        println!("skipped: no cpuset can be made here");
        return;
    };
    // Each core comes twice. In the second round, no thread still has the state from the first round.
    for core in all.iter().chain(all.iter()) {
        watchdog.step(format!("core {core}"));
        let one: CoreSet = [core].into_iter().collect();
        cpuset.set(one).unwrap();
        work_until(&pool, "the table hears of the smaller one", || in_the_table() == Some(one));
        assert_eq!(pool.broadcast(|_| here()), [one; 4]);
        cpuset.set(all).unwrap();
        work_until(&pool, "the table hears of the larger one", || in_the_table() == Some(all));
        neighbour.desire(0);
        work_until(&pool, "alone, the threads run on all of it", || {
            let masks = pool.broadcast(|_| here());
            masks == [all; 4]
        });
        neighbour.desire(all.len() as u32);
    }
}

/// Starts a child in that way at that moment, while a neighbour runs, and ends the program at once.
fn start_a_child(way: &str, moment: &str) {
    let (_neighbour, pool) = shared_pool();
    let confines = std::env::var("COMITY_POLICY").is_ok_and(|policy| policy == "dws");
    let start = || match way {
        "fork" => _ = forked::leave_a_fork(|| report(|| fib(15) == 610)),
        "daemon" => {
            forked::become_a_daemon();
            report(|| fib(15) == 610);
            // The program ends although this task has not.
            forked::end_at_once();
        }
        "exec" => {
            // The standard library calls `fork` for a command that has a closure to run before the `exec`.
            let mut command = again();
            let command = forked::with_a_fork(&mut command);
            drop(command.spawn().unwrap());
        }
        "spawn" => {
            drop(again().spawn().unwrap());
            // The program corrects the masks of all threads of the child.
            wait_until("the child has reported", || Path::new(REPORTED).exists());
        }
        other => panic!("no way {other}"),
    };
    // If the policy confines threads, waits until this thread is confined.
    let wait_for_it = || {
        while confines && here().len() > 1 {
            assert_eq!(fib(18), 2584);
        }
    };
    match moment {
        "task" => pool.install(|| {
            wait_for_it();
            start();
        }),
        "blocked" => pool.install(|| {
            wait_for_it();
            std::thread::sleep(Duration::from_millis(30));
            start();
        }),
        "between" => {
            let ends = AtomicBool::new(false);
            pool.in_place_scope(|scope| {
                scope.spawn(|_| {
                    while !ends.load(Ordering::Relaxed) {
                        assert_eq!(fib(18), 2584);
                    }
                });
                start();
                ends.store(true, Ordering::Relaxed);
            });
        }
        other => panic!("no moment {other}"),
    }
    forked::end_at_once();
}

/// Returns a command that runs this test program again, as a child that reports.
fn again() -> Command {
    let mut command = child::command("report");
    command.stdin(Stdio::inherit()).stdout(Stdio::null());
    command
}
