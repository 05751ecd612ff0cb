//! Every process that this command starts ends before it does, whichever way it ends.
//!
//! Descendants are adopted when their own parents end, so ending children until there are none ends them all. One lock
//! orders starting and ending: once the ending is final, nothing is started any more.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use comity_console::Failure;
use comity_os::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How long a process has to end of its own accord. A process of a co-run passes the wish on to its command and gives
/// that [`serve::COMMAND_GRACE`](crate::serve::COMMAND_GRACE), which is shorter.
const GRACE: Duration = Duration::from_secs(3);

static LOCK: Mutex<()> = Mutex::new(());

fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().expect("nobody panics while holding the lock")
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
static WILL: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Has `will` called when a signal ends this command, on another thread, in the place of what was there before.
pub fn at_a_signal(will: impl FnOnce() + Send + 'static) {
    *WILL.lock().expect("nobody panics while holding the lock") = Some(Box::new(will));
}

/// From now on orphaned descendants come to this process, and a signal that would end it ends them first.
pub fn look_after() -> Result<(), Failure> {
    listen_for_the_end().map_err(|error| Failure::Run(format!("cannot look after child processes: {error}")))
}

fn listen_for_the_end() -> io::Result<()> {
    process::adopt_orphans()?;
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal));
    let mut signals = Signals::new(signals)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Held until the end: the other thread can neither start anything nor report what it sees dying.
            let _final = lock();
            let _best = process::end_children(GRACE);
            if let Some(will) = WILL.lock().ok().and_then(|mut will| will.take()) {
                will();
            }
            let _never = signal_hook::low_level::emulate_default_handler(signal);
        }
    })?;
    Ok(())
}
