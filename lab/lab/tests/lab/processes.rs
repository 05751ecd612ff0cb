//! Tests that no process of a co-run is left, whichever way the co-run ends. Each test recognizes its processes by a
//! number that no other test uses.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::{FAKE_LIST, executable, lab, send, wait_until};

/// Returns a number of seconds to sleep that is unique to one test of one run of the tests.
fn marker(test: u32) -> String {
    format!("600.{:07}{test}", std::process::id())
}

/// Returns the command lines of living processes that contain `marker`.
fn alive(marker: &str) -> Vec<String> {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(marker)).collect()
}

/// Starts a co-run of two programs, and waits until the second one sleeps.
fn hanging_corun(marker: &str, extra: &[&str]) -> Child {
    let hang = format!("sleep {marker}; true");
    let child = Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(["corun", "fib:n=20", &hang, "--rounds", "1"])
        .args(extra)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the sleep starts", || alive(marker).iter().any(|line| line.starts_with("sleep ")));
    child
}

#[test]
fn a_command_that_hangs_is_ended_with_all_it_started() {
    let marker = marker(1);
    for hang in [
        format!("sleep {marker}; true"),
        format!("sleep {marker} & sleep {marker}"),
        format!("trap '' TERM; sleep {marker} & while true; do sleep {marker}; done"),
        format!("setsid sh -c 'trap \"\" TERM; sleep {marker}; sleep {marker}' & wait"),
    ] {
        for group in ["same", "separate"] {
            let words = ["corun", "fib:n=20", &hang, "--rounds", "1", "--timeout", "1", "--group", group];
            let output = lab().args(words).assert().code(1).get_output().clone();
            let errors = String::from_utf8(output.stderr).unwrap();
            assert!(errors.contains(&format!("error: '{hang}' took longer than 1 s")), "{errors}");
            assert_eq!(alive(&marker), [""; 0], "{hang}");
        }
    }
}

#[test]
fn a_failure_ends_the_programs_that_run_beside_it() {
    let marker = marker(2);
    let folder = tempfile::tempdir().unwrap();
    // The third execution of a program is its first one together with the other program. In it, `fails` fails while
    // `lasts` sleeps.
    let count = |name: &str| format!("echo >> {0}/{name}; [ $(wc -l < {0}/{name}) -lt 3 ]", folder.path().display());
    let fails = format!("{} || {{ sleep 0.3; exit 9; }}", count("fails"));
    let lasts = format!("{} || {{ sleep {marker}; true; }}", count("lasts"));
    let output = lab().args(["corun", &fails, &lasts, "--rounds", "1"]).assert().code(1).get_output().clone();
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed: exit status: 9"));
    assert_eq!(alive(&marker), [""; 0]);
}

#[test]
fn what_a_command_leaves_running_is_ended() {
    let marker = marker(3);
    let leaves = format!("sleep {marker} & setsid sleep {marker} & sleep 0.01");
    lab().args(["corun", "fib:n=20", &leaves, "--rounds", "2"]).assert().success();
    assert_eq!(alive(&marker), [""; 0]);
}

#[test]
fn a_signal_ends_the_command_and_all_it_started() {
    let marker = marker(4);
    // If the caller of the tests ignores a signal, the tests and the command ignore it too, so the signal is left
    // out.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let signals = [("TERM", 15), ("INT", 2), ("HUP", 1)];
    for (signal, number) in signals.into_iter().filter(|(_, number)| ignored >> (number - 1) & 1 == 0) {
        for group in ["same", "separate"] {
            let child = hanging_corun(&marker, &["--group", group]);
            send(signal, child.id());
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.signal(), Some(number), "{signal}");
            assert_eq!(alive(&marker), [""; 0], "{signal}");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.starts_with("interrupted after ") && errors.lines().count() == 1, "{signal}: {errors}");
            assert!(errors.contains("no backend has run all programs alone and together yet"), "{signal}: {errors}");
        }
    }
}

