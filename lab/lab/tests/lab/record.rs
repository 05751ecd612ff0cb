//! Tests `comity-lab record`: the content of recordings, and the errors for files that are not recordings.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::bad_input::refused;
use crate::{executable, json, lab};

#[test]
fn a_kernel_is_recorded_and_shown() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("cg.graph");
    let file = path.to_str().unwrap();
    let report = json(lab().args(["record", "cg", "--workers", "8", "--rounds", "1", "--out", file, "--json"]));
    assert_eq!(report["schema"], "comity-record/1");
    assert_eq!((&report["name"], &report["workers"]), (&"cg".into(), &8.into()));
    let number = |report: &serde_json::Value, key: &str| report[key].as_f64().unwrap();
    assert!(number(&report, "work_s") > number(&report, "span_s") && number(&report, "span_s") > 0.0);
    // Each of the 15 iterations has 25 equal steps, which the recording keeps once.
    assert!(number(&report, "tasks") > 10.0 * number(&report, "kept_tasks"), "{report}");
    let shown = json(lab().args(["record", "--show", file, "--json"]));
    for key in ["work_s", "span_s", "tasks", "leaf_ns", "plain_s"] {
        assert_eq!(report[key], shown[key], "{key}");
    }
    let wider = json(lab().args(["record", "--show", file, "--json", "--scale", "width=2,repeats=3"]));
    assert!(number(&wider, "leaves") > 5.0 * number(&shown, "leaves"), "{wider}");
    let larger = json(lab().args(["record", "--show", file, "--json", "--scale", "cg:class=W"]));
    assert_eq!((&larger["scale"]["width"], &larger["scale"]["phases"]), (&5.0.into(), &1.0.into()), "{larger}");
    assert!(number(&larger, "work_s") > 5.0 * number(&shown, "work_s"), "{larger}");
    let output =
        lab().args(["record", "--show", file, "--scale", "cg:class=W"]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("scale = { repeats = 1, phases = 1, width = 5,"), "{text}");
    let output = lab().args(["record", "--show", file]).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in
        ["cg, for 8 workers", "work T₁", "not recorded", "leaves, p10", "are merged into their parents", "% longer"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn what_is_no_recording_gets_a_sentence() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("bad.graph");
    let file = path.to_str().unwrap();
    lab().args(["record", "fib:n=12", "--rounds", "1", "--merge-ns", "1000000000", "--out", file]).assert().success();
    let fine = fs::read_to_string(&path).unwrap();
    let answer = |arguments: &[&str]| {
        let output = lab().args(arguments).assert().code(2).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    for (text, part) in [
        (fine[..fine.len() - 3].to_owned(), "it was cut short"),
        (fine.replace("\"version\":1", "\"version\":9"), "it has version 9"),
        ("not at all".to_owned(), "it is empty. Record the program again"),
        ("[1]\n".to_owned(), "it is not a recording"),
    ] {
        fs::write(&path, text).unwrap();
        let said = answer(&["record", "--show", file]);
        assert!(said.contains(part) && said.contains("bad.graph"), "{said}");
    }
    fs::write(&path, fine).unwrap();
    for (scale, part) in [
        ("repeats=2", "nothing recurs in this recording"),
        ("width=0.5", "record a smaller input"),
        ("depth=2", "no factor is called 'depth'"),
        ("width", "'width' is not of the form factor=N; the form for a kernel is NAME:key=value,…"),
        ("phases=2", "nothing is forked in this recording"),
        ("mm:n=100", "a recording of fib cannot be scaled to mm"),
        ("fib:m=3", "fib has no key 'm'"),
    ] {
        let said = answer(&["record", "--show", file, "--scale", scale]);
        assert!(said.contains(part), "{said}");
    }
    assert!(answer(&["record", "--show", "nowhere.graph"]).contains("nowhere.graph"));
    assert!(answer(&["record", "loop", "--out", file]).contains("kind = \"loop\""));
    assert!(answer(&["record", "fib"]).contains("--out"));
}

#[test]
fn a_recording_goes_where_a_result_goes_or_nothing_runs() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (out, part) in [
        (path("no/such/x.graph"), "its folder does not exist. Choose another file for --out"),
        (path(""), "it is a directory. Choose another file for --out"),
        ("-".to_owned(), "--out - would mix the recording with the report"),
    ] {
        refused(&["record", "fib:n=12", "--rounds", "1", "--out", &out], part);
    }
    let record =
        |name: &str| lab().args(["record", "fib:n=12", "--rounds", "1", "--out", &path(name)]).assert().success();
    symlink("file.graph", path("link")).unwrap();
    record("link");
    assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
    lab().args(["record", "--show", &path("file.graph")]).assert().success();
    if Command::new("mknod").args([&path("null"), "c", "1", "3"]).status().unwrap().success() {
        record("null");
        assert!(fs::symlink_metadata(path("null")).unwrap().file_type().is_char_device());
    }
}

