//! Tests the report of a measurement that a signal ended, and that the same command continues after the rounds in its
//! file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use serde_json::Value;

use crate::{FAKE_LIST, Interrupted, ended_at_a_line, executable, json, lab, send};

/// Returns the output of the command when SIGTERM arrives after its first block.
#[track_caller]
fn interrupted(words: &[&str]) -> Interrupted {
    let ended = ended_at_a_line(1, "TERM", words);
    assert_eq!(ended.signal, Some(15), "{words:?}: {}", ended.last);
    assert!(ended.last.starts_with("interrupted after "), "{words:?}: {}", ended.last);
    ended
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn a_kernel_tells_its_rounds_as_a_part() {
    // A block is a tenth of the rounds.
    let ended = interrupted(&["kernel", "fib:n=31", "--workers", "2", "--rounds", "500", "--json"]);
    let report: Value = serde_json::from_str(&ended.printed).unwrap();
    assert_eq!((&report["schema"], &report["partial"]), (&"comity-kernel/1".into(), &true.into()));
    let rounds = report["rounds"].as_array().unwrap().len();
    assert!((50..500).contains(&rounds), "{rounds}");
    assert!(ended.last.starts_with(&format!("interrupted after {rounds} of 500 rounds: ")), "{}", ended.last);
}

#[test]
fn a_kernel_in_words_is_a_part_too() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(["kernel", "fib:n=25", "--rounds", "1000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("round 2: ")).unwrap();
    send("TERM", child.id());
    let last = lines.last().unwrap();
    assert!(
        last.starts_with("PARTIAL: the command was interrupted after ") && last.ends_with(" of 1000000 rounds"),
        "{last}"
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    // Without JSON, rounds are printed on standard output, so standard error has only one line.
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("interrupted after ") && errors.lines().count() == 1, "{errors}");
}

#[test]
fn every_bench_tells_its_rounds_as_a_part() {
    let folder = tempfile::tempdir().unwrap();
    // The script answers at once, but not for the second program.
    let fake = executable(
        &folder,
        "fake",
        &format!(
            r#"{FAKE_LIST}while read -r line; do
            [ "$line" != slow ] || exec sleep 600
            echo "{{\"program\":\"$line\",\"seconds\":1,\"cpu_seconds\":1}}"; done"#
        ),
    );
    let fake = fake.to_str().unwrap();
    // In each bench, the first block is short, and the later blocks are long.
    for (words, rows) in [
        (&["wake", "--idle-ms", "5", "--samples", "500"][..], "rows"),
        (&["solo", "fib:n=5", "fib:n=42", "--policy", "plain", "--rounds", "3"], "kernels"),
        (&["drop-in", "--stock", fake, "--drop-in", fake, "sort", "slow", "--rounds", "3"], "programs"),
        (&["fork-join", "--quick", "--workload", "tree,fib", "--n", "45"], "rows"),
        (&["loop", "--gap-us", "0,1000000", "--phases", "20", "--rounds", "1"], "rows"),
        (
            &["idle", "--policy", "plain,bws,comity", "--threads", "2,3,4", "--seconds", "1", "--task-seconds", "1"],
            "rows",
        ),
        (&["lend", "--policy", "comity,dws,dws:quantum_us=1000,dws:quantum_us=2000", "--samples", "10"], "rows"),
        (&["latency", "--policy", "comity,bws,abp", "--samples", "20", "--rounds", "9"], "rows"),
        (&["accelerate", "--policy", "bws", "--count-ms", "100", "--rounds", "50"], "rows"),
        (&["use", "--seconds", "1", "--rounds", "1"], "scenarios"),
        (&["simulator", "--rounds", "3"], "sizes"),
        (&["blocking", "--quick", "--alone", "--n", "50", "--workers", "1", "--w-us", "1,100000"], "rows"),
    ] {
        // `bench lend` needs two cores, because two programs cannot divide a single core into cores.
        if words[0] == "lend" && available_parallelism().unwrap().get() < 2 {
            continue;
        }
        let words = [&["bench"], words].concat();
        let out = folder.path().join(words[1]);
        let ended = interrupted(&[&words[..], &["--json", "--out", out.to_str().unwrap()]].concat());
        let report: Value = serde_json::from_str(&ended.printed).unwrap();
        assert_eq!(report["partial"], true, "{words:?}");
        assert!(!report[rows].as_array().unwrap().is_empty(), "{words:?}: {report}");
        let filed: Value = serde_json::from_slice(&bytes(&out.join(format!("bench-{}.json", words[1])))).unwrap();
        assert_eq!(filed, report, "{words:?}");
    }
    // The next two cases are a report in words, and a bench that is interrupted before its first measurement.
    let ended = interrupted(&["bench", "loop", "--gap-us", "0,1000000", "--phases", "20", "--rounds", "1"]);
    let part = "PARTIAL: the command was interrupted after 1 of 2 rounds. 20 phases ";
    assert!(ended.printed.starts_with(part), "{}", ended.printed);
}

/// Makes a binary for `bench drop-in` that records what it runs. It hangs on the second program while the file `hang`
/// exists.
fn that_hangs(folder: &tempfile::TempDir) -> String {
    let place = folder.path().display();
    let script = format!(
        r#"{FAKE_LIST}while read -r line; do
        echo "$line" >>{place}/ran
        [ "$line" != slow ] || [ ! -e {place}/hang ] || exec sleep 600
        echo "{{\"program\":\"$line\",\"seconds\":1,\"cpu_seconds\":1}}"; done"#
    );
    fs::write(folder.path().join("hang"), "").unwrap();
    executable(folder, "fake", &script).to_str().unwrap().to_owned()
}

#[test]
fn a_bench_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (fake, out) = (that_hangs(&folder), folder.path().join("out"));
    let out = out.to_str().unwrap();
    let words = ["bench", "drop-in", "--stock", &fake, "--drop-in", &fake, "sort", "slow", "--out", out, "--rounds"];
    let three = [&words[..], &["3", "--json"]].concat();
    interrupted(&three);
    fs::remove_file(folder.path().join("hang")).unwrap();
    let ran = |what: &str| {
        let text = fs::read_to_string(folder.path().join("ran")).unwrap();
        text.lines().filter(|line| *line == what).count()
    };
    // There are four rounds, including an uncounted first round. In each, the stock backend, the drop-in and the
    // control run.
    assert_eq!(ran("sort"), 12);
    let report = json(lab().args(&three));
    assert_eq!((ran("sort"), &report["partial"]), (12, &false.into()));
    let programs = report["programs"].as_array().unwrap();
    assert!(programs.iter().all(|program| program["rounds"] == 3) && programs.len() == 2, "{report}");
    // The same command again does no round, and reports the same numbers.
    let before = ran("slow");
    assert_eq!(json(lab().args(&three))["programs"], report["programs"]);
    assert_eq!(ran("slow"), before);
    // A folder with another number of rounds is refused, and stays unchanged.
    let filed = folder.path().join("out/runs/bench-drop-in.jsonl");
    let content = bytes(&filed);
    let refused = lab().args(words).arg("4").assert().code(2).get_output().clone();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("it has runs of another setting") && errors.contains("Choose another folder"), "{errors}");
    assert_eq!(bytes(&filed), content);
    // If a line is missing in the file, later rounds would get wrong numbers, so the file is refused.
    let lines = String::from_utf8(content).unwrap();
    let without: String =
        lines.split_inclusive('\n').enumerate().filter(|(nth, _)| *nth != 2).map(|(_, line)| line).collect();
    fs::write(&filed, &without).unwrap();
    let refused = lab().args(&three).assert().code(2).get_output().clone();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("is missing, and later rounds are there"), "{errors}");
    assert_eq!(fs::read_to_string(&filed).unwrap(), without);
    lab().args(["bench", "use", "--list", "--out", out]).assert().code(2);
}

