//! The affinity masks of threads if an event happens while thieves pull a worker to their cores. Events: panics,
//! forks, children, stops, the ends of pools and of the program, refusals of the kernel, changes of cpusets, and a
//! single core.
//!
//! `COMITY_PULLS` is the number of events, by default 150, and `COMITY_PULLS_SEED` the seed that selects them. For
//! long runs: `COMITY_PULLS=10000 cargo test --release -p comity --test pulls -- --nocapture`.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/cpuset.rs"]
mod cpuset;
#[path = "harness/forked.rs"]
mod forked;
#[path = "harness/hogs.rs"]
mod hogs;
#[path = "harness/started.rs"]
mod started;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use comity::{Refusal, ThreadPool, ThreadPoolBuilder, WorkerCounters};
use comity_os::cpu_clock::ThreadId;
use comity_os::pidfd::Pidfd;
use comity_os::{CoreSet, affinity, census};
use comity_table::{Life, Location, Snapshot};
use cpuset::Cpuset;
use hogs::beside_hogs;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use started::{Started, Watch};
use wait::wait_until;
use watchdog::Watchdog;

/// Returns the number that an environment variable asks for.
fn asked_for(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is a whole number, not {text:?}")),
        Err(_) => default,
    }
}

/// The number of events of one test.
fn events() -> u64 {
    asked_for("COMITY_PULLS", 150)
}

/// A random number generator: SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    /// Returns the generator number `nth` of this run. The generators of one run differ.
    fn of(nth: u64) -> Random {
        let seed = asked_for("COMITY_PULLS_SEED", 1);
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ nth)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn micros(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound))
    }
}

/// Returns the cores on which the calling thread may run.
fn here() -> CoreSet {
    affinity::of(ThreadId::current())
}

fn one(core: usize) -> CoreSet {
    [core].into_iter().collect()
}

fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).policy("robinhood".parse().unwrap()).build().unwrap()
}

fn counted(pool: &ThreadPool) -> WorkerCounters {
    WorkerCounters::total(&pool.counters())
}

fn spin() {
    (0..2_000).for_each(|_| std::hint::spin_loop());
}

/// Runs a task without children until `is_over`, which the task's worker calls.
fn one_task(pool: &ThreadPool, mut is_over: impl FnMut() -> bool + Send) {
    pool.install(|| {
        while !is_over() {
            spin();
        }
    });
}

/// Lets one test at a time run, because a test needs all cores for itself and its hogs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn two_cores() -> bool {
    let enough = here().len() >= 2;
    if !enough {
        println!("skipped: this takes two cores");
    }
    enough
}

/// Prints what a program printed, and checks that the program has not failed.
fn heard(role: &str, output: &Output) {
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.contains(": "))
        .for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{role}: {}", child::stderr(output));
}

/// Plays a role in a child while the hogs of this process take its cores.
fn play(role: &str) -> Output {
    let output = beside_hogs(|| child::run(child::command(role)));
    heard(role, &output);
    output
}

#[test]
fn whatever_happens_no_mask_stays_narrow() {
    let _alone = alone();
    if two_cores() {
        play("events");
    }
}

/// Stops the program at any moment, and lets it continue.
#[test]
fn whatever_happens_to_a_program_that_is_stopped_no_mask_stays_narrow() {
    let _alone = alone();
    if !two_cores() {
        return;
    }
    let (mut random, mut stops) = (Random::of(1), 0);
    let output = beside_hogs(|| {
        let mut command = child::command("events");
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let process = Pidfd::of_child(&running).unwrap();
        let output = thread::spawn(|| running.wait_with_output().unwrap());
        while !process.has_ended_within(random.micros(30_000)) {
            if process.stop() {
                stops += 1;
                thread::sleep(random.micros(10_000));
            }
            process.go_on();
        }
        output.join().unwrap()
    });
    heard("events", &output);
    println!("stopped: {stops} times, for 10 ms at most");
}

