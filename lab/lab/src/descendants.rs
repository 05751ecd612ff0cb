//! Ends every process that this command has started, before the command itself ends for any reason.
//!
//! This process adopts descendants when their own parents end. Therefore all descendants have ended when no child is
//! left. Starts and ends take the same lock, so no process is started once the final end has begun.

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

/// The time that a process gets to end after SIGTERM, before it is killed. A process of a co-run forwards the signal
/// to its command, and gives that command [`serve::COMMAND_GRACE`](crate::serve::COMMAND_GRACE), which is shorter.
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

/// Ends every process that this command has started and all their descendants, and collects their exit statuses.
pub fn end_all() -> Result<(), Failure> {
    let _ending = lock();
    process::end_children(GRACE).map_err(|error| {
        Failure::Run(format!("cannot end a process that this command started: {error}. Find it with `ps --forest`"))
    })
}

/// The action to run when a signal ends this command, after everything that the command started has ended.
static AT_A_SIGNAL: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Sets the action for a signal that ends this command, in place of the previous action. It runs on another thread
/// and must not panic. A second signal ends the command at once.
pub fn at_a_signal(action: impl FnOnce() + Send + 'static) {
    *comity_os::lock(&AT_A_SIGNAL) = Some(Box::new(action));
}

/// Removes the action at a signal and calls `last`. A signal that arrives during `last` ends the command afterwards.
pub fn finish<R>(last: impl FnOnce() -> R) -> R {
    let _not_meanwhile = lock();
    *comity_os::lock(&AT_A_SIGNAL) = None;
    last()
}

/// Prints to standard error how much of a measurement was done when a signal ended it. `nothing` is the reason why
/// there is nothing to report. Returns true if there is something to report.
pub fn say_interrupted(done: usize, all: usize, unit: &str, nothing: Option<&str>) -> bool {
    let what = nothing.unwrap_or("the results that follow, and the saved results, are partial");
    say(&format!("interrupted after {done} of {all} {unit}: {what}"));
    nothing.is_none()
}

/// Prints the errors of outputs to standard error, after [`say_interrupted`].
pub fn say_failures(outcomes: impl IntoIterator<Item = Result<(), Failure>>) {
    for failure in outcomes.into_iter().filter_map(Result::err) {
        say(&format!("error: {}", failure.into_sentence()));
    }
}

/// Writes to standard error. Ignores errors, because standard error may be closed together with the terminal, and the
/// files must still be written.
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
            // The lock is held until the end of this process. Therefore no other thread can start a process, or
            // report an error about a process that is ended here.
            let _final = lock();
            let _best = process::end_children(GRACE);
            // From here, a second signal ends this process at once, because the action may wait for a reader of its
            // output.
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
