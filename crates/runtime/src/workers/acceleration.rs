//! Acceleration of a worker's thread without privileges (Robinhood §3.1; Algorithms 2 and 3 as far as a stock kernel
//! permits).
//!
//! The thief and the candidate change places. The thief pulls the candidate's thread to its own core: it confines the
//! thread to that core, and restores the thread's mask at once. Then the thief moves itself in the same way to the
//! core from which the thread came. On the thief's old core the kernel runs the candidate next, or another thread.
//! The thief sleeps until the candidate has had its turn: a thief that looked for tasks meanwhile would spend its
//! program's part of the other core. When the candidate is preempted again, the thief is on another core, with that
//! part unspent, and they change places once more.
//!
//! The kernel has no call for the rest of the paper's rule. The candidate keeps no place in its old queue, and pays
//! for its time itself. It gets a turn of the kernel's instead of the rest of the thief's turn. If the thief may not
//! run on the candidate's core, or does not know that core, it yields.
//!
//! Under a policy whose thieves stay (see [`Pull::changes_places`]), like BWS's call, the thief yields on its own
//! core. It continues there at its next turn.
//!
//! One thief at a time accelerates a worker ([`candidate`](crate::cores::candidate)). A thief that is a candidate
//! itself accelerates no worker: the paper's inheritance passes on the rest of a slice, which is not possible here.
//!
//! # Off its core
//!
//! The clock of a thread that is off its core stands still. Two readings of the clock, some time apart, must agree.
//! The first reading is stored with the candidate, and a later thief compares, so that no thief waits. The clock of a
//! thread that waits in a system call stands still too; `/proc` tells the two apart. A thread is pulled once for each
//! value of its clock. Otherwise thieves would pull it from core to core, and it would never run.
//!
//! # What a candidate starts
//!
//! A thread or process that a candidate starts inherits the narrow mask, if the thief loses its core before it has
//! restored the old mask. The candidate's clock has moved in that case. In a pool that shares cores, the coordinator
//! corrects the mask, as for workers that are confined. In any other pool, a mender thread corrects it. That thread
//! starts at the first pull, and waits until the next pull. Not covered: a candidate that replaces its program
//! (`exec`) in that moment, which ends the thief.
//!
//! A thief that moves itself continues when it has its turn on the other core. Behind a thread with a realtime
//! policy, it waits until that thread leaves the core.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, Thread};
use std::time::Duration;

use comity_os::census::Stat;
use comity_os::cores;
use comity_os::cpu_clock::ThreadId;
use comity_policy::WorkerId;
use comity_policy::definition::Pull;

use crate::cores::masks::{NotMoved, widen};
use crate::cores::mender::{MEND, Mender};
use crate::watching::counters::Refusal;
use crate::watching::say::say_once;
use crate::workers::mask;
use crate::workers::registry::{Registry, Worker};

/// The time that a thief sleeps between two looks at a candidate that has the thief's core, waits in a system call,
/// or is accelerated by another thief.
const NAP: Duration = Duration::from_micros(300);

/// The maximum number of naps: 30 ms in all. The candidate may be blocked by then.
const NAPS: u32 = 100;

/// The message of a program if the kernel lets it move none of its threads.
const REFUSED: &str = "the kernel does not let this program move its threads (sched_setaffinity). \
    Thieves yield their cores, and do not give time slices to preempted workers.";

impl Worker {
    /// Gives the rest of this thief's time slice to the thread of `candidate`, which moves to this core by `pull`.
    /// Returns at once when `calls` is true.
    pub(crate) fn accelerate(&self, candidate: WorkerId, pull: Pull, calls: impl Fn() -> bool) -> Result<(), Refusal> {
        let outcome = self.change_places(candidate, pull, calls);
        if outcome == Err(Refusal::Kernel) {
            static SAID: AtomicBool = AtomicBool::new(false);
            say_once(&SAID, REFUSED);
        }
        // A thief that has nothing to give yields its core, as under BWS.
        match outcome {
            Err(Refusal::Blocked | Refusal::Taken) => thread::sleep(NAP),
            Err(Refusal::Pulled | Refusal::Chain | Refusal::OtherNode | Refusal::Mask | Refusal::Kernel) => {
                comity_os::yield_core()
            }
            _ => {}
        }
        outcome
    }