/// Kills a program. Checks that children that have the program's mask keep it, and that the table forgets the
/// program. One case is not checked: a child that was started right before with a narrow mask keeps that mask,
/// because no thread is left to correct it.
#[test]
fn a_program_that_is_killed_leaves_behind_at_most_what_it_had_just_started() {
    let _alone = alone();
    if !two_cores() {
        return;
    }
    let watchdog = Watchdog::start("a_program_that_is_killed_leaves_behind_at_most_what_it_had_just_started");
    let (all, mut random, kills) = (here(), Random::of(2), events().div_ceil(30));
    let (mut wide, mut narrow) = (0, 0);
    beside_hogs(|| {
        for nth in 0..kills {
            watchdog.step(format!("kill {nth} of {kills}"));
            let (a, b) = killed(nth, all, random.micros(60_000));
            wide += a;
            narrow += b;
        }
    });
    println!("killed: {kills} programs, which left {wide} children with their mask, and {narrow} with a narrow one");
}

/// Kills a program some time after it has begun to start children. Returns the number of children that had the
/// program's mask before, and the number of children that do not have it.
fn killed(nth: u64, all: CoreSet, after: Duration) -> (usize, usize) {
    let table = std::env::temp_dir().join(format!("comity-pulls-{}-{nth}", std::process::id()));
    let mark = format!("COMITY_TEST_MARK={}-{nth}", std::process::id());
    let mut command = child::command("killed");
    let (name, value) = mark.split_once('=').unwrap();
    command.env("COMITY_TABLE", &table).env(name, value).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    // The children wait for the end of this input.
    let input = program.stdin.take().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.any(|line| line.ends_with("begins")), "it begins");
    thread::sleep(after);
    program.kill().unwrap();
    program.wait().unwrap();
    let with_its_mask: Vec<u32> =
        lines.filter_map(|line| line.strip_prefix("roams ").and_then(|number| number.parse().ok())).collect();
    let entry = || {
        let snapshot = Snapshot::take(&Location::At(table.clone())).unwrap()?;
        snapshot.programs.iter().find(|entry| entry.pid == program.id()).map(|entry| entry.life)
    };
    wait_until("the table forgets it", || entry().is_none_or(|life| life == Life::Dead));
    let mask = |process: &u32| affinity::of(ThreadId::from_raw(*process as i32));
    assert!(with_its_mask.iter().all(|process| mask(process) == all), "{with_its_mask:?} had the program's mask");
    // This includes the last child, which the program may not have reported.
    let left = census::processes().into_iter().filter(|process| census::has_in_environment(*process, &mark));
    let narrow = left.filter(|process| !with_its_mask.contains(process) && mask(process) != all).count();
    assert!(narrow <= 1, "it starts none before the last one has its mask");
    drop(input);
    let _ = fs::remove_file(table);
    (with_its_mask.len(), narrow)
}

/// Shows a limitation: a task that replaces its program (`exec`) ends the thief, which then cannot restore the mask
/// of the worker that it pulled.
#[test]
fn a_program_that_a_task_puts_in_the_place_of_its_own_runs() {
    let _alone = alone();
    if !two_cores() {
        return;
    }
    let (all, runs) = (here(), events().div_ceil(30));
    let mut narrow = 0;
    beside_hogs(|| {
        for nth in 0..runs {
            let output = child::run(child::command(&format!("replaces {nth}")));
            heard("replaces", &output);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let cores =
                said.lines().find_map(|line| Some(line.split_once("replaced ")?.1)).expect("the other program runs");
            narrow += u64::from(cores != all.len().to_string());
        }
    });
    println!("replaced: {runs} programs, {narrow} of which have a narrow mask for ever");
}

/// Shows a limitation. A thread binds itself right after its start, to the core to which a worker has just been
/// pulled. It then counts as a thread that has inherited the worker's mask.
#[test]
fn threads_that_bound_themselves_before_the_first_pull_stay_there() {
    let _alone = alone();
    if two_cores() {
        play("binds");
    }
}

#[test]
fn a_kernel_that_refuses_is_told_of_once() {
    let _alone = alone();
    let output = play("refused");
    let said = child::stderr(&output);
    if two_cores() {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("comity")).collect();
        assert!(matches!(lines[..], [line] if line.contains("does not let this program move its threads")), "{said}");
    }
}

