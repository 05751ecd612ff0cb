//! Tests that `-v` and `-q` change the output of the verbs that measure, and no other output.

use crate::lab;

/// Runs the command with these words, which must succeed. Returns its standard error.
#[track_caller]
fn errors(words: &[&str]) -> String {
    let mut command = lab();
    command.env("COMITY_TABLE", "off").env("COMITY_POLICY", "bws").env("COMITY_NUM_THREADS", "3");
    String::from_utf8(command.args(words).assert().success().get_output().stderr.clone()).unwrap()
}

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/sleep.toml");

#[test]
fn each_verb_that_measures_says_less_and_more() {
    let chosen = ["core table: none (COMITY_TABLE=off)\n", "cores: "];
    let policy = ["policy: bws (COMITY_POLICY=bws)\n", "workers: 3 (COMITY_NUM_THREADS=3)\n"];
    let measuring = ["measuring bws: 'fib:n=10' alone\n", "measuring bws: together\n"];
    let gaps = ["bench loop, serial, comity, rayon, ", "measuring gaps of 0 µs\n"];
    for (words, usual, verbose) in [
        (
            &["corun", "fib:n=10", "fib:n=11", "--rounds", "1"][..],
            "6 of 6 rounds: bws, block 1 of 1, ",
            [&chosen[..], &policy, &measuring].concat(),
        ),
        (&["kernel", "fib:n=10", "--json"], "1 of 1 rounds: fib:n=10\n", [&chosen[..], &policy].concat()),
        (
            &["bench", "loop", "--quick", "--gap-us", "0", "--rounds", "2"],
            "2 of 2 rounds: gaps of 0 µs\n",
            [&chosen[..], &gaps].concat(),
        ),
        (
            &["reproduce", "a-steal", "time", "--one-in", "100"],
            " runs: time\n",
            vec!["a-steal, seed 1, ", " threads\n", "measuring time\n"],
        ),
        (&["simulate", SCENARIO], " runs: simulate\n", vec![" threads\n", "measuring simulate\n"]),
    ] {
        let said = errors(words);
        assert!(said.contains(usual), "{words:?}: {usual} is not in\n{said}");
        for option in ["-q", "--quiet"] {
            assert_eq!(errors(&[words, &[option]].concat()), "", "{words:?}");
        }
        let said = errors(&[&["-v"], words].concat());
        for part in verbose {
            assert!(said.contains(part), "{words:?}: {part} is not in\n{said}");
        }
    }
    assert!(errors(&["kernel", "fib:n=5", "--policy", "abp", "-v"]).contains("policy: abp (the command line)\n"));
}

#[test]
fn a_verb_that_has_nothing_more_or_less_to_say_says_the_same() {
    for words in [&["completions", "bash"][..], &["kernel", "--list"], &["bench", "use", "--list"]] {
        let said = |words: &[&str]| lab().args(words).assert().success().get_output().clone();
        for option in ["-v", "-q"] {
            assert_eq!(said(&[&[option], words].concat()), said(words), "{words:?}");
        }
    }
    lab().args(["kernel", "fib:n=5", "-q", "-v"]).assert().code(2);
}
