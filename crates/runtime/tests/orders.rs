//! Settings of a running program, changed from outside and from inside: its weight, its number of cores, and pauses.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use comity::{ActiveThreadsError, Policy, ThreadPool, ThreadPoolBuilder};
use comity_policy::Sharing;
use comity_table::{Location, Program, Request, Requests, Snapshot, request};
use fib::fib;
use wait::wait_until;
use watchdog::Watchdog;

const HOUR: Duration = Duration::from_secs(3600);

/// Plays a role in a separate process with a separate table.
fn play(role: &str, settings: &[(&str, &str)]) {
    let path: PathBuf = std::env::temp_dir().join(format!("comity-orders-{role}-{}", std::process::id()));
    let mut command = child::command(role);
    command.env("COMITY_TABLE", &path).env_remove("COMITY_WEIGHT").env_remove("COMITY_CORES");
    command.envs(settings.iter().copied());
    let output = child::run(command);
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{role}: {}\n{}", String::from_utf8_lossy(&output.stdout), child::stderr(&output));
}

#[test]
fn a_program_rests_while_it_is_asked_to_and_loses_no_task() {
    play("rest", &[]);
}

#[test]
fn a_program_with_nothing_to_do_is_closed_before_it_has() {
    play("rest without work", &[]);
}

#[test]
fn a_pool_that_ends_while_its_program_rests_ends() {
    play("end", &[]);
}

#[test]
fn a_program_counts_as_it_is_asked_to_and_then_as_it_says() {
    play("weigh", &[("COMITY_WEIGHT", "250")]);
}

#[test]
fn the_weight_of_a_program_follows_its_nice_value() {
    play("nice", &[]);
}

#[test]
fn asked_and_told_at_random_ten_thousand_times_a_pool_loses_no_task() {
    play("resize", &[]);
}

#[test]
fn a_variable_says_how_many_cores_a_program_uses() {
    play("capped", &[("COMITY_CORES", "1")]);
}

#[test]
fn no_more_workers_are_awake_than_the_program_has_told_the_pool() {
    for table in [true, false] {
        play("active", if table { &[] } else { &[("COMITY_TABLE", "off")] });
    }
}

// The roles of the children.

fn location() -> Location {
    Location::from_environment().unwrap()
}

/// Returns this process's entry in the table.
fn own() -> Option<Program> {
    let programs = Snapshot::take(&location()).unwrap()?.programs;
    programs.into_iter().find(|program| program.pid == std::process::id() && program.requests.is_some())
}

/// Waits until this process has an entry in the table, and `stands` is true for the entry.
fn wait_until_own(what: &str, stands: impl Fn(&Program) -> bool) {
    wait_until(what, || own().is_some_and(|own| stands(&own)));
}

fn ask(asked: &[Request]) {
    wait_until_own("the program is in the table", |_| true);
    request(&location(), &own().unwrap(), asked).unwrap();
}

fn policies_with_coordinator() -> impl Iterator<Item = Policy> {
    Policy::all().filter(Policy::shares_cores)
}

/// Pauses the program and waits until its pools are closed, and no worker is in the middle of a task.
fn ask_to_rest() {
    static MARK: AtomicU32 = AtomicU32::new(1000);
    let mark = MARK.fetch_add(1, SeqCst);
    ask(&[Request::Pause(HOUR), Request::Weight(Some(mark))]);
    wait_until_own("it has closed its pools", |own| own.weight == mark);
    wait_until_own("no worker is in the middle of a task", |own| own.awake == 0);
}

/// A pool, and the number of tasks that it has done.
struct Subject {
    pool: ThreadPool,
    done: Arc<AtomicU64>,
    given: u64,
}

impl Subject {
    fn new(policy: Policy) -> Subject {
        let pool = ThreadPoolBuilder::new().num_threads(4).policy(policy).build().unwrap();
        Subject { pool, done: Arc::default(), given: 0 }
    }

