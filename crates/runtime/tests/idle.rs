//! Workers without work use no CPU. The test is alone in its process, because other tests would be measured too.
#![cfg(not(loom))]

#[path = "harness/threads.rs"]
mod threads;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use wait::wait_until;
use watchdog::Watchdog;

const IDLE_FOR: Duration = Duration::from_secs(2);
const BESIDE_A_LONG_TASK: Duration = Duration::from_secs(1);

/// A pool whose threads can be distinguished from all other threads by their names.
struct Subject {
    what: String,
    threads: BTreeSet<u32>,
    pool: ThreadPool,
}

impl Subject {
    fn new(policy: Policy, workers: usize) -> Subject {
        static SUBJECTS: AtomicUsize = AtomicUsize::new(0);
        let prefix = format!("s{}.", SUBJECTS.fetch_add(1, Ordering::Relaxed));
        let named = prefix.clone();
        let builder = ThreadPoolBuilder::new().num_threads(workers).policy(policy);
        let pool = builder.thread_name(move |index| format!("{named}{index}")).build().unwrap();
        let mut threads = BTreeSet::new();
        wait_until("every thread has its name", || {
            threads = threads::named(&prefix);
            threads.len() == workers
        });
        Subject { what: format!("{policy} with {workers} workers"), threads, pool }
    }

    /// The ticks of CPU time of each thread. A tick is 10 ms on most machines.
    fn ticks(&self) -> Vec<u64> {
        self.threads.iter().map(|thread| ticks(*thread)).collect()
    }

    /// The number of threads that have used CPU since `ticks` were read.
    fn active_since(&self, ticks: &[u64]) -> usize {
        self.ticks().iter().zip(ticks).filter(|(now, before)| now != before).count()
    }

    /// The number of threads that run, or wait for a core, at this moment.
    fn runnable(&self) -> usize {
        self.threads.iter().filter(|thread| fields(**thread)[0] != "S").count()
    }

    fn work(&self) {
        fn fib(n: u64) -> u64 {
            if n < 2 {
                return n;
            }
            let (a, b) = comity::join(|| fib(n - 1), || fib(n - 2));
            a + b
        }
        let what = &self.what;
        assert_eq!(self.pool.install(|| fib(16)), 987, "{what}");
        assert_eq!(self.pool.broadcast(|context| context.index()).len(), self.threads.len(), "{what}");
        let (sender, receiver) = channel();
        self.pool.spawn(move || sender.send(fib(10)).unwrap());
        assert_eq!(receiver.recv(), Ok(55), "{what}");
    }
}

/// Returns the fields of a thread's `stat` file after its name, from the state on.
fn fields(thread: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("a process sees its threads");
    let (_, fields) = stat.rsplit_once(')').expect("the name stands in brackets");
    fields.split_whitespace().map(str::to_owned).collect()
}

fn ticks(thread: u32) -> u64 {
    let fields = fields(thread);
    // These are utime and stime, fields 14 and 15 of the whole line, in which the state is field 3.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Waits until several looks in succession find at most `awake` threads of each subject not asleep.
fn settle(subjects: &[Subject], awake: usize) {
    let mut quiet = 0;
    wait_until("workers without work go to rest", || {
        quiet = if subjects.iter().all(|subject| subject.runnable() <= awake) { quiet + 1 } else { 0 };
        quiet == 20
    });
}

fn assert_idle(subjects: &[Subject]) {
    settle(subjects, 0);
    let before: Vec<_> = subjects.iter().map(Subject::ticks).collect();
    sleep(IDLE_FOR);
    for (subject, before) in subjects.iter().zip(&before) {
        assert_eq!(subject.ticks(), *before, "{}: ticks by worker, after and before idleness", subject.what);
    }
}

/// Keeps one worker of the subject busy. Returns the number of other workers that used CPU meanwhile.
fn active_beside_a_long_task(subject: Subject, awake: usize) -> usize {
    let subjects = [subject];
    let quit = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    let quits = Arc::clone(&quit);
    subjects[0].pool.spawn(move || {
        sender.send(()).unwrap();
        while !quits.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    });
    receiver.recv().unwrap();
    settle(&subjects, 1 + awake);
    let before = subjects[0].ticks();
    sleep(BESIDE_A_LONG_TASK);
    let active = subjects[0].active_since(&before);
    quit.store(true, Ordering::Release);
    let [subject] = subjects;
    subject.work();
    subject.pool.shutdown();
    active.checked_sub(1).expect("the long task uses CPU, or the measure is wrong")
}

#[test]
#[cfg_attr(comity_portable, ignore = "where barriers are refused, one worker looks each millisecond")]
fn workers_without_work_use_no_cpu() {
    let watchdog = Watchdog::start("workers_without_work_use_no_cpu");
    let subjects: Vec<_> =
        Policy::all().flat_map(|policy| [1, 2, 16].map(|workers| Subject::new(policy, workers))).collect();
    watchdog.step("idleness before any work");
    assert_idle(&subjects);
    for round in 1..=2 {
        watchdog.step(format!("work, round {round}"));
        subjects.iter().for_each(Subject::work);
        watchdog.step(format!("idleness after work, round {round}"));
        assert_idle(&subjects);
    }
    watchdog.step("broadcast after idleness");
    for subject in &subjects {
        assert_eq!(subject.pool.broadcast(|context| context.index()).len(), subject.threads.len());
    }
    watchdog.step("spawn after idleness");
    assert_idle(&subjects);
    for subject in &subjects {
        let (sender, receiver) = channel();
        subject.pool.spawn(move || sender.send(()).unwrap());
        assert_eq!(receiver.recv(), Ok(()), "{}", subject.what);
        subject.work();
    }
    drop(subjects);

    watchdog.step("comity beside a long task");
    let comity = Subject::new("comity".parse().unwrap(), 8);
    assert_eq!(active_beside_a_long_task(comity, 0), 0, "workers that used CPU beside a long task");
    // BWS §4 requires this: one worker, the watchdog, stays awake while another is busy.
    watchdog.step("bws beside a long task");
    let bws = Subject::new("bws".parse().unwrap(), 8);
    let active = active_beside_a_long_task(bws, 1);
    assert!(active <= 1, "{active} workers used CPU beside a long task; only the watchdog may");
}
