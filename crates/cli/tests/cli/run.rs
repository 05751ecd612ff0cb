//! Tests of `comity run`: the command behaves as without `comity run`, and its threads run on the cores that it holds
//! in the core table.

use std::collections::HashSet;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::{comity_at, send, table_at, wait_until};

/// A command that can use two cores: a shell that starts two computing processes.
pub const BURN: &str = "while :; do :; done & while :; do :; done & wait";

pub fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    (folder, path)
}

pub fn run(table: &Path, words: &[&str]) -> Output {
    comity_at(table).arg("run").args(words).output().unwrap()
}

pub fn is_empty(table: &Path) -> bool {
    table_at(table)["programs"].as_array().unwrap().is_empty()
}

/// A running `comity run` with its command and all processes of the command. They are killed when the value is
/// dropped.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn start(table: &Path, words: &[&str]) -> Running {
        let mut command = comity_at(table);
        // The command has its own process group, so that all its processes can be killed.
        command.arg("run").args(words).stdout(Stdio::null()).process_group(0);
        Running { child: command.spawn().unwrap() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the entry of the command's coordinator in the table. Before that entry, `comity run` may have another
    /// for a moment, which tests the table and obeys no requests.
    pub fn entry(&self, table: &Path) -> Option<Value> {
        let report = table_at(table);
        let programs = report["programs"].as_array().unwrap();
        programs.iter().find(|program| program["pid"] == self.id() && program["obeys"] == true).cloned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = Command::new("sh").args(["-c", &format!("kill -KILL -{} 2>&-", self.id())]).status();
        let _gone = self.child.wait();
    }
}

pub fn cores() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Returns the cores that a process's first thread may use, in the kernel's notation.
pub fn mask(process: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

pub fn children(process: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |id: &u32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == process.to_string()))
    };
    all.filter(is_child).collect()
}

/// Returns the coordinator of a command.
pub fn coordinator(command: u32) -> Option<u32> {
    let wanted = format!("comity:{command}\n");
    let mut all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.find(|id: &u32| {
        fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == wanted) && state(*id) != Some('Z')
    })
}

/// Returns the state of a process, as the kernel names it. `None` if the process has ended.
pub fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns how many times a process's threads have waited for something.
pub fn waits(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let of = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|number| number.trim().parse::<u64>().ok())
    };
    statuses.filter_map(of).sum()
}

/// Returns the number of cores that a program holds according to the table.
fn held(entry: &Value) -> usize {
    entry["held"].as_array().unwrap().len()
}

