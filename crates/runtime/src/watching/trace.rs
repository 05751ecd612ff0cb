//! `COMITY_TRACE=FILE`: a timeline of each worker, and of the cores that the program held, in a file that Perfetto
//! opens.
//!
//! Without a trace, the cost is one branch at each of these points: the start and the end of a spell (a time without
//! a task), a steal, and an attempt to accelerate. With a trace, the worker takes notes at these points, under a lock
//! of its own. The tracer's thread also takes that lock, only to swap a vector. The tracer visits the workers' notes
//! up to fifty times a second. It writes the notes to the file, and asks the kernel how long each thread that was
//! awake has waited for a core.
//!
//! An acceleration is an event, like a steal. Refused accelerations are only counted by reason, and the tracer writes
//! the counts at each visit. A thief whose candidate runs tries again tens of thousands of times a second. As events,
//! these refusals would displace all other events.

mod file;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use comity_os::cpu_clock::{ThreadId, Times};
use comity_os::{at_exit, clock, environment, fork, lock};
use comity_policy::{Policy, WorkerId};
use comity_protocol::activation::Terms;

use crate::cores::masks::{self, Narrow};
use crate::fork::PerProcess;
use crate::watching::counters::{Refusal, Refusals};
use file::Output;

/// The shortest pause between two visits of the tracer. While nothing happens, the pause grows up to `SELDOM`.
const OFTEN: Duration = Duration::from_millis(20);
const SELDOM: Duration = Duration::from_millis(320);

/// The maximum number of events that a worker notes between two visits. Further events are only counted.
const MOST_EVENTS: usize = 1 << 16;

/// The maximum duration of a state in one event, in ns. A longer state is written in pieces, so that a trace that is
/// cut short lacks little.
const PIECE_NS: u64 = 1_000_000_000;

/// The maximum time that the exit handler waits for a lock. A signal handler that ends the program may have
/// interrupted the thread that holds the lock, which then never releases it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The worker has a task.
    Task,
    /// The worker looks for a task.
    Thief,
    Asleep,
    /// The worker rests because it has no core.
    Retired,
}

/// The way in which a worker took a task from another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taking {
    Steal,
    Mug,
}

/// An event of one of the program's cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    Claimed,
    TakenBack,
    Released,
    /// The owner has taken the core back, or the program may not use it any more.
    Lost,
}

/// The mode in which a program shares the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Alone,
    Time,
    Cores,
}

impl Mode {
    pub(crate) fn of(terms: Terms) -> Mode {
        match terms {
            Terms { alone: true, .. } => Mode::Alone,
            Terms { by_time: true, .. } => Mode::Time,
            _ => Mode::Cores,
        }
    }
}

/// Nanoseconds of the clock that all processes share.
type Nanos = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Was { state: State, since: Nanos, until: Nanos },
    Took { how: Taking, from: WorkerId, at: Nanos },
    Accelerated { candidate: WorkerId, at: Nanos },
}

/// The notes of one worker.
#[derive(Default)]
struct Notes {
    thread: Option<ThreadId>,
    /// The current state, and the time at which it began.
    now: Option<(State, Nanos)>,
    events: Vec<Event>,
    lost: u64,
    /// The refused accelerations since the last visit.
    refusals: Refusals,
}

impl Notes {
    fn note(&mut self, event: Event) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(event);
        } else {
            self.lost += 1;
        }
    }

    fn switch(&mut self, next: Option<State>, at: Nanos) {
        if let Some((state, since)) = self.now
            && since < at
        {
            self.note(Event::Was { state, since, until: at });
        }
        self.now = next.map(|state| (state, at));
    }
}

/// The recorder of one pool: its workers note there what they do.
pub(crate) struct Recorder {
    trace: &'static Trace,
    /// The pool's number in its process, from 1.
    pool: u64,
    policy: Policy,
    workers: Box<[Mutex<Notes>]>,
}

impl Recorder {
    /// Notes that the worker has started, on this thread.
    pub(crate) fn started(&self, worker: WorkerId, thread: ThreadId) {
        let mut notes = lock(&self.workers[worker.index()]);
        notes.thread = Some(thread);
        notes.switch(Some(State::Task), clock::now_ns());
    }

    /// Notes that the worker, on whose thread this runs, enters a state at `moment`.
    pub(crate) fn enter(&self, worker: WorkerId, state: State, moment: Instant) {
        if !self.trace.is_open() {
            return;
        }
        let at = self.trace.nanos_at(moment);
        let mut notes = lock(&self.workers[worker.index()]);
        if notes.now.is_none_or(|(before, _)| before != state) {
            notes.switch(Some(state), at);
        }
    }

    pub(crate) fn took(&self, worker: WorkerId, how: Taking, from: WorkerId) {
        if self.trace.is_open() {
            let at = clock::now_ns();
            lock(&self.workers[worker.index()]).note(Event::Took { how, from, at });
        }
    }

