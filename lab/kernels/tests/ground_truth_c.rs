//! Tests the DWS paper's programs (Table III) against known results, on every backend of this crate, under every
//! policy and with several pool sizes.

mod every_backend;

use comity_kernels::catalog;
use every_backend::assert_verified;

/// The programs in the table's order.
const PROGRAMS: [&str; 8] = ["fft", "pnn", "cholesky", "lu", "ge", "heat", "sor", "mergesort"];

/// Small inputs, with grains that make many tasks and with grains that make a single task.
const INPUTS: &[&str] = &[
    "fft:n=1",
    "fft:n=2,grain=1",
    "fft:n=4096,grain=1,seed=9",
    "fft:n=32768,grain=10000000",
    "pnn:variables=8,samples=1500,layers=4,seed=3",
    "pnn:variables=9,samples=1501,layers=4,grain=1000",
    "cholesky:n=1,nonzeros=0",
    "cholesky:n=130,nonzeros=2000,grain=1,seed=4",
    "cholesky:n=200,nonzeros=300,grain=8192",
    "lu:n=1",
    "lu:n=97,grain=5,seed=5",
    "lu:n=200,grain=1024",
    "ge:n=1",
    "ge:n=120,grain=1,seed=3",
    "ge:n=120,grain=1000000",
    "heat:rows=1,columns=1,steps=1",
    "heat:rows=70,columns=61,steps=30,grain=1,seed=6",
    "heat:rows=61,columns=70,steps=30,grain=1000000",
    "sor:rows=1,columns=1,sweeps=1",
    "sor:rows=70,columns=61,sweeps=30,grain=1,seed=6",
    "sor:rows=61,columns=70,sweeps=30,grain=1000000",
];

#[test]
fn the_smallest_class_is_verified_on_every_backend() {
    let smallest = PROGRAMS.map(|program| format!("{program}:class=small"));
    assert_verified(&smallest, 1);
}

#[test]
fn odd_shapes_and_grains_are_verified_on_every_backend() {
    assert_verified(INPUTS, 1);
}

#[test]
fn every_program_has_the_three_classes_and_its_row_in_the_catalog() {
    for program in PROGRAMS {
        let definition = catalog::DEFINITIONS
            .iter()
            .find(|definition| definition.name == program)
            .unwrap_or_else(|| panic!("{program}"));
        assert!(definition.summary.contains("DWS paper"), "{program}: {}", definition.summary);
        let class = definition.parameters.iter().find(|parameter| parameter.key == "class").unwrap();
        assert!(class.help.contains("small, medium") && class.help.contains("paper"), "{program}: {}", class.help);
        let error = catalog::prepare(&format!("{program}:class=S")).err().unwrap().to_string();
        assert!(error.contains("class=S is unknown. Choose one of small, medium, paper"), "{error}");
    }
}

#[test]
fn bad_parameters_are_one_sentence_that_names_the_key() {
    let bad = [
        ("fft", "n", "0"),
        ("fft", "n", "33554432"),
        ("fft", "n", "1000"),
        ("fft", "grain", "0"),
        ("pnn", "variables", "7"),
        ("pnn", "variables", "257"),
        ("pnn", "samples", "1499"),
        ("pnn", "layers", "3"),
        ("pnn", "grain", "0"),
        ("cholesky", "n", "0"),
        ("cholesky", "n", "8193"),
        ("cholesky", "nonzeros", "1000001"),
        ("cholesky", "nonzeros", "-1"),
        ("cholesky", "grain", "0"),
        ("lu", "n", "4097"),
        ("lu", "grain", "1025"),
        ("ge", "n", "many"),
        ("ge", "grain", "0"),
        ("heat", "rows", "0"),
        ("heat", "columns", "8193"),
        ("heat", "steps", "0"),
        ("heat", "grain", "0"),
        ("sor", "rows", "8193"),
        ("sor", "columns", "0"),
        ("sor", "sweeps", "100001"),
        ("sor", "seed", "-1"),
        ("mergesort", "n", "-1"),
    ];
    for (program, key, value) in bad {
        let Err(error) = catalog::prepare(&format!("{program}:{key}={value}")) else {
            panic!("{program} takes {key}={value}");
        };
        let sentence = error.to_string();
        assert!(sentence.starts_with(&format!("{program}: {key}={value} ")) && !sentence.contains('\n'), "{sentence}");
    }
}
