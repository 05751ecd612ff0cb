//! The call stack of another thread of this process, for a report about a program that makes no progress.

use std::backtrace::Backtrace;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::cpu_clock::ThreadId;

/// The call stack that a thread has captured.
struct Answer {
    thread: i32,
    frames: Backtrace,
}

static ANSWER: AtomicPtr<Answer> = AtomicPtr::new(ptr::null_mut());

/// The thread that must capture its stack, or 0. Set to 0 after the wait, so that a late thread does not answer.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Returns the frames of a thread's stack, the innermost first, in the format of [`std::backtrace`]. `None` if the
/// thread does not answer within `patience`, or if the program handles all real-time signals.
///
/// A real-time signal for which the program has no handler interrupts the thread, which then captures its own stack.
/// The capture allocates memory, which is not safe in a signal handler: a thread that was interrupted in the allocator
/// would hang. So call this only for threads that are blocked in a system call. That system call may end early (EINTR).
pub fn of_blocked_thread(thread: ThreadId, patience: Duration) -> Option<String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let began = Instant::now();
    // Wait only for a limited time, because a fork may have left the lock held in this child.
    let _one_at_a_time = loop {
        match ONE_AT_A_TIME.try_lock() {
            Ok(guard) => break guard,
            Err(_) if began.elapsed() > patience => return None,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let signal = signal()?;
    ASKED.store(thread.as_raw(), Ordering::SeqCst);
    // SAFETY: sends a signal to a thread of this process, which has a handler for it. A thread that is gone is refused.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.as_raw(), signal) } == 0;
    let asked_at = Instant::now();
    let mut answer = None;
    while sent && answer.is_none() && asked_at.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(1));
        // Ignore the answer of another thread, which was too late for an earlier call.
        answer = take_answer().filter(|answer| answer.thread == thread.as_raw());
    }
    ASKED.store(0, Ordering::SeqCst);
    Some(below_the_signal(&answer?.frames.to_string()))
}

fn take_answer() -> Option<Box<Answer>> {
    let answer = ANSWER.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: the handler created the pointer from a box, and the swap took it out exactly once.
    (!answer.is_null()).then(|| unsafe { Box::from_raw(answer) })
}

/// Removes the frame of this module's signal handler, the frames above it, and the frame that the kernel made to call
/// the handler.
fn below_the_signal(frames: &str) -> String {
    let lines: Vec<&str> = frames.lines().collect();
    let is_frame = |line: &str| line.split_once(':').is_some_and(|(number, _)| number.trim().parse::<u32>().is_ok());
    let handler = lines.iter().position(|line| is_frame(line) && line.contains("stack::handler"));
    let below = handler.and_then(|handler| {
        let mut frames = (handler + 1..lines.len()).filter(|line| is_frame(lines[*line]));
        frames.nth(1)
    });
    lines[below.unwrap_or(0)..].join("\n")
}

/// Returns the signal of this module's handler. It is chosen once, among the signals that the program does not handle.
fn signal() -> Option<libc::c_int> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    *SIGNAL.get_or_init(|| (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|signal| take(*signal)))
}

/// Sets this module's handler for `signal` if the signal has no handler. Returns true if the handler was set.
fn take(signal: libc::c_int) -> bool {
    // SAFETY: both structs are plain data, and all zeros is a valid value: no flags, an empty mask, the default
    // action. `handler` has the type required without SA_SIGINFO: it takes the signal's number.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &mut old) != 0 || old.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = handler as *const () as libc::sighandler_t;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &new, ptr::null_mut()) == 0
    }
}

extern "C" fn handler(_signal: libc::c_int) {
    let me = ThreadId::current().as_raw();
    if ASKED.compare_exchange(me, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return;
    }
    // SAFETY: this is the C library's error number of the thread. The interrupted code must find it unchanged.
    let errno = unsafe { *libc::__errno_location() };
    drop(take_answer());
    let answer = Answer { thread: me, frames: Backtrace::force_capture() };
    ANSWER.store(Box::into_raw(Box::new(answer)), Ordering::SeqCst);
    // SAFETY: see above; this restores the error number.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[inline(never)]
    fn a_function_that_blocks(end: &mpsc::Receiver<()>) {
        let _ = end.recv();
        std::hint::black_box(());
    }

    #[test]
    fn a_blocked_thread_tells_where_and_goes_on_blocking() {
        let (end, ended) = mpsc::channel();
        let (said, thread) = mpsc::channel();
        let blocked = std::thread::spawn(move || {
            said.send(ThreadId::current()).unwrap();
            a_function_that_blocks(&ended);
        });
        let thread = thread.recv().unwrap();
        // The thread reports its number before it blocks, so wait until it uses no more processor time.
        let mut used = None;
        while thread.cpu_time() != used {
            used = thread.cpu_time();
            std::thread::sleep(Duration::from_millis(50));
        }
        for _ in 0..3 {
            let frames = of_blocked_thread(thread, Duration::from_secs(10)).unwrap();
            assert!(frames.contains("a_function_that_blocks"), "{frames}");
            assert!(!frames.contains("stack::handler"), "{frames}");
        }
        assert!(!blocked.is_finished());
        end.send(()).unwrap();
        blocked.join().unwrap();
    }

    #[test]
    fn a_thread_that_never_was_does_not_answer() {
        assert_eq!(of_blocked_thread(ThreadId::from_raw(1 << 23), Duration::from_millis(10)), None);
    }
}
