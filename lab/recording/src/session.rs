//! The session of a thread: its recorder and its clock.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use comity_graph::{About, Graph, Recorder};
use comity_os::stopwatch::Stopwatch;

use crate::costs::Costs;
use crate::process;

/// A recorder, and the clock of the thread that has the recorder at the moment.
pub(crate) struct Session {
    watch: Stopwatch,
    /// The difference between the recorder's clock and the stopwatch, modulo 2^64, in ns. With it, the recorder's
    /// clock continues from its value on the previous thread.
    ahead: u64,
    recorder: Recorder,
    /// The number of the session. The sessions that [`process`] counts have different numbers.
    number: u64,
    /// The time at which the outermost quiet fork began, in ns. Has no meaning outside of a quiet fork.
    quiet_since: u64,
    /// True if the end of the thread passes the session's recording to [`process::keep`].
    is_kept: bool,
}

/// The place of a thread's session. When the thread ends, the slot ends the session.
struct Slot(RefCell<Option<Session>>);

thread_local! {
    static SLOT: Slot = const { Slot(RefCell::new(None)) };
    /// 1 plus the number of joins so far, in a quiet fork or if nothing is measured. Otherwise 0.
    static QUIET: Cell<u64> = const { Cell::new(0) };
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(session) = self.0.take()
            && session.is_kept
        {
            process::keep(session.end());
        }
    }
}

/// A session that moves from one thread to another, with its [count of joins](QUIET).
#[derive(Default)]
pub(crate) struct MovedSession {
    packed: Option<Packed>,
    quiet: u64,
}

struct Packed {
    now: u64,
    recorder: Recorder,
    number: u64,
    quiet_since: u64,
    is_kept: bool,
}

/// The place of a task in a run: the session, and the number of forks that enclose the task. This number is `None` in a
/// quiet fork, which does not count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    session: u64,
    depth: Option<usize>,
}

/// A fork that [`fork`] has begun.
#[derive(Debug)]
pub(crate) enum Fork {
    /// The fork is in the graph.
    Loud,
    /// The fork is quiet: inside it, joins are only counted, without reading the clock. It is not inside a quiet fork.
    Quiet,
    /// The fork is inside a quiet fork, or nothing is measured.
    Silent,
}

impl Session {
    /// Creates a session whose clock starts at `at`, in ns.
    fn new(recorder: Recorder, at: u64, number: u64, is_kept: bool) -> Session {
        let mut watch = Stopwatch::start();
        let ahead = at.wrapping_sub(watch.now());
        Session { watch, ahead, recorder, number, quiet_since: 0, is_kept }
    }

    fn now(&mut self) -> u64 {
        self.watch.now().wrapping_add(self.ahead)
    }

    fn stop(&mut self) {
        let now = self.now();
        self.recorder.stop(now);
    }

    fn go(&mut self) {
        let now = self.now();
        self.recorder.go(now);
    }

    fn end_quiet(&mut self, joins: u64) {
        let now = self.now();
        self.recorder.was_quiet(self.quiet_since, now, joins);
    }

    /// Ends the last stretch and returns the recorder.
    fn end(mut self) -> Recorder {
        let joins = QUIET.try_with(|quiet| quiet.replace(0)).unwrap_or(0);
        if joins > 0 {
            self.end_quiet(joins - 1)
        } else {
            self.stop()
        }
        self.recorder
    }

    fn pack(mut self) -> Packed {
        let Session { number, quiet_since, is_kept, .. } = self;
        Packed { now: self.now(), recorder: self.recorder, number, quiet_since, is_kept }
    }
}

impl Packed {
    fn unpack(self) -> Session {
        let Packed { now, recorder, number, quiet_since, is_kept } = self;
        Session { quiet_since, ..Session::new(recorder, now, number, is_kept) }
    }
}

/// Runs `what` on this thread's session. Returns `None` if the thread has no session, or if its slot is destroyed.
fn with<R>(what: impl FnOnce(&mut Session) -> R) -> Option<R> {
    SLOT.try_with(|slot| slot.0.borrow_mut().as_mut().map(what)).ok().flatten()
}

impl MovedSession {
    /// Returns the quiet count if no session was moved, which means that nothing is measured. Otherwise returns 0.
    pub(crate) fn is_quiet_alone(&self) -> u64 {
        if self.packed.is_none() { self.quiet } else { 0 }
    }

    /// Sets the quiet count to the result of [`MovedSession::is_quiet_alone`], if no session was moved.
    pub(crate) fn or_quiet(self, quiet: u64) -> MovedSession {
        if self.packed.is_none() { MovedSession { quiet, ..self } } else { self }
    }
}

/// Removes this thread's session and its quiet count, and returns both.
pub(crate) fn take() -> MovedSession {
    let session = SLOT.try_with(|slot| slot.0.take()).ok().flatten();
    MovedSession { packed: session.map(Session::pack), quiet: QUIET.replace(0) }
}

/// Installs a moved session on this thread, which must have no session.
pub(crate) fn put(baggage: MovedSession) {
    QUIET.set(baggage.quiet);
    place_here(baggage.packed.map(Packed::unpack));
}

/// Installs a session on this thread. Does nothing if the thread is ending and its slot is destroyed.
fn place_here(session: Option<Session>) {
    let _ = SLOT.try_with(|slot| slot.0.replace(session));
}

