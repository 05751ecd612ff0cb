//! The interface between a dialogue and the pool around its worker.

use comity_policy::{Sharing, SleepRefusal, WorkerId};

use crate::activation::{Activation, Pool, Retirement, Up};
use crate::sleep::{Admission, Parking, Roles, Woken};

/// The pool around one worker, `me`, as its [dialogue](super::Dialogue) sees it.
///
/// A [`Pool`] implements it with its sleep protocol and its activation. The default methods are for a machine on which
/// no worker ever rests, for example the machine of the A-STEAL paper. There, sleep is refused, so the methods for
/// later steps of sleep are never called.
pub trait Surroundings {
    /// Returns the number of workers of the pool.
    fn workers(&self) -> u32;

    /// True if any worker has an unfinished task.
    fn any_busy(&self) -> bool;

    /// Returns the workers by role, if they are counted.
    fn roles(&self) -> Roles {
        Roles::default()
    }

    /// Returns the next worker after `last` that has no core and whose queue `me` may take over. `last` is `None` at
    /// first.
    fn next_without_core(&self, me: WorkerId, last: Option<WorkerId>) -> Option<WorkerId>;

    /// True if threads outside of the pool hand in tasks. A thief that found no task in a deque looks for these tasks
    /// too.
    fn takes_from_outside(&self) -> bool {
        false
    }

    /// True if `me` has business: an event that only `me` can act on, see
    /// [`Work::has_business`](crate::sleep::Work::has_business).
    fn has_business(&self, _me: WorkerId) -> bool {
        false
    }

    /// Publishes that the worker has no task.
    fn publish_thief(&self, _me: WorkerId) {}

    /// Publishes that the worker has a task again.
    fn publish_busy(&self, _me: WorkerId) {}

    /// Passes the duties of the worker to another, because it no longer looks for tasks. Follows
    /// [`Surroundings::publish_busy`].
    fn hand_over(&self, _me: WorkerId) {}

    // The activation.

    /// True if the pool is closed.
    fn is_closed(&self) -> bool {
        false
    }

    /// Returns the policy's rules for sharing cores. `None`: the pool shares no cores, or its books do not count the
    /// worker.
    fn sharing(&self, _me: WorkerId) -> Option<Sharing> {
        None
    }

    /// True if the program is alone in the core table.
    fn is_alone(&self) -> bool {
        true
    }

    /// True if another program wants the worker's core.
    fn is_core_wanted(&self, _me: WorkerId) -> bool {
        false
    }

    /// True if more workers are awake than there is room for, and the books count this worker.
    fn has_excess(&self, _me: WorkerId) -> bool {
        false
    }

    /// Retires the worker. Returns false if the worker is needed.
    fn retire(&self, _me: WorkerId, _why: Retirement) -> bool {
        false
    }

    /// Passes on the duties of a worker that has retired.
    fn pass_on(&self, _me: WorkerId) {
        unreachable!("no worker retires here")
    }

    // Sleep.

    /// Announces that the worker is about to sleep.
    fn announce(&self, _me: WorkerId) {}

    /// Returns whether the worker may sleep.
    fn admit(&self, _me: WorkerId) -> Admission {
        Admission::Refused(SleepRefusal::WorkArrived)
    }

    /// Takes the announcement back, unless the worker was woken.
    fn retract(&self, _me: WorkerId) -> Option<Woken> {
        None
    }

    /// Returns whether the worker must wait.
    fn park(&self, _me: WorkerId) -> Parking {
        unreachable!("no worker waits here")
    }

    /// True if the worker sleeps, or is about to.
    fn is_asleep(&self, _me: WorkerId) -> bool {
        false
    }

    /// Notes that the worker sleeps from now on, and needs no core. Returns true if its pool keeps a core anyway. The
    /// worker must then [look at the core](Surroundings::look_at_kept_core) once.
    fn fell_asleep(&self, _me: WorkerId) -> bool {
        false
    }

    /// Releases a core that the pool kept, unless the pool still has a reason to keep it.
    fn look_at_kept_core(&self, _me: WorkerId) {}

    /// Notes that the worker is up again. Returns whether there is a core for it.
    fn woke(&self, _me: WorkerId, _has_business: bool) -> Up {
        Up::Stays
    }
}

/// Returns the pool's activation, if it counts this worker.
fn counted<P: Pool>(pool: &P, me: WorkerId) -> Option<&Activation<P::Platform, P::Cores>> {
    pool.activation().filter(|activation| activation.counts(me))
}

impl<P: Pool> Surroundings for P {
    fn workers(&self) -> u32 {
        Pool::workers(self)
    }

    fn any_busy(&self) -> bool {
        self.sleep().any_busy()
    }

    fn roles(&self) -> Roles {
        self.sleep().roles()
    }

    fn next_without_core(&self, me: WorkerId, last: Option<WorkerId>) -> Option<WorkerId> {
        let is_next = |victim: &WorkerId| *victim != me && last.is_none_or(|last| *victim > last);
        let open = counted(self, me).filter(|activation| !activation.is_closed());
        open.and_then(|activation| activation.without_core().find(is_next))
    }

    fn takes_from_outside(&self) -> bool {
        true
    }

    fn has_business(&self, me: WorkerId) -> bool {
        crate::sleep::Work::has_business(self, me)
    }

    fn publish_thief(&self, me: WorkerId) {
        self.sleep().publish_thief(me);
    }

    fn publish_busy(&self, me: WorkerId) {
        self.sleep().publish_busy(me);
    }

    fn hand_over(&self, me: WorkerId) {
        self.sleep().hand_over(me, self);
    }

    fn is_closed(&self) -> bool {
        self.activation().is_some_and(Activation::is_closed)
    }

    fn sharing(&self, me: WorkerId) -> Option<Sharing> {
        counted(self, me).map(|activation| activation.sharing)
    }

    fn is_alone(&self) -> bool {
        self.activation().is_none_or(Activation::is_alone)
    }

    fn is_core_wanted(&self, me: WorkerId) -> bool {
        counted(self, me).is_some_and(Activation::is_core_wanted)
    }

    fn has_excess(&self, me: WorkerId) -> bool {
        counted(self, me).is_some_and(Activation::has_excess)
    }

    /// Retires the worker under the lock of the books. A worker that the books do not count retires without this lock.
    fn retire(&self, me: WorkerId, why: Retirement) -> bool {
        match counted(self, me) {
            Some(activation) => activation.retire(self, me, why),
            None => {
                self.sleep().retire(me);
                true
            }
        }
    }

    fn pass_on(&self, me: WorkerId) {
        self.sleep().pass_on(me, self);
    }

    fn announce(&self, me: WorkerId) {
        self.sleep().announce(me);
    }

    fn admit(&self, me: WorkerId) -> Admission {
        self.sleep().admit(me, self)
    }

    fn retract(&self, me: WorkerId) -> Option<Woken> {
        self.sleep().retract(me)
    }

    fn park(&self, me: WorkerId) -> Parking {
        self.sleep().park(me)
    }

    fn is_asleep(&self, me: WorkerId) -> bool {
        self.sleep().is_asleep(me)
    }

    fn fell_asleep(&self, me: WorkerId) -> bool {
        counted(self, me).is_some_and(|activation| activation.fell_asleep(self, me))
    }

    fn look_at_kept_core(&self, me: WorkerId) {
        if let Some(activation) = counted(self, me) {
            activation.look_at_kept_core(self, me);
        }
    }

    fn woke(&self, me: WorkerId, has_business: bool) -> Up {
        counted(self, me).map_or(Up::Stays, |activation| activation.woke(self, me, has_business))
    }
}
