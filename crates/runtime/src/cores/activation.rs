//! Which worker is awake on which core (`comity_protocol::activation`), on threads. The cores are the program's part
//! of the core table; `masks` keeps where threads run.

use comity_os::{CoreSet, cores};
use comity_policy::{Policy, Sharing};
pub(crate) use comity_protocol::activation::{Cores, Mover, Terms};

use crate::raw::sync::Threads;

/// A pool's part of what its program has in the core table.
pub(crate) type Part = dyn Cores + Send + Sync;

/// What one pool has of its program's share of the machine.
pub(crate) type Activation<C = Part> = comity_protocol::activation::Activation<Threads, C>;

/// `may_use`: where the thread that builds the pool runs of its own accord. `None`: the operating system shares out
/// time.
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