#[test]
fn a_programs_name_reaches_the_terminal_without_what_a_terminal_obeys() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("evil.graph");
    lab().args(["record", "fib:n=12", "--rounds", "1", "--out"]).arg(&path).assert().success();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("fib:n=12", "\\u001b[2J\\u001b]0;owned\\u0007\\nfake\\rover")).unwrap();
    for (more, code) in [(&[][..], 0), (&["--scale", "fib:n=13"], 2)] {
        let output = lab().args(["record", "--show"]).arg(&path).args(more).assert().code(code).get_output().clone();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("]0;owned"), "{text}");
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
        assert!(!text.contains("\nfake"), "{text:?}");
    }
}

#[test]
fn a_temporary_folder_whose_name_a_recorder_would_change_is_refused() {
    let folder = TempDir::new().unwrap();
    let temporary = folder.path().join("a%pb");
    fs::create_dir(&temporary).unwrap();
    let mut command = lab();
    command.env("TMPDIR", &temporary).args(["record", "--out"]).arg(folder.path().join("out.graph"));
    let output = command.args(["--", "true"]).assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("a%pb/") && said.contains("set TMPDIR to another folder"), "{said}");
}

/// A user's program. Its argument is the way in which it ends.
const PROGRAM: &str = r#"
use rayon::prelude::*;