#[test]
fn exit_codes_signals_and_streams_are_the_commands_own() {
    let (folder, table) = place();
    for code in [0, 1, 7, 126, 255] {
        assert_eq!(run(&table, &["sh", "-c", &format!("exit {code}")]).status.code(), Some(code));
    }
    // SIGINT and SIGHUP are not among the signals: a shell starts background processes that ignore them.
    for (name, number) in [("TERM", 15), ("KILL", 9), ("USR1", 10), ("ALRM", 14)] {
        let output = run(&table, &["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(output.status.signal(), Some(number), "{name}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
    let output = run(&table, &["--", "sh", "-c", "echo out; echo err >&2; echo \"$1\"", "--", "--json"]);
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n--json\n"[..], &b"err\n"[..]));

    let plain = folder.path().join("plain");
    fs::write(&plain, "text").unwrap();
    for (program, code, why) in [
        ("no-such-program", 127, "cannot run 'no-such-program': there is no such program"),
        ("/no/such", 127, "cannot run '/no/such': there is no such program"),
        (plain.to_str().unwrap(), 126, "Permission denied"),
        (folder.path().to_str().unwrap(), 126, "Permission denied"),
    ] {
        let output = run(&table, &[program]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && errors.starts_with("error: cannot run"), "{errors}");
        assert!(errors.contains(why) && output.stdout.is_empty(), "{errors}");
    }
    wait_until("all have left the table", || is_empty(&table));
}

#[test]
fn a_signal_to_the_command_comes_once_and_only_once() {
    let (folder, table) = place();
    for to_group in [false, true] {
        let (ready, count) = (folder.path().join("ready"), folder.path().join("count"));
        let script = format!(
            "trap 'echo x >> {0}' TERM; trap 'exit 5' USR2; : > {1}; while :; do sleep 0.05; done",
            count.display(),
            ready.display()
        );
        let mut running = Running::start(&table, &["sh", "-c", &script]);
        wait_until("it is there", || ready.exists());
        send("TERM", running.id());
        wait_until("it has the signal", || fs::read(&count).is_ok_and(|text| !text.is_empty()));
        sleep(Duration::from_millis(100));
        assert_eq!(fs::read_to_string(&count).unwrap(), "x\n");
        let target = if to_group { format!("-{}", running.id()) } else { running.id().to_string() };
        assert!(Command::new("sh").args(["-c", &format!("kill -USR2 {target}")]).status().unwrap().success());
        let status = running.child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(5), None));
        fs::remove_file(&ready).unwrap();
        fs::remove_file(&count).unwrap();
    }
    wait_until("all have left the table", || is_empty(&table));
}

#[test]
fn the_command_finds_how_many_threads_to_start_unless_the_user_has_said_so() {
    let (_folder, table) = place();
    let show = "echo $COMITY_TABLE ${RAYON_NUM_THREADS-no} ${OMP_NUM_THREADS-no} ${CARGO_BUILD_JOBS-no} \
        ${PYTEST_XDIST_AUTO_NUM_WORKERS-no} ${NUMBA_NUM_THREADS-no} ${CMAKE_BUILD_PARALLEL_LEVEL-no}";
    let answer = |words: &[&str], set: &[(&str, &str)]| {
        let mut command = comity_at(&table);
        for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "CARGO_BUILD_JOBS"] {
            command.env_remove(name);
        }
        command.envs(set.iter().copied()).arg("run").args(words).args(["sh", "-c", show]);
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(answer(&[], &[]), "off no no no no no no", "tools look by themselves, and follow what changes");
    assert_eq!(answer(&["--cores", "1"], &[("OMP_NUM_THREADS", "9")]), "off 1 9 1 1 no no");
    let inside = run(&table, &["--cores", "1", env!("CARGO_BIN_EXE_comity"), "cores"]);
    assert_eq!(String::from_utf8_lossy(&inside.stdout), "1\n");
}

#[test]
fn more_cores_than_there_are_are_as_many_as_there_are() {
    let (_folder, table) = place();
    let output = run(&table, &["--cores", "9999", "sh", "-c", "echo $OMP_NUM_THREADS"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("comity: --cores 9999 is more than the ") && errors.lines().count() == 1, "{errors}");
    let threads = std::env::var("OMP_NUM_THREADS").unwrap_or_else(|_| cores().to_string());
    assert_eq!((output.status.code(), output.stdout), (Some(0), format!("{threads}\n").into_bytes()));
}

#[test]
fn a_stream_that_is_closed_stays_closed() {
    let (_folder, table) = place();
    let comity = env!("CARGO_BIN_EXE_comity");
    for words in ["run", "run --report=report"] {
        let script = format!("cd {}; {comity} {words} sh -c 'echo lost' >&-", table.parent().unwrap().display());
        let output = Command::new("sh").args(["-c", &script]).env("COMITY_TABLE", &table).output().unwrap();
        assert!(!output.status.success(), "{words}: {output:?}");
    }
}

#[test]
fn a_command_inside_of_another_is_a_part_of_it_and_says_what_has_no_effect() {
    let (_folder, table) = place();
    let comity = env!("CARGO_BIN_EXE_comity");
    let script = format!("{comity} run --weight 300 --cores 1 --report sh -c 'echo $COMITY_RUN; exit 7'");
    let outer = comity_at(&table).args(["run", "sh", "-c", &format!("echo $COMITY_RUN; {script}")]).output().unwrap();
    let (text, errors) = (String::from_utf8(outer.stdout).unwrap(), String::from_utf8(outer.stderr).unwrap());
    let marks: Vec<&str> = text.lines().collect();
    assert!(outer.status.code() == Some(7) && marks.len() == 2 && marks[0] == marks[1], "{text}{errors}");
    assert!(errors.starts_with("comity: this is inside another `comity run`"), "{errors}");
    for part in ["--weight 300 has no effect", "--cores 1 only sets variables", "--report has no effect"] {
        assert!(errors.contains(part) && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn the_table_of_a_command_is_seen_from_inside_of_it() {
    let (_folder, table) = place();
    let comity = env!("CARGO_BIN_EXE_comity");
    // The loop is necessary because the command may run before it is a member that accepts requests.
    let script = format!("until {comity} set $$ --weight 7; do sleep 0.01; done");
    let running = Running::start(&table, &["sh", "-c", &format!("{script}; exec sleep 600")]);
    wait_until("it has set its own weight", || running.entry(&table).is_some_and(|entry| entry["weight"] == 7));
    let outcome = run(&table, &["sh", "-c", &format!("{comity} doctor")]);
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(text.contains("inside a command of `comity run`") && !text.contains("share no cores"), "{text}");
}

#[test]
fn a_command_line_that_is_wrong_is_refused_and_nothing_runs() {
    let (_folder, table) = place();
    for (words, why) in [
        (&["--cores", "0", "true"][..], "give a whole number from 1, or auto"),
        (&["--cores", "some", "true"], "give a whole number from 1, or auto"),
        (&["--weight", "0", "true"], "from 1 to 10000"),
        (&["--weight", "10001", "true"], "from 1 to 10000"),
        (&[], "<COMMAND>"),
    ] {
        let output = run(&table, words);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && errors.contains(why), "{errors}");
    }
    let output = comity_at(&table).env("COMITY_WEIGHT", "heavy").args(["run", "true"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && errors.contains("COMITY_WEIGHT=heavy is not"), "{errors}");
    let output = comity_at(&table).env("COMITY_POLICY", "comity:share=all").args(["run", "true"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && errors.contains("COMITY_POLICY: "), "{errors}");
    assert!(!table.exists());
}

#[test]
fn without_a_table_the_command_runs_all_the_same() {
    let (folder, table) = place();
    fs::write(&table, "dear diary, ".repeat(50)).unwrap();
    for (path, why) in
        [(table.as_path(), "is not a core table"), (&folder.path().join("no/table"), "cannot be created")]
    {
        let output = run(path, &["sh", "-c", "echo ran; exit 4"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(4), &b"ran\n"[..]));
        assert!(errors.starts_with("comity: the core table '") && errors.contains(why), "{errors}");
        assert!(errors.ends_with(". The command runs without sharing cores.\n") && errors.lines().count() == 1);
    }
    let output = run(Path::new("off"), &["sh", "-c", "echo ran"]);
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"ran\n"[..], &b""[..]));
    // A write beyond the limit of `ulimit -f` would end the process by a signal. With a report, the companion is
    // started too.
    for words in ["", "--report=/dev/null"] {
        let script = format!("ulimit -f 1; exec \"$0\" run {words} sh -c 'sleep 0.1; echo ran; exit 4'");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, env!("CARGO_BIN_EXE_comity")]).env("COMITY_TABLE", folder.path().join("large"));
        let output = limited.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(4), &b"ran\n"[..]), "{errors}");
        assert!(!words.is_empty() || errors.contains("the limit of file sizes (`ulimit -f`)"), "{errors}");
    }
    // Neither the report nor the error message about it can be written.
    let script = "ulimit -f 0; exec \"$0\" run --report=\"$1\" sh -c 'exit 4' 2>\"$2\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_comity")]).env("COMITY_TABLE", "off");
    let files = ["report", "errors"].map(|name| folder.path().join(name));
    assert_eq!(limited.args(files).status().unwrap().code(), Some(4));
}

