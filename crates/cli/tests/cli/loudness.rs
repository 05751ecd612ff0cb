//! Tests of `-v` and `-q`, which change what verbs print on standard error, and which all verbs accept.

use std::fs;

use crate::comity;

/// Returns the standard output and the standard error of `comity` with these words. `variable` is the value of
/// `COMITY_TABLE`.
fn said(variable: &str, words: &[&str]) -> (String, String) {
    let output = comity().env("COMITY_TABLE", variable).args(words).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A path where no table can be made.
const NOWHERE: &str = "/dev/null/table";

#[test]
fn a_command_runs_with_hints_without_or_with_all_there_is_to_say() {
    for (words, out) in [(["run", "echo", "done"], "done\n"), (["run", "true", "none"], "")] {
        let (printed, errors) = said(NOWHERE, &words);
        assert_eq!(printed, out);
        assert!(errors.ends_with("The command runs without sharing cores.\n"), "{errors}");
    }
    for words in [["-q", "run", "echo", "done"], ["run", "-q", "echo", "done"], ["run", "--quiet", "echo", "done"]] {
        assert_eq!(said(NOWHERE, &words), ("done\n".to_owned(), String::new()), "{words:?}");
    }
    let (printed, errors) = said("off", &["run", "-v", "--weight", "300", "echo", "done"]);
    assert_eq!(printed, "done\n");
    for part in [
        "core table: none (COMITY_TABLE=off)\n",
        "allowed cores: ",
        "weight: 300 (command line)\n",
        "runs 'echo' with ",
    ] {
        assert!(errors.contains(&format!("comity: {part}")), "{part} is not in\n{errors}");
    }
    // Options after the command belong to the command.
    let (printed, errors) = said("off", &["run", "echo", "-q", "-v", "--quiet"]);
    assert_eq!((printed.as_str(), errors.as_str()), ("-q -v --quiet\n", ""));
}

#[test]
fn cores_and_the_table_say_where_they_look() {
    assert!(said(NOWHERE, &["cores"]).1.ends_with("computed without the table.\n"));
    assert_eq!(said(NOWHERE, &["cores", "-q"]).1, "");
    let (printed, errors) = said("off", &["cores", "-v"]);
    assert!(printed.trim().parse::<u32>().unwrap() >= 1, "{printed}");
    assert!(errors.starts_with("comity: core table: none (COMITY_TABLE=off)\n"), "{errors}");
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table");
    let table = table.to_str().unwrap();
    for words in [&["table", "-v"][..], &["table", "show", "-v"], &["-v", "table", "clean"]] {
        let expected = format!("comity: core table: {table} (COMITY_TABLE)\n");
        assert_eq!(said(table, words).1, expected, "{words:?}");
    }
    assert_eq!(said(table, &["table"]).1, "");
}

#[test]
fn rayon_says_what_it_asks_cargo() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/lib.rs"), "").unwrap();
    fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"alone\"\nversion = \"0.1.0\"\n").unwrap();
    let project = folder.path().to_str().unwrap();
    let asks = |words: &[&str]| said("off", words).1.contains("comity: runs `cargo ");
    assert!(asks(&["rayon", "status", "-v", project]));
    // Without a terminal, the output is the same.
    assert!(!asks(&["rayon", "status", project]) && !asks(&["rayon", "-q", "status", project]));
}

#[test]
fn a_verb_that_has_nothing_more_or_less_to_say_says_the_same() {
    for words in [&["table"][..], &["policies"], &["completions", "bash"], &["top", "--once", "--interval-ms", "50"]] {
        for option in ["-q", "-v"] {
            let (printed, errors) = said("off", &[&[option], words].concat());
            assert_eq!(printed, said("off", words).0, "{words:?} {option}");
            assert!(option == "-v" || errors.is_empty(), "{words:?} {option}: {errors}");
        }
    }
    comity().args(["cores", "-q", "-v"]).assert().code(2);
}
