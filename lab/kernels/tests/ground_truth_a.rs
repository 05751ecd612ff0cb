//! Tests the programs with published results, each with its smallest input, on every backend, under every policy and
//! with several pool sizes.

mod every_backend;

use comity_kernels::catalog;
use every_backend::assert_verified;

#[test]
fn cg_is_verified_on_every_backend() {
    assert_verified(&["cg", "cg:class=S,grain=1", "cg:class=S,grain=100000"], 1);
}

#[test]
fn ep_is_verified_on_every_backend() {
    assert_verified(&["ep:class=S"], 1);
}

/// The binomial tree is 1572 levels deep, and a worker that waits in a join may enter another deep branch on the same
/// stack. This test passes only if the default stack of a thread is enough. `tests/stress.rs` runs the other trees.
#[test]
fn uts_is_verified_on_every_backend() {
    assert_verified(&["uts:tree=T3"], 1);
}

#[test]
fn nqueens_is_verified_on_every_backend() {
    assert_verified(&["nqueens", "nqueens:n=1", "nqueens:n=2", "nqueens:n=8,cutoff=16", "nqueens:n=10,cutoff=0"], 1);
}

#[test]
fn mergesort_is_verified_on_every_backend() {
    assert_verified(
        &[
            "mergesort:n=300000",
            "mergesort:n=0",
            "mergesort:n=1",
            "mergesort:n=1000,grain=1",
            "mergesort:n=1000,grain=5000",
            "mergesort:n=5000,seed=0",
        ],
        1,
    );
}

#[test]
fn threads_without_a_pool_are_verified_on_every_backend() {
    assert_verified(&["loop:spins=100000", "loop:threads=1,spins=0", "loop:threads=9,spins=1000"], 1);
}

#[test]
fn bad_parameters_are_refused_with_a_sentence() {
    for (text, part) in [
        ("cg:class=Z", "Choose one of S, W, A, B"),
        ("cg:grain=0", "from 1 to"),
        ("ep:class=s", "Choose one of S, W, A, B"),
        ("ep:grain=0", "from 1 to"),
        ("ep:batches=3", "ep has no key 'batches'"),
        ("uts:tree=T2", "Choose one of T1, T3, T5, T1L"),
        ("nqueens:n=0", "from 1 to 16"),
        ("nqueens:n=17", "from 1 to 16"),
        ("nqueens:cutoff=-1", "from 0 to 16"),
        ("mergesort:n=100000000001", "from 0 to 100000000000"),
        ("mergesort:grain=0", "from 1 to"),
        ("loop:threads=1025", "from 0 to 1024"),
        ("loop:spins=fast", "is not a whole number"),
    ] {
        let error = catalog::prepare(text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(!error.contains('\n'), "{text}: {error}");
    }
}