#[test]
fn comity_run_changes_no_attribute_that_a_command_can_read() {
    let (_folder, table) = place();
    // The command is `cat`, `ls` or `env`. A shell that starts one of them would block signals while it does so.
    let of = |file: &str| format!("/proc/self/{file}");
    let files = ["status", "limits", "cgroup", "oom_score_adj", "timerslack_ns", "autogroup", "stat"].map(of);
    let looks = [format!("cat {}", files.join(" ")), "ls /proc/self/fd".to_owned(), "env".to_owned()];
    let starts = ["", "trap '' CHLD USR1 HUP;", "ulimit -n 64; ulimit -c 0; umask 77; cd /;", "exec 0<&- 9>&1;"];
    for (start, look) in starts.iter().flat_map(|start| looks.iter().map(move |look| (start, look))) {
        let find = |with: &str| {
            let script = format!("{start} exec env --block-signal=CHLD --block-signal=TERM {with} {look}");
            let mut command = Command::new("sh");
            command.args(["-c", &script, env!("CARGO_BIN_EXE_comity")]).env("COMITY_TABLE", &table);
            let output = command.output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            let text = String::from_utf8(output.stdout).unwrap();
            let mut lines: Vec<String> = text.lines().filter_map(lasting).collect();
            // `env` may print the variables in another order.
            lines.sort();
            lines
        };
        let (without, with) = (find(""), find("\"$0\" run --no-jobserver"));
        assert!(without.len() > 2, "{look}: {without:?}");
        assert_eq!(with, without, "{start} {look}");
    }
}