#[test]
fn a_cpuset_that_changes_in_the_midst_is_followed() {
    let _alone = alone();
    if two_cores() {
        play("cpuset");
    }
}

/// Sets all masks of a program from outside, at any moment.
#[test]
fn an_administrator_wins() {
    let _alone = alone();
    if !two_cores() {
        return;
    }
    let watchdog = Watchdog::start("an_administrator_wins");
    let (all, mut random, rounds) = (here(), Random::of(3), events().div_ceil(10));
    let (mut set, mut lost) = (0, 0);
    beside_hogs(|| {
        let mut program = child::command("administered");
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (id, mut asks) = (program.id(), program.stdin.take().unwrap());
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let workers = lines.find_map(|line| Some(line.split_once("workers ")?.1.to_owned())).expect("it begins");
        let workers: Vec<ThreadId> =
            workers.split(' ').map(|number| ThreadId::from_raw(number.parse().unwrap())).collect();
        let mut look = |asks: &mut std::process::ChildStdin| {
            writeln!(asks).unwrap();
            assert!(lines.any(|line| line == "looked"), "it goes on");
        };
        for round in 0..rounds {
            watchdog.step(format!("round {round} of {rounds}"));
            thread::sleep(random.micros(20_000));
            let cores = one(random.below(all.len() as u64) as usize);
            for mask in [cores, all] {
                // A thief may overwrite a mask that was set here: it may have read the mask before, or the mask may
                // be the core to which it pulls. Then the mask is set again.
                loop {
                    let threads: Vec<ThreadId> =
                        census::threads(id).into_iter().map(|thread| ThreadId::from_raw(thread as i32)).collect();
                    threads.iter().for_each(|thread| _ = affinity::confine(*thread, mask));
                    set += 1;
                    look(&mut asks);
                    look(&mut asks);
                    if workers.iter().all(|worker| affinity::of(*worker) == mask) {
                        break;
                    }
                    // If `mask` has all cores, the difference may come from a pull that is under way.
                    if mask != all {
                        lost += 1;
                    }
                }
            }
        }
        drop(asks);
        assert!(program.wait().unwrap().success());
    });
    println!("administrator: {set} settings of all masks, {lost} of which a pull overwrote");
}

/// Limits a program to one core, by a mask and by a cpuset, as in a container.
#[test]
fn one_core_is_enough() {
    let _alone = alone();
    let all = here();
    for core in all.iter() {
        // A child inherits the mask of the thread that starts it.
        let output = beside_hogs(|| {
            thread::spawn(move || {
                assert!(affinity::confine(ThreadId::current(), one(core)));
                child::run(child::command(&format!("one core {}", all.len())))
            })
            .join()
            .unwrap()
        });
        heard("one core", &output);
    }
    play("container");
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    match role.as_str() {
        "events" => happen(&Watchdog::start("events")),
        "killed" => is_killed(),
        "binds" => binds(&Watchdog::start("binds")),
        "refused" => refused(&Watchdog::start("refused")),
        "cpuset" => cpusets(&Watchdog::start("cpuset")),
        "administered" => administered(),
        "container" => container(&Watchdog::start("container")),
        "replaced" => println!("replaced {}", here().len()),
        role => match role.rsplit_once(' ').map(|(role, number)| (role, number.parse().unwrap())) {
            Some(("replaces", nth)) => replaces(nth),
            Some(("one core", all)) => {
                let watchdog = Watchdog::start("one core");
                works_on(here(), &watchdog);
                // An administrator lets the program use all cores.
                for thread in census::threads(std::process::id()) {
                    affinity::confine(ThreadId::from_raw(thread as i32), CoreSet::ALL);
                }
                assert_eq!(here().len() as u64, all);
                works_on(here(), &watchdog);
            }
            _ => panic!("'{role}' is no role"),
        },
    }
}