    /// Gives the pool two tasks from outside: one forks, and one spawns a further task.
    fn give(&mut self) {
        for spawns in [false, true] {
            let done = Arc::clone(&self.done);
            self.given += 1 + u64::from(spawns);
            self.pool.spawn(move || {
                assert_eq!(fib(8), 21);
                if spawns {
                    let done = Arc::clone(&done);
                    comity::spawn(move || _ = done.fetch_add(1, SeqCst));
                }
                done.fetch_add(1, SeqCst);
            });
        }
    }

    fn give_until_it_takes_part(&mut self) {
        wait_until("it takes part", || {
            self.give();
            own().is_some()
        });
    }

    fn give_to_all(&mut self) {
        let done = Arc::clone(&self.done);
        self.given += 4;
        self.pool.spawn_broadcast(move |_| _ = done.fetch_add(1, SeqCst));
    }

    fn all_done(&self) -> bool {
        self.done.load(SeqCst) == self.given
    }

    #[track_caller]
    fn does_all(&self, what: &str) {
        wait_until(what, || self.all_done());
    }

    /// Pauses the program, and checks that it begins no task that it gets during the pause.
    #[track_caller]
    fn rests(&mut self) {
        ask_to_rest();
        let before = self.done.load(SeqCst);
        for nth in 0..20 {
            self.give();
            if nth % 5 == 0 {
                self.give_to_all();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(self.done.load(SeqCst), before, "a task began");
    }
}

/// Sets the flag when this is dropped.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Calls `action` while the pool runs one task, which forks repeatedly. `action` gets the number of these
/// repetitions.
fn while_it_computes(pool: &ThreadPool, action: impl FnOnce(&AtomicU64)) {
    let (end, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pool.install(|| {
                while !end.load(SeqCst) {
                    assert_eq!(fib(14), 377);
                    turns.fetch_add(1, SeqCst);
                }
            });
        });
        // The flag is also set after a panic. Otherwise the scope would wait for the task.
        let _end = OnDrop(&end);
        action(&turns);
    });
}

/// Calls `action` while a pool of `workers` workers computes, under the default policy.
fn while_a_pool_computes(workers: usize, action: impl FnOnce()) {
    let pool = ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    while_it_computes(&pool, |_| action());
    pool.shutdown();
}

/// Pauses a program under every policy that shares cores: while it computes, while it waits for tasks from outside,
/// and with a pause that expires.
fn rest() {
    let watchdog = Watchdog::start("rest");
    for policy in policies_with_coordinator() {
        watchdog.step(format!("{policy}"));
        let mut subject = Subject::new(policy);
        while_it_computes(&subject.pool, |turns| {
            for pause in 0..3 {
                let before = turns.load(SeqCst);
                wait_until("it computes", || turns.load(SeqCst) > before);
                if pause == 2 {
                    ask(&[Request::Pause(Duration::from_millis(300))]);
                } else {
                    ask_to_rest();
                    let before = turns.load(SeqCst);
                    std::thread::sleep(Duration::from_millis(30));
                    // The published number of awake workers may be a look old. A worker that woke since then rests where
                    // its task forks next. If the task was after its last fork, it ends its turn first.
                    let further = turns.load(SeqCst) - before;
                    assert!(further <= 1, "{policy}: {further} more turns while it rests");
                    let held = own().unwrap().held;
                    assert!(held.is_empty(), "{policy}: it holds {held:?}");
                    ask(&[Request::Resume]);
                }
                let before = turns.load(SeqCst);
                wait_until("it goes on", || turns.load(SeqCst) > before);
            }
        });
        watchdog.step(format!("{policy}, tasks from outside"));
        for _ in 0..3 {
            subject.give();
            subject.rests();
            ask(&[Request::Resume]);
            subject.does_all("all is done after the rest");
        }
        subject.pool.shutdown();
    }
}

