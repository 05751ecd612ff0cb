//! A sleeping thread and a futex, without a runtime: with it, benches measure how long the machine takes to wake a
//! thread on another core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use comity_os::park::{Parker, Waker};

const ASLEEP: u32 = 0;
const WOKEN: u32 = 1;

/// A thread that sleeps until it is woken, calls its function, and sleeps again.
pub struct Sleeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    parker: Parker,
    ended: AtomicBool,
}

impl Sleeper {
    /// Starts the thread, which calls `on_wake` at each wake-up.
    pub fn start(on_wake: impl Fn() + Send + 'static) -> Sleeper {
        let shared = Arc::new(Shared { parker: Parker::new(ASLEEP), ended: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            loop {
                while own.parker.word().swap(ASLEEP, Ordering::AcqRel) == ASLEEP {
                    own.parker.wait(ASLEEP, None);
                }
                if own.ended.load(Ordering::Acquire) {
                    return;
                }
                on_wake();
            }
        });
        Sleeper { shared, thread: Some(thread) }
    }

    /// Wakes the thread, on another core than the caller's.
    pub fn wake(&self) {
        self.shared.parker.word().store(WOKEN, Ordering::Release);
        self.shared.parker.wake(Waker::GoesOn);
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the sleeper does not panic");
        }
    }
}
