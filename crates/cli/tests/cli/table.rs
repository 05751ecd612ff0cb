//! Tests of `comity table`: its output for a table that does not exist, is empty, is used, has dead programs, or is
//! no table.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs, hint};

use comity_os::process;
use serde_json::json;

use crate::{comity, send, table_at, wait_until};

/// Runs `comity table` with words and returns the exit code, standard output and standard error.
fn table(path: &Path, words: &[&str]) -> (i32, String, String) {
    let output = comity().env("COMITY_TABLE", path).arg("table").args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Starts a member of the table that has work until it is killed. The member is another process of this test program.
pub fn member(path: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "table::works_as_a_member", "--nocapture", "--test-threads", "1"]);
    command.env("COMITY_TABLE", path).env("COMITY_WEIGHT", "250").env(MEMBER, std::process::id().to_string());
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the program holds a core", || {
        table_at(path)["programs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|program| !program["held"].as_array().unwrap().is_empty())
    });
    child
}

const MEMBER: &str = "COMITY_TEST_MEMBER";

#[test]
fn works_as_a_member() {
    if let Some(parent) = env::var_os(MEMBER) {
        process::die_with_parent(parent.to_str().unwrap().parse().unwrap()).unwrap();
        let pool = comity::ThreadPoolBuilder::new().num_threads(1).policy("dws".parse().unwrap()).build().unwrap();
        pool.install(|| {
            loop {
                hint::spin_loop();
            }
        });
    }
}

#[test]
fn a_table_that_is_not_there_is_said_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let place = path.to_str().unwrap();
    for words in [&[][..], &["show"], &["clean"]] {
        let (code, text, errors) = table(&path, words);
        assert!(code == 0 && text.starts_with("There is no core table") && text.contains(place), "{text}{errors}");
    }
    assert_eq!(
        table_at(&path),
        json!({"schema": "comity-table/1", "path": place, "exists": false, "cores": [], "programs": []})
    );
    let cleaned = crate::json(comity().env("COMITY_TABLE", &path).args(["table", "clean", "--json"]));
    assert_eq!(cleaned, json!({"schema": "comity-table-clean/1", "path": place, "outcome": "no_table", "programs": 0}));
    assert!(!path.exists());
    for words in [&[][..], &["clean"]] {
        assert!(table(Path::new("off"), words).1.starts_with("COMITY_TABLE is off"));
    }
    let (_, help, _) = table(&path, &["--help"]);
    for word in ["COMITY_TABLE", "0600", "0660", "SIGBUS", "off", "chmod g+s"] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
}

