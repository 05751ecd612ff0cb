//! A thread that takes tokens out of a jobserver's pipe as soon as clients return them.
//!
//! A client such as make returns a token when a job ends, and takes one for its next job some microseconds later. A
//! look at the pipe every 100 ms finds no token in between, so the client would keep its number of jobs until it ends.
//! A thread that waits at the pipe runs when the token is returned.

use std::fs::File;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::tokens::take;

/// The interval at which the thread checks whether it still has to take tokens.
const PERIOD: Duration = Duration::from_millis(100);

/// The thread. It ends when this value is dropped.
pub struct Taker {
    shared: Arc<Shared>,
}

struct Shared {
    /// Reading does not block.
    pipe: File,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of tokens to take.
    wanted: u32,
    /// The number of tokens taken since the last [`Taker::stop`].
    taken: u32,
    has_ended: bool,
}

impl Taker {
    /// Starts the thread. This process may not be copied afterwards.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(pipe: &File) -> io::Result<Taker> {
        let shared = Shared { pipe: pipe.try_clone()?, state: Mutex::default(), changed: Condvar::new() };
        let shared = Arc::new(shared);
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("comity-tokens".to_owned()).spawn(move || of_thread.serve())?;
        Ok(Taker { shared })
    }

    /// Takes no more tokens. Returns the number of tokens taken.
    pub fn stop(&self) -> u32 {
        let mut state = self.shared.state();
        state.wanted = 0;
        mem::take(&mut state.taken)
    }

    /// Takes this many tokens as clients return them.
    pub fn want(&self, tokens: u32) {
        self.shared.state().wanted = tokens;
        self.shared.changed.notify_one();
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.shared.state().has_ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    fn serve(&self) {
        loop {
            let is_idle = |state: &mut State| state.wanted == 0 && !state.has_ended;
            let state = self.changed.wait_while(self.state(), is_idle).expect("no holder of the lock panics");
            if state.has_ended {
                return;
            }
            drop(state);
            let mut polled = [PollFd::new(&self.pipe, PollFlags::IN)];
            if matches!(poll(&mut polled, Timespec::try_from(PERIOD).ok().as_ref()), Ok(1..)) {
                let mut state = self.state();
                let taken = take(&self.pipe, state.wanted);
                state.wanted -= taken;
                state.taken += taken;
            }
        }
    }
}
