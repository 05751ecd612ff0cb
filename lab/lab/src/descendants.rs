//! Every process that this command starts ends before it does, whichever way it ends.
//!
//! Descendants are adopted when their own parents end, so ending children until there are none ends them all. One lock
//! orders starting and ending: once the ending is final, nothing is started any more.

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

/// How long a process has to end of its own accord. A process of a co-run passes the wish on to its command and gives
/// that [`serve::COMMAND_GRACE`](crate::serve::COMMAND_GRACE), which is shorter.
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

/// Ends every process that was started and every descendant of it. It takes their exit statuses.
pub fn end_all() -> Result<(), Failure> {
    let _ending = lock();
    process::end_children(GRACE).map_err(|error| {
        Failure::Run(format!("a process that was started cannot be ended: {error}; see `ps --forest`"))
    })
}

/// What is done when a signal ends this command, after everything that it started has ended.
static AT_A_SIGNAL: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Calls `action` on another thread when a signal ends this command, in the place of the action before. A second
/// signal ends the command at once. `action` must not panic.
pub fn at_a_signal(action: impl FnOnce() + Send + 'static) {
    *comity_os::lock(&AT_A_SIGNAL) = Some(Box::new(action));
}

/// Calls `last` in the place of the action at a signal: one that comes meanwhile ends the command afterwards.
pub fn finish<R>(last: impl FnOnce() -> R) -> R {
    let _not_meanwhile = lock();
    *comity_os::lock(&AT_A_SIGNAL) = None;
    last()
}

/// Says on standard error how much of a measurement a signal has left, and whether there is `nothing` to tell of
/// it. Whether there is something.
pub fn say_interrupted(done: usize, all: usize, unit: &str, nothing: Option<&str>) -> bool {
    let what = nothing.unwrap_or("what follows, and what is filed, is a part");
    say(&format!("interrupted after {done} of {all} {unit}: {what}"));
    nothing.is_none()
}

/// What could not be told after that.
pub fn say_failures(outcomes: impl IntoIterator<Item = Result<(), Failure>>) {
    for failure in outcomes.into_iter().filter_map(Result::err) {
        say(&format!("error: {}", failure.into_sentence()));
    }
}

/// Standard error may be gone, as when the terminal is closed. The files are written all the same.
fn say(sentence: &str) {
    to_stderr(&format!("{sentence}\n"));
}

/// From now on orphaned descendants come to this process, and a signal that would end it ends them first.
pub fn look_after() -> Result<(), Failure> {
    listen_for_the_end().map_err(|error| Failure::Run(format!("cannot look after child processes: {error}")))
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
            // Held until the end: the other thread can neither start anything nor report what it sees dying.
            let _final = lock();
            let _best = process::end_children(GRACE);
            // What follows may wait for a reader.
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
