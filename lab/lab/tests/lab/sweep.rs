//! Tests `comity-lab sweep`: the runs of a file on this machine, in shards, and as the array of a fake engine, which
//! is a script.
//!
//! checks/sweep.sh tests the engines themselves.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::bad_input::refused;
use crate::{executable, lab, send, wait_until};

/// Two programs on a host, which takes almost no time to simulate.
const SCENARIO: &str = r#"
runs = 6
[machine]
model = "host"
cores = 4
steps = 1_000_000_000
[[programs]]
name = "narrow"
policy = "abp"
serial = 300_000
parallel = 200_000
width = 4
iterations = 3
"#;

const SWEEP: &str = r#"
out = "out"
shards = 4
[[simulate]]
name = "varied"
scenarios = ["one.toml", "two.toml"]
policy = ["abp,bws"]
set = ["machine.cores=2,4"]
csv = true
plot = true
"#;

struct Desk(TempDir);

impl Desk {
    fn new(sweep: &str) -> Desk {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("one.toml"), SCENARIO).unwrap();
        fs::write(folder.path().join("two.toml"), SCENARIO.replace("width = 4", "width = 40")).unwrap();
        fs::write(folder.path().join("sweep.toml"), sweep).unwrap();
        Desk(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the command, with another current folder than that of the file. The PATH contains only the scripts of
    /// this folder, and the programs that they need.
    fn command(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = lab();
        command.current_dir("/").args(["sweep", &self.path("sweep.toml")]).args(words);
        command.env("PATH", format!("{}:/bin", self.0.path().display()));
        command
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.command(words).assert().success().get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    }
}

/// Returns every file of a folder, except runs and logs, by its name.
fn results(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with("runs") || path.ends_with("logs") => {}
                true => folders.push(path),
                false => found
                    .push((path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())),
            }
        }
    }
    found.sort();
    found
}

/// Returns the results of the sweep when it runs on this machine.
fn whole(sweep: &str) -> Vec<(String, Vec<u8>)> {
    let desk = Desk::new(sweep);
    desk.done(&[]);
    results(&desk.0.path().join("out"))
}

#[test]
fn a_part_has_what_its_command_gives() {
    let desk = Desk::new(SWEEP);
    desk.done(&["--engine", "local", "--workers", "1"]);
    let words = ["--policy", "abp,bws", "--set", "machine.cores=2,4", "--out", &desk.path("by-hand")];
    lab().args(["simulate", &desk.path("two.toml")]).args(words).assert().success();
    let [swept, by_hand] = ["out/varied/two", "by-hand"].map(|folder| desk.0.path().join(folder).join("result.json"));
    assert_eq!(fs::read(swept).unwrap(), fs::read(by_hand).unwrap());
    let names: Vec<String> = results(&desk.0.path().join("out")).into_iter().map(|(name, _)| name).collect();
    let of = |part: &str| {
        ["pictures/time-narrow.svg", "result.json", "runs.csv"].map(|file| format!("varied/{part}/{file}"))
    };
    assert_eq!(names, [of("one"), of("two")].concat());
}

#[test]
fn shards_of_several_machines_together_are_the_whole() {
    let whole = whole(SWEEP);
    let desk = Desk::new(SWEEP);
    for shard in ["1/3", "2/3", "3/3"] {
        desk.done(&["--shard", shard]);
        // The folder is renamed, as if each shard had run on another machine.
        fs::rename(desk.path("out"), desk.path(&shard.replace('/', "-"))).unwrap();
    }
    let [first, second, third] = ["1-3", "2-3", "3-3"].map(|name| desk.path(name));
    let two = desk.command(&["--merge", &first, "--merge", &third]).assert().code(1).get_output().clone();
    let errors = String::from_utf8(two.stderr).unwrap();
    assert!(errors.contains("8 of the 24 runs of 'simulate' are missing in the --merge folders"), "{errors}");
    desk.done(&["--merge", &first, "--merge", &second, "--merge", &third]);
    assert!(results(&desk.0.path().join("out")) == whole);
}