/// Gives this thread a session, if the run is recorded and the thread has no session. The graph includes the processor
/// time that the thread has already used. Does nothing if the thread is ending and its slot is destroyed.
pub(crate) fn begin() {
    let has_place = SLOT.try_with(|slot| slot.0.borrow().is_none()).unwrap_or(false);
    if QUIET.get() > 0 || !has_place {
        return;
    }
    if let Some((recorder, used, number)) = process::begin() {
        place_here(Some(Session::new(recorder, used, number, true)));
    }
}

/// Begins a session like [`begin`], on a worker. If nothing is measured, the worker only counts joins.
pub(crate) fn begin_on_worker() {
    begin();
    count_only();
}

/// Gives this thread a session with `recorder`. The clock of the session starts at 0.
pub(crate) fn go_on(mut recorder: Recorder, number: u64) {
    QUIET.set(0);
    recorder.go(0);
    place_here(Some(Session::new(recorder, 0, number, false)));
}

/// Ends this thread's session and returns its recorder.
pub(crate) fn end() -> Option<Recorder> {
    SLOT.try_with(|slot| slot.0.take()).ok().flatten().map(Session::end)
}

/// Makes this thread count joins without measuring them, if the thread has no session.
pub(crate) fn count_only() {
    if QUIET.get() == 0 && with(|_| ()).is_none() {
        QUIET.set(1);
    }
}

/// True if this thread only counts joins: it is in a quiet fork, or nothing is measured.
#[inline]
pub(crate) fn is_quiet() -> bool {
    QUIET.get() > 0
}

/// Returns the place in the run that this thread has reached, or `None` if the run is not measured.
pub(crate) fn place() -> Option<Place> {
    with(|session| Place { session: session.number, depth: (!is_quiet()).then(|| session.recorder.nesting()) })
}

/// Ends the current stretch, and begins a fork and its first child. If `may_be_quiet` is set and the recorder wants a
/// quiet fork, the fork is quiet.
pub(crate) fn fork(may_be_quiet: bool) -> Fork {
    if is_quiet() {
        return Fork::Silent;
    }
    let begun = with(|session| {
        session.stop();
        if may_be_quiet && session.recorder.wants_quiet() {
            session.quiet_since = session.now();
            QUIET.set(1);
            return Fork::Quiet;
        }
        session.recorder.fork();
        session.go();
        Fork::Loud
    });
    begun.unwrap_or(Fork::Silent)
}

/// Ends the current child of `fork` and begins the next child.
pub(crate) fn next(fork: &Fork) {
    match fork {
        Fork::Loud => {
            with(|session| {
                session.stop();
                session.recorder.next();
                session.go();
            });
        }
        Fork::Quiet | Fork::Silent if is_quiet() => QUIET.set(QUIET.get() + 1),
        Fork::Quiet | Fork::Silent => {}
    }
}

/// Ends the last child. The parent task continues.
pub(crate) fn join(fork: Fork) {
    match fork {
        Fork::Loud => {
            with(|session| {
                session.stop();
                session.recorder.join();
                session.go();
            });
        }
        Fork::Quiet => {
            let joins = QUIET.replace(0) - 1;
            with(|session| {
                session.end_quiet(joins);
                session.go();
            });
        }
        Fork::Silent => {}
    }
}

/// Runs `a` and then `b`, as two tasks of this thread's run.
///
/// # Panics
/// If `a` or `b` panics, with that panic, after both have ended. If both panic, with the panic of `a`.
#[inline]
pub fn fork_join<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let quiet = QUIET.get();
    if quiet > 0 {
        QUIET.set(quiet + 1);
        return serial(a, b, || ());
    }
    loud(a, b)
}

/// Runs a join that is measured, or that begins a quiet fork.
#[inline(never)]
fn loud<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let forked = fork(true);
    let results = catch_unwind(AssertUnwindSafe(|| serial(a, b, || next(&forked))));
    join(forked);
    results.unwrap_or_else(|payload| resume_unwind(payload))
}

#[inline(always)]
fn serial<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB, between: impl FnOnce()) -> (RA, RB) {
    match catch_unwind(AssertUnwindSafe(a)) {
        Ok(left) => {
            between();
            (left, b())
        }
        Err(payload) => {
            between();
            // The first of two panics is resumed. The second payload is forgotten, because dropping it could panic
            // again.
            if let Err(lost) = catch_unwind(AssertUnwindSafe(b)) {
                std::mem::forget(lost);
            }
            resume_unwind(payload)
        }
    }
}

/// Runs `body` on this thread, records each [`fork_join`], and returns the result and the graph. Sets the merge length
/// and the fields of `about` that are measured. A panic of `body` reaches the caller.
///
/// # Errors
/// A message, if the run is larger than a graph may be.
pub fn record<R>(merge_ns: u64, costs: Costs, about: About, body: impl FnOnce() -> R) -> (R, Result<Graph, String>) {
    let outer = take();
    go_on(Recorder::new(0, merge_ns, costs.clock_ns, costs.quiet_ns), 0);
    let result = catch_unwind(AssertUnwindSafe(body));
    let now = with(Session::now).unwrap_or(0);
    let recorder = end().expect("it was begun above");
    put(outer);
    let result = result.unwrap_or_else(|payload| resume_unwind(payload));
    (result, recorder.finish(About { recorded_ns: now, ..about }))
}

/// Runs `body` as if this thread were in a quiet fork.
pub(crate) fn in_quiet<R>(body: impl FnOnce() -> R) -> R {
    let before = QUIET.replace(1);
    let result = body();
    QUIET.set(before);
    result
}