/// The events that can happen, and their counts.
struct Events {
    watch: Watch,
    all: CoreSet,
    /// The number of events that began while the mask of the worker was narrow.
    narrow: AtomicU64,
    done: AtomicU64,
    forks: AtomicU64,
    /// The number of forked children that had the program's mask from their start.
    right_at_once: AtomicU64,
}

/// The payload of a panic that is caught.
struct Planned;

impl Events {
    /// Works for a random time, or until the worker's mask is narrow if that is earlier. Then causes one event.
    fn one(&self, random: &mut Random) {
        let rounds = random.below(200);
        let narrow = (0..rounds).any(|_| {
            spin();
            here() != self.all
        });
        self.narrow.fetch_add(u64::from(narrow), Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Relaxed);
        match random.below(9) {
            0 => resume_unwind(Box::new(Planned)),
            1 | 2 => {
                self.forks.fetch_add(1, Ordering::Relaxed);
                let right = forked::in_a_fork(|| here() == self.all);
                self.right_at_once.fetch_add(u64::from(right), Ordering::Relaxed);
            }
            3 => self.watch.over(Started::fork()),
            4 => self.watch.over(Started::spawn()),
            5 => self.watch.over(Started::exec()),
            6 => self.watch.over(Started::tree()),
            7 => self.watch.over(Started::thread()),
            _ => self.watch.over(Started::pool(pool)),
        }
    }
}

/// Causes events in tasks of pools that begin and end.
fn happen(watchdog: &Watchdog) {
    let (all, wanted, mut random) = (here(), events(), Random::of(0));
    let events = Arc::new(Events {
        watch: Watch::start(all),
        all,
        narrow: AtomicU64::new(0),
        done: AtomicU64::new(0),
        forks: AtomicU64::new(0),
        right_at_once: AtomicU64::new(0),
    });
    let done = || events.done.load(Ordering::Relaxed);
    let (mut pools, mut panics, mut accelerations) = (0, 0, 0);
    while done() < wanted {
        watchdog.step(format!("pool {pools}, event {} of {wanted}", done()));
        pools += 1;
        let pool = pool();
        let threads = pool.broadcast(|_| ThreadId::current());
        for _ in 0..random.below(4) {
            let (some, mut own) = (random.below(20), Random(random.below(u64::MAX)));
            let task = || pool.install(|| (0..some).for_each(|_| events.one(&mut own)));
            match catch_unwind(AssertUnwindSafe(task)) {
                Ok(()) => {}
                Err(payload) if payload.is::<Planned>() => panics += 1,
                Err(payload) => resume_unwind(payload),
            }
        }
        let counters = counted(&pool);
        accelerations += counters.accelerations;
        assert_eq!(counters.refusals.of(Refusal::Kernel), 0);
        match random.below(3) {
            0 => {
                for thread in threads {
                    wait_until("a worker has the program's mask", || affinity::of(thread) == all);
                }
            }
            1 => pool.shutdown(),
            _ => {
                // The pool's handle is dropped while the pool has a task.
                let (ended, events) = (Arc::new(AtomicBool::new(false)), Arc::clone(&events));
                let (ends, mut own) = (Arc::clone(&ended), Random(random.below(u64::MAX)));
                pool.spawn(move || {
                    let task = || (0..5).for_each(|_| events.one(&mut own));
                    let _ = catch_unwind(AssertUnwindSafe(task));
                    drop(events);
                    ends.store(true, Ordering::Release);
                });
                drop(pool);
                wait_until("its task ends", || ended.load(Ordering::Acquire));
            }
        }
    }
    watchdog.step("what was started has the program's mask");
    let Ok(events) = Arc::try_unwrap(events) else { panic!("a task that has ended keeps nothing") };
    let Events { watch, narrow, done, forks, right_at_once, .. } = events;
    let tallies = watch.finish();
    watchdog.step("all threads have it");
    let threads = || census::threads(std::process::id()).into_iter().map(|thread| ThreadId::from_raw(thread as i32));
    wait_until("no thread is narrow", || threads().map(affinity::of).all(|found| found == all || found.is_empty()));
    println!(
        "events: {}, {} of which in a narrow moment; {pools} pools, {panics} panics, {accelerations} accelerations",
        done.into_inner(),
        narrow.into_inner(),
    );
    println!("forked: {}, {} of which are right at once", forks.into_inner(), right_at_once.into_inner());
    for (kind, tally) in tallies {
        println!("started: {kind} {} times, {} narrow, {:.1?} at most", tally.started, tally.narrow, tally.longest);
    }
}

