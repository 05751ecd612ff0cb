//! Acceleration of a preempted worker's thread by a thief, without privileges (Robinhood §3.1; Algorithms 2 and 3 as
//! far as a stock kernel permits).
//!
//! A thief is a worker without a task. A *candidate* is a worker that has a task, but whose thread has lost its core
//! to another thread. The thief and the candidate change places:
//!
//! 1. The thief pulls the candidate's thread to its own core: it confines the thread to that core, and restores the
//!    thread's mask at once.
//! 2. The thief moves itself in the same way to the core that the candidate's thread left. On the thief's old core,
//!    the kernel runs the candidate next, or another thread.
//! 3. The thief sleeps until the candidate has run and is off its core again. Because the thief has slept, the kernel
//!    runs it soon when the candidate is preempted again, and the two can change places once more. If the thief looked
//!    for tasks instead, it would use up its own share of processor time, and the kernel would run it late.
//!
//! A stock kernel does not support the rest of the paper's rule. The candidate loses its place in its old run queue,
//! and the kernel charges the used time to the candidate, not to the thief. The candidate gets a new time slice, not
//! the rest of the thief's slice. A thief that does not know the candidate's core, or may not run there, yields
//! instead of step 2.
//!
//! If [`Pull::changes_places`] is false, as under the policy [`bws`](comity_policy::policies::bws), the thief does not
//! leave its core. After step 1 it yields, and it continues on the same core when the kernel runs it next.
//!
//! Only one thief at a time accelerates a given worker ([`candidate`](crate::cores::candidate)). A worker that is being
//! accelerated may run out of tasks and become a thief. It accelerates no worker until its own acceleration is over.
//! In the paper, such a thief passes on the rest of the slice that it was given. A stock kernel does not support this.
//!
//! # Off its core
//!
//! The processor-time clock of a thread that is off its core stands still. So a thief takes a candidate to be off its
//! core if two readings of its clock, at least 50 µs apart, are equal. The first reading is stored with the candidate,
//! and a later attempt compares, so that no thief waits between the readings. The clock of a thread that waits in a
//! system call stands still too: the thread's state in `/proc` tells the two cases apart. A thread that was pulled is
//! pulled again only after it has run. Otherwise thieves would pull it from core to core, and it would never run.
//!
//! # What a candidate starts
//!
//! The thief may lose its core before it has restored the candidate's mask. If the candidate then runs, a thread or
//! process that it starts inherits the narrow mask. The thief detects this case, because the candidate's clock has
//! advanced. If the pool shares cores with other programs, its [coordinator](crate::sharing::coordinator) thread
//! corrects the inherited mask, as it does after it has confined a worker to some cores. In any other pool, a mender
//! thread corrects the mask. The mender starts at the first pull, and sleeps while no pull needs a correction. Not
//! covered: if the candidate replaces its program (`exec`) at that moment, the narrow mask stays, because `exec` ends
//! all other threads.
//!
//! A thief that has moved itself continues when the kernel runs it on its new core. If a thread with a realtime
//! policy runs there, the thief waits until that thread leaves the core.

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

/// The time that a thief sleeps between two checks of a candidate that has the thief's old core. Also the time that
/// it sleeps after it found a candidate blocked, or accelerated by another thief.
const NAP: Duration = Duration::from_micros(300);

/// The maximum number of naps after a pull, 30 ms in total. The number is limited because the candidate may be
/// blocked.
const NAPS: u32 = 100;

/// The message that the program prints once if the kernel does not let it move its threads.
const REFUSED: &str = "the kernel does not let this program move its threads (sched_setaffinity). \
    Thieves yield their cores, and do not give time slices to preempted workers.";

impl Worker {
    /// Gives this thief's core to the thread of `candidate`, which moves to the core by the rules of `pull`. Stops
    /// waiting once `calls` returns true: then there is a task or an event for this thief.
    pub(crate) fn accelerate(&self, candidate: WorkerId, pull: Pull, calls: impl Fn() -> bool) -> Result<(), Refusal> {
        let outcome = self.change_places(candidate, pull, calls);
        if outcome == Err(Refusal::Kernel) {
            static SAID: AtomicBool = AtomicBool::new(false);
            say_once(&SAID, REFUSED);
        }
        // A thief whose attempt was refused yields its core, as under BWS. If the candidate is blocked, or
        // accelerated by another thief, it sleeps instead.
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
        // Claim this thief's own state as a candidate, so that no other thief pulls this thread meanwhile.
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
        // Pull the candidate, unless it already waits on this core.
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
            // The candidate has run since the pull, and is off its core again.
            if thread.is_running() != Some(true) && thread.cpu_time().is_none_or(|now| now.as_nanos() as u64 != clock) {
                break;
            }
        }
        Ok(())
    }
}

impl Registry {
    /// Moves the candidate's thread to `core`. `time` is the last reading of the thread's clock.
    fn pull(&self, candidate: WorkerId, thread: ThreadId, core: usize, time: Duration) -> Result<(), Refusal> {
        // Start the mender before the first pull, because it keeps the masks of all threads that exist when it starts.
        // After a pull, one of these threads could have inherited a narrow mask.
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
