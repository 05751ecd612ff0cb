//! A list of all backends, with Comity under every policy of its catalog.

#[path = "../../../../crates/runtime/tests/harness/watchdog.rs"]
mod watchdog;

use comity::Policy;
use comity_kernels::{Backend, catalog};
use watchdog::Watchdog;

pub fn rayon(workers: usize) -> Backend {
    Backend::Rayon(rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("a pool starts"))
}

fn comity(policy: Policy, workers: usize) -> Backend {
    let builder = comity::ThreadPoolBuilder::new().num_threads(workers).policy(policy);
    Backend::Comity(builder.build().expect("a pool starts"))
}

/// Returns all backends with their names, with pools of several sizes. A pool without work uses no processor time, so
/// that all pools may exist at the same time.
fn every_backend() -> Vec<(String, Backend)> {
    let mut backends = vec![("serial".to_owned(), Backend::Serial)];
    for workers in [1, 2, 8] {
        backends.push((format!("rayon with {workers} workers"), rayon(workers)));
        let policies = Policy::all();
        backends.extend(policies.map(|policy| (format!("{policy} with {workers} workers"), comity(policy, workers))));
    }
    backends
}

/// Runs each program on each backend `times` times. The runs of a program are consecutive, to test that a run does
/// not change its input.
pub fn assert_verified(programs: &[impl AsRef<str>], times: usize) {
    let watchdog = Watchdog::start(module_path!());
    let backends = every_backend();
    for text in programs {
        let text = text.as_ref();
        let program = catalog::prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        for (name, backend) in &backends {
            watchdog.step(format!("{text} on {name}"));
            for _ in 0..times {
                let verdict = program.run(backend, false).verdict;
                assert!(verdict.verified, "{text} on {name}: {}", verdict.detail);
            }
        }
    }
}
