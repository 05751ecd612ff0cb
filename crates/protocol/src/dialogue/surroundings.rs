//! What a dialogue asks of the pool around its worker, and does there.

use comity_policy::{Sharing, SleepRefusal, WorkerId};

use crate::activation::{Activation, Pool, Retirement, Up};
use crate::sleep::{Admission, Parking, Roles, Woken};

/// The pool around one worker, `me`.
///
/// A [`Pool`] answers by its sleep protocol and its activation. The default methods hold for a machine on which no
/// worker ever rests, as that of the A-STEAL paper. Sleep is refused there, so what follows it is never asked.
pub trait Surroundings {
    /// How many workers the pool has.
    fn workers(&self) -> u32;

    /// Whether any worker has an unfinished task.
    fn any_busy(&self) -> bool;

    /// The workers by role, if they are counted.
    fn roles(&self) -> Roles {
        Roles::default()
    }

    /// The next worker without a core, after `last`, with a queue that `me` may take over.
    fn next_without_core(&self, me: WorkerId, last: Option<WorkerId>) -> Option<WorkerId>;

    /// Whether tasks come from outside, where a steal that found none looks too.
    fn takes_from_outside(&self) -> bool {
        false
    }

    /// Whether something waits that only `me` can act on.
    fn has_business(&self, _me: WorkerId) -> bool {
        false
    }

    /// The worker has no task from now on, or has one again. What depended on its looking for tasks passes to another
    /// after that.
    fn publish_thief(&self, _me: WorkerId) {}

    /// See [`Surroundings::publish_thief`].
    fn publish_busy(&self, _me: WorkerId) {}

    /// See [`Surroundings::publish_thief`].
    fn hand_over(&self, _me: WorkerId) {}

    // Which workers are awake.

    /// Whether the pool is closed.
    fn is_closed(&self) -> bool {
        false
    }

    /// On which terms the pool takes part in the core table, if the worker is counted there.
    fn sharing(&self, _me: WorkerId) -> Option<Sharing> {
        None
    }

    /// Whether the program is alone in the core table.
    fn is_alone(&self) -> bool {
        true
    }

    /// Whether another program wants the worker's core.
    fn is_core_wanted(&self, _me: WorkerId) -> bool {
        false
    }

    /// Whether more workers are awake than there is room for, and this one is counted.
    fn has_excess(&self, _me: WorkerId) -> bool {
        false
    }

    /// The worker retires. False: it is needed.
    fn retire(&self, _me: WorkerId, _why: Retirement) -> bool {
        false
    }

    /// What depended on the looking of a worker that has retired passes to another.
    fn pass_on(&self, _me: WorkerId) {
        unreachable!("no worker retires here")
    }

    // Sleep.

    /// The worker is about to sleep.
    fn announce(&self, _me: WorkerId) {}

    /// Whether it may.
    fn admit(&self, _me: WorkerId) -> Admission {
        Admission::Refused(SleepRefusal::WorkArrived)
    }

    /// It does not, unless it was woken.
    fn retract(&self, _me: WorkerId) -> Option<Woken> {
        None
    }

    /// Whether to wait.
    fn park(&self, _me: WorkerId) -> Parking {
        unreachable!("no worker waits here")
    }

    /// Whether the worker sleeps, or is about to.
    fn is_asleep(&self, _me: WorkerId) -> bool {
        false
    }

    /// The worker waits from now on, and needs no core. True: its pool keeps a core all the same, and the worker is to
    /// [look at the core](Surroundings::look_at_kept_core) once.
    fn fell_asleep(&self, _me: WorkerId) -> bool {
        false
    }

    /// The pool releases a core that it kept, unless it still has a reason to keep it.
    fn look_at_kept_core(&self, _me: WorkerId) {}

    /// The worker is up again.
    fn woke(&self, _me: WorkerId, _has_business: bool) -> Up {
        Up::Stays
    }
}

/// The pool's activation, if that counts this worker.
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

    /// Within the lock of the books. A worker that they do not count has no lock to retire under.
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
