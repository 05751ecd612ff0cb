//! The programs, one per file.

pub mod bridge;
pub mod chunks;
pub mod collect;
pub mod flat_map;
pub mod kernel;
pub mod map_reduce;
pub mod nested_iter;
pub mod nested_join;
pub mod pools;
pub mod scope;
pub mod small_jobs;
pub mod sort;
pub mod spawns;
pub mod trivial_loop;

/// Returns random keys, which are the same in every process.
fn random_keys(number: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..number).map(|_| random.u64(..)).collect()
}

/// Returns random numbers from 0 to 1, which are the same in every process.
fn random_numbers(number: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..number).map(|_| random.f64()).collect()
}