    fn change_places(&self, candidate: WorkerId, pull: Pull, calls: impl Fn() -> bool) -> Result<(), Refusal> {
        let (registry, peer) = (self.registry(), self.registry().peer(candidate));
        // While this is held, no other thief moves this thief.
        let _own = self.peer.candidate.take(self.id()).ok_or(Refusal::Chain)?;
        let taken = peer.candidate.take(self.id()).ok_or(Refusal::Taken)?;
        let thread = peer.thread().ok_or(Refusal::Running)?;
        let time = thread.cpu_time().ok_or(Refusal::Running)?;
        let clock = time.as_nanos() as u64;
        let now = registry.now();
        if !taken.has_stood_still(clock, now) {
            return Err(Refusal::Running);
        }
        let core = cores::current();
        // If `/proc` has no answer, the thread may be on any core, or blocked.
        let stat = Stat::of_thread(std::process::id(), thread.as_raw() as u32);
        if stat.is_some_and(|stat| stat.state != 'R') {
            taken.notes(clock, now);
            return Err(Refusal::Blocked);
        }
        // Algorithm 2, line 1.
        if !pull.across_nodes && stat.is_some_and(|stat| cores::node(stat.core) != cores::node(core)) {
            return Err(Refusal::OtherNode);
        }
        let from = stat.map(|stat| stat.core).filter(|from| *from != core);
        // A candidate that waits on this core already needs no pull.
        if from.is_some() || stat.is_none() {
            if taken.was_pulled(clock) {
                return Err(Refusal::Pulled);
            }
            registry.pull(candidate, thread, core, time)?;
            taken.is_pulled(clock);
        }
        let goes = |from| registry.masks.pull(self.id(), ThreadId::current(), from, None).is_ok();
        if calls() {
            return Ok(());
        }
        if !pull.changes_places {
            comity_os::yield_core();
            return Ok(());
        }
        if !from.is_some_and(goes) {
            comity_os::yield_core();
        }
        for _ in 0..NAPS {
            if calls() {
                break;
            }
            thread::sleep(NAP);
            // The candidate has had its turn.
            if thread.is_running() != Some(true) && thread.cpu_time().is_none_or(|now| now.as_nanos() as u64 != clock) {
                break;
            }
        }
        Ok(())
    }
}

impl Registry {
    /// Moves the candidate's thread to `core`. `time` is what the thread's clock said.
    fn pull(&self, candidate: WorkerId, thread: ThreadId, core: usize, time: Duration) -> Result<(), Refusal> {
        // The mender starts first: whatever exists before the first pull has its mask from elsewhere.
        if self.activation.is_none() && !self.mending.begin(|| self.me().and_then(mends)) {
            return Err(Refusal::Taken);
        }
        let pulled = self.masks.pull(candidate, thread, core, Some(time));
        if self.masks.is_narrow() {
            self.mending.is_called();
        }
        pulled.map_err(|why| match why {
            NotMoved::Bound => Refusal::Mask,
            NotMoved::Gone => Refusal::Running,
            NotMoved::Refused => Refusal::Kernel,
        })
    }
}

/// Starts a pool's mender thread.
fn mends(registry: Arc<Registry>) -> Option<Thread> {
    let mut mender = Mender::new();
    let starter = mask::narrow();
    let mend = move || {
        widen(starter);
        loop {
            if !mender.is_busy() {
                thread::park();
            }
            thread::sleep(MEND);
            let has_ended = registry.has_ended();
            let threads = (0..registry.workers()).filter_map(|worker| registry.peer(WorkerId(worker)).thread());
            let workers: Vec<_> = threads.map(|thread| (thread, Vec::new())).collect();
            mender.look(&workers, registry.masks.spells_of_pulls());
            if has_ended && !mender.is_busy() {
                return;
            }
        }
    };
    let started = comity_os::fork::spawn(thread::Builder::new().name("comity-mender".into()), mend);
    started.ok().map(|handle| handle.thread().clone())
}
