//! A worker as a thief. The dialogue of `comity_protocol` asks the policy what the worker does next, and returns
//! effects. This file carries out each effect on threads, and returns its outcome to the dialogue.

use std::cell::OnceCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comity_os::slice::{Shortened, shorten};
use comity_policy::definition::Pull;
use comity_policy::{Level, Thief, Victim, WorkerId};
use comity_protocol::activation::Pool;
use comity_protocol::dialogue::{Dialogue, Effect, Hands, Outcome, Take};

use crate::raw::abort::AbortOnDrop;
use crate::raw::job::take;
use crate::watching::counters::{Live, Refusal};
use crate::watching::trace;
use crate::workers::registry::{JobRef, Worker};
use crate::workers::sleep::Work;
use crate::workers::view::View;

impl Worker {
    /// Looks for a task until there is one, until `awaited` is true, or until this worker has
    /// [business](Work::has_business), an event that only it can handle.
    #[cold]
    pub(crate) fn search(&self, awaited: &dyn Fn() -> bool) -> Option<JobRef> {
        let owed = &self.registry().peer(self.id()).wakeups_owed;
        let begin = |view: &View<'_>| Dialogue::begin(self.id(), owed.swap(0, Ordering::Relaxed), view);
        self.spell(awaited, begin, |wakeups_owed| owed.store(wakeups_owed, Ordering::Relaxed))
    }

    /// Sleeps while the pool is closed, so that no worker may begin a task. Tasks that are queued at this worker stay
    /// queued. Returns when the pool is open or `awaited` is true. The worker then continues even if the pool already
    /// has its maximum of awake workers, because it has an unfinished task or queued tasks.
    #[cold]
    pub(crate) fn rest_while_closed(&self, awaited: &dyn Fn() -> bool) {
        // A panic from here would unwind through frames that other threads still borrow from.
        let abort = AbortOnDrop("a worker panicked while its pool was closed. This is a bug in Comity");
        let goes_on = || !self.registry().is_closed() || awaited();
        self.spell(&goes_on, |view| Dialogue::begin_to_rest(self.id(), view), |_| {});
        std::mem::forget(abort);
    }

    /// Runs a spell, the time in which the worker has no task. The worker is busy again when this returns. `owes`
    /// gets the number of wake-ups that the worker still has to cause.
    fn spell(
        &self,
        awaited: &dyn Fn() -> bool,
        begin: impl FnOnce(&View<'_>) -> Dialogue,
        owes: impl FnOnce(u32),
    ) -> Option<JobRef> {
        let (registry, id) = (&**self.registry(), self.id());
        let peer = registry.peer(id);
        let began = Instant::now();
        peer.counters.busy_ns.add_time(began - self.own().busy_since.get());
        peer.busy_since.store(0, Ordering::Relaxed);
        let view = View { registry, awaited };
        let mut dialogue = begin(&view);
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, trace::State::Thief, began);
        }

        let mut spell = Spell { worker: self, awaited, found: None, began, slice: OnceCell::new() };
        let wakeups_owed = hold(&mut dialogue, &mut **self.own().thief.borrow_mut(), &view, id, &mut spell);
        owes(wakeups_owed);
        dialogue.finish(&view);
        // The thread gets its usual time slice back, because a thread or process that a task starts would inherit the
        // short one.
        drop(spell.slice.take());

        let ended = Instant::now();
        peer.counters.thief_ns.add_time(ended - spell.began);
        self.own().busy_since.set(ended);
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, trace::State::Task, ended);
        }
        peer.busy_since.store(registry.nanos_at(ended), Ordering::Relaxed);
        spell.found.take()
    }
}

/// A spell of a worker as a thief: the time from the end of its last task to the next task.
struct Spell<'a> {
    worker: &'a Worker,
    awaited: &'a dyn Fn() -> bool,
    found: Option<JobRef>,
    /// The start of the spell, moved forward by the time spent asleep.
    began: Instant,
    /// The shortened time slice of the thread, set at the first yield. `None` if the policy does not shorten the
    /// slice, or if the kernel refuses it.
    slice: OnceCell<Option<Shortened>>,
}

/// Runs the dialogue of the worker `me` to its end. Returns the number of wake-ups that the worker still has to
/// cause.
pub(crate) fn hold(
    dialogue: &mut Dialogue,
    thief: &mut dyn Thief,
    crew: &impl Pool,
    me: WorkerId,
    hands: &mut impl Hands,
) -> u32 {
    let mut outcome = Outcome::Done;
    loop {
        let effect = dialogue.next(thief, crew, outcome);
        outcome = match effect {
            Effect::Begin { wakeups_owed } => return wakeups_owed,
            effect => effect.carry_out(me, hands).expect("a wait on threads is over when it returns"),
        };
    }
}

