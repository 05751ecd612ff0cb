//! The view that `comity_protocol` and the watch (`COMITY_WATCH`) have of a pool: implementations of their traits.

use comity_os::CoreSet;
use comity_policy::WorkerId;
use comity_protocol::activation::Pool;

use crate::cores::activation::{Activation, Part};
use crate::raw::sync::Threads;
use crate::watching::watch::{Watched, WatchedWorker};
use crate::workers::registry::{Peer, Registry};
use crate::workers::sleep::{Sleep, Work};

/// The pool's queues as the sleep protocol sees them, for a worker that waits for `awaited`.
pub(crate) struct View<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) awaited: &'a dyn Fn() -> bool,
}

impl Registry {
    /// Returns a view for a caller that waits for nothing in this pool.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View { registry: self, awaited: &|| false }
    }
}

impl Work for View<'_> {
    fn deques_have_task(&self) -> bool {
        self.registry.peers.iter().any(|peer| peer.has_task())
    }

    fn injector_has_task(&self) -> bool {
        !self.registry.injector.is_empty()
    }

    fn ring_bells(&self) {
        self.registry.ring_bells();
    }

    fn make_way(&self) {
        if let Some(activation) = &self.registry.activation {
            activation.make_way();
            // The coordinator is woken already now, before the sleeper is awake. Until the coordinator reports that
            // the program can use cores, the program owns no core, and the woken thread waits behind threads of other
            // programs. In a forked child the coordinator is not woken: a thread that exists only in the parent may
            // hold the program's locks.
            if self.registry.is_of_this_process() {
                self.worker_is_up();
            }
        }
    }

    fn has_business(&self, worker: WorkerId) -> bool {
        let peer = self.registry.peer(worker);
        // In a closed pool, broadcasts and placed tasks wait like all other tasks.
        let has_tasks = || !peer.broadcasts.is_empty() || !peer.placed.is_empty();
        (self.awaited)() || (has_tasks() && !self.registry.is_closed())
    }
}

impl Pool for View<'_> {
    type Platform = Threads;
    type Cores = Part;

    fn workers(&self) -> u32 {
        self.registry.workers()
    }

    fn activation(&self) -> Option<&Activation> {
        self.registry.activation.as_ref()
    }

    fn sleep(&self) -> &Sleep {
        &self.registry.sleep
    }

    fn confine(&self, worker: WorkerId, cores: Option<CoreSet>) -> bool {
        let Some(thread) = self.registry.peer(worker).thread() else { return false };
        self.registry.masks.confine(worker, thread, || self.registry.granted(), cores)
    }

    fn lead(&self, worker: WorkerId, core: usize, sleeps: bool) -> bool {
        let Some(thread) = self.registry.peer(worker).thread() else { return false };
        self.registry.masks.lead(worker, thread, || self.registry.granted(), core, sleeps)
    }

    fn up(&self, me: WorkerId) {
        self.registry.masks.is_up(me);
    }

    fn caller_runs(&self) -> bool {
        self.registry.caller_runs()
    }

    fn worker_is_up(&self) {
        if let Some(program) = self.registry.program() {
            program.worker_is_up();
        }
    }
}

impl Watched for Registry {
    fn has_ended(&self) -> bool {
        self.has_ended()
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }

    fn queued(&self) -> usize {
        self.queued()
    }

    fn workers(&self) -> Vec<WatchedWorker> {
        let seen = |peer: &Peer| WatchedWorker {
            id: peer.id,
            thread: peer.thread(),
            doing: peer.activity.get(),
            waits: peer.activity.waits(),
            steals: peer.counters.steals.get(),
        };
        self.peers.iter().map(|peer| seen(peer)).collect()
    }
}