fn sort(items: &mut [u64]) {
    if items.len() <= 1_000 {
        return items.sort_unstable();
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    rayon::join(|| sort(left), || sort(right));
    items.sort();
}

fn main() {
    let end = std::env::args().nth(1).unwrap_or_default();
    if end == "none" {
        return;
    }
    let mut items: Vec<u64> = (0..64_000).map(|item: u64| item.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    sort(&mut items);
    assert!(items.is_sorted());
    rayon::scope(|scope| items.chunks_mut(8_000).for_each(|chunk| scope.spawn(|_| chunk.reverse())));
    let sum: u64 = items.par_iter().map(|item| item.rotate_left(7) >> 32).sum();
    // Threads of its own, and a task that nothing of rayon's waits for.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert!(items.par_iter().any(|item| *item == 0)));
        }
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    rayon::spawn(move || sender.send(rayon::current_num_threads()).unwrap());
    println!("{sum} on {}", receiver.recv().unwrap());
    match end.as_str() {
        "abort" => std::process::abort(),
        "within" => drop(rayon::join(|| std::process::exit(0), || ())),
        "fails" => std::process::exit(3),
        _ => {}
    }
}
"#;

/// A user's project, which is rebuilt after each change of its rayon-core.
struct Project {
    folder: TempDir,
}

impl Project {
    fn new() -> Project {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        let manifest = "[package]\nname = \"mine\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nrayon = \"1.12\"\n\
                        [workspace]\n";
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.path().join("src/main.rs"), PROGRAM).unwrap();
        Project { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn done(&self, command: &mut Command) -> Output {
        let output = command.current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Runs `comity rayon` with these words, and builds the project.
    fn built(&self, words: &[&str]) {
        let comity = Path::new(env!("CARGO_BIN_EXE_comity-lab")).with_file_name("comity");
        assert!(comity.exists(), "this test needs the other command too: cargo build -p comity-cli");
        let mut command = Command::new(comity);
        self.done(command.arg("rayon").args(words).env("XDG_STATE_HOME", self.path("state")));
        self.build();
    }

    fn build(&self) {
        let mut command = Command::new(env!("CARGO"));
        self.done(
            command.args(["build", "--quiet"]).env("CARGO_TARGET_DIR", self.path("target")).env_remove("RUSTFLAGS"),
        );
    }

    /// Returns the command `comity-lab record` for the program with the argument `end`, the way in which it ends.
    fn record(&self, options: &[&str], end: &str) -> assert_cmd::Command {
        let mut command = lab();
        command.args(["record", "--out"]).arg(self.path("mine.graph")).args(options).arg("--");
        command.arg(self.path("target/debug/mine")).arg(end);
        command
    }

    #[track_caller]
    fn fails(&self, end: &str) -> String {
        let output = self.record(&["--rounds", "1"], end).assert().code(1).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_users_program_is_recorded_shown_and_simulated() {
    let project = Project::new();
    project.build();
    assert!(project.fails("").contains("links the stock rayon; run `comity rayon enable --record`"));
    project.built(&["enable", "--record"]);

    let report =
        json(&mut project.record(&["--workers", "16", "--rounds", "3", "--merge-ns", "500", "--json"], "well"));
    assert_eq!((&report["workers"], &report["merge_ns"]), (&16.into(), &500.into()));
    assert!(report["name"].as_str().unwrap().ends_with("mine well"), "{report}");
    let number = |key: &str| report[key].as_f64().unwrap();
    // The sort has 64 leaves. The other loops add further leaves.
    assert!(number("leaves") > 64.0 && number("span_s") > 0.0 && number("work_s") > number("span_s"), "{report}");
    assert!(number("plain_s") > 0.0 && report["slowdown"].is_number() && number("clock_ns") > 0.0, "{report}");
    let shown = json(lab().args(["record", "--json", "--show"]).arg(project.path("mine.graph")));
    assert_eq!((&shown["tasks"], &shown["work_s"]), (&report["tasks"], &report["work_s"]));

    let scenario = "[machine]\nmodel = \"host\"\nprocessors = 16\nsteps = 10_000_000_000\n[[programs]]\nname = \"mine\"\n\
                    policy = \"comity\"\nkind = \"recorded\"\nfile = \"mine.graph\"\n";
    fs::write(project.path("mine.toml"), scenario).unwrap();
    let simulated = json(lab().arg("simulate").arg(project.path("mine.toml")).arg("--json"));
    let steps = simulated["summary"]["programs"][0]["time"]["mean"].as_f64().unwrap();
    assert!(steps >= 1e9 * number("span_s") && steps < 1e9 * number("work_s"), "{steps} of {report}");

    // The process of a program may also end inside a join.
    project.record(&["--rounds", "1"], "within").assert().success();
    for (end, part) in [
        ("none", "before it called a function of rayon that forks"),
        ("abort", "without writing its recording"),
        ("fails", "failed (exit status: 3)"),
    ] {
        let said = project.fails(end);
        assert!(said.contains(part), "{said}");
    }
    // The output is shown once, in the first run.
    let output = project.record(&["--rounds", "2"], "well").assert().success().get_output().clone();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.matches(" on ").count(), 1, "{errors}");
    project.built(&["disable"]);
    assert!(project.fails("").contains("links the stock rayon"));
}

#[test]
fn of_later_runs_the_recorders_lines_are_passed_on_and_of_one_that_fails_all() {
    let folder = TempDir::new().unwrap();
    let kept = folder.path().join("kept.graph");
    lab().args(["record", "fib:n=12", "--rounds", "1", "--out"]).arg(&kept).assert().success();
    // The script writes the files of a program that records itself. Its argument is the number of the first run that
    // fails.
    let script = "cd \"$(dirname \"$0\")\"\n\
                  echo run >> runs\n\
                  echo 'its own' >&2\n\
                  echo 'comity: a line of the recorder' >&2\n\
                  [ $(wc -l < runs) -lt $1 ] || exit 3\n\
                  if [ -n \"$COMITY_RECORD\" ]; then cp kept.graph \"$COMITY_RECORD\"; fi\n\
                  if [ -n \"$COMITY_RECORD_TIME\" ]; then printf 1000000 > \"$COMITY_RECORD_TIME\"; fi";
    let script = executable(&folder, "script", script);
    let said = |fails_at: &str, code: i32| {
        let _ = fs::remove_file(folder.path().join("runs"));
        let mut command = lab();
        command.args(["record", "--rounds", "2", "--out"]).arg(folder.path().join("out.graph"));
        let output = command.arg("--").arg(&script).arg(fails_at).assert().code(code).get_output().clone();
        let text = String::from_utf8(output.stderr).unwrap();
        (text.matches("its own\n").count(), text.matches("comity: a line of the recorder\n").count())
    };
    assert_eq!(said("100", 0), (1, 5));
    assert_eq!(said("3", 1), (2, 3));
}

#[test]
fn a_command_that_records_nothing_gets_a_sentence() {
    let folder = TempDir::new().unwrap();
    let script = executable(&folder, "script", "exit 0");
    let out = folder.path().join("out.graph");
    let answer = |words: &[&str], code: i32| {
        let output = lab().args(["record", "--out"]).arg(&out).args(words).assert().code(code).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(answer(&["--", script.to_str().unwrap()], 1).contains("is a script"));
    assert!(answer(&["--", "true"], 1).contains("links no rayon"));
    // `comity-lab` itself links the runtime, but no recorder.
    let comity = Path::new(env!("CARGO_BIN_EXE_comity-lab")).with_file_name("comity");
    assert!(answer(&["--", comity.to_str().unwrap(), "policies"], 1).contains("was enabled without --record"));
    assert!(answer(&["--", "/nowhere/mine"], 2).contains("cannot run '/nowhere/mine'"));
    assert!(answer(&["fib", "--", "true"], 2).contains("cannot be used with"));
    assert!(!out.exists());
}
