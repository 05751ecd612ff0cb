//! Runs a probe on threads: a process for each program, with all threads confined to one core.

use std::num::NonZeroU64;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use comity_console::Failure;
use comity_os::cpu_clock::ThreadId;
use comity_os::{affinity, task_group, yield_core};
use comity_sim::threads::linux::Groups;
use serde::{Deserialize, Serialize};

use super::probe::{Figures, PERCENTS, Part, Probe, SLEEP_US, WORK_US};
use crate::bench::child::{order, tell};
use crate::bench::quartiles::percentile;
use crate::children::Children;

/// The work of a child's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// All compute.
    Computes,
    /// A thread yields, and another computes.
    Yields,
    /// A thread sleeps and computes.
    Sleeps,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Computes => "computes",
            Role::Yields => "yields",
            Role::Sleeps => "sleeps",
        }
    }
}

/// The shortest pause that counts as a wait for the core. A time slice of another thread is longer. The kernel's own
/// threads take less.
const WAIT: Duration = Duration::from_micros(500);

/// The time for which all programs run before the measurement begins.
const SETTLES: Duration = Duration::from_millis(100);

/// The longest time to wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Serialize, Deserialize)]
enum Answer {
    Ready,
    Counted(Counted),
}

/// The times of a program's threads during one measurement.
#[derive(Serialize, Deserialize)]
struct Counted {
    threads: Vec<Used>,
    /// The lateness of each wake-up, in microseconds.
    lateness: Vec<f64>,
}

/// A thread's use of the core.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Used {
    /// The fraction of the core that the thread used.
    share: f64,
    /// Seconds on the core.
    seconds: f64,
    /// The number of times that the thread waited for the core for [`WAIT`] or longer.
    waits: u64,
}

/// The numbers of a probe.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// The numbers, in the order of [`Figures::names`].
    pub figures: Vec<f64>,
    /// The percentage of the core that other programs used.
    pub others: f64,
}

/// Measures a probe on core `core`, up to `tries` times, until other programs used at most `most` percent of the
/// core. Returns the try in which they used least.
pub fn measure(probe: &Probe, core: usize, count_ms: u64, tries: u32, most: f64) -> Result<Measured, Failure> {
    let mut children = Children::new(TIMEOUT);
    for (index, part) in probe.parts.iter().enumerate() {
        let (role, threads) = match *part {
            Part::Computes(threads) => (Role::Computes, threads),
            Part::Yields => (Role::Yields, 2),
            Part::Sleeps => (Role::Sleeps, 1),
        };
        let mut command = Command::new("/proc/self/exe");
        let words =
            [("--role", role.name().to_owned()), ("--threads", threads.to_string()), ("--core", core.to_string())];
        command.args(["bench", "run-queue"]);
        words.iter().for_each(|(option, value)| _ = command.args([option, value.as_str()]));
        if probe.groups == Groups::Separate {
            command.arg("--apart");
        }
        children.start(format!("the program that {}", role.name()), &mut command)?;
        children.expect(index);
        let (from, answer) = children.hear()?;
        if !matches!(answer, Answer::Ready) {
            return Err(children.fail(from, "answered out of turn".to_owned()));
        }
    }
    thread::sleep(SETTLES);
    let mut best: Option<Measured> = None;
    for _ in 0..tries {
        let measured = once(probe, &mut children, core, count_ms)?;
        if best.as_ref().is_none_or(|best| measured.others < best.others) {
            best = Some(measured);
        }
        // One try is enough for a sleeper alone, because programs that run while it sleeps do not disturb it.
        if best.as_ref().is_some_and(|best| best.others <= most || probe.parts == [Part::Sleeps]) {
            break;
        }
    }
    children.close()?;
    Ok(best.expect("there is at least one try"))
}

fn once(probe: &Probe, children: &mut Children<Answer>, core: usize, count_ms: u64) -> Result<Measured, Failure> {
    let (began, idle) = (Instant::now(), idle(core)?);
    for index in 0..probe.parts.len() {
        children.tell(index, &count_ms.to_string())?;
    }
    let mut counted: Vec<Option<Counted>> = probe.parts.iter().map(|_| None).collect();
    for _ in probe.parts {
        match children.hear()? {
            (from, Answer::Counted(of)) => counted[from] = Some(of),
            (from, Answer::Ready) => return Err(children.fail(from, "answered out of turn".to_owned())),
        }
    }
    let idle = (self::idle(core)? - idle).as_secs_f64() / began.elapsed().as_secs_f64();
    let counted: Vec<Counted> = counted.into_iter().flatten().collect();
    let threads: Vec<Used> = counted.iter().flat_map(|counted| counted.threads.iter().copied()).collect();
    let used: f64 = threads.iter().map(|used| used.share).sum();
    let figures = match probe.figures {
        Figures::Slices => {
            let (seconds, waits) =
                threads.iter().fold((0.0, 0), |(seconds, waits), of| (seconds + of.seconds, waits + of.waits));
            vec![1_000.0 * seconds / waits.max(1) as f64]
        }
        Figures::Shares => threads.iter().map(|used| 100.0 * used.share).collect(),
        Figures::Lateness => PERCENTS.map(|percent| percentile(&counted[0].lateness, percent)).to_vec(),
    };
    Ok(Measured { figures, others: 100.0 * (1.0 - used - idle).max(0.0) })
}

