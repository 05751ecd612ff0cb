//! The signals that a process handles or ignores, and whether it can notice that one of its children is stopped.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::census::{self, LINE, Stat, read_line};

/// The signal sets and the tracer of a process, from the `/proc/PID/status` of its first thread. Bit n − 1 of a set
/// stands for signal n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// The number of the process that traces this process (ptrace), or 0.
    pub tracer: u32,
    /// Signals that were sent and not yet delivered.
    pub pending: u64,
    /// Signals that the thread blocks.
    pub blocked: u64,
    /// Signals that the process ignores.
    pub ignored: u64,
    /// Signals for which the process has a handler.
    pub caught: u64,
}

impl Signals {
    /// Reads the sets of a process. Returns `None` if the process has ended.
    pub fn of_process(process: u32) -> Option<Signals> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let mut signals = Signals::default();
        for (name, value) in status.lines().filter_map(|line| line.split_once(':')) {
            let set = u64::from_str_radix(value.trim(), 16).unwrap_or(0);
            match name {
                "TracerPid" => signals.tracer = value.trim().parse().ok()?,
                "SigPnd" | "ShdPnd" => signals.pending |= set,
                "SigBlk" => signals.blocked = set,
                "SigIgn" => signals.ignored = set,
                "SigCgt" => signals.caught = set,
                _ => {}
            }
        }
        Some(signals)
    }

    /// True if `signal` is in `set`.
    pub fn has(set: u64, signal: i32) -> bool {
        set >> (signal - 1) & 1 == 1
    }
}

/// The attention of a process to its children: would it notice that a child was stopped or continued?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watching {
    /// The process would not notice. A thread already waits for children, but only for their end: a stop does not wake
    /// it. No thread waits for stopped children.
    No,
    /// No thread waits for a child now, and the process does not handle SIGCHLD. A thread may be about to wait.
    Later,
    /// The process would notice, or the caller may not read the system calls of its threads.
    Yes,
}

impl Watching {
    /// Reads the system calls in which the threads of a process wait, and judges from them.
    pub fn of_process(process: u32) -> Watching {
        let Some(waits) = Waits::of_process(process) else { return Watching::Yes };
        let waits_for =
            |stop: bool| waits.iter().any(|wait| matches!(wait, Waits::ForChild { stops, .. } if *stops == stop));
        let is_told = || Signals::of_process(process).is_none_or(|signals| Signals::has(signals.caught, libc::SIGCHLD));
        match () {
            () if waits_for(true) => Watching::Yes,
            () if waits_for(false) => Watching::No,
            () if is_told() => Watching::Yes,
            () => Watching::Later,
        }
    }
}

/// True if a process waits for any child that ends, or may do so later because it handles, blocks or ignores SIGCHLD.
/// `None` if the caller may not read the system calls of that process's threads.
///
/// Takes up to a second if the first thread of the process blocks SIGCHLD and runs.
pub fn waits_for_any_child(process: u32) -> Option<bool> {
    waits_after_forks(process, FORK_BOUND)
}

/// The maximum time for which [`waits_for_any_child`] waits for the end of a posix_spawn.
const FORK_BOUND: Duration = Duration::from_secs(1);

/// The interval between two looks at a thread that may be in posix_spawn.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

