//! Child processes for tests that end the process, read its environment, or use something of which a process has only
//! one.
//!
//! A test file that uses this module has an ignored test `child`. In the child process, this test plays the role that
//! the environment names.

use std::io::Read as _;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

const ROLE: &str = "COMITY_TEST_ROLE";

/// The role that this process plays, if it is a child of a test.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Returns a command that runs this test program as a child that plays `role`, without any of Comity's variables.
pub fn command(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
    command.args(["child", "--exact", "--ignored", "--nocapture"]);
    command.env(ROLE, role).env("RUST_BACKTRACE", "0");
    for variable in [
        "COMITY",
        "COMITY_POLICY",
        "COMITY_NUM_THREADS",
        "COMITY_WATCH",
        "COMITY_TRACE",
        "RAYON_NUM_THREADS",
        "RAYON_RS_NUM_CPUS",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Called in a child. Returns a flag that becomes true when the test ends or closes this process's standard input.
#[allow(dead_code, reason = "not every child lasts until it is told")]
pub fn end() -> &'static AtomicBool {
    static END: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        END.store(true, Ordering::Relaxed);
    });
    &END
}

/// Runs a child to its end.
#[allow(dead_code, reason = "not every test program waits for it at once")]
pub fn run(mut command: Command) -> Output {
    command.output().expect("a test can run itself")
}

/// Returns what a child printed to standard error.
#[allow(dead_code, reason = "not every test program asks")]
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
