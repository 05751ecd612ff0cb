//! The timeline: the activity of each thread, and the core on which it ran, as a sequence of stretches.
//!
//! After each event, the timeline looks at the threads that the event can have changed, and reports each stretch that
//! is over. Nothing else in the host depends on the timeline.

use super::kernel::{Kernel, Place};
use super::pool::Pools;
use super::worker::Rest;
use super::{Host, Thread};

/// The activity of a thread for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The thread ran, and had a task.
    Task,
    /// The thread ran and looked for a task, woke up, or fell asleep.
    Thief,
    /// The thread could have run, and waited for a core.
    Preempted,
    /// The thread had a task, and waited in a system call.
    Blocked,
    /// The thread could have run, but its program had used its quota.
    Throttled,
    /// The thread rested because its worker had no core.
    Retired,
    /// The thread slept because there was no work. Includes the time that a wake-up takes to reach the thread.
    Asleep,
}

/// An interval in which a thread had one activity, in one place. The stretches of a thread follow each other without a
/// gap, from the program's beginning to its end or death. Two successive stretches may be equal: between them, the
/// thread had another activity for an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The program, as [`Host::submit`] numbers it.
    pub program: u32,
    /// The worker, from 0.
    pub worker: u32,
    /// The beginning, in nanoseconds.
    pub from: u64,
    /// The end, in nanoseconds; later than `from`.
    pub until: u64,
    /// The activity of the thread.
    pub activity: Activity,
    /// The core on which the thread ran. `None` if it did not run. The switch to the thread is included. A core runs
    /// one thread at a time.
    pub core: Option<u32>,
}

/// Reports each stretch when it is over.
pub(super) struct Timeline {
    tell: Box<dyn FnMut(Stretch)>,
    /// The stretches that are not over, by program and worker. Their `until` equals `from`.
    open: Vec<Vec<Stretch>>,
    /// The thread that each core had after the last event.
    ran: Vec<Option<Thread>>,
}

impl Timeline {
    fn new(cores: usize, tell: Box<dyn FnMut(Stretch)>) -> Timeline {
        Timeline { tell, open: Vec::new(), ran: vec![None; cores] }
    }

    /// Looks at the threads after an event that concerned the programs `touched`. The event may have given cores to
    /// threads of other programs, or taken cores away from them, but has not changed these threads otherwise.
    pub(super) fn look(&mut self, now: u64, kernel: &Kernel, pools: &Pools, touched: &[u32]) {
        for core in 0..kernel.len() {
            let runs = kernel.cores[core].running;
            let ran = std::mem::replace(&mut self.ran[core], runs);
            if ran != runs {
                ran.into_iter().chain(runs).for_each(|thread| self.look_at(now, pools, thread));
            }
        }
        for program in touched.iter().copied() {
            let workers = pools.of(program).workers.len() as u32;
            if workers == 0 {
                self.close(now, program);
            }
            (0..workers).for_each(|worker| self.look_at(now, pools, Thread { program, worker }));
        }
    }

    /// Ends all stretches at the end of the simulation.
    pub(super) fn end(&mut self, now: u64) {
        (0..self.open.len() as u32).for_each(|program| self.close(now, program));
    }

    fn close(&mut self, now: u64, program: u32) {
        let open = self.open.get_mut(program as usize).map(std::mem::take);
        open.into_iter().flatten().for_each(|stretch| self.tell(stretch, now));
    }

    fn look_at(&mut self, now: u64, pools: &Pools, thread: Thread) {
        let nth = thread.program as usize;
        let workers = &pools.of(thread.program).workers;
        // A program that is over has no workers.
        if workers.is_empty() {
            return;
        }
        if self.open.len() <= nth {
            self.open.resize_with(nth + 1, Vec::new);
        }
        let stretch = |worker| begun(now, pools, Thread { worker, ..thread });
        if self.open[nth].is_empty() {
            // All threads of a program begin at once.
            self.open[nth] = (0..workers.len() as u32).map(stretch).collect();
        }
        let new = stretch(thread.worker);
        let open = &mut self.open[nth][thread.worker as usize];
        if (open.activity, open.core) != (new.activity, new.core) {
            let over = std::mem::replace(open, new);
            self.tell(over, now);
        }
    }

    /// Reports a stretch, unless its length is 0.
    fn tell(&mut self, stretch: Stretch, until: u64) {
        if stretch.from < until {
            (self.tell)(Stretch { until, ..stretch });
        }
    }
}

/// Returns the stretch of the thread that begins now.
fn begun(now: u64, pools: &Pools, thread: Thread) -> Stretch {
    let worker = pools.worker(thread);
    let (activity, core) = match worker.place {
        Place::On(core) if worker.is_busy() => (Activity::Task, Some(core as u32)),
        Place::On(core) => (Activity::Thief, Some(core as u32)),
        Place::Queued(_) => (Activity::Preempted, None),
        Place::Blocked => (Activity::Blocked, None),
        Place::Throttled => (Activity::Throttled, None),
        Place::Nowhere if worker.rest == Rest::Retired => (Activity::Retired, None),
        Place::Nowhere => (Activity::Asleep, None),
    };
    Stretch { program: thread.program, worker: thread.worker, from: now, until: now, activity, core }
}

impl Host {
    /// Makes `tell` receive what each thread does, and where, from now on.
    pub fn trace(&mut self, tell: impl FnMut(Stretch) + 'static) {
        self.timeline = Some(Timeline::new(self.kernel.len(), Box::new(tell)));
    }
}