#[test]
fn a_signal_ends_kernels_together() {
    let marker = marker(5);
    // The shell command has the marker, by which this co-run is distinguished from those of other tests.
    let mark = format!("true {marker}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(["corun", "fib:n=30", "fib:n=31", &mark, "--rounds", "10000"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let parent = format!("--parent {} ", child.id());
    wait_until("a kernel starts", || !alive(&parent).is_empty());
    send("TERM", child.id());
    child.wait().unwrap();
    assert_eq!(alive(&parent), [""; 0]);
    assert_eq!(alive(&marker), [""; 0]);
}

#[test]
fn even_a_killed_command_leaves_nothing() {
    let marker = marker(6);
    for group in ["same", "separate"] {
        let mut child = hanging_corun(&marker, &["--group", group]);
        send("KILL", child.id());
        child.wait().unwrap();
        wait_until("everything has ended", || alive(&marker).is_empty());
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_comity-lab"))
        .args(["corun", "fib:n=50", "fib:n=50"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let parent = format!("--parent {} ", child.id());
    wait_until("a kernel starts", || !alive(&parent).is_empty());
    send("KILL", child.id());
    child.wait().unwrap();
    wait_until("the kernel has ended", || alive(&parent).is_empty());
}

#[test]
fn a_shell_may_have_the_command_ignore_a_signal() {
    let marker = marker(7);
    let binary = env!("CARGO_BIN_EXE_comity-lab");
    let line = format!("trap '' HUP; exec {binary} corun fib:n=20 'sleep {marker}; true' --rounds 1");
    let mut child = Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the sleep starts", || alive(&marker).iter().any(|line| line.starts_with("sleep ")));
    send("HUP", child.id());
    sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none(), "nohup keeps it alive");
    send("TERM", child.id());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_eq!(alive(&marker), [""; 0]);
}

#[test]
fn a_signal_or_a_failure_ends_the_backends_of_a_bench() {
    let (marker, folder) = (marker(8), tempfile::tempdir().unwrap());
    let hangs =
        executable(&folder, "hangs", &format!("{FAKE_LIST}sleep {marker} & trap '' TERM; sleep {marker}; true"));
    let bench = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_comity-lab"));
        command.args(["bench", "drop-in", "--stock"]).arg(&hangs).arg("--drop-in").arg(&hangs).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let sleeps = || alive(&marker).iter().filter(|line| line.starts_with("sleep ")).count();
    let mut child = bench(&[]);
    wait_until("every program sleeps", || sleeps() == 6);
    send("TERM", child.id());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_eq!(alive(&marker), [""; 0]);

    let output = bench(&["--timeout", "2"]).wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && errors.contains("as stock took longer than 2 s"), "{errors}");
    assert_eq!(alive(&marker), [""; 0]);

    // After SIGKILL, no process is left that could end the children of a backend, so this backend starts no child.
    executable(&folder, "hangs", &format!("{FAKE_LIST}exec sleep {marker}"));
    let mut child = bench(&[]);
    wait_until("every program sleeps", || sleeps() == 3);
    send("KILL", child.id());
    child.wait().unwrap();
    wait_until("every program has ended", || alive(&marker).is_empty());
}

/// Returns the command lines of living processes that were started with `text` in their environment.
fn alive_with(text: &str) -> Vec<String> {
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let folder = entry.ok()?.path();
        let environment = String::from_utf8_lossy(&fs::read(folder.join("environ")).ok()?).into_owned();
        let line = String::from_utf8_lossy(&fs::read(folder.join("cmdline")).ok()?).replace('\0', " ");
        environment.contains(text).then_some(line)
    });
    lines.collect()
}

/// The process with this number, which gets SIGTERM if the test panics.
struct EndOf(u32);

impl Drop for EndOf {
    fn drop(&mut self) {
        if std::thread::panicking() {
            send("TERM", self.0);
        }
    }
}

#[test]
fn a_signal_ends_the_members_of_a_bench() {
    for signal in ["TERM", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let variable = format!("TMPDIR={}", folder.path().display());
        let mut child = Command::new(env!("CARGO_BIN_EXE_comity-lab"))
            .args(["bench", "use", "--scenario", "pipeline", "--seconds", "600"])
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // If an assertion fails, this value ends the bench, which would run for minutes.
        let _end = EndOf(child.id());
        wait_until("all members start", || {
            let members = alive_with(&variable);
            ["kernel fib", " run ", "tr y x"].iter().all(|part| members.iter().any(|line| line.contains(part)))
        });
        send(signal, child.id());
        child.wait().unwrap();
        if signal == "TERM" {
            assert_eq!(alive_with(&variable), [""; 0]);
        }
        wait_until("everything has ended", || alive_with(&variable).is_empty());
    }
}
