//! 10,000 pools are created, used and dropped. The test is alone in its process, because it counts threads, files and
//! memory.
#![cfg(not(loom))]

#[path = "harness/wait.rs"]
mod wait;
#[path = "harness/watchdog.rs"]
mod watchdog;

use comity::{Policy, ThreadPoolBuilder};
use wait::wait_until;
use watchdog::Watchdog;

const POOLS: usize = 10_000;
/// The number of pools after which memory no longer grows, if it grows only at first.
const WARM: usize = 2_000;
/// The maximum growth of memory after 8,000 pools. One kilobyte lost per pool would be 8,000 KiB.
const MOST_GROWTH_KIB: usize = 4_096;

fn status(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process sees its status");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the key is there");
    line.trim_start_matches(':').split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a process sees its files").count()
}

fn use_and_drop(nth: usize, policy: Policy) {
    let workers = 1 + nth / Policy::all().count() % 4;
    let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts");
    match nth % 5 {
        0 => assert_eq!(pool.join(|| nth, || nth + 1), (nth, nth + 1)),
        1 => assert_eq!(pool.broadcast(|context| context.index()).len(), workers),
        2 => assert_eq!(pool.install(|| comity::join(|| 1, || comity::join(|| 2, || 3))), (1, (2, 3))),
        3 => {
            let mut numbers = [0; 8];
            pool.scope(|scope| numbers.iter_mut().for_each(|number| scope.spawn(move |_| *number = nth)));
            assert_eq!(numbers, [nth; 8]);
        }
        // The pool is dropped while a task runs, or before its first task begins.
        _ => pool.spawn(|| comity::spawn(|| ())),
    }
}

#[test]
fn ten_thousand_pools_leave_nothing_behind() {
    let watchdog = Watchdog::start("ten_thousand_pools_leave_nothing_behind");
    let (threads_before, files_before) = (status("Threads"), files());
    let mut warm_kib = 0;
    for (nth, policy) in Policy::all().collect::<Vec<_>>().into_iter().cycle().take(POOLS).enumerate() {
        if nth % 100 == 0 {
            watchdog.step(format!("pool {nth}"));
            // Dropping does not wait for the threads. This waits for them, so that their number stays bounded.
            wait_until("threads of dropped pools end", || status("Threads") == threads_before);
        }
        if nth == WARM {
            warm_kib = status("VmRSS");
        }
        use_and_drop(nth, policy);
    }
    wait_until("threads of dropped pools end", || status("Threads") == threads_before);
    assert_eq!(files(), files_before, "open files");
    let kib = status("VmRSS");
    println!("{warm_kib} KiB after {WARM} pools, {kib} KiB after {POOLS}");
    assert!(kib <= warm_kib + MOST_GROWTH_KIB, "{warm_kib} KiB after {WARM} pools, {kib} KiB after {POOLS}");
}