/// Returns the parts of a line that do not differ from process to process. `None` if the whole line differs.
fn lasting(line: &str) -> Option<String> {
    let kept = ["Umask", "Groups", "Sig", "ShdPnd", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed"];
    if line.contains(") R ") {
        // Group, session, terminal, priority, nice value, number of threads, and scheduling policy.
        let fields: Vec<&str> = line.rsplit(')').next()?.split_whitespace().collect();
        return Some([2, 3, 4, 5, 15, 16, 17, 38].map(|nth| fields[nth]).join(" "));
    }
    let is_kept = !line.contains(":\t") || kept.iter().any(|kept| line.starts_with(kept));
    (is_kept && !line.starts_with("SigQ") && !line.starts_with("COMITY")).then(|| line.to_owned())
}

#[test]
fn a_table_named_from_the_current_folder_is_there() {
    let (folder, table) = place();
    let mut command = comity_at(Path::new("table"));
    assert!(command.current_dir(folder.path()).args(["run", "true"]).status().unwrap().success());
    assert!(table.exists());
    wait_until("it has left", || is_empty(&table));
}

#[test]
fn the_table_shows_the_command_and_a_kill_leaves_nothing_of_it() {
    let (_folder, table) = place();
    let mut running = Running::start(&table, &["--weight", "7", "sleep", "600"]);
    wait_until("it takes part", || running.entry(&table).is_some());
    let entry = running.entry(&table).unwrap();
    for (field, expected) in [("name", "sleep"), ("policy", "run")] {
        assert_eq!(entry[field], expected, "{entry}");
    }
    assert_ne!(entry["life"], "dead");
    assert_eq!(entry["weight"], 7);
    let beside = coordinator(running.id()).unwrap();
    assert!(!children(running.id()).contains(&beside));
    running.child.kill().unwrap();
    assert_eq!(running.child.wait().unwrap().signal(), Some(9));
    wait_until("its coordinator has ended", || coordinator(running.id()).is_none());
    assert!(is_empty(&table));
}

#[test]
fn a_command_whose_table_is_removed_is_in_the_next_one() {
    let (_folder, table) = place();
    let [busy, asleep] = [&["sh", "-c", BURN][..], &["sleep", "600"]].map(|words| Running::start(&table, words));
    let are_there = || [&busy, &asleep].iter().all(|running| running.entry(&table).is_some());
    for _ in 0..2 {
        wait_until("both are in the table", are_there);
        fs::remove_file(&table).unwrap();
        // A command that starts after the removal makes another table.
        let next = Running::start(&table, &["sleep", "600"]);
        wait_until("all are in the next table", || are_there() && next.entry(&table).is_some());
    }
}

/// True if one look at the table shows the command with a desire of 0 and no cores.
fn asks_for_none(running: &Running, table: &Path) -> bool {
    running.entry(table).is_some_and(|entry| entry["desire"] == 0 && held(&entry) == 0)
}

#[test]
fn a_command_that_waits_desires_nothing_and_one_that_works_what_it_can_use() {
    let (folder, table) = place();
    let go = folder.path().join("go");
    let work = format!("while [ -e {} ]; do :; done & ", go.display()).repeat(cores());
    let script = format!("while [ ! -e {} ]; do sleep 1; done; {work} wait; exec sleep 600", go.display());
    let running = Running::start(&table, &["sh", "-c", &script]);
    wait_until("it takes part and desires nothing", || asks_for_none(&running, &table));
    fs::write(&go, "").unwrap();
    wait_until("it desires all cores and has them", || {
        running.entry(&table).is_some_and(|entry| entry["desire"] == cores() && held(&entry) == cores())
    });
    fs::remove_file(&go).unwrap();
    wait_until("it desires nothing again", || asks_for_none(&running, &table));
}

#[test]
fn a_command_proposes_how_cores_are_divided_as_programs_that_use_comity_do() {
    let (_folder, table) = place();
    for (policy, proposal) in [("comity:share=slowdown", "slowdown"), ("comity:share=time", "time"), ("bws", "equal")] {
        let mut command = comity_at(&table);
        command.env("COMITY_POLICY", policy).args(["run", "sh", "-c", BURN]).process_group(0);
        let running = Running { child: command.spawn().unwrap() };
        wait_until("its proposal is there", || {
            running.entry(&table).is_some_and(|entry| held(&entry) > 0 && entry["proposal"] == proposal)
        });
        // A command has no workers that steal, so these fields are `null`.
        wait_until("it has published", || running.entry(&table).is_some_and(|entry| entry["cpu_s"].is_f64()));
        let entry = running.entry(&table).unwrap();
        assert!(["steals", "accelerations", "refused"].iter().all(|field| entry[*field].is_null()), "{entry}");
    }
}

#[test]
fn a_command_of_a_fixed_number_desires_that_while_it_can_use_it() {
    let (_folder, table) = place();
    let waiting = Running::start(&table, &["--cores", "1", "sleep", "600"]);
    let working = Running::start(&table, &["--cores", "1", "sh", "-c", BURN]);
    wait_until("it desires one core and has it", || {
        working.entry(&table).is_some_and(|entry| entry["desire"] == 1 && held(&entry) == 1)
    });
    wait_until("the other desires nothing", || asks_for_none(&waiting, &table));
}

#[test]
fn a_command_does_not_wait_until_its_coordinator_takes_part() {
    let (_folder, table) = place();
    wait_until("one is there before its coordinator", || {
        // The command itself has COMITY_TABLE=off.
        let script = format!("COMITY_TABLE={} exec {} table --json", table.display(), env!("CARGO_BIN_EXE_comity"));
        let output = run(&table, &["sh", "-c", &script]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["programs"].as_array().unwrap().is_empty()
    });
}

#[test]
fn the_kernel_tells_of_a_commands_end() {
    let (_folder, table) = place();
    let running = Running::start(&table, &["sleep", "600"]);
    wait_until("it takes part", || running.entry(&table).is_some());
    let descriptors = fs::read_dir(format!("/proc/{}/fdinfo", coordinator(running.id()).unwrap())).unwrap();
    let of = format!("Pid:\t{}\n", running.id());
    let is_told =
        descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok()).any(|text| text.contains(&of));
    assert!(is_told, "it would have to look again and again");
}

#[test]
fn a_coordinator_looks_rarely_while_no_other_member_wants_a_core() {
    let (_folder, table) = place();
    let idle = Running::start(&table, &["sleep", "600"]);
    let busy = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("both take part", || [&idle, &busy].iter().all(|running| running.entry(&table).is_some()));
    wait_until("one has the machine", || busy.entry(&table).is_some_and(|entry| held(&entry) == cores()));
    for running in [&busy, &idle] {
        let coordinator = coordinator(running.id()).unwrap();
        // A coordinator that looks in each quantum of 10 ms would wait a hundred times per second. On a busy machine,
        // looks are rarer.
        let (before, began) = (waits(coordinator), Instant::now());
        sleep(Duration::from_secs(2));
        let most = (20.0 * began.elapsed().as_secs_f64()) as u64;
        let waits = waits(coordinator) - before;
        assert!(waits <= most, "{waits} looks, and {most} would be enough");
    }
}

#[test]
fn a_command_that_comes_and_goes_leaves_its_neighbour_the_cores() {
    let (_folder, table) = place();
    let often = Running::start(&table, &["sh", "-c", "while :; do sleep 0.005; done"]);
    let busy = Running::start(&table, &["sh", "-c", BURN]);
    let has_all = || busy.entry(&table).is_some_and(|entry| held(&entry) == cores());
    wait_until("the neighbour has all cores", has_all);
    let waits_lightly = || often.entry(&table).is_some_and(|entry| entry["desire"] == 0 && held(&entry) == 0);
    // If programs outside of the table compute too, `often` and its children may wait for cores. They can then use
    // their share and request cores, so the waiting time of `often` is another way to pass.
    wait_until("the neighbour has all cores at most looks", || {
        let (before, began) = (waited(often.id()), Instant::now());
        let good = (0..200).filter(|_| has_all() && waits_lightly()).count();
        good > 150 || waited(often.id()) - before > began.elapsed() / 10
    });
}

/// Returns the time that the first thread of a process has waited for a core (`/proc/PID/schedstat`).
fn waited(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap();
    Duration::from_nanos(text.split(' ').nth(1).unwrap().parse().unwrap())
}

/// A control group with a quota of a twentieth of a core, if this process may make one. The quota is so small that
/// the kernel stops its processes even on a busy machine.
struct Limited {
    folder: PathBuf,
    lift: (&'static str, &'static str),
}

impl Limited {
    fn new() -> Option<Limited> {
        let versions: [(&str, &[(&str, &str)], _); 2] = [
            (
                "/sys/fs/cgroup/cpu",
                &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "5000")],
                ("cpu.cfs_quota_us", "-1"),
            ),
            ("/sys/fs/cgroup", &[("cpu.max", "5000 100000")], ("cpu.max", "max")),
        ];
        versions.into_iter().find_map(|(root, files, lift)| {
            let limited = Limited { folder: Path::new(root).join(format!("comity-run-{}", std::process::id())), lift };
            fs::create_dir(&limited.folder).ok()?;
            let is_set = files.iter().all(|(file, text)| fs::write(limited.folder.join(file), text).is_ok());
            is_set.then_some(limited)
        })
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // Killed processes may take a moment to leave the group.
        for _ in 0..1000 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn what_a_quota_keeps_a_command_from_using_its_neighbour_has() {
    let Some(group) = Limited::new().filter(|_| cores() == 2) else {
        println!("skipped: this takes two cores, and a control group with a quota");
        return;
    };
    let (_folder, table) = place();
    let enter = format!("echo $$ >{}/cgroup.procs; exec \"$@\"", group.folder.display());
    let mut command = Command::new("sh");
    command.args(["-c", &enter, "--", env!("CARGO_BIN_EXE_comity"), "run", "sh", "-c", BURN]);
    command.env("COMITY_TABLE", &table).env_remove("COMITY_WEIGHT").stdout(Stdio::null()).process_group(0);
    let limited = Running { child: command.spawn().unwrap() };
    let free = Running::start(&table, &["sh", "-c", BURN]);
    let is_so = || {
        free.entry(&table).is_some_and(|entry| held(&entry) == 2)
            && limited.entry(&table).is_some_and(|entry| entry["desire"] == 0)
    };
    wait_until("the other has both cores at nearly all looks", || (0..30).filter(|_| is_so()).count() > 26);
    fs::write(group.folder.join(group.lift.0), group.lift.1).unwrap();
    wait_until("each has one, without a quota", || {
        [&limited, &free].iter().all(|running| running.entry(&table).is_some_and(|entry| held(&entry) == 1))
    });
}

/// Returns the number of cores that each of two commands held, summed over `looks` looks at which both had a desire
/// of 2.
fn watch(table: &Path, running: [&Running; 2], looks: usize) -> [usize; 2] {
    let mut sums = [0; 2];
    let mut counted = 0;
    wait_until("both desire two cores often enough", || {
        let entries = running.map(|running| running.entry(table).unwrap());
        if entries.iter().all(|entry| entry["desire"] == 2) {
            counted += 1;
            for (sum, entry) in sums.iter_mut().zip(&entries) {
                *sum += entry["held"].as_array().unwrap().len();
            }
        }
        counted == looks
    });
    sums
}

#[test]
fn two_commands_have_a_core_each_and_their_processes_are_there() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let one = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("the first has both cores", || {
        one.entry(&table).is_some_and(|entry| entry["held"].as_array().unwrap().len() == 2)
    });
    let processes = |running: &Running| [vec![running.id()], children(running.id())].concat();
    assert!(processes(&one).iter().all(|id| mask(*id) == free), "alone it may use all");
    let other = Running::start(&table, &["sh", "-c", BURN]);
    let masks = |running: &Running| processes(running).into_iter().map(mask).collect::<HashSet<String>>();
    wait_until("each keeps to its core", || {
        let held = |running: &Running| running.entry(&table).map(|entry| entry["held"].clone());
        let before = [held(&one), held(&other)];
        let masks = [masks(&one), masks(&other)];
        let is_there = |(held, masks): (&Option<Value>, &HashSet<String>)| {
            let cores: Vec<String> =
                held.iter().flat_map(|held| held.as_array().unwrap()).map(ToString::to_string).collect();
            cores.len() == 1 && *masks == HashSet::from([cores[0].clone()])
        };
        processes(&other).len() == 3 && before.iter().zip(&masks).all(is_there) && masks[0] != masks[1]
    });
    drop(one);
    wait_until("the second is free again", || masks(&other) == HashSet::from([free.clone()]));
    drop(other);
    wait_until("both have left the table", || is_empty(&table));
}

