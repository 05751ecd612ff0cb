//! What each thread was about and where it ran, from when to when.
//!
//! The threads that an event can have changed are looked at after it, and a stretch is told when it is over.
//! Nothing else in the host knows of it.

use super::kernel::{Kernel, Place};
use super::pool::Pools;
use super::worker::Rest;
use super::{Host, Thread};

/// What a thread was about for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It ran, and had a task.
    Task,
    /// It ran, and looked for one; or woke, or fell asleep.
    Thief,
    /// It could have run, and waited for a core.
    Preempted,
    /// It had a task, and waited in a system call.
    Blocked,
    /// It could have run, but its program had used its quota.
    Throttled,
    /// It rested for want of a core.
    Retired,
    /// It slept for want of work, or a wake-up was on its way.
    Asleep,
}

/// A while in which a thread was about one thing, in one place. Those of a thread follow each other without a gap,
/// from when its program comes to when that ends or dies. Where two are alike, something else was for an instant
/// between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// As [`Host::submit`] numbers it.
    pub program: u32,
    /// The worker, from 0.
    pub worker: u32,
    /// In nanoseconds,
    pub from: u64,
    /// and later than that.
    pub until: u64,
    /// What it was about.
    pub activity: Activity,
    /// Where it ran, if it did; the switch to it included. One thread at a time runs on a core.
    pub core: Option<u32>,
}

/// Is told each stretch when it is over.
pub(super) struct Timeline {
    tell: Box<dyn FnMut(Stretch)>,
    /// Those that are not over, by program and worker. They end now.
    open: Vec<Vec<Stretch>>,
    /// The thread that each core had after the last event.
    ran: Vec<Option<Thread>>,
}

impl Timeline {
    fn new(cores: usize, tell: Box<dyn FnMut(Stretch)>) -> Timeline {
        Timeline { tell, open: Vec::new(), ran: vec![None; cores] }
    }

    /// An event is over that had to do with these programs. Of others it has at most given cores to threads, or
    /// taken them away.
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

    /// Nothing happens any more.
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
        // A program that is over has none.
        if workers.is_empty() {
            return;
        }
        if self.open.len() <= nth {
            self.open.resize_with(nth + 1, Vec::new);
        }
        let stretch = |worker| begun(now, pools, Thread { worker, ..thread });
        if self.open[nth].is_empty() {
            // All of a program's threads come at once.
            self.open[nth] = (0..workers.len() as u32).map(stretch).collect();
        }
        let new = stretch(thread.worker);
        let open = &mut self.open[nth][thread.worker as usize];
        if (open.activity, open.core) != (new.activity, new.core) {
            let over = std::mem::replace(open, new);
            self.tell(over, now);
        }
    }

    /// What lasted for an instant is not told.
    fn tell(&mut self, stretch: Stretch, until: u64) {
        if stretch.from < until {
            (self.tell)(Stretch { until, ..stretch });
        }
    }
}

/// The stretch that begins now.
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
    /// From now on `tell` is told what each thread is about, and where.
    pub fn trace(&mut self, tell: impl FnMut(Stretch) + 'static) {
        self.timeline = Some(Timeline::new(self.kernel.len(), Box::new(tell)));
    }
}