/// Plays a program in the table. Its busy worker starts a child each time the previous child has the program's mask.
fn is_killed() {
    let all = here();
    let shares = ThreadPoolBuilder::new().num_threads(2).policy("comity".parse().unwrap()).build().unwrap();
    let entry = || {
        let snapshot = Snapshot::take(&Location::from_environment().unwrap()).unwrap();
        snapshot.is_some_and(|snapshot| snapshot.programs.iter().any(|entry| entry.pid == std::process::id()))
    };
    wait_until("it is in the table", || {
        shares.install(spin);
        entry()
    });
    let pool = pool();
    one_task(&pool, || counted(&pool).accelerations > 0);
    println!("begins");
    // The children end with their standard input, which the test that kills this program holds.
    let mut command = Command::new("cat");
    command.stdin(Stdio::inherit()).stdout(Stdio::null());
    let mut last = command.spawn().unwrap().id();
    one_task(&pool, || {
        if affinity::of(ThreadId::from_raw(last as i32)) == all {
            println!("roams {last}");
            last = command.spawn().unwrap().id();
        }
        false
    });
}

/// Starts a thread that binds itself at once and runs until it is told to end. It then returns true if it is still
/// bound.
fn bound_thread(core: usize) -> (mpsc::Sender<()>, thread::JoinHandle<bool>) {
    let ((end, ended), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let thread = thread::spawn(move || {
        assert!(affinity::confine(ThreadId::current(), one(core)));
        tell.send(()).unwrap();
        let _ = ended.recv();
        here() == one(core)
    });
    told.recv().unwrap();
    (end, thread)
}

/// Starts threads that bind themselves, before and while a worker is pulled.
fn binds(watchdog: &Watchdog) {
    let (all, pool, rounds) = (here(), pool(), events().div_ceil(20));
    let stay = |threads: Vec<(mpsc::Sender<()>, thread::JoinHandle<bool>)>| {
        let stay = |(end, thread): (_, thread::JoinHandle<bool>)| {
            drop(end);
            thread.join().unwrap()
        };
        threads.into_iter().map(stay).filter(|stays| *stays).count()
    };
    let before: Vec<_> = all.iter().map(bound_thread).collect();
    let (mut started, mut lost) = (0, 0);
    for round in 0..rounds {
        watchdog.step(format!("round {round} of {rounds}"));
        pool.install(|| {
            let threads: Vec<_> = all.iter().chain(all.iter()).map(bound_thread).collect();
            // For the time in which the mender may change the threads' masks.
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(150) {
                spin();
            }
            let count = threads.len();
            started += count;
            lost += count - stay(threads);
        });
    }
    assert_eq!(stay(before), all.len());
    let accelerations = counted(&pool).accelerations;
    println!(
        "bound: {lost} of {started} threads that bound themselves in a task were let go; {accelerations} accelerations"
    );
}

fn replaces(nth: u64) {
    let (pool, mut random) = (pool(), Random::of(nth));
    one_task(&pool, || counted(&pool).accelerations > 0);
    let mut rounds = random.below(400);
    one_task(&pool, || {
        rounds = rounds.saturating_sub(1);
        if rounds == 0 {
            let error = child::command("replaced").exec();
            panic!("it is not replaced: {error}");
        }
        false
    });
}

/// Plays a program that may not move its threads, as with the system call filter of a container.
fn refused(watchdog: &Watchdog) {
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("a known architecture");
    let calls = [(libc::SYS_sched_setaffinity, Vec::new())].into();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, architecture).expect("a valid filter");
    let filter: BpfProgram = filter.try_into().expect("a filter that can be compiled");
    // A thread that this thread starts has the filter too.
    seccompiler::apply_filter(&filter).expect("a thread may filter its own system calls");
    let all = here();
    assert!(!affinity::confine(ThreadId::current(), all), "the filter lets it pass");
    for nth in 0..2 {
        watchdog.step(format!("pool {nth}"));
        let pool = pool();
        if all.len() > 1 {
            one_task(&pool, || counted(&pool).refusals.of(Refusal::Kernel) >= 20);
        }
        assert_eq!(pool.broadcast(|_| here()), [all; 2]);
        let WorkerCounters { accelerations, refusals, .. } = counted(&pool);
        println!("refused: {refusals:?}; {accelerations} accelerations on one core");
    }
}