fn waits_after_forks(process: u32, bound: Duration) -> Option<bool> {
    let began = Instant::now();
    loop {
        // Read before the signals: a thread that runs now may sleep after its posix_spawn.
        let sleeps = Stat::of_process(process).is_none_or(|stat| stat.state == 'S');
        let signals = Signals::of_process(process)?;
        let is_in = |set: u64| Signals::has(set, libc::SIGCHLD);
        let waits = || Waits::of_process(process);
        if is_in(signals.caught) || is_in(signals.ignored) {
            return Some(true);
        }
        if !is_in(signals.blocked) {
            return Some(waits()?.iter().any(|wait| matches!(wait, Waits::ForChild { any: true, .. })));
        }
        // The C library's posix_spawn blocks all signals until the new program runs and the caller of posix_spawn
        // runs again. The new program may be this one. A thread that sleeps is not in posix_spawn.
        if sleeps || began.elapsed() > bound {
            return Some(true);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// The event that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The end of any child (`any`), or of a child that the thread names. With `stops`, also a child that stops or
    /// continues. `sigsuspend` is included, because a shell without job control waits in it for the end of any child.
    ForChild { any: bool, stops: bool },
    /// Another event, or no event because the thread runs.
    Otherwise,
}

impl Waits {
    /// Returns the event that each thread of a process waits for. `None` if the caller may not read it, for example
    /// because the security module Yama lets only a parent trace.
    fn of_process(process: u32) -> Option<Vec<Waits>> {
        let of_thread = |thread: u32| {
            let mut line = [0; LINE];
            let line = read_line(&format!("/proc/{process}/task/{thread}/syscall"), &mut line)?;
            Waits::parse(str::from_utf8(line).ok()?)
        };
        census::threads(process).into_iter().map(of_thread).collect()
    }

    /// Parses `number argument… stack instruction`, with the arguments in hexadecimal, or `running`.
    fn parse(line: &str) -> Option<Waits> {
        let mut fields = line.split_ascii_whitespace();
        let Ok(number) = fields.next()?.parse::<i64>() else { return Some(Waits::Otherwise) };
        let arguments: Option<Vec<u64>> =
            fields.map(|field| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok()).collect();
        let (arguments, of_stops) = (arguments?, (libc::WUNTRACED | libc::WSTOPPED | libc::WCONTINUED) as u64);
        let (any, options) = match number {
            // The first argument is a process number as an `int`. 0 or less means a group of children, or any child.
            libc::SYS_wait4 => (*arguments.first()? as i32 <= 0, *arguments.get(2)?),
            libc::SYS_waitid => (*arguments.first()? == u64::from(libc::P_ALL), *arguments.get(3)?),
            libc::SYS_rt_sigsuspend => (true, 0),
            _ => return Some(Waits::Otherwise),
        };
        Some(Waits::ForChild { any, stops: options & of_stops != 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_wait_says_what_it_waits_for() {
        let wait = |number: i64, arguments: [&str; 4]| {
            Waits::parse(&format!("{number} {} 0x7ffd 0x7f01", arguments.join(" ")))
        };
        let child = |any: bool, stops: bool| Waits::ForChild { any, stops };
        for (number, arguments, expected) in [
            (libc::SYS_wait4, ["0xffffffffffffffff", "0x7ffc", "0x0", "0x0"], child(true, false)),
            (libc::SYS_wait4, ["0xffffffff", "0x7ffc", "0x2", "0x0"], child(true, true)),
            (libc::SYS_wait4, ["0x1234", "0x7ffc", "0xa", "0x0"], child(false, true)),
            (libc::SYS_waitid, ["0x1", "0x2", "0x7ffc", "0x4"], child(false, false)),
            (libc::SYS_waitid, ["0x0", "0x2", "0x7ffc", "0xe"], child(true, true)),
            (libc::SYS_rt_sigsuspend, ["0x7ffc", "0x8", "0x0", "0x0"], child(true, false)),
            (libc::SYS_futex, ["0x2", "0x2", "0x2", "0x2"], Waits::Otherwise),
        ] {
            assert_eq!(wait(number, arguments), Some(expected), "{number} {arguments:?}");
        }
        assert_eq!(Waits::parse("running\n"), Some(Waits::Otherwise));
        assert_eq!(Waits::parse("61 broken"), None);
        assert_eq!(Waits::parse(""), None);
    }

    /// Plays a process that blocks all signals while it runs, as posix_spawn does, and then waits for no child.
    #[test]
    fn signals_that_are_blocked_during_a_spawn_do_not_count() {
        let (mut say, told) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut command = Command::new("cat");
        let (mut at, go) = (say.1.try_clone().unwrap(), told.0.try_clone().unwrap());
        let spawn = move || {
            signal_mask(libc::SIG_BLOCK);
            at.write_all(&std::process::id().to_ne_bytes())?;
            // Spins, because a thread that sleeps is not in posix_spawn.
            while rustix::io::ioctl_fionread(&go)? == 0 {}
            signal_mask(libc::SIG_UNBLOCK);
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls only.
        unsafe { command.pre_exec(spawn) };
        let spawner = thread::spawn(move || command.stdin(Stdio::piped()).spawn().unwrap());
        let mut id = [0; 4];
        say.0.read_exact(&mut id).unwrap();
        let process = u32::from_ne_bytes(id);
        assert!(Signals::has(Signals::of_process(process).unwrap().blocked, libc::SIGCHLD));
        assert_eq!(waits_after_forks(process, Duration::ZERO), Some(true));
        let judge = thread::spawn(move || waits_after_forks(process, Duration::MAX));
        (&told.1).write_all(b"!").unwrap();
        assert_eq!(judge.join().unwrap(), Some(false));
        let mut child = spawner.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn signal_mask(how: i32) {
        // SAFETY: `all` is valid to write to and then to read for the length of the calls.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(how, &all, std::ptr::null_mut());
        }
    }

    #[test]
    fn signals_that_a_process_blocks_stay_pending() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let signals = || Signals::of_process(child.id()).unwrap();
        assert_eq!((signals().tracer, signals().pending), (0, 0));
        assert!(!Signals::has(signals().caught, libc::SIGTERM));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(Signals::of_process(child.id()), None);
    }
}