#[test]
fn cores_are_held_in_proportion_to_weights() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let light = Running::start(&table, &["sh", "-c", BURN]);
    let heavy = Running::start(&table, &["--weight", "300", "sh", "-c", BURN]);
    wait_until("both are there", || [&light, &heavy].iter().all(|running| running.entry(&table).is_some()));
    let [light, heavy] = watch(&table, [&light, &heavy], 200);
    let part = heavy as f64 / (light + heavy) as f64;
    assert!(
        (0.6..0.9).contains(&part),
        "the heavy one had {heavy} of {}, and should have three quarters",
        light + heavy
    );
}

#[test]
fn a_thread_that_has_bound_itself_stays_there() {
    if cores() != 2 || !has_taskset() {
        println!("skipped: this takes two cores and the program taskset");
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    // The two cores are written like 0-1 or 2,6.
    let all: Vec<&str> = free.split(['-', ',']).collect();
    let bound = |core: &str| format!("exec taskset -c {core} sh -c 'while :; do :; done'");
    let script = format!("({}) & ({}) & wait", bound(all[0]), bound(all[1]));
    let one = Running::start(&table, &["sh", "-c", &script]);
    let masks = || {
        let mut masks: Vec<String> = children(one.id()).into_iter().map(mask).collect();
        masks.sort();
        masks
    };
    wait_until("each is on its core", || masks() == all);
    let other = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("the other is confined", || {
        let children = children(other.id());
        children.len() == 2 && children.iter().all(|id| mask(*id) != free && !mask(*id).is_empty())
    });
    assert_eq!(masks(), all, "each is on its core although its command holds one");
    drop(other);
    wait_until("the first has both cores", || one.entry(&table).is_some_and(|entry| held(&entry) == 2));
    assert_eq!(masks(), all);
}

fn has_taskset() -> bool {
    Command::new("taskset").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the cores that a command may use according to the table, in the kernel's notation for at most two cores.
fn may_use(running: &Running, table: &Path) -> String {
    numbers(&running.entry(table), "may_use").join(",")
}

/// Returns the cores in a field of a command's entry, as text.
fn numbers(entry: &Option<Value>, field: &str) -> Vec<String> {
    entry.iter().flat_map(|entry| entry[field].as_array().unwrap()).map(Value::to_string).collect()
}

#[test]
fn a_mistyped_option_is_no_command_and_what_follows_the_command_is_its_own() {
    let (_folder, table) = place();
    let refused = |words: &[&str], part: &str| {
        let output = run(&table, words);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{words:?}: {errors}");
        assert!(errors.starts_with("error: ") && errors.contains(part), "{words:?}: {errors}");
    };
    refused(&["--wieght", "300", "echo", "out"], "a similar argument exists: '--weight'");
    refused(&["--weihgt=300", "echo", "out"], "'--weihgt' found");
    refused(&["--cores", "1", "--wieght", "300", "echo", "out"], "'--wieght' found");
    refused(&["-x", "echo", "out"], "'-x' found");
    for words in [
        &["echo", "--wieght", "-x"][..],
        &["--", "echo", "--wieght", "-x"],
        &["--cores", "1", "echo", "--wieght", "-x"],
    ] {
        let output = run(&table, words);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "--wieght -x\n", "{words:?}");
    }
    // A program whose name begins with a hyphen must come after the `--` that ends the options.
    refused(&["-program"], "'-p' found");
    assert_eq!(run(&table, &["--", "-program"]).status.code(), Some(127));
}

#[test]
fn a_mask_that_an_administrator_sets_wins_and_the_table_hears_of_it() {
    if cores() != 2 || !has_taskset() {
        println!("skipped: this takes two cores and the program taskset");
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let all: Vec<&str> = free.split(['-', ',']).collect();
    let one = Running::start(&table, &["sh", "-c", BURN]);
    let other = Running::start(&table, &["sh", "-c", BURN]);
    let masks = || -> HashSet<String> { children(one.id()).into_iter().map(mask).collect() };
    let holds = |command: &Running| numbers(&command.entry(&table), "held");
    let set = |cores: &str| {
        for process in [vec![one.id()], children(one.id())].concat() {
            let done = Command::new("taskset").args(["-apc", cores, &process.to_string()]).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        }
    };
    // A command that holds the core of the other at the wrong moment is the exception: the coordinator cannot tell a
    // mask of the core that the command gets next from a mask that it sets itself. Then the test starts again.
    let mut wish = String::new();
    wait_until("the table hears of it", || {
        let held = holds(&one);
        if held.len() != 1 || holds(&other).len() != 1 || masks() != held.iter().cloned().collect() {
            return false;
        }
        wish = all.iter().find(|core| ***core != held[0]).unwrap().to_string();
        set(&wish);
        let is_heard = (0..200).any(|_| {
            sleep(Duration::from_millis(10));
            may_use(&one, &table) == wish
        });
        if !is_heard {
            set(&all.join(","));
        }
        is_heard
    });
    for _ in 0..50 {
        assert_eq!(masks(), HashSet::from([wish.clone()]));
        sleep(Duration::from_millis(10));
    }
    set(&all.join(","));
    wait_until("the table hears that it may use both", || may_use(&one, &table) == all.join(","));
    wait_until("it is confined again", || masks().len() == 1 && !masks().contains(&free));
}

/// Moves the command into a cpuset, as an administrator would, but not its coordinator.
#[test]
fn a_cpuset_of_a_command_is_followed() {
    let cpusets = Path::new("/sys/fs/cgroup/cpuset");
    let folder = cpusets.join(format!("comity-run-{}", std::process::id()));
    let free = mask(std::process::id());
    let all: Vec<String> = free.split(['-', ',']).map(str::to_owned).collect();
    let set = |cores: &str| fs::write(folder.join("cpuset.cpus"), cores);
    let mems = fs::read_to_string(cpusets.join("cpuset.mems")).unwrap_or_default();
    let made = cores() == 2
        && fs::create_dir(&folder).is_ok()
        && fs::write(folder.join("cpuset.mems"), mems.trim()).is_ok()
        && set(&all.join(",")).is_ok();
    if !made {
        println!("skipped: this takes two cores, and cgroup v1 with the right to make a cpuset");
        return;
    }
    let (_folder, table) = place();
    let one = Running::start(&table, &["sh", "-c", BURN]);
    let other = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("both are there", || one.entry(&table).is_some() && children(one.id()).len() == 2);
    for process in [vec![one.id()], children(one.id())].concat() {
        fs::write(folder.join("cgroup.procs"), process.to_string()).unwrap();
    }
    for core in &all {
        set(core).unwrap();
        wait_until("the table hears of the smaller one", || may_use(&one, &table) == *core);
        set(&all.join(",")).unwrap();
        wait_until("the table hears of the larger one", || may_use(&one, &table) == all.join(","));
    }
    drop(other);
    let masks = || -> HashSet<String> { children(one.id()).into_iter().map(mask).collect() };
    wait_until("alone it runs on all", || masks() == HashSet::from([free.clone()]));
    drop(one);
    wait_until("the cpuset is removed", || fs::remove_dir(&folder).is_ok());
}

#[test]
fn what_was_orphaned_before_the_first_look_is_still_the_commands() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (folder, table) = place();
    let free = mask(std::process::id());
    let note = folder.path().join("daemon");
    // The subshell ends at once, so that its children become orphans.
    let burn = "while :; do :; done";
    let script = format!("({burn} & sh -c '{burn}' & echo $! >{}); exec sleep 600", note.display());
    let one = Running::start(&table, &["sh", "-c", &script]);
    let other = Running::start(&table, &["sh", "-c", BURN]);
    let daemon = || fs::read_to_string(&note).ok()?.trim().parse::<u32>().ok();
    wait_until("it is confined", || {
        daemon().is_some_and(|daemon| ![String::new(), free.clone()].contains(&mask(daemon)))
    });
    assert!(!children(one.id()).contains(&daemon().unwrap()));
    drop(other);
    wait_until("it is free again", || mask(daemon().unwrap()) == free);
}

#[test]
fn to_end_the_coordinator_sets_the_command_free() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let one = Running::start(&table, &["sh", "-c", BURN]);
    let other = Running::start(&table, &["sh", "-c", BURN]);
    let children = || children(one.id());
    wait_until("it is confined", || children().len() == 2 && children().iter().all(|id| mask(*id) != free));
    send("TERM", coordinator(one.id()).unwrap());
    wait_until("it is free and has left", || {
        children().iter().all(|id| mask(*id) == free) && one.entry(&table).is_none()
    });
    assert_eq!(children().len(), 2);
    // If a coordinator is killed, other members remove its command from the table.
    send("KILL", coordinator(other.id()).unwrap());
    let third = Running::start(&table, &["sh", "-c", BURN]);
    wait_until("the dead one is taken out", || other.entry(&table).is_none() && third.entry(&table).is_some());
}

