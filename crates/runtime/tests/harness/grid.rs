//! Every policy of the catalog, with several numbers of workers.

use comity::{Policy, ThreadPool, ThreadPoolBuilder};

use crate::watchdog::Watchdog;

/// Calls `check` under every policy with each of these numbers of workers.
pub fn under_every_policy(test: &'static str, workers: &[usize], check: impl Fn(Policy, usize)) {
    let watchdog = Watchdog::start(test);
    for policy in Policy::all() {
        for workers in workers {
            watchdog.step(format!("{policy} with {workers} workers"));
            check(policy, *workers);
        }
    }
}

/// [`under_every_policy`], with a pool that is as the builder makes it by default. Its threads have ended at the end.
pub fn on_every_pool(test: &'static str, workers: &[usize], check: impl Fn(&ThreadPool)) {
    under_every_policy(test, workers, |policy, workers| {
        let pool = ThreadPoolBuilder::new().num_threads(workers).policy(policy).build().expect("a pool starts");
        check(&pool);
        pool.shutdown();
    });
}
