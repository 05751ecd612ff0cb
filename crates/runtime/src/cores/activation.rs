//! Activation (`comity_protocol::activation`) on threads: which worker is awake on which core. The cores are the
//! program's part of the core table. `masks` records where threads run.

use comity_os::{CoreSet, cores};
use comity_policy::{Policy, Sharing};
pub(crate) use comity_protocol::activation::{Cores, Mover, Terms};

use crate::raw::sync::Threads;

/// A pool's part of its program's cores in the core table.
pub(crate) type Part = dyn Cores + Send + Sync;

/// The activation of one pool.
pub(crate) type Activation<C = Part> = comity_protocol::activation::Activation<Threads, C>;

/// Returns the activation of a pool. `None` if the policy shares no cores. `adopts`: worker 0 is a thread of the
/// program. `may_use`: the cores on which the thread that builds the pool may run when Comity does not confine it.
pub(crate) fn of<C: Cores + ?Sized>(
    policy: Policy,
    workers: u32,
    adopts: bool,
    may_use: CoreSet,
) -> Option<Activation<C>> {
    let (sharing, _) = Sharing::of(&policy)?;
    let usable = cores::usable_of(may_use.len()).get();
    Some(Activation::new(&Threads, sharing, workers, adopts, may_use, usable.try_into().unwrap_or(u32::MAX)))
}
