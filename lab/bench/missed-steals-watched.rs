//! Counts for docs/results/missed-steals.md. lab/bench/missed-steals.sh adds this file to the runtime.
//!
//! Counted are how often a policy says that its worker sleeps, how often the worker then rests, and how many of both while another worker of the pool has tasks queued.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Once};

use comity_policy::{Action, Event, Thief, WorkerId};

use crate::shared::Shared;

static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
static STEALS: AtomicU64 = AtomicU64::new(0);
/// Failed steals that the policy was told of although the victim had tasks.
static TOLD_FAILED: AtomicU64 = AtomicU64::new(0);
static SAID: AtomicU64 = AtomicU64::new(0);
static SAID_BESIDE: AtomicU64 = AtomicU64::new(0);
static RESTED: AtomicU64 = AtomicU64::new(0);
static RESTED_BESIDE: AtomicU64 = AtomicU64::new(0);

thread_local!(static SAYS_SLEEP: Cell<bool> = const { Cell::new(false) });

/// Whether policies are told of a missed steal as of a failed one.
pub(crate) fn missed_is_failed() -> bool {
    static IS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("MISSED_IS_FAILED").is_some());
    *IS
}

/// A policy and its pool.
pub(crate) struct Watched<'a> {
    pub(crate) thief: &'a mut dyn Thief,
    pub(crate) me: WorkerId,
    pub(crate) shared: &'a Shared,
}

fn anyone_has_tasks(shared: &Shared, me: WorkerId) -> bool {
    (0..shared.workers()).map(WorkerId).any(|peer| peer != me && shared.peer(peer).has_task())
}

impl Thief for Watched<'_> {
    fn next(&mut self, event: Event) -> Action {
        if let Event::StealFailed(victim) = event
            && victim != self.me
            && self.shared.peer(victim).has_task()
        {
            TOLD_FAILED.fetch_add(1, Relaxed);
        }
        STEALS.fetch_add(matches!(event, Event::StealSucceeded(_)).into(), Relaxed);
        let action = self.thief.next(event);
        ATTEMPTS.fetch_add(matches!(action, Action::StealFrom(_)).into(), Relaxed);
        SAYS_SLEEP.set(action == Action::Sleep);
        if action == Action::Sleep {
            SAID.fetch_add(1, Relaxed);
            SAID_BESIDE.fetch_add(anyone_has_tasks(self.shared, self.me).into(), Relaxed);
        }
        action
    }
}

/// The worker waits. Those who were put to rest for want of a core did not say so themselves.
pub(crate) fn rests(shared: &Shared, me: WorkerId) {
    if SAYS_SLEEP.replace(false) {
        RESTED.fetch_add(1, Relaxed);
        RESTED_BESIDE.fetch_add(anyone_has_tasks(shared, me).into(), Relaxed);
    }
}

/// Prints the counts at the end of the process.
pub(crate) fn begins() {
    static ONCE: Once = Once::new();
    extern "C" fn print() {
        let [attempts, steals, told, said, said_beside, rested, beside] =
            [&ATTEMPTS, &STEALS, &TOLD_FAILED, &SAID, &SAID_BESIDE, &RESTED, &RESTED_BESIDE]
                .map(|count| count.load(Relaxed));
        eprintln!("WATCHED {attempts} {steals} {told} {said} {said_beside} {rested} {beside}");
    }
    ONCE.call_once(|| comity_os::at_exit::call_at_exit(print).expect("there is room for one more hook"));
}
