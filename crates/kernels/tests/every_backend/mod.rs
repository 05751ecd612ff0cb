//! Every backend, and Comity's under every policy of its catalog.

use comity::Policy;
use comity_kernels::Backend;

pub fn rayon(workers: usize) -> Backend {
    Backend::Rayon(rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("a pool starts"))
}

fn comity(policy: Policy, workers: usize) -> Backend {
    let builder = comity::ThreadPoolBuilder::new().num_threads(workers).policy(policy);
    Backend::Comity(builder.build().expect("a pool starts"))
}

/// Each backend with its name; the pools in several sizes. A pool without work uses no CPU, so all may be there at once.
pub fn every_backend() -> Vec<(String, Backend)> {
    let mut backends = vec![("serial".to_owned(), Backend::Serial)];
    for workers in [1, 2, 8] {
        backends.push((format!("rayon with {workers} workers"), rayon(workers)));
        let policies = Policy::all();
        backends.extend(policies.map(|policy| (format!("{policy} with {workers} workers"), comity(policy, workers))));
    }
    backends
}