#[test]
fn a_corun_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (count, hang, out) = (folder.path().join("count"), folder.path().join("hang"), folder.path().join("out"));
    fs::write(&hang, "").unwrap();
    // The first block has three executions: alone, on one core, together. A later execution hangs.
    let hangs =
        format!("echo >>{0}; [ $(wc -l <{0}) -lt 4 ] || [ ! -e {1} ] || sleep 600", count.display(), hang.display());
    let out = out.to_str().unwrap();
    let words = ["corun", "fib:n=10", &hangs, "--policy", "abp", "--rounds", "2", "--workers", "2", "--out", out];
    interrupted(&words);
    fs::remove_file(&hang).unwrap();
    let executions = || fs::read_to_string(&count).unwrap().lines().count();
    let result = || -> Value { serde_json::from_slice(&bytes(&folder.path().join("out/result.json"))).unwrap() };
    let part = result();
    assert_eq!(part["partial"], true);
    let before = executions();
    lab().args(words).assert().success();
    let whole = result();
    assert_eq!(whole["partial"], false);
    // Only the second block has run.
    assert!(executions() - before >= 3, "{before} and {}", executions());
    for program in 0..2 {
        let times = |report: &Value, of: &str| {
            report["coruns"][0]["programs"][program]["times"][of].as_array().unwrap().clone()
        };
        for of in ["one_core_s", "corun_s"] {
            assert_eq!(times(&whole, of).len(), 2, "{of}");
            assert_eq!(times(&whole, of)[0], times(&part, of)[0], "{of}");
        }
    }

    // If the last line is incomplete, a hint reports it, and its block runs again.
    let filed = folder.path().join("out/runs/corun.jsonl");
    let content = bytes(&filed);
    fs::write(&filed, &content[..content.len() - 9]).unwrap();
    let again = lab().args(words).assert().success().get_output().clone();
    let errors = String::from_utf8(again.stderr).unwrap();
    assert!(errors.contains("corun.jsonl': its last line was cut off"), "{errors}");
    assert_eq!(bytes(&filed).iter().filter(|byte| **byte == b'\n').count(), 3);
    assert_eq!(
        result()["coruns"][0]["programs"][0]["times"]["corun_s"][0],
        whole["coruns"][0]["programs"][0]["times"]["corun_s"][0]
    );

    // Another command line, another program's file and an invalid line are refused, and the file stays unchanged.
    let other = words.map(|word| if word == "abp" { "bws" } else { word });
    let not_a_line = [&content[..], b"milk\n"].concat();
    for (words, content, part) in [
        (other, &content[..], "it has runs of another setting"),
        (words, b"milk, bread", "it is not a file of runs"),
        (words, b"milk, bread\n", "not the first line of a file of runs"),
        (words, &not_a_line, "line 4: not a run"),
    ] {
        fs::write(&filed, content).unwrap();
        let refused = lab().args(words).assert().code(2).get_output().clone();
        let errors = String::from_utf8(refused.stderr).unwrap();
        assert!(errors.contains(part), "{part}: {errors}");
        assert_eq!(bytes(&filed), content, "{part}");
    }
}
