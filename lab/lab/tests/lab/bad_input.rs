//! Tests that an error of the command line gives one sentence and exit code 2, before anything runs.

use std::fs;

use crate::{executable, lab};

/// Runs `words`. Checks the exit code, that standard error contains `part`, and that standard output is empty.
#[track_caller]
pub fn refused(words: &[&str], part: &str) {
    let output = lab().args(words).assert().code(2).get_output().clone();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: ") && errors.contains(part), "{words:?}: {errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{words:?}");
}

#[test]
fn an_unknown_kernel_key_or_value_is_refused() {
    for verb in [&["kernel"][..], &["corun", "fib:n=10"]] {
        let with = |program| [verb, &[program]].concat();
        refused(&with("fibonacci"), "is called 'fibonacci'. Choose one of fib, ");
        refused(&with("fib:depth=3"), "fib has no key 'depth'; its keys are n");
        refused(&with("fib:n=51"), "n=51 is not a whole number from 0 to 50");
        refused(&with("fib:n"), "'n' is not of the form key=value");
        refused(&with("cg:class=Q"), "class=Q is unknown. Choose one of S, W, A, B");
    }
    refused(&["corun", "fib", "true"], "give a command with its path or its arguments in quotes");
    refused(&["kernel"], "no kernel is given. Choose one of fib, ");
}

#[test]
fn more_memory_than_there_is_is_refused() {
    // The input has 2.4 TB.
    let program = "mergesort:n=100000000000";
    refused(&["kernel", program], "mergesort: this input needs 2288819 MiB of memory, and ");
    refused(&["corun", "fib", program], " MiB are available. Choose a smaller input");
}

#[test]
fn an_unknown_policy_backend_or_baseline_is_refused() {
    refused(&["kernel", "fib", "--policy", "cilk"], "no policy is called 'cilk'. Choose one of comity, plain, abp");
    refused(&["kernel", "fib", "--policy", "bws:depth=3"], "policy bws has no parameter 'depth'");
    refused(&["kernel", "fib", "--backend", "tbb"], "invalid value 'tbb'");
    refused(&["kernel", "fib", "--backend", "rayon", "--policy", "abp"], "cannot be used with --backend rayon");
    refused(&["corun", "fib", "fib", "--policy", "abp,cilk"], "no policy is called 'cilk'");
    refused(&["corun", "fib", "fib", "--policy", "bws,sleep_threshold=9"], "Write bws:sleep_threshold=9");
    refused(&["corun", "fib", "fib", "--policy", "abp,abp"], "abp is listed twice");
    refused(&["corun", "fib", "fib", "--backend", "rayon,tbb"], "invalid value 'tbb'");
    refused(&["corun", "fib", "fib", "--baseline", "abp"], "--baseline abp is not measured");
    refused(&["corun", "fib", "fib", "--group", "none"], "invalid value 'none'");
}

#[test]
fn a_count_of_zero_or_beyond_reason_is_refused() {
    for verb in [&["kernel", "fib"][..], &["corun", "fib", "fib"]] {
        for (flag, value, range) in [
            ("--workers", "0", "from 1 to 1024"),
            ("--workers", "1025", "from 1 to 1024"),
            ("--workers", "99999999999999999999", "from 1 to 1024"),
            ("--workers", "two", "from 1 to 1024"),
            ("--workers", "-1", "from 1 to 1024"),
            ("--rounds", "1.5", "give a whole number from 1 to "),
            ("--rounds", "0", "from 1 to "),
        ] {
            refused(&[verb, &[flag, value]].concat(), range);
        }
    }
    refused(&["kernel", "fib", "--backend", "serial", "--workers", "2"], "serial has one thread");
    refused(&["corun", "fib", "fib", "--timeout", "0"], "from 1 to ");
    refused(&["corun", "fib"], "at least two programs, and 'fib' is the only program");
    refused(&["corun", "fib", "--pairs"], "use --pairs=all to run it together with itself");
    refused(&["corun", "fib", "fib", "--pairs=some"], "invalid value 'some'");
    refused(&[&["corun"][..], &["fib"; 65]].concat(), "65 programs are too many");
}

#[test]
fn a_bench_of_what_is_not_there_is_refused() {
    refused(&["bench", "fork-join", "--workload", "fib,knapsack"], "invalid value 'knapsack'");
    refused(&["bench", "fork-join", "--workload", "fib,fib"], "fib is listed twice");
    refused(&["bench", "fork-join", "--workers", "1"], "from 2 to 1024");
    refused(&["bench", "fork-join", "--n", "46"], "from 1 to 45");
    refused(&["bench", "loop", "--gap-us", "20,soon"], "invalid value 'soon'");
    refused(&["bench", "loop", "--policy", "rayon"], "no policy is called 'rayon'");
    refused(&["bench", "idle", "--threads", "2,0"], "from 1 to 1024");
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 1_024) {
        refused(&["bench", "steal", "--thieves", "0,1023"], "1023 thieves and a worker need 1024 cores");
    }
}

