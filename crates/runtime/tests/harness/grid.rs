//! Tests under every policy of the catalog, with several numbers of workers.

use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_policy::Sharing;

use crate::watchdog::Watchdog;

/// Calls `check` under every policy with each of these numbers of workers.
pub fn under_every_policy(test: &'static str, workers: &[usize], check: impl Fn(Policy, usize)) {
    under_policies(test, workers, |_| true, check);
}

/// True if all workers of a program may be awake at the same time on any number of cores, while no other program uses
/// the table.
#[allow(dead_code, reason = "not every test program asks")]
pub fn wakes_all_workers(policy: &Policy) -> bool {
    Sharing::of(policy).is_none_or(|(sharing, _)| sharing.plain_alone)
}

/// Calls `check` like [`under_every_policy`], but only under policies that are `wanted`.
pub fn under_policies(
    test: &'static str,
    workers: &[usize],
    wanted: impl Fn(&Policy) -> bool,
    check: impl Fn(Policy, usize),
) {
    let watchdog = Watchdog::start(test);
    for policy in Policy::all().filter(wanted) {
        for workers in workers {
            watchdog.step(format!("{policy} with {workers} workers"));
            check(policy, *workers);
        }
    }
}

/// Calls `check` like [`under_every_policy`], with a default pool. The pool's threads have ended when this returns.
#[allow(dead_code, reason = "not every test program asks")]
pub fn on_every_pool(test: &'static str, workers: &[usize], check: impl Fn(&ThreadPool)) {
    under_every_policy(test, workers, |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts");
        check(&pool);
        pool.shutdown();
    });
}
