//! Acceleration on threads: a thief gives its core to a poor worker (one with a task and an empty deque) that is off
//! its core. No affinity mask stays narrow.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/hogs.rs"]
mod hogs;
#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use comity::{Refusal, ThreadPool, ThreadPoolBuilder, WorkerCounters};
use comity_os::cpu_clock::ThreadId;
use comity_os::{CoreSet, affinity};
use hogs::beside_hogs;
use wait::wait_until;
use watchdog::Watchdog;

/// Returns the cores on which the calling thread may run.
fn here() -> CoreSet {
    affinity::of(ThreadId::current())
}

/// Plays a role in a separate table. In a shared table, a program may hold only one core, and then has no awake
/// thief.
fn play(role: &str) {
    let table = std::env::temp_dir().join(format!("comity-acceleration-{}-{role}", std::process::id()));
    let mut command = child::command(role);
    command.env("COMITY_TABLE", &table);
    let output = child::run(command);
    let _ = std::fs::remove_file(table);
    assert!(output.status.success(), "{role}: {}", child::stderr(&output));
}

fn pool(policy: &str) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).policy(policy.parse().unwrap()).build().unwrap()
}

fn counted(pool: &ThreadPool) -> WorkerCounters {
    WorkerCounters::total(&pool.counters())
}

/// Runs a task without children until `is_over`, which the task's worker calls.
fn one_task(pool: &ThreadPool, mut is_over: impl FnMut() -> bool + Send) {
    pool.install(|| {
        while !is_over() {
            (0..10_000).for_each(|_| std::hint::spin_loop());
        }
    });
}

#[test]
fn a_preempted_poor_worker_has_a_thiefs_time() {
    ["robinhood", "robinhood-u", "robinhood-s", "bws", "comity:accelerate=pull"].into_iter().for_each(play);
}

#[test]
fn a_plain_yield_moves_no_thread() {
    ["robinhood-s:yield_to=plain", "bws:yield_to=plain"].into_iter().for_each(play);
}

#[test]
fn a_worker_that_waits_in_a_system_call_is_left_alone() {
    play("blocked");
}

#[test]
fn a_worker_that_its_program_has_bound_stays_there() {
    if here().len() < 2 {
        println!("skipped: this takes two cores");
        return;
    }
    play("bound");
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    match role.as_str() {
        policy @ ("robinhood-s:yield_to=plain" | "bws:yield_to=plain") => yields(policy),
        "blocked" => blocked(),
        "bound" => bound(),
        policy => accelerates(policy),
    }
}

fn accelerates(policy: &str) {
    let watchdog = Watchdog::start("accelerates");
    let (all, pool, narrow) = (here(), pool(policy), AtomicU64::new(0));
    let threads: Vec<ThreadId> = pool.broadcast(|_| ThreadId::current());
    let mut step = 0;
    beside_hogs(|| {
        one_task(&pool, || {
            narrow.fetch_add(u64::from(here() != all), Ordering::Relaxed);
            let done = counted(&pool).accelerations;
            if done > step {
                step = done;
                watchdog.step(format!("acceleration {done}"));
            }
            done >= 20
        });
    });
    let WorkerCounters { accelerations, refusals, .. } = counted(&pool);
    println!("{accelerations} accelerations, {refusals:?}, narrow at {} looks", narrow.into_inner());
    // Each acceleration needs two readings of a clock. The attempt with the first reading is counted as a refusal.
    assert!(refusals.of(Refusal::Running) > 0);
    assert_eq!(refusals.of(Refusal::Kernel), 0);
    for thread in threads {
        wait_until("the thread has the program's mask", || affinity::of(thread) == all);
    }
    // The comparison is repeated, because a worker may be pulled while it reads its mask.
    wait_until("each sees it", || pool.broadcast(|_| here()) == [all; 2]);
}

/// Checks a policy whose thieves yield. Without a hypervisor, `robinhood-s` acts like `bws`.
fn yields(policy: &str) {
    let watchdog = Watchdog::start("yields");
    let pool = pool(policy);
    beside_hogs(|| {
        one_task(&pool, || {
            let WorkerCounters { yields, refusals, .. } = counted(&pool);
            yields >= 20 && (refusals.of(Refusal::NoHypervisor) > 0 || policy.starts_with("bws"))
        });
    });
    watchdog.step("what was counted");
    let WorkerCounters { accelerations, refusals, .. } = counted(&pool);
    let others = Refusal::ALL.iter().copied().filter(|refusal| *refusal != Refusal::NoHypervisor);
    assert_eq!((accelerations, others.map(|refusal| refusals.of(refusal)).sum::<u64>()), (0, 0));
}

/// Checks that a blocked worker is not accelerated. Its clock stands still, like the clock of a preempted worker.
fn blocked() {
    let watchdog = Watchdog::start("blocked");
    let pool = pool("robinhood");
    let (before, cycles) = pool.install(|| {
        // The other worker is the watchdog, which looks for tasks and does not sleep.
        let (before, mut cycles) = (counted(&pool), 0);
        while counted(&pool).refusals.of(Refusal::Blocked) < before.refusals.of(Refusal::Blocked) + 100 {
            watchdog.step("it sleeps");
            cycles += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        (before, cycles + 1)
    });
    // The worker may have been preempted between two sleeps.
    let accelerations = counted(&pool).accelerations - before.accelerations;
    assert!(accelerations <= cycles, "{accelerations} accelerations of one that ran {cycles} times");
}

fn bound() {
    let watchdog = Watchdog::start("bound");
    // Under this policy, a worker may be pulled from another NUMA node, to which the other core may belong.
    let pool = pool("robinhood-u");
    let cores: Vec<CoreSet> = here().iter().map(|core| [core].into_iter().collect()).collect();
    // The two workers are bound to different cores.
    let bound = pool.broadcast(|context| affinity::confine(ThreadId::current(), cores[context.index()]));
    assert_eq!(bound, [true; 2]);
    // A worker may have accelerated the other worker before they were bound. That acceleration has ended once a thief
    // is refused.
    let mut before = None;
    beside_hogs(|| {
        one_task(&pool, || {
            assert_eq!(here().len(), 1, "its program has bound it");
            let WorkerCounters { accelerations, refusals, .. } = counted(&pool);
            if refusals.of(Refusal::Mask) > 0 {
                before.get_or_insert(accelerations);
            }
            refusals.of(Refusal::Mask) >= 20
        });
    });
    watchdog.step("what was counted");
    assert_eq!(Some(counted(&pool).accelerations), before);
    let mut found = pool.broadcast(|_| here());
    found.sort_by_key(|cores| cores.iter().next());
    assert_eq!(found, cores[..2]);
}