    /// Notes the outcome of the worker's attempt to accelerate `candidate`. An acceleration is an event at `began`,
    /// the start of the attempt, because the worker may have been off its core since.
    pub(crate) fn accelerated(
        &self,
        worker: WorkerId,
        candidate: WorkerId,
        began: Instant,
        outcome: Result<(), Refusal>,
    ) {
        if !self.trace.is_open() {
            return;
        }
        let mut notes = lock(&self.workers[worker.index()]);
        match outcome {
            Ok(()) => notes.note(Event::Accelerated { candidate, at: self.trace.nanos_at(began) }),
            Err(refusal) => notes.refusals.add(refusal),
        }
    }

    /// Notes that the worker's thread is about to end.
    pub(crate) fn ended(&self, worker: WorkerId) {
        lock(&self.workers[worker.index()]).switch(None, clock::now_ns());
    }
}

/// The trace of one process.
pub(crate) struct Trace {
    /// A moment, as an `Instant` and in ns of the clock that all processes share.
    base: (Instant, Nanos),
    /// False once the file takes no more events.
    open: AtomicBool,
    recorders: Mutex<Vec<Arc<Recorder>>>,
    holdings: Mutex<Vec<(Policy, usize, Holding, Nanos)>>,
    modes: Mutex<Vec<(Policy, Option<Mode>, Nanos)>>,
    tracer: Mutex<Tracer>,
}

/// The trace of this process, if it has one. It is opened under this lock.
static TRACE: PerProcess<Mutex<Option<&'static Trace>>> = PerProcess::new();

/// Returns the process's trace. The first call opens it if `COMITY_TRACE` names a file. `starter` is the caller's
/// affinity mask, if Comity has confined the caller.
///
/// # Errors
/// The part of the message that follows `COMITY_TRACE=`.
pub(crate) fn begin(starter: Option<Narrow>) -> Result<Option<&'static Trace>, String> {
    let name = environment::variable("COMITY_TRACE").filter(|name| !environment::is_off(name));
    let Some(name) = name else { return Ok(None) };
    let mut ours = lock(TRACE.get(|_| Mutex::default()));
    if ours.is_none() {
        let output = Output::open(&name)?;
        let trace: &'static Trace = Box::leak(Box::new(Trace {
            base: (Instant::now(), clock::now_ns()),
            open: AtomicBool::new(true),
            recorders: Mutex::default(),
            holdings: Mutex::default(),
            modes: Mutex::default(),
            tracer: Mutex::new(Tracer { output: Some(output), pools: Vec::new() }),
        }));
        let failed = |what: &str, error| {
            // Closes the file, so that another attempt can open it.
            lock(&trace.tracer).output = None;
            format!("{}: {what}: {error}", name.to_string_lossy())
        };
        at_exit::call_at_exit(at_exit).map_err(|error| failed("could not register an exit handler", error))?;
        let thread = std::thread::Builder::new().name("comity-trace".to_owned());
        fork::spawn(thread, move || {
            masks::widen(starter);
            trace.keep();
        })
        .map_err(|error| failed("could not start the thread that writes the trace", error))?;
        *ours = Some(trace);
    }
    Ok(*ours)
}

/// The trace of this process, if a pool has begun one.
pub(crate) fn current() -> Option<&'static Trace> {
    TRACE.existing().and_then(|ours| *lock(ours))
}

extern "C" fn at_exit() {
    // A forked child has no trace here. A panic must not unwind into the C library.
    let _ = std::panic::catch_unwind(|| {
        let ours = TRACE.existing().and_then(lock_soon);
        if let Some(trace) = ours.and_then(|ours| *ours)
            && let Some(mut tracer) = lock_soon(&trace.tracer)
        {
            tracer.visit(trace, Visit::Last);
        }
    });
}

/// Locks the mutex. Returns `None` if another thread holds it for longer than [`PATIENCE`].
fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let began = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => comity_os::yield_core(),
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// The kind of a visit: a usual one, or the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visit {
    Usual,
    Last,
}

impl Visit {
    fn lock<T>(self, mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match self {
            Visit::Usual => Some(lock(mutex)),
            Visit::Last => lock_soon(mutex),
        }
    }
}

impl Trace {
    /// Creates the recorder of a new pool's workers.
    pub(crate) fn record(&'static self, pool: u64, policy: Policy, workers: usize) -> Arc<Recorder> {
        let workers = (0..workers).map(|_| Mutex::default()).collect();
        let recorder = Arc::new(Recorder { trace: self, pool, policy, workers });
        if self.is_open() {
            lock(&self.recorders).push(Arc::clone(&recorder));
        }
        recorder
    }

    /// Notes that the program of a policy gets or loses a core.
    pub(crate) fn core(&self, policy: Policy, core: usize, holding: Holding) {
        if self.is_open() {
            let mut holdings = lock(&self.holdings);
            holdings.push((policy, core, holding, clock::now_ns()));
        }
    }

