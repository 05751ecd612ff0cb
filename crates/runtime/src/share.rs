//! Who is awake on which core (`comity_protocol::activation`), on threads: the cores are the program's part of the core table, and
//! where threads run is kept by `masks`.

use comity_os::cores;
use comity_policy::Policy;
use comity_protocol::activation::Activation;
#[cfg(test)]
pub(crate) use comity_protocol::activation::Up;
pub(crate) use comity_protocol::activation::{Books, Cores, Pool, State, Terms};
use comity_protocol::platform::{Lock, Platform};

use crate::masks;
use crate::program::Part;
use crate::raw::sync::Threads;
use crate::seam::Seen;

/// The books, with their lock.
pub(crate) type BooksGuard<'a> = <<Threads as Platform>::Lock<Books> as Lock<Books>>::Guard<'a>;

/// What one pool has of its program's share of the machine.
pub(crate) type Share<C = Seen<Part>> = Activation<Threads, C>;

/// `None`: the operating system shares out time.
pub(crate) fn of<C: Cores>(policy: Policy, workers: u32, adopts: bool) -> Option<Share<C>> {
    let (sharing, _) = policy.sharing()?;
    let may_use = masks::roams();
    let usable = cores::usable_of(may_use.len()).get();
    Some(Activation::new(&Threads, sharing, workers, adopts, may_use, usable.try_into().unwrap_or(u32::MAX)))
}
