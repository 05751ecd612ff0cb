//! Tests the programs bfs, mm, mi, raytrace and clip against known results, on every backend of this crate, under
//! every policy and with several pool sizes.

mod every_backend;

use comity_kernels::{Backend, catalog};
use every_backend::{assert_verified, rayon};

/// Small inputs, with grains that give many tasks and with grains that give a single task.
const INPUTS: &[&str] = &[
    "bfs:nodes=1",
    "bfs:nodes=2,degree=1,grain=1",
    "bfs:nodes=30000,degree=1,grain=1",
    "bfs:nodes=50000,degree=8,grain=16,seed=9",
    "bfs:nodes=50000,degree=8,grain=1000000",
    "mm:n=1",
    "mm:n=97,grain=1",
    "mm:n=200,grain=16,seed=5",
    "mm:n=130,grain=1024",
    "mi:n=1",
    "mi:n=2,grain=2000",
    "mi:n=120,grain=4,seed=3",
    "raytrace:width=1,height=1,samples=1",
    "raytrace:width=80,height=60,samples=4,grain=7",
    "raytrace:width=33,height=90,samples=3,grain=1000000",
    "clip:pairs=1",
    "clip:pairs=300,grain=1,seed=8",
    "clip:pairs=300,grain=100000",
];

#[test]
fn every_program_is_verified_on_every_backend() {
    assert_verified(INPUTS, 3);
}

#[test]
fn the_default_picture_is_the_known_one_on_two_threads() {
    let verdict = catalog::prepare("raytrace").unwrap().run(&rayon(2), false).verdict;
    assert!(verdict.verified && verdict.detail.contains("expected"), "{}", verdict.detail);
}

#[test]
fn bad_parameters_are_one_sentence_that_names_the_key() {
    let bad = [
        ("bfs", "nodes", "0"),
        ("bfs", "nodes", "20000001"),
        ("bfs", "degree", "65"),
        ("bfs", "grain", "0"),
        ("mm", "n", "0"),
        ("mm", "n", "99999999999"),
        ("mm", "grain", "0"),
        ("mi", "n", "0"),
        ("mi", "n", "2001"),
        ("mi", "grain", "0"),
        ("raytrace", "width", "0"),
        ("raytrace", "height", "8193"),
        ("raytrace", "samples", "0"),
        ("raytrace", "grain", "0"),
        ("clip", "pairs", "0"),
        ("clip", "pairs", "many"),
        ("clip", "grain", "0"),
        ("clip", "seed", "-1"),
    ];
    for (program, key, value) in bad {
        let Err(error) = catalog::prepare(&format!("{program}:{key}={value}")) else {
            panic!("{program} takes {key}={value}");
        };
        let sentence = error.to_string();
        assert!(sentence.starts_with(&format!("{program}: {key}={value} ")), "{sentence}");
    }
}

#[test]
fn a_graph_too_large_for_memory_is_refused_before_it_is_built() {
    let Err(error) = catalog::prepare("bfs:nodes=20000000,degree=64") else {
        panic!("a graph of 1.28 billion edges was built");
    };
    assert!(error.to_string().contains("Lower nodes or degree"), "{error}");
}

#[test]
fn a_picture_that_cannot_be_written_is_a_sentence_and_not_a_failed_run() {
    let program = catalog::prepare("raytrace:width=4,height=3,out=/no/such/folder/picture.png").unwrap();
    let run = program.run(&Backend::Serial, true);
    assert!(run.verdict.verified);
    let sentence = run.presented.unwrap().unwrap_err();
    assert!(sentence.contains("/no/such/folder/picture.png"), "{sentence}");
}