/// Tests the companion. The only other program is not a command, so no other coordinator releases this command's
/// threads.
#[test]
fn a_coordinator_that_is_stopped_or_killed_leaves_no_thread_confined() {
    if cores() != 2 {
        println!("skipped: this takes two cores, and here are {}", cores());
        return;
    }
    let (_folder, table) = place();
    let free = mask(std::process::id());
    let one = Running::start(&table, &["sh", "-c", BURN]);
    let _other = Running::start(&table, &["sh", "-c", BURN]);
    let are = |wanted: bool| {
        let children = children(one.id());
        children.len() == 2 && children.iter().all(|id| (mask(*id) == free) == wanted)
    };
    wait_until("it is confined", || are(false));
    send("STOP", coordinator(one.id()).unwrap());
    wait_until("it is free although its coordinator stands still", || are(true));
    send("CONT", coordinator(one.id()).unwrap());
    wait_until("it is confined again", || are(false));
    send("KILL", coordinator(one.id()).unwrap());
    wait_until("it is free although its coordinator is gone", || are(true));
    let companion = format!("comity+{}", one.id());
    wait_until("the companion has ended", || {
        let all =
            fs::read_dir("/proc").unwrap().filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("comm")).ok());
        all.into_iter().all(|name| name.trim() != companion)
    });
}