/// A script that does the tasks of an array one after the other, like an engine. It leaves out the tasks in the file
/// `lost`.
const HQ: &str = r#"
here=$(dirname "$0")
[ "$1" = --version ] && exit
echo "$*" >>"$here/told"
for word; do case $word in --array=*) shards=${word#--array=} ;; esac; done
while [ "$1" != -- ]; do shift; done
shift
IFS=,
for range in $shards; do
    HQ_TASK_ID=${range%-*}
    while [ "$HQ_TASK_ID" -le "${range#*-}" ]; do
        export HQ_TASK_ID
        grep -qx "$HQ_TASK_ID" "$here/lost" || "$@" >"$here/out/logs/$HQ_TASK_ID.log" || exit
        HQ_TASK_ID=$((HQ_TASK_ID + 1))
    done
done
"#;

#[test]
fn an_engine_is_given_what_is_missing_and_the_results_are_those_of_a_run_here() {
    let whole = whole(SWEEP);
    let desk = Desk::new(SWEEP);
    executable(&desk.0, "hq", HQ);
    fs::write(desk.path("lost"), "2\n4\n").unwrap();
    let arrays = || -> Vec<String> {
        let told = fs::read_to_string(desk.path("told")).unwrap();
        told.lines().filter_map(|line| Some(line.split("--array=").nth(1)?.split(' ').next()?.to_owned())).collect()
    };
    let lost = desk.command(&["--engine", "hyperqueue"]).assert().code(1).get_output().clone();
    let errors = String::from_utf8(lost.stderr).unwrap();
    assert!(errors.contains("2 of 4 shards are not done (number 2, 4)"), "{errors}");
    assert!(errors.contains("2.log' has not been written to\nThe same command continues"), "{errors}");
    assert_eq!(String::from_utf8(lost.stdout).unwrap(), "");
    fs::write(desk.path("lost"), "").unwrap();
    let errors = desk.done(&["--engine", "hyperqueue"]);
    assert!(errors.contains("2 of 4 shards are submitted to HyperQueue"), "{errors}");
    assert_eq!(arrays(), ["1-4", "2,4"]);
    assert!(results(&desk.0.path().join("out")) == whole);
    // All shards are done, so the engine gets none. If runs are removed from the folder, the engine does them again.
    assert!(!desk.done(&["--engine", "hyperqueue"]).contains("given"));
    fs::remove_dir_all(desk.path("out/varied/one/runs")).unwrap();
    desk.done(&["--engine", "hyperqueue"]);
    assert_eq!(arrays(), ["1-4", "2,4", "1-4"]);
    assert!(results(&desk.0.path().join("out")) == whole);
}

#[test]
fn a_shard_whose_file_was_changed_is_done_again_alone() {
    let whole = whole(SWEEP);
    let desk = Desk::new(SWEEP);
    executable(&desk.0, "hq", HQ);
    fs::write(desk.path("lost"), "").unwrap();
    desk.done(&["--engine", "hyperqueue"]);
    let filed = desk.path("out/varied/one/runs/simulate.shard-2-of-4.jsonl");
    let text = fs::read_to_string(&filed).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&filed, [&lines[..2], &lines[3..]].concat().concat()).unwrap();
    let errors = desk.done(&["--engine", "hyperqueue"]);
    assert!(errors.contains("1 of 4 shards are submitted to HyperQueue"), "{errors}");
    fs::remove_file(desk.path("out/varied/two/runs/simulate.shard-3-of-4.jsonl")).unwrap();
    desk.done(&["--engine", "hyperqueue"]);
    let told = fs::read_to_string(desk.path("told")).unwrap();
    let arrays = told.lines().filter_map(|line| line.split("--array=").nth(1)?.split(' ').next());
    assert_eq!(arrays.collect::<Vec<_>>(), ["1-4", "2", "3"]);
    assert!(results(&desk.0.path().join("out")) == whole);
}

