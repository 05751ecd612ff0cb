//! What pools and coordinators said to the protocol on real threads, said again.
//!
//! Two processes run stress programs at the same time, on one core table, under every policy. The protocol's calls are
//! recorded in each thread, as `comity_record` has it. For each spell these are what the dialogue did and was
//! answered, for each quantum the account and the calls on the table and the pools. Then each life is held again by
//! the same protocol over the words of this driver, [`Threads`] without other threads, and by the loop that ships,
//! [`hold`](crate::workers::thief::hold). Compared are all calls, with arguments and in order, the books after each
//! section of their lock, each action of a policy, each order of a coordinator, and what words answer. In a replay no
//! other thread runs: before each step a word is set to what it was found at. Not compared is what a driver does
//! inside of a call.
//!
//! A filed record, in `crates/record/records`, shows whether an answer has changed since it was made. After a change on
//! purpose it is made again: `COMITY_FILE_RECORDS=1 cargo test -p comity -p comity-table --lib did_is_done_again`. The
//! simulator holds it again too.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use comity_policy::{Policy, Sharing, Thief, WorkerId};
use comity_protocol::dialogue::Dialogue;
use comity_record::replay::{Crewed, Driver, Repeated, choose, file, hold_all_again, lives};
use comity_record::{Heard, begin_life, filed, number_words, record_coordinators};

use comity_table::{Location, Program, Request, Snapshot, request};

use crate::raw::sync::Atomics;
use crate::workers::thief::hold;
use crate::{ThreadPool, ThreadPoolBuilder, join, scope};

const WORKERS: u32 = 4;

/// Where a process is to write what it records; and how many turns of each worker.
const TO: &str = "COMITY_RECORD_TO";
const TURNS: &str = "COMITY_RECORD_TURNS";

/// The driver on threads.
struct Threads;

impl Driver for Threads {
    type Platform = Atomics;

    fn platform(&self) -> Atomics {
        Atomics
    }

    fn hold(
        &self,
        dialogue: &mut Dialogue,
        thief: &mut dyn Thief,
        crew: &Crewed<Atomics>,
        me: WorkerId,
        hands: &mut Repeated<'_, Atomics>,
    ) -> u32 {
        hold(dialogue, thief, crew, me, hands)
    }
}

/// Every row, one with thieves that doze, and quanta short enough that there are many.
fn policies() -> Vec<Policy> {
    let short = |policy: Policy| match Sharing::of(&policy) {
        Some(_) => format!("{policy}:quantum_us=500").parse().expect("a policy with a quantum"),
        None => policy,
    };
    let dozes = "comity:rounds=0,accelerate=pull,quantum_us=500".parse().expect("a policy");
    Policy::all().map(short).chain([dozes]).collect()
}

