//! Tests programs with tasks that wait, in a system call or for each other, on every backend of this crate, under
//! every policy and with several pool sizes. The programs also end with fewer workers than tasks.

mod every_backend;

use comity_kernels::catalog;
use every_backend::{assert_verified, rayon};

/// Small inputs, with equal numbers of tasks and workers, with fewer tasks and with more tasks.
const INPUTS: &[&str] = &[
    "wavefront:rows=1,columns=1,tasks=1,sweeps=1",
    "wavefront:rows=40,columns=30,strip=1,tasks=8,sweeps=3",
    "wavefront:rows=40,columns=30,strip=7,tasks=2,sweeps=9,wait=spin",
    "wavefront:rows=40,columns=30,strip=4,tasks=20,sweeps=2,wait=spin",
    "wavefront:rows=30,columns=40,strip=7,tasks=8,sweeps=3,wait=yield",
    "wavefront:rows=30,columns=3,strip=100,tasks=20,sweeps=2,wait=yield",
    "io:tasks=1,sleep_us=0,spins=0",
    "io:tasks=40,sleep_us=100,spins=100",
];

#[test]
fn every_program_is_verified_on_every_backend() {
    assert_verified(INPUTS, 2);
}

#[test]
fn the_default_sizes_are_verified() {
    for text in ["wavefront", "wavefront:wait=yield", "io"] {
        let run = catalog::prepare(text).unwrap().run(&rayon(8), false);
        assert!(run.verdict.verified, "{text}: {}", run.verdict.detail);
    }
}

#[test]
fn bad_parameters_are_one_sentence_that_names_the_key() {
    for (program, key, value) in [
        ("wavefront", "tasks", "0"),
        ("wavefront", "wait", "sleep"),
        ("wavefront", "rows", "8193"),
        ("wavefront", "columns", "0"),
        ("wavefront", "strip", "0"),
        ("wavefront", "sweeps", "100001"),
        ("io", "tasks", "0"),
        ("io", "sleep_us", "10000001"),
        ("io", "spins", "many"),
    ] {
        let Err(error) = catalog::prepare(&format!("{program}:{key}={value}")) else {
            panic!("{program} takes {key}={value}");
        };
        let sentence = error.to_string();
        assert!(sentence.starts_with(&format!("{program}: {key}={value} ")) && !sentence.contains('\n'), "{sentence}");
    }
}