/// Pauses a program without work, whose coordinator sleeps.
fn rest_without_work() {
    let watchdog = Watchdog::start("rest without work");
    for policy in policies_with_coordinator() {
        watchdog.step(format!("{policy}"));
        let mut subject = Subject::new(policy);
        let busy = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&busy);
        subject.pool.spawn(move || {
            while goes_on.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        wait_until_own("it takes part", |_| true);
        busy.store(false, SeqCst);
        wait_until_own("nothing is left to do", |own| own.awake == 0 && own.desire == 0);
        std::thread::sleep(Duration::from_millis(50));
        subject.rests();
        ask(&[Request::Pause(Duration::from_millis(50))]);
        subject.does_all("the lease runs out by itself");
        ask(&[Request::Weight(None)]);
        wait_until_own("it counts as it says", |own| own.weight == 100);
        subject.pool.shutdown();
    }
}

fn end() {
    let watchdog = Watchdog::start("end");
    for policy in policies_with_coordinator() {
        watchdog.step(format!("{policy}"));
        let mut subject = Subject::new(policy);
        subject.give();
        subject.does_all("it begins");
        subject.give();
        subject.give_until_it_takes_part();
        subject.rests();
        // Spawned tasks keep the pool running: it ends after the pause.
        let (done, given) = (Arc::clone(&subject.done), subject.given);
        drop(subject);
        ask(&[Request::Resume]);
        wait_until("all was done", || done.load(SeqCst) == given);
        // A pool without tasks ends at once, and the next pool is not paused.
        let mut subject = Subject::new(policy);
        subject.give_until_it_takes_part();
        subject.does_all("all is done");
        ask_to_rest();
        subject.pool.shutdown();
        let mut next = Subject::new(policy);
        next.give();
        next.does_all("the next pool");
        next.pool.shutdown();
    }
}

fn weigh() {
    while_a_pool_computes(2, || {
        let weighs = |weight| wait_until_own("it counts so much", |own| own.weight == weight);
        weighs(250);
        ask(&[Request::Weight(Some(1000)), Request::Cores(Some(1))]);
        weighs(1000);
        wait_until_own("it desires no more than it may", |own| own.desire <= 1 && own.held.len() <= 1);
        assert_eq!(own().unwrap().requests, Some(Requests { weight: Some(1000), cores: Some(1), paused_until: None }));
        ask(&[Request::Weight(None), Request::Cores(None)]);
        weighs(250);
    });
}

fn follow_nice() {
    while_a_pool_computes(2, || {
        wait_until_own("the program is in the table", |_| true);
        let before = own().unwrap().weight;
        let process = std::process::id().to_string();
        let renice = std::process::Command::new("renice").args(["-n", "19", "-p", &process]).output().unwrap();
        assert!(renice.status.success(), "{renice:?}");
        // A process that already has the nice value 19 has the lowest weight, 1.
        wait_until_own("it counts less", |own| own.weight < before || before == 1);
    });
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Changes a program's settings at random. `COMITY_SEED` is the seed.
fn resize() {
    let watchdog = Watchdog::start("resize");
    let seed = std::env::var("COMITY_SEED").map_or(1, |text| text.parse().unwrap());
    let mut random = Random(seed);
    let policies: Vec<Policy> = policies_with_coordinator().collect();
    let times = 10_000 / policies.len() as u64 + 1;
    for policy in policies {
        let mut subject = Subject::new(policy);
        while_it_computes(&subject.pool, |_| {
            wait_until_own("it takes part", |_| true);
            let mut program = own().unwrap();
            let mut given = 0;
            let done = Arc::new(AtomicU64::new(0));
            for nth in 0..times {
                if nth % 100 == 0 {
                    watchdog.step(format!("{policy}, {nth} of {times}, seed {seed}"));
                }
                let asked = match random.below(6) {
                    0 => Request::Weight(Some(1 + random.below(1000) as u32)),
                    1 => Request::Cores(Some(1 + random.below(4) as u32)),
                    2 => Request::Cores(None),
                    3 => Request::Pause(Duration::from_micros(random.below(5_000))),
                    4 => Request::Resume,
                    _ => {
                        subject.pool.set_active_threads(1 + random.below(4) as usize).unwrap();
                        Request::Weight(None)
                    }
                };
                if request(&location(), &program, &[asked]).is_err() {
                    wait_until_own("it takes part", |_| true);
                    program = own().unwrap();
                }
                given += 1;
                let done = Arc::clone(&done);
                subject.pool.spawn(move || _ = done.fetch_add(fib(5) / 5, SeqCst));
                if random.below(4) == 0 {
                    std::thread::sleep(Duration::from_micros(random.below(3_000)));
                }
            }
            watchdog.step(format!("{policy}: the rest"));
            // With a lower limit, the task that lasts would keep the only worker that may be awake.
            subject.pool.set_active_threads(4).unwrap();
            let _left = request(&location(), &program, &[Request::Resume, Request::Cores(None)]);
            wait_until("no task is lost", || done.load(SeqCst) == given);
        });
        subject.give();
        subject.does_all("it is as good as new");
        subject.pool.shutdown();
    }
}

fn capped() {
    let pool = ThreadPoolBuilder::new().build().unwrap();
    assert_eq!(pool.current_num_threads(), 1, "as many workers as cores");
    pool.shutdown();
    while_a_pool_computes(4, || {
        wait_until_own("it desires one core", |own| own.desire == 1 && own.held.len() <= 1);
        // A request from outside can override the limit.
        ask(&[Request::Cores(Some(2))]);
        let most = u32::try_from(comity_os::cores::usable().get().min(2)).unwrap();
        wait_until_own("it desires so many", |own| own.desire == most);
    });
}

/// Checks `set_active_threads`. The tasks do not fork, so that no worker returns to a frame that waits.
fn active() {
    let watchdog = Watchdog::start("active");
    for policy in policies_with_coordinator() {
        watchdog.step(format!("{policy}"));
        let pool = ThreadPoolBuilder::new().num_threads(4).policy(policy).build().unwrap();
        for bad in [0, 5] {
            let expected = ActiveThreadsError::OutOfRange { most: bad, workers: 4 };
            assert_eq!(pool.set_active_threads(bad), Err(expected));
        }
        for most in [2, 1, 3] {
            pool.set_active_threads(most).unwrap();
            // Gives workers that were awake time to fall asleep.
            pool.install(|| ());
            let (running, highest, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let settled = AtomicBool::new(false);
            pool.scope(|scope| {
                for nth in 0..400 {
                    let (running, highest, done, settled) = (&running, &highest, &done, &settled);
                    scope.spawn(move |_| {
                        let now = running.fetch_add(1, SeqCst) + 1;
                        if nth >= 100 && settled.load(SeqCst) {
                            highest.fetch_max(now, SeqCst);
                        }
                        std::thread::sleep(Duration::from_micros(100));
                        running.fetch_sub(1, SeqCst);
                        if done.fetch_add(1, SeqCst) == 200 {
                            settled.store(true, SeqCst);
                        }
                    });
                }
            });
            assert_eq!(done.load(SeqCst), 400);
            // The worker that waits for the scope may run in addition to the limit.
            assert!(highest.load(SeqCst) <= most + 1, "{policy}: {} of {most}", highest.load(SeqCst));
        }
        pool.set_active_threads(4).unwrap();
        // All four workers are needed at the same time.
        let together = std::sync::Barrier::new(4);
        if Sharing::of(&policy).is_some_and(|(sharing, _)| sharing.plain_alone) {
            pool.broadcast(|_| _ = together.wait());
        }
        pool.shutdown();
    }
    let plain = ThreadPoolBuilder::new().num_threads(2).policy(Policy::plain()).build().unwrap();
    assert_eq!(plain.set_active_threads(1), Err(ActiveThreadsError::SharesNoCores(Policy::plain())));
    plain.shutdown();
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    match child::role().as_deref() {
        None => {}
        Some("rest") => rest(),
        Some("rest without work") => rest_without_work(),
        Some("end") => end(),
        Some("weigh") => weigh(),
        Some("nice") => follow_nice(),
        Some("resize") => resize(),
        Some("capped") => capped(),
        Some("active") => active(),
        Some(other) => panic!("no role is called '{other}'"),
    }
}