/// A pool that has its workers' lives recorded, up to so many turns each.
fn recorded_pool(policy: Policy, turns: u32) -> (ThreadPool, Vec<thread::JoinHandle<()>>) {
    static SEEDS: AtomicUsize = AtomicUsize::new(0);
    let seed = SEEDS.fetch_add(1, Ordering::Relaxed) as u64;
    let mut threads = Vec::new();
    number_words();
    let builder = ThreadPoolBuilder::new().num_threads(WORKERS as usize).policy(policy);
    let pool = builder.build_with(|mut worker| {
        let me = WorkerId(worker.index() as u32);
        worker.thief = Box::new(Heard(policy.thief(me, WORKERS, seed)));
        threads.push(thread::spawn(move || {
            begin_life(format_args!("worker {policy} {} {WORKERS} {seed}", me.0), Some(&policy), turns);
            worker.run();
        }));
        Ok(())
    });
    (pool.expect("a pool starts"), threads)
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Asks the program of this policy's pools for something, as a setter does, once it is in the table.
fn ask(policy: Policy, asked: &[Request]) {
    let Some(location) = Location::from_environment() else { return };
    let programs = Snapshot::take(&location).expect("the table is read").map_or(Vec::new(), |table| table.programs);
    let is_own = |program: &Program| program.pid == std::process::id() && program.policy == policy.to_string();
    if let Some(program) = programs.iter().find(|program| is_own(program)) {
        // It may have left.
        let _ = request(&location, program, asked);
    }
}

/// Short bursts of every kind of task, with nothing to do between them, and what is asked of the program beside them.
fn stress(pool: &ThreadPool, until: Instant) {
    let mut round = 0;
    // Each at least twice, however slow the machine.
    while round < 16 || Instant::now() < until {
        match round % 8 {
            0 => assert_eq!(pool.install(|| fib(14)), 377),
            1 => pool.install(|| {
                scope(|scope| {
                    (0..40).for_each(|nth| scope.spawn(move |_| busy(Duration::from_micros(10 * (nth % 7)))))
                });
            }),
            // Tasks that come one by one, each from outside.
            2 => (0..10).for_each(|_| pool.install(|| busy(Duration::from_micros(30)))),
            // One long half: the others run out of work beside it.
            3 => drop(pool.install(|| join(|| busy(Duration::from_millis(2)), || fib(8)))),
            // It waits off its core.
            4 => drop(pool.install(|| join(|| thread::sleep(Duration::from_millis(2)), || fib(10)))),
            5 => {
                ask(pool.policy(), &[Request::Pause(Duration::from_millis(2))]);
                pool.install(|| scope(|scope| (0..10).for_each(|_| scope.spawn(|_| busy(Duration::from_micros(20))))));
            }
            6 => {
                ask(pool.policy(), &[Request::Cores(Some(1))]);
                pool.install(|| fib(12));
                ask(pool.policy(), &[Request::Cores(None)]);
            }
            _ => pool.broadcast(|_| busy(Duration::from_micros(50))).into_iter().for_each(drop),
        }
        if round % 4 == 3 {
            thread::sleep(Duration::from_micros(700));
        }
        round += 1;
    }
}

/// Runs in a process of its own, which [`record`] starts.
#[test]
#[ignore = "one of two processes of another test"]
fn runs_the_stress_programs() {
    let Some(to) = env::var_os(TO) else { return };
    let turns = env::var(TURNS).expect("it is set too").parse().expect("a number");
    record_coordinators(turns);
    let mut policies = policies();
    let places = policies.len();
    // The other begins elsewhere, so that programs of different policies meet.
    policies.rotate_left(if to.to_string_lossy().ends_with('1') { places / 2 } else { 0 });
    for policy in policies {
        let (pool, threads) = recorded_pool(policy, turns);
        stress(&pool, Instant::now() + Duration::from_millis(150));
        pool.shutdown();
        threads.into_iter().for_each(|thread| thread.join().expect("a worker ends well"));
    }
    fs::write(to, filed().concat()).expect("the record is written");
}

/// What two processes recorded at the same time.
fn record(folder: &Path, turns: u32) -> String {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a folder for the test");
    let paths: Vec<PathBuf> = (0..2).map(|nth| folder.join(format!("record-{nth}"))).collect();
    // Of different weight, so that they have turns.
    let start = |(to, weight): (&PathBuf, &str)| -> Child {
        Command::new(env::current_exe().expect("this program has a path"))
            .args(["conformance::runs_the_stress_programs", "--exact", "--ignored", "--test-threads", "1"])
            .env("COMITY_TABLE", folder.join("table"))
            .env("COMITY_WEIGHT", weight)
            .envs([(TO, to.as_os_str()), (TURNS, turns.to_string().as_ref())])
            .spawn()
            .expect("this program starts once more")
    };
    let children: Vec<Child> = paths.iter().zip(["100", "300"]).map(start).collect();
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    let texts = paths.iter().map(|path| fs::read_to_string(path).expect("it has written a record"));
    let record = texts.collect::<String>();
    fs::remove_dir_all(folder).expect("it was this test's");
    record
}

#[test]
#[cfg_attr(comity_portable, ignore = "its programs are two in a table")]
fn what_threads_did_is_done_again() {
    let folder = env::temp_dir().join(format!("comity-conformance-{}", std::process::id()));
    let record = record(&folder, 500);
    let all = lives(&record);
    for policy in policies() {
        let of = |life: &&Vec<String>| life[0].split(' ').nth(1) == Some(&policy.to_string());
        let count = |begin: &str| -> usize {
            let count = |life: &Vec<String>| life.iter().filter(|line| line.starts_with(begin)).count();
            all.iter().filter(of).map(count).sum()
        };
        let (turns, quanta) = (count("turn "), count("account "));
        println!("{policy}: {turns} turns, {quanta} quanta");
        assert!(turns > 100, "{policy}: only {turns} turns were recorded");
        assert!(quanta > 0 || !policy.shares_cores(), "{policy}: no quantum was recorded");
    }
    println!("{:?}", hold_all_again(&Threads, &record));
    if env::var_os("COMITY_FILE_RECORDS").is_some() {
        // One worker and one coordinator of each policy.
        let chosen = choose(&record, 2, 30);
        // What `protocol/mutations` alters is to be seen in it; a missed steal is rare.
        assert!(chosen.contains("turn StealMissed"), "no steal was missed in what was chosen: file once more");
        assert!(chosen.contains("Woken(Timeout)"), "no doze ended in what was chosen: file once more");
        fs::write(file("threads"), chosen).expect("the record is filed");
    }
}

#[test]
fn what_was_filed_is_done_again() {
    let record = fs::read_to_string(file("threads")).expect("there is a record");
    let compared = hold_all_again(&Threads, &record);
    assert!(compared.turns > 300 && compared.visits > 100, "{compared:?}");
}