#[test]
fn a_filed_line_that_is_not_of_its_run_is_refused_with_its_place() {
    let desk = Desk::new(SWEEP);
    desk.done(&[]);
    let filed = desk.path("out/varied/one/runs/simulate.jsonl");
    let text = fs::read_to_string(&filed).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line: serde_json::Value = serde_json::from_str(lines[2]).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut line = line.clone();
        line["outcome"][key] = value;
        line
    };
    let program = line["outcome"]["programs"][0].clone();
    for (line, part) in [
        (with("seed", 1_000.into()), "its seed is 1000, and that of the run is "),
        (with("programs", serde_json::json!([])), "its programs are not those of the scenario"),
        (with("programs", serde_json::json!([program, program])), "its programs are not those of the scenario"),
    ] {
        fs::write(&filed, format!("{}{line}\n{}", lines[..2].concat(), lines[3..].concat())).unwrap();
        let output = desk.command(&[]).assert().code(2).get_output().clone();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(&format!("{filed}', line 3: not the outcome of run ")), "{errors}");
        assert!(errors.contains(part) && errors.contains("Remove the line, and the run is done again"), "{errors}");
    }
}

#[test]
fn a_limit_of_file_sizes_is_named() {
    let desk = Desk::new(SWEEP);
    let limited = |limit: u32, words: &[&str]| {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -f {limit}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_comity-lab")]).args(words);
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{}: {errors}", output.status);
        assert!(errors.contains("the limit of file sizes (`ulimit -f`)"), "{errors}");
    };
    limited(8, &["sweep", &desk.path("sweep.toml")]);
    limited(0, &["simulate", &desk.path("one.toml"), "--timeline", &desk.path("timeline")]);
}

#[test]
fn a_folder_that_takes_no_files_is_named_and_not_an_option() {
    let desk = Desk::new(SWEEP);
    fs::create_dir_all(desk.path("out/varied")).unwrap();
    // No user can create a file in the folder to which this link leads.
    std::os::unix::fs::symlink("/proc", desk.path("out/varied/one")).unwrap();
    let output = desk.command(&[]).assert().code(2).get_output().clone();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("out/varied/one': ") && errors.contains("Choose another out"), "{errors}");
    assert!(!errors.contains("--csv"), "{errors}");
}

#[test]
fn a_shard_that_is_started_again_waits_for_the_one_before() {
    let long = SWEEP.replace("[\"machine.cores=2,4\"]", "[\"machine.cores=2,4\", \"runs=50\"]");
    let whole = whole(&long);
    let desk = Desk::new(&long);
    let shard = |nth: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_comity-lab"));
        command.args(["sweep", &desk.path("sweep.toml"), "--workers", "1", "--shard", nth]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = shard("1/2");
    let filed = desk.0.path().join("out/varied/one/runs/simulate.shard-1-of-2.jsonl");
    let lines = || fs::read_to_string(&filed).map_or(0, |text| text.lines().count());
    wait_until("a run is filed", || lines() > 1);
    send("STOP", first.id());
    let again = shard("1/2");
    // The second process of the shard must not write while the first process lives, even if it does not wait for the
    // lock yet.
    send("KILL", first.id());
    first.wait().unwrap();
    let output = again.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines(), 1 + 100, "each run of the shard is filed once");
    assert!(shard("2/2").wait_with_output().unwrap().status.success());
    desk.done(&["--merge", &desk.path("out")]);
    assert!(results(&desk.0.path().join("out")) == whole);
}