#[test]
fn a_living_program_is_shown_and_not_cleaned_away_and_a_dead_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let mut child = member(&path);

    // On a busy machine the member's coordinator may look late, so that the member counts as stopped for a while.
    let lives = || table_at(&path)["programs"][0]["life"] == "living";
    wait_until("it counts as living", lives);
    let report = table_at(&path);
    let [program] = report["programs"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(program["pid"], child.id());
    let name = program["name"].as_str().unwrap();
    assert!(name.starts_with("cli-"), "{report}");
    for (field, expected) in [("slot", 0), ("weight", 250), ("workers", 1)] {
        assert_eq!(program[field], expected, "{field} in {report}");
    }
    for field in ["desire", "awake", "taken_back", "released", "lost"] {
        assert!(program[field].is_u64(), "{field} in {report}");
    }
    assert!(program["claimed"].as_u64().unwrap() > 0, "{report}");
    assert!(program["policy"].as_str().unwrap().starts_with("dws"), "{report}");
    assert!(program["age_s"].as_f64().unwrap() > 0.0);
    let cores = report["cores"].as_array().unwrap();
    let is_time = |since: &serde_json::Value| since.is_null() || since.as_f64().is_some_and(|since| since >= 0.0);
    assert!(cores.iter().all(|core| is_time(&core["since_s"])), "{report}");
    wait_until("the core has its owner and holder", || {
        table_at(&path)["cores"].as_array().unwrap().iter().any(|core| core["owner"] == 0 && core["holder"] == 0)
    });
    let (code, text, _) = table(&path, &["show"]);
    for word in ["owner", "holder", "since", &format!("0 {name}"), "250", "desire", path.to_str().unwrap()] {
        assert!(code == 0 && text.contains(word), "{word} is not in\n{text}");
    }
    // The program has one worker, which has no other worker to steal from.
    wait_until("it says what its thieves did", || table_at(&path)["programs"][0]["steals"].is_u64());
    let report = table_at(&path);
    let program = &report["programs"][0];
    assert_eq!((&program["steals"], &program["accelerations"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(program["refused"].as_object().unwrap().len(), comity::Refusal::ALL.len(), "{report}");
    assert_eq!(program["refused"]["other_node"], 0, "{report}");
    let (code, text, _) = table(&path, &["--wide"]);
    for word in ["dws", "workers", "taken back", "cpu", "steals", "accelerated", "refused"] {
        assert!(code == 0 && text.contains(word), "{word} is not in\n{text}");
    }

    let (code, text, _) = table(&path, &["clean"]);
    assert!(code == 0 && text.starts_with("1 living program uses the core table"), "{text}");
    assert!(path.exists() && child.try_wait().unwrap().is_none());
    wait_until("it still counts as living", lives);

    send("STOP", child.id());
    wait_until("it counts as stopped", || table_at(&path)["programs"][0]["life"] == "stopped");
    assert!(table(&path, &["clean"]).1.starts_with("1 living program"));
    send("CONT", child.id());
    wait_until("it goes on", lives);

    child.kill().unwrap();
    child.wait().unwrap();
    let report = table_at(&path);
    assert_eq!(report["programs"][0]["life"], "dead", "{report}");
    assert!(table(&path, &[]).1.contains(" dead "));
    // The next program removes the dead one.
    let mut next = member(&path);
    wait_until("the dead one is gone", || {
        let report = table_at(&path);
        let programs = report["programs"].as_array().unwrap();
        programs.len() == 1 && programs[0]["pid"] == next.id()
    });
    next.kill().unwrap();
    next.wait().unwrap();
    let (code, text, _) = table(&path, &["clean"]);
    assert!(code == 0 && text.starts_with("No program used the core table") && !path.exists(), "{text}");
}

#[test]
fn what_is_broken_is_named_and_cleaned_away_and_what_is_no_table_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let mut child = member(&path);
    child.kill().unwrap();
    child.wait().unwrap();
    let good = fs::read(&path).unwrap();
    let mut version = good.clone();
    version[8] = 99;
    for (bytes, why) in [
        (&good[..100], "is cut short. `comity table clean`"),
        (&good[..good.len() - 1], "has the wrong size. `comity table clean`"),
    ] {
        fs::write(&path, bytes).unwrap();
        let (code, text, errors) = table(&path, &[]);
        assert!(code == 1 && text.is_empty() && errors.starts_with("error: the core table '"), "{errors}");
        assert!(errors.contains(why) && errors.contains(path.to_str().unwrap()), "{errors}");
        let (code, text, errors) = table(&path, &["clean", "--json"]);
        assert!(code == 0 && text.contains(r#""outcome": "removed""#) && !path.exists(), "{text}{errors}");
    }
    // A table of another layout stays while programs use it.
    fs::write(&path, &version).unwrap();
    let (code, text, _) = table(&path, &[]);
    assert!(code == 0 && text.contains("There is no core table") && text.contains("table.layout-2"), "{text}");
    let (code, text, errors) = table(&path, &["clean", "--json"]);
    assert!(code == 0 && text.contains(r#""outcome": "removed""#) && !path.exists(), "{text}{errors}");
    // A file that is no table stays.
    fs::write(&path, "dear diary, ".repeat(50)).unwrap();
    for (words, why) in [(&[][..], "is not a core table"), (&["clean"], "Use `rm` to remove it")] {
        let (code, _, errors) = table(&path, words);
        assert!(code == 1 && errors.contains(why), "{errors}");
    }
    assert!(path.exists());
    let (code, _, errors) = table(folder.path(), &["clean"]);
    assert!(code == 1 && errors.contains("is not a regular file"), "{errors}");
}

#[test]
fn words_that_are_none_are_refused() {
    for words in [&["table", "shwo"][..], &["table", "--jsno"], &["table", "--json", "clean"]] {
        comity().args(words).assert().code(2);
    }
}

#[test]
fn a_table_is_off_in_any_case_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for word in ["OFF", "Off", "none", "NO", "0", "false"] {
        for words in [&["table"][..], &["run", "true"], &["cores"]] {
            let output = comity().current_dir(folder.path()).env("COMITY_TABLE", word).args(words).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{word}: {output:?}");
            assert!(words != ["table"] || output.stdout.starts_with(b"COMITY_TABLE is off"), "{word}: {output:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{word}");
    }
}