#[test]
fn a_bad_number_is_said_with_its_bounds() {
    for verb in ["run", "cores"] {
        for number in ["1.5", "-1", "0", "10001", "x"] {
            let output = comity_at(Path::new("off")).args([verb, "--weight", number]).output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(errors.contains("give a whole number from 1 to 10000"), "{verb} {number}: {errors}");
            assert_eq!(output.status.code(), Some(2));
        }
    }
    let output = run(Path::new("off"), &["--cores", "-2", "true"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("give a whole number from 1, or auto"), "{output:?}");
}

#[test]
fn a_line_of_a_shell_in_quotes_is_said_to_be_one_word() {
    let output = run(Path::new("off"), &["make -j8"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(127), "{errors}");
    for part in ["The quotes make it one word", "`comity run make -j8`", "`comity run sh -c 'make -j8'`"] {
        assert!(errors.contains(part), "{part} is not in {errors}");
    }
}

#[test]
fn files_have_defaults_for_the_options() {
    let (folder, table) = place();
    let below = folder.path().join("project/below");
    fs::create_dir_all(&below).unwrap();
    fs::create_dir(folder.path().join("config")).unwrap();
    fs::write(folder.path().join("config/comity.toml"), "weight = 20\nlabel = \"mine\"\n").unwrap();
    let of_project = folder.path().join("project/.comity.toml");
    fs::write(&of_project, "weight = 50\ncores = 1\njobserver = \"off\"\n").unwrap();
    let command = |words: &[&str], weight: Option<&str>| {
        let mut command = comity_at(&table);
        command.env("XDG_CONFIG_HOME", folder.path().join("config")).current_dir(&below).process_group(0);
        weight.map(|weight| command.env("COMITY_WEIGHT", weight));
        command.arg("run").args(words).env_remove("MAKEFLAGS").env_remove("GOMAXPROCS");
        command
    };
    let entry = |words: &[&str], weight: Option<&str>| {
        let running = Running { child: command(words, weight).arg("sleep").arg("1000").spawn().unwrap() };
        wait_until("it takes part", || running.entry(&table).is_some());
        let entry = running.entry(&table).unwrap();
        (entry["name"].as_str().unwrap().to_owned(), entry["weight"].as_u64().unwrap())
    };
    assert_eq!(entry(&[], None), ("mine".to_owned(), 50), "the project's file precedes");
    assert_eq!(entry(&[], Some("70")), ("mine".to_owned(), 70));
    assert_eq!(entry(&["--weight", "80", "--label", "this"], Some("70")), ("this".to_owned(), 80));
    let output = command(&[], None).args(["sh", "-c", "echo $GOMAXPROCS $MAKEFLAGS"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n", "{output:?}");
    fs::write(&of_project, "weight = 0\n").unwrap();
    let output = command(&[], None).arg("true").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && errors.contains(".comity.toml: 'weight' must be"), "{errors}");
}