#[test]
fn interrupted_and_resumed_is_uninterrupted() {
    let long = SWEEP.replace("[\"machine.cores=2,4\"]", "[\"machine.cores=2,4\", \"runs=400\"]");
    let whole = whole(&long);
    let desk = Desk::new(&long);
    let mut first = std::process::Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(["sweep", &desk.path("sweep.toml"), "--workers", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = |part: &str| {
        let file = desk.0.path().join("out/varied").join(part).join("runs/simulate.jsonl");
        fs::read_to_string(file).map_or(0, |text| text.lines().count())
    };
    wait_until("a run of the first part is filed", || lines("one") > 1);
    send("KILL", first.id());
    first.wait().unwrap();
    let filed = lines("one");
    assert!(filed <= 1_600 && lines("two") == 0, "it had ended before it was killed");
    desk.done(&[]);
    assert_eq!([lines("one"), lines("two")], [1_601, 1_601], "each run is filed once");
    assert!(results(&desk.0.path().join("out")) == whole);
}

#[test]
fn what_cannot_be_run_is_said_before_anything_is() {
    let bad = |text: &str, words: &[&str], part: &str| {
        let desk = Desk::new(text);
        refused(&[&["sweep", &desk.path("sweep.toml")], words].concat(), part);
        assert!(!desk.0.path().join("out").exists(), "{text}");
    };
    let with = |from: &str, to: &str| SWEEP.replace(from, to);
    bad(&with("shards", "shard"), &[], "unknown field `shard`, expected one of `out`, `shards`");
    bad(&with("\"two.toml\"", "\"three.toml\""), &[], "part 'varied/three' of the sweep: scenario '");
    bad(&with("abp,bws", "abp,cilk"), &[], "part 'varied/one' of the sweep: ");
    bad(&with("cores=2", "kores=2"), &["--engine", "slurm"], "unknown field `kores`");
    bad(&with("\"two.toml\"", "\"one.toml\""), &[], "two parts of the sweep are called 'varied/one'");
    for within in ["runs", "result.json"] {
        let other = format!("[[simulate]]\nname = 'varied/one/{within}'\nscenarios = ['one.toml']\n");
        let part = format!("two parts of the sweep are called 'varied/one' and 'varied/one/{within}'");
        bad(&format!("{SWEEP}{other}"), &[], &part);
    }
    bad(&with("\"varied\"", "\"../varied\""), &[], "'../varied/one' cannot be the name of a part");
    let paper = "out = 'out'\n[[reproduce]]\npaper = 'ws-first'\n";
    bad(paper, &[], "part 'ws-first' of the sweep: unrecognized subcommand 'ws-first'");
    let paper = "out = 'out'\n[[reproduce]]\npaper = 'ws-last'\noptions = ['--vari']\n";
    bad(paper, &["--engine", "hyperqueue"], "part 'ws-last' of the sweep: unexpected argument '--vari'");
    bad(SWEEP, &["--engine", "pbs"], "[possible values: local, hyperqueue, slurm]");
    bad(SWEEP, &["--engine", "slurm", "--shard", "1/2"], "cannot be used with");
    bad(SWEEP, &["--engine", "slurm", "--workers", "2"], "set the threads of a shard with `cpus` in '");
}

#[test]
fn an_engine_that_is_not_there_is_named_with_what_to_do() {
    let desk = Desk::new(SWEEP);
    for (engine, part) in [
        ("hyperqueue", "there is no 'hq' on the PATH, and python3 has no module 'hyperqueue'. Put"),
        ("slurm", "there is no 'sbatch' on the PATH. Run this on a node from which jobs are submitted"),
    ] {
        let mut command = desk.command(&["--engine", engine]);
        let output = command.env("PATH", "/no/such").assert().code(2).get_output().clone();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(part), "{errors}");
    }
    // The Python package accepts the array, but no options.
    executable(&desk.0, "python3", "[ \"$2\" = 'import hyperqueue' ]");
    fs::write(desk.path("sweep.toml"), format!("{SWEEP}[hyperqueue]\noptions = ['--time-limit=1h']\n")).unwrap();
    let mut command = desk.command(&["--engine", "hyperqueue"]);
    let output = command.env("PATH", desk.0.path()).assert().code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("Python package does not support '--time-limit=1h'"));
}