impl Hands for Spell<'_> {
    fn steal(&mut self, victim: WorkerId) -> Take {
        if self.keep(self.worker.rob(victim)) {
            Take::Taken
        } else if self.worker.registry().peer(victim).has_task() {
            Take::Missed
        } else {
            Take::Nothing
        }
    }

    fn take_injected(&mut self) -> bool {
        self.keep(take(|| self.worker.registry().injector.steal()))
    }

    fn mug(&mut self, victim: WorkerId) -> bool {
        self.keep(self.worker.mug(victim))
    }

    fn inspect(&mut self, victim: WorkerId) -> Victim {
        self.worker.registry().inspect(victim)
    }

    fn claim_wakeup(&mut self, from: WorkerId) -> bool {
        self.worker.registry().peer(from).claim_wakeup()
    }

    fn wake(&mut self, sleeper: Option<WorkerId>, appoint: bool) -> Option<WorkerId> {
        let woken = self.worker.registry().sleep.wake_peer(self.worker.id(), sleeper, appoint);
        self.counters().wakeups.add(u64::from(woken.is_some()));
        woken
    }

    /// Yields the core, under BWS to the peer `to`. A stock kernel has no directed yield, so the thief first pulls
    /// the peer to this core. If the peer turns out to run on a core, the thief continues without a yield.
    fn give_way(&mut self, to: Option<WorkerId>) {
        // The slice is shortened before the yield: if another program's thread runs on this core, the yield delays
        // the thief's next wake-up by the thief's slice.
        self.slice.get_or_init(|| self.worker.registry().policy.slice().and_then(shorten));
        let goes_on = match to.zip(self.worker.registry().policy.yield_to()) {
            Some((peer, pull)) => self.accelerates(peer, Some(pull)) == Err(Refusal::Running),
            None => {
                comity_os::yield_core();
                false
            }
        };
        self.counters().yields.add(u64::from(!goes_on));
    }

    fn accelerate(&mut self, candidate: WorkerId, level: Level) -> bool {
        let accelerates = self.worker.registry().policy.accelerates();
        let threads = || accelerates.and_then(|accelerates| accelerates.threads);
        let pull = match level {
            Level::Thread => Some(threads().expect("the policy's row says how a thief pulls threads")),
            Level::Vcpu => None,
        };
        self.accelerates(candidate, pull).is_ok()
    }

    fn pause(&mut self, hints: u32) {
        (0..hints).for_each(|_| std::hint::spin_loop());
    }

    fn wait(&mut self, at_rest: u32, timeout: Option<Duration>, is_retired: bool) -> bool {
        let as_what = if is_retired { trace::State::Retired } else { trace::State::Asleep };
        let worker = self.worker;
        self.rest(as_what, || worker.registry().sleep.parker(worker.id()).wait(at_rest, timeout));
        true
    }
}

impl<'a> Spell<'a> {
    fn counters(&self) -> &'a Live {
        &self.worker.registry().peer(self.worker.id()).counters
    }

    /// Accelerates the thread of `candidate`, and counts the outcome. If `threads` is `None`, the policy accelerates
    /// virtual CPUs, which no hypervisor supports.
    fn accelerates(&mut self, candidate: WorkerId, threads: Option<Pull>) -> Result<(), Refusal> {
        let (worker, registry) = (self.worker, self.worker.registry());
        let view = View { registry, awaited: self.awaited };
        let calls = || view.deques_have_task() || view.injector_has_task() || view.has_business(worker.id());
        let recorded = registry.recorder.as_ref().map(|recorder| (recorder, Instant::now()));
        let outcome = match threads {
            Some(pull) => worker.accelerate(candidate, pull, calls),
            None => Err(Refusal::NoHypervisor),
        };
        match outcome {
            Ok(()) => self.counters().accelerations.add(1),
            Err(refusal) => self.counters().refusals[refusal as usize].add(1),
        }
        if let Some((recorder, began)) = recorded {
            recorder.accelerated(worker.id(), candidate, began, outcome);
        }
        outcome
    }

    fn keep(&mut self, job: Option<JobRef>) -> bool {
        self.found = job;
        self.found.is_some()
    }

    /// Waits, and records the wait in the counters and the trace.
    fn rest(&mut self, as_what: trace::State, wait: impl FnOnce()) {
        let (registry, id) = (self.worker.registry(), self.worker.id());
        let counters = &registry.peer(id).counters;
        let parked = Instant::now();
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, as_what, parked);
        }
        wait();
        let slept = parked.elapsed();
        if let Some(recorder) = &registry.recorder {
            recorder.enter(id, trace::State::Thief, parked + slept);
        }
        counters.asleep_ns.add_time(slept);
        counters.sleeps.add(u64::from(!registry.sleep.is_at_rest(id)));
        self.began += slept;
    }
}