    /// Notes the mode of the program of a policy. `None`: the program has left the table.
    pub(crate) fn mode(&self, policy: Policy, mode: Option<Mode>) {
        if self.is_open() {
            let mut modes = lock(&self.modes);
            modes.push((policy, mode, clock::now_ns()));
        }
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    fn nanos_at(&self, moment: Instant) -> Nanos {
        let (instant, nanos) = self.base;
        match moment.checked_duration_since(instant) {
            Some(after) => nanos + after.as_nanos() as u64,
            None => nanos.saturating_sub((instant - moment).as_nanos() as u64),
        }
    }

    /// Runs the tracer's thread. Returns when the file takes no more events.
    fn keep(&'static self) {
        let mut pause = OFTEN;
        loop {
            std::thread::sleep(pause);
            let mut tracer = lock(&self.tracer);
            let happened = tracer.visit(self, Visit::Usual);
            if tracer.output.is_none() {
                return;
            }
            pause = if happened { OFTEN } else { (2 * pause).min(SELDOM) };
        }
    }
}

/// The writer of the file.
struct Tracer {
    /// The file. `None`: it is complete, or takes no more events.
    output: Option<Output>,
    pools: Vec<TracedPool>,
}

/// A pool, and what the tracer knows of its workers since the last visit.
struct TracedPool {
    recorder: Arc<Recorder>,
    workers: Box<[TracedWorker]>,
}

#[derive(Clone, Default)]
struct TracedWorker {
    is_named: bool,
    /// A vector that each visit swaps with the worker's vector of events. It is empty between visits. Both vectors
    /// keep their memory.
    events: Vec<Event>,
    /// The thread's times, and the time until which its waits for a core have been written.
    times: Option<(Times, Nanos)>,
}

impl Tracer {
    /// Writes what was noted since the last visit. Returns true if anything was noted, or if a worker is awake.
    fn visit(&mut self, trace: &'static Trace, visit: Visit) -> bool {
        let Some(output) = &mut self.output else { return false };
        let recorders = visit.lock(&trace.recorders).map(|mut new| std::mem::take(&mut *new));
        for recorder in recorders.into_iter().flatten() {
            let workers = vec![TracedWorker::default(); recorder.workers.len()].into();
            self.pools.push(TracedPool { recorder, workers });
        }
        let mut happened = false;
        self.pools.retain_mut(|pool| {
            // Read before the notes, so that a pool whose workers may still note something stays in the list.
            let is_over = Arc::strong_count(&pool.recorder) == 1;
            happened |= pool.write(output, visit);
            !is_over
        });
        let modes = visit.lock(&trace.modes).map(|mut new| std::mem::take(&mut *new));
        let holdings = visit.lock(&trace.holdings).map(|mut new| std::mem::take(&mut *new));
        modes.into_iter().flatten().for_each(|(policy, mode, at)| output.mode(policy, mode, at));
        holdings.into_iter().flatten().for_each(|(policy, core, holding, at)| output.core(policy, core, holding, at));
        let goes_on = match visit {
            Visit::Usual => output.flush(),
            Visit::Last => {
                output.end(clock::now_ns());
                false
            }
        };
        if !goes_on {
            trace.open.store(false, Ordering::Relaxed);
            self.output = None;
        }
        happened
    }
}

impl TracedPool {
    fn write(&mut self, output: &mut Output, visit: Visit) -> bool {
        let Recorder { pool, policy, workers, .. } = &*self.recorder;
        let mut happened = false;
        for (nth, (notes, seen)) in workers.iter().zip(&mut self.workers).enumerate() {
            let at = clock::now_ns();
            let Some(mut notes) = visit.lock(notes) else { continue };
            let Some(thread) = notes.thread else { continue };
            if let Some((state, since)) = notes.now
                && (visit == Visit::Last || since + PIECE_NS <= at)
            {
                notes.switch(Some(state), at);
            }
            std::mem::swap(&mut notes.events, &mut seen.events);
            let lost = std::mem::take(&mut notes.lost);
            let refusals = std::mem::take(&mut notes.refusals);
            let is_up = matches!(notes.now, Some((State::Task | State::Thief, _)));
            drop(notes);
            happened |= is_up || !seen.events.is_empty();
            if !std::mem::replace(&mut seen.is_named, true) {
                output.name(thread, &format!("pool {pool} worker {nth} ({policy})"));
            }
            seen.events.drain(..).for_each(|event| output.event(thread, event));
            output.refused(thread, refusals, at);
            output.lost(lost, at);
            if is_up {
                seen.ask(thread, output);
            } else {
                seen.times = None;
            }
        }
        happened
    }
}

impl TracedWorker {
    /// Writes how long the worker has waited for a core since the last visit.
    fn ask(&mut self, thread: ThreadId, output: &mut Output) {
        let at = clock::now_ns();
        let times = thread.times();
        if let Some(((before, until), now)) = self.times.zip(times) {
            let waited = now.for_core.saturating_sub(before.for_core).as_nanos() as u64;
            if waited == 0 {
                // A wait that is still under way is written after it has ended.
                return;
            }
            output.preempted(thread, at.saturating_sub(waited).max(until), at);
        }
        self.times = times.map(|times| (times, at));
    }
}