/// Checks that thieves still accelerate workers on the cores of `mask` (on one core without a pull). In the end all
/// workers must have `mask`.
fn works_on(mask: CoreSet, watchdog: &Watchdog) {
    watchdog.step(format!("on {} cores", mask.len()));
    let pool = pool();
    one_task(&pool, || counted(&pool).accelerations >= 5);
    wait_until("the workers have the program's mask", || pool.broadcast(|_| here()) == [mask; 2]);
    assert_eq!(counted(&pool).refusals.of(Refusal::Kernel), 0);
}

fn cpusets(watchdog: &Watchdog) {
    let all = here();
    let (pool, mut random) = (pool(), Random::of(4));
    let Some(cpuset) = Cpuset::new(all) else {
        println!("skipped: no cpuset can be made here");
        return;
    };
    let (ends, changes) = (AtomicBool::new(false), events().div_ceil(3));
    thread::scope(|scope| {
        scope.spawn(|| one_task(&pool, || ends.load(Ordering::Relaxed)));
        for change in 0..changes {
            watchdog.step(format!("change {change} of {changes}"));
            thread::sleep(random.micros(8_000));
            cpuset.set(one(random.below(all.len() as u64) as usize)).unwrap();
            thread::sleep(random.micros(2_000));
            cpuset.set(all).unwrap();
        }
        // Pulls may happen at any time, but in the end no worker has a narrow mask.
        watchdog.step("the last change");
        ends.store(true, Ordering::Relaxed);
    });
    wait_until("the workers roam", || pool.broadcast(|_| here()) == [all; 2]);
    let WorkerCounters { accelerations, refusals, .. } = counted(&pool);
    println!("cpuset: {changes} changes, {accelerations} accelerations, {refusals:?}");
    watchdog.step("pulled again");
    one_task(&pool, || counted(&pool).accelerations >= accelerations + 5);
    wait_until("the workers roam again", || pool.broadcast(|_| here()) == [all; 2]);
}

fn container(watchdog: &Watchdog) {
    let all = here();
    for core in all.iter() {
        let Some(cpuset) = Cpuset::new(one(core)) else {
            println!("skipped: no cpuset can be made here");
            return;
        };
        assert_eq!(here(), one(core));
        works_on(one(core), watchdog);
        drop(cpuset);
        works_on(all, watchdog);
    }
}

/// Plays a program whose masks another process sets. It answers a line on standard input once all pulls that were
/// under way have ended.
fn administered() {
    let (pool, looks) = (pool(), AtomicU64::new(0));
    let workers = pool.broadcast(|_| ThreadId::current().as_raw().to_string());
    println!("workers {}", workers.join(" "));
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            one_task(&pool, || {
                let WorkerCounters { accelerations, refusals, .. } = counted(&pool);
                let sum: u64 = Refusal::ALL.iter().copied().map(|refusal| refusals.of(refusal)).sum();
                looks.store(accelerations + sum, Ordering::Relaxed);
                ends.load(Ordering::Relaxed)
            });
        });
        for line in std::io::stdin().lines() {
            line.unwrap();
            // After three more looks of the thief, a pull that was under way is over, and so is the pull after it.
            let before = looks.load(Ordering::Relaxed);
            wait_until("the thief goes on", || looks.load(Ordering::Relaxed) >= before + 3);
            println!("looked");
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(counted(&pool).refusals.of(Refusal::Kernel), 0);
}