/// Returns the time for which a core has been idle since the machine started.
fn idle(core: usize) -> Result<Duration, Failure> {
    let name = format!("cpu{core}");
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().map(|line| line.split_ascii_whitespace()).find(|line| line.clone().next() == Some(&name));
    // /proc/stat counts 100 ticks per second on every machine. The time of a core that waits for a disk counts as
    // idle.
    let ticks = line.map(|line| line.skip(4).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>());
    let missing = || Failure::Run(format!("/proc/stat does not say how long core {core} has idled"));
    ticks.map(|ticks| Duration::from_millis(10 * ticks)).ok_or_else(missing)
}

/// Runs the program of a role, in a child process.
pub fn program(role: Role, threads: u32, core: usize, apart: bool) -> Result<(), Failure> {
    if apart {
        task_group::stand_apart()
            .map_err(|error| Failure::Run(format!("cannot start a session as nice as this: {error}")))?;
    }
    let (ends, lateness) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let waits: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        let (say, hear) = mpsc::channel();
        for (nth, waits) in (0..).zip(&waits) {
            let (say, ends, lateness) = (say.clone(), &ends, &lateness);
            scope.spawn(move || {
                let own = ThreadId::current();
                let confined = affinity::confine(own, [core].into_iter().collect());
                // The receiver waits for all threads.
                let _ = say.send((nth, own, confined));
                match (role, nth) {
                    (Role::Computes, _) | (Role::Yields, 1..) => compute(ends, waits),
                    (Role::Yields, 0) => {
                        (0..).take_while(|_: &u64| !ends.load(Ordering::Relaxed)).for_each(|_| yield_core())
                    }
                    (Role::Sleeps, _) => sleep(ends, lateness),
                }
            });
        }
        drop(say);
        let mut all: Vec<(u32, ThreadId, bool)> = hear.iter().take(threads as usize).collect();
        all.sort_by_key(|(nth, ..)| *nth);
        let counted = if all.iter().all(|(.., confined)| *confined) {
            let threads: Vec<_> = all.iter().zip(&waits).map(|((_, thread, _), waits)| (*thread, waits)).collect();
            count(&threads, &lateness)
        } else {
            Err(Failure::Run(format!("the threads cannot be confined to core {core}. Choose another with --core")))
        };
        ends.store(true, Ordering::Relaxed);
        counted
    })
}

fn compute(ends: &AtomicBool, waits: &AtomicU64) {
    let mut last = Instant::now();
    while !ends.load(Ordering::Relaxed) {
        (0..10).for_each(|_| std::hint::spin_loop());
        let now = Instant::now();
        if now - last >= WAIT {
            waits.fetch_add(1, Ordering::Relaxed);
        }
        last = now;
    }
}

fn sleep(ends: &AtomicBool, lateness: &Mutex<Vec<f64>>) {
    // With the default timer slack, the kernel may add 50 µs to a sleep. If the kernel refuses a smaller slack, it is
    // part of the lateness.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let (rest, work) = (Duration::from_micros(SLEEP_US), Duration::from_micros(WORK_US));
    while !ends.load(Ordering::Relaxed) {
        let began = Instant::now();
        thread::sleep(rest);
        let late = (began.elapsed() - rest).as_secs_f64();
        comity_os::lock(lateness).push(1e6 * late);
        let began = Instant::now();
        while began.elapsed() < work {
            std::hint::spin_loop();
        }
    }
}

/// Reads orders until the end of the input. An order is a number of milliseconds: counts for this time, and answers.
fn count(threads: &[(ThreadId, &AtomicU64)], lateness: &Mutex<Vec<f64>>) -> Result<(), Failure> {
    tell(&Answer::Ready)?;
    let used = || -> Vec<(Duration, u64)> {
        let of = |(thread, waits): &(ThreadId, &AtomicU64)| {
            (thread.cpu_time().unwrap_or_default(), waits.load(Ordering::Relaxed))
        };
        threads.iter().map(of).collect()
    };
    while let Some(millis) = order().and_then(|order| order.parse::<u64>().ok()) {
        comity_os::lock(lateness).clear();
        let (began, before) = (Instant::now(), used());
        thread::sleep(Duration::from_millis(millis));
        let (after, lasted) = (used(), began.elapsed().as_secs_f64());
        let threads = before.iter().zip(&after).map(|(before, after)| {
            let seconds = (after.0 - before.0).as_secs_f64();
            Used { share: seconds / lasted, seconds, waits: after.1 - before.1 }
        });
        let lateness = std::mem::take(&mut *comity_os::lock(lateness));
        tell(&Answer::Counted(Counted { threads: threads.collect(), lateness }))?;
    }
    Ok(())
}
