//! Ends every process that this command has started, before the command itself ends for any reason.
//!
//! This process adopts descendants when their own parents end. Ending children until there are none thus ends all
//! descendants. One lock orders starts and ends: once the final end has begun, nothing is started.

use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use comity_console::Failure;
use comity_os::process;
use comity_os::writes::to_stderr;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// The time that a process has to end after it was asked to. A process of a co-run forwards the request to its
/// command, and gives that command [`serve::COMMAND_GRACE`](crate::serve::COMMAND_GRACE), which is shorter.
const GRACE: Duration = Duration::from_secs(3);

static LOCK: Mutex<()> = Mutex::new(());

fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().expect("no thread panics while holding the lock")
}

/// Starts a process.
pub fn start(command: &mut Command) -> io::Result<Child> {
    let _starting = lock();
    command.spawn()
}

/// Ends every process that was started and all their descendants, and takes their exit statuses.
pub fn end_all() -> Result<(), Failure> {
    let _ending = lock();
    process::end_children(GRACE).map_err(|error| {
        Failure::Run(format!("cannot end a process that this command started: {error}. Find it with `ps --forest`"))
    })
}

/// The action to run when a signal ends this command, after everything that the command started has ended.
static AT_A_SIGNAL: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Sets the action to run, on another thread, when a signal ends this command. It replaces the previous action. A
/// second signal ends the command at once. `action` must not panic.
pub fn at_a_signal(action: impl FnOnce() + Send + 'static) {
    *comity_os::lock(&AT_A_SIGNAL) = Some(Box::new(action));
}

/// Removes the action at a signal and calls `last`. A signal that arrives during `last` ends the command afterwards.
pub fn finish<R>(last: impl FnOnce() -> R) -> R {
    let _not_meanwhile = lock();
    *comity_os::lock(&AT_A_SIGNAL) = None;
    last()
}

/// Says on standard error how much of a measurement was done when a signal ended it. `nothing` is the reason why
/// there is nothing to report. Returns true if there is something to report.
pub fn say_interrupted(done: usize, all: usize, unit: &str, nothing: Option<&str>) -> bool {
    let what = nothing.unwrap_or("the results that follow, and the saved results, are partial");
    say(&format!("interrupted after {done} of {all} {unit}: {what}"));
    nothing.is_none()
}

/// Says on standard error which outputs failed after that.
pub fn say_failures(outcomes: impl IntoIterator<Item = Result<(), Failure>>) {
    for failure in outcomes.into_iter().filter_map(Result::err) {
        say(&format!("error: {}", failure.into_sentence()));
    }
}

/// Writes to standard error, which may be closed together with the terminal. The files are written even so.
fn say(sentence: &str) {
    to_stderr(&format!("{sentence}\n"));
}

/// Adopts orphaned descendants from now on, and ends all descendants before a signal ends this process.
pub fn look_after() -> Result<(), Failure> {
    listen_for_the_end().map_err(|error| Failure::Run(format!("cannot manage child processes: {error}")))
}

fn listen_for_the_end() -> io::Result<()> {
    process::adopt_orphans()?;
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal));
    let signals: Vec<i32> = signals.collect();
    let is_ending = Arc::new(AtomicBool::new(false));
    for signal in &signals {
        flag::register_conditional_default(*signal, Arc::clone(&is_ending))?;
    }
    let mut signals = Signals::new(signals)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // The lock is held until the end, so the other thread can neither start a process nor report those that
            // it sees ending.
            let _final = lock();
            let _best = process::end_children(GRACE);
            // The action may wait for a reader of its output, so from here a second signal ends the process at once.
            is_ending.store(true, Ordering::Release);
            let action = comity_os::lock(&AT_A_SIGNAL).take();
            if let Some(action) = action {
                action();
            }
            let _never = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}
