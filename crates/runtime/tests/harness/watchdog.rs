//! A watchdog, which turns a hang into a failure.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// The maximum time for one step of a test. It is long, because it must tell a hang from a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Aborts the process when no step was announced for [`LIMIT`]. Dropping the watchdog stops it.
pub struct Watchdog {
    test: &'static str,
    steps: Sender<String>,
}

impl Watchdog {
    pub fn start(test: &'static str) -> Watchdog {
        let (steps, announced) = channel();
        thread::spawn(move || {
            let mut step = String::from("its start");
            loop {
                match announced.recv_timeout(LIMIT) {
                    Ok(next) => step = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let sentence = format!("{test} hangs: no progress for {LIMIT:?} since {step}; aborting\n");
                        // Not `eprintln!`: the test harness captures its output, which an abort would lose.
                        std::io::stderr().write_all(sentence.as_bytes()).expect("stderr takes a sentence");
                        std::process::abort();
                    }
                }
            }
        });
        Watchdog { test, steps }
    }

    /// Announces the next step. A test that fails prints all announced steps, and has failed in the last one.
    pub fn step(&self, step: impl Into<String>) {
        let step = step.into();
        println!("{}: {step}", self.test);
        self.steps.send(step).expect("the watchdog waits for steps");
    }
}
