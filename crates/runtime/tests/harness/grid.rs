//! Every policy of the catalog, with several numbers of workers.

use comity::{Policy, ThreadPool, ThreadPoolBuilder};
use comity_policy::Sharing;

use crate::watchdog::Watchdog;

/// Calls `check` under every policy with each of these numbers of workers.
pub fn under_every_policy(test: &'static str, workers: &[usize], check: impl Fn(Policy, usize)) {
    under_policies(test, workers, |_| true, check);
}

/// Whether all workers of a program that is alone may be awake at a time, however many cores there are.
#[allow(dead_code, reason = "not every test program asks")]
pub fn wakes_all_workers(policy: &Policy) -> bool {
    Sharing::of(policy).is_none_or(|(sharing, _)| sharing.plain_alone)
}

/// [`under_every_policy`] that is `wanted`.
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

/// [`under_every_policy`], with a pool that is as the builder makes it by default. Its threads have ended at the end.
#[allow(dead_code, reason = "not every test program asks")]
pub fn on_every_pool(test: &'static str, workers: &[usize], check: impl Fn(&ThreadPool)) {
    under_every_policy(test, workers, |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts");
        check(&pool);
        pool.shutdown();
    });
}