#[test]
fn a_binary_that_is_not_there_or_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = executable(&folder, "good", "cat");
    let (good, plain) = (good.to_str().unwrap(), folder.path().join("plain"));
    fs::write(&plain, "text").unwrap();
    let bench = |stock, drop_in| ["bench", "drop-in", "--stock", stock, "--drop-in", drop_in];
    refused(&bench("/no/such", good), "--stock '/no/such': No such file");
    refused(&bench(good, "/no/such"), "--drop-in '/no/such': No such file");
    for no_binary in [plain.to_str().unwrap(), folder.path().to_str().unwrap()] {
        let why = format!("--drop-in '{no_binary}': it is not an executable file. Give the path of a rayon-programs");
        refused(&bench(good, no_binary), &why);
    }
    refused(&["bench", "drop-in", "--stock", good], "--drop-in <PATH>");
    refused(&[&bench(good, good)[..], &["--policy", "abp,abp"]].concat(), "abp is listed twice");
    refused(&[&bench(good, good)[..], &["--policy", "rayon"]].concat(), "no policy is called 'rayon'");
}

#[test]
fn a_result_file_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    refused(&["corun", "fib", "fib", "--json", &path("")], "it is a directory");
    refused(&["corun", "fib", "fib", "--json", &path("no/such.json")], "its folder does not exist");
    fs::write(path("file"), "").unwrap();
    refused(&["corun", "fib", "fib", "--json", &path("file/x.json")], "cannot write");
    refused(&["corun", "fib", "fib", "--json", "/proc/x.json"], "cannot write '/proc/x.json'");
}

#[test]
fn an_existing_result_survives_bad_input_and_a_failed_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    fs::write(&path, "dear").unwrap();
    let file = path.to_str().unwrap();
    refused(&["corun", "fib", "fibonacci", "--json", file], "fibonacci");
    lab().args(["corun", "fib:n=5", "exit 3 # fails", "--rounds", "1", "--json", file]).assert().code(1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "dear");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn bad_values_in_the_environment_are_refused() {
    for (name, value, part) in [
        ("COMITY_POLICY", "cilk", "COMITY_POLICY: no policy is called 'cilk'"),
        ("COMITY", "of", "COMITY=of is neither on nor off"),
        ("COMITY_NUM_THREADS", "many", "COMITY_NUM_THREADS=many is not a whole number"),
        ("COMITY_NUM_THREADS", "1025", "1025 workers are too many. Choose 1 to 1024 with --workers"),
    ] {
        for words in [&["kernel", "fib:n=5"][..], &["corun", "fib:n=5", "fib:n=6", "--rounds", "1"]] {
            let output = lab().env(name, value).args(words).assert().code(2).get_output().clone();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(errors.starts_with("error: ") && errors.contains(part), "{name}={value} {words:?}: {errors}");
        }
    }
}

#[test]
fn files_that_cannot_be_plotted_or_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
    write("empty", "");
    write("cut", r#"{"schema":"comity-corun/1","machine":{"cpu":"#);
    write("other", r#"{"schema":"comity-kernel/1"}"#);
    write("nameless", "[1, 2]");
    write("poor", r#"{"schema":"comity-corun/1"}"#);
    let machine = r#""machine":{"cpu":"","cores":1,"allowed_cores":1,"kernel":"","os_tier":0}"#;
    let versions = r#""versions":{"comity":"","rayon":"","rustc":""}"#;
    let rest = r#""command":[],"baseline":"own","rounds":1,"blocks":1,"coruns":[],"over_pairs":[]"#;
    write("idle", &format!(r#"{{"schema":"comity-corun/1",{machine},{versions},{rest}}}"#));
    for (file, part) in [
        ("empty", "EOF"),
        ("cut", "EOF"),
        ("other", "its schema is comity-kernel/1 instead of comity-corun/1"),
        ("nameless", "it has no schema"),
        ("poor", "missing field"),
        ("idle", "it has no co-runs, or a co-run without programs"),
        ("absent", "No such file"),
        (".", "directory"),
    ] {
        refused(&["plot", &path(file)], part);
    }
    refused(&["plot"], "required");
    let run = ["corun", "fib:n=5", "fib:n=6", "--rounds", "1"];
    let same = path("same");
    refused(&[&run[..], &["--json", &same, "--csv", &same]].concat(), "is named twice. Choose another file for --csv");
    let again = path("./same");
    refused(&[&run[..], &["--json", &same, "--csv", &again]].concat(), "is named twice. Choose another file for --csv");
    refused(&[&run[..], &["--csv", "-", "--plot", "-"]].concat(), "Choose another file for --plot");
    for option in ["--json", "--csv", "--plot"] {
        refused(&[&run[..], &[option, &path("none/file")]].concat(), &format!("Choose another file for {option}"));
        refused(&[&run[..], &[option, folder.path().to_str().unwrap()]].concat(), "it is a directory");
    }
    assert!(!folder.path().join("same").exists());
}
