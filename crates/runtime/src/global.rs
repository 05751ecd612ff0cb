//! The pool of the free functions outside of any other, one per process.

use std::sync::Mutex;

use comity_os::lock;
use crossbeam_utils::atomic::AtomicCell;

use crate::builder::{BuildError, ThreadPoolBuilder};
use crate::fork;
use crate::pool::ThreadPool;

/// Where one process has its global pool. Neither is ever freed.
struct Place {
    /// Set once, under the lock below.
    pool: AtomicCell<Option<&'static ThreadPool>>,
    /// Held by whoever builds the pool.
    building: Mutex<()>,
    /// The process that it belongs to, as [`fork::generation`] counts.
    process: u64,
    /// That of the process that this one was forked from.
    parent: Option<PlaceRef>,
}

#[derive(Clone, Copy)]
struct PlaceRef(&'static Place);

impl PartialEq for PlaceRef {
    fn eq(&self, other: &PlaceRef) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for PlaceRef {}

/// A lock would not do: after a fork it may be held by a thread that is not there.
static PLACE: AtomicCell<Option<PlaceRef>> = AtomicCell::new(None);

const _: () = assert!(AtomicCell::<Option<PlaceRef>>::is_lock_free());
const _: () = assert!(AtomicCell::<Option<&ThreadPool>>::is_lock_free());

/// The place of this process, a new one after a fork.
fn place() -> &'static Place {
    let process = fork::generation();
    let parent = PLACE.load();
    match parent {
        Some(PlaceRef(place)) if place.process == process => place,
        _ => {
            let fresh = Place { pool: AtomicCell::new(None), building: Mutex::new(()), process, parent };
            let fresh = PlaceRef(Box::leak(Box::new(fresh)));
            match PLACE.compare_exchange(parent, Some(fresh)) {
                Ok(_) => fresh.0,
                Err(faster) => faster.expect("a place is never taken away").0,
            }
        }
    }
}

/// The pool of the free functions outside of any other, built at first use. After a fork the child gets one of its own,
/// with as many workers, as large stacks and the same policy as its parent's had.
///
/// # Panics
/// If it cannot be built: the sentence says why. Where a variable of the environment has a bad value, or asks for more threads
/// than the process can have, the process ends with the exit
/// code 2 and a line on standard error; with the feature `lenient` the line is told and the default taken.
pub(crate) fn global() -> &'static ThreadPool {
    let place = place();
    if let Some(pool) = place.pool.load() {
        return pool;
    }
    let _building = lock(&place.building);
    // Somebody else may have built it meanwhile.
    place.pool.load().unwrap_or_else(|| {
        let parents = place.parent.and_then(|parent| parent.0.pool.load());
        let builder = parents.map_or_else(ThreadPoolBuilder::new, ThreadPoolBuilder::like);
        place.keep(builder.build_implicitly())
    })
}

impl Place {
    /// Makes this the pool. Only with the lock, and only once.
    fn keep(&self, pool: ThreadPool) -> &'static ThreadPool {
        let pool: &'static ThreadPool = Box::leak(Box::new(pool));
        self.pool.store(Some(pool));
        pool
    }
}

/// Makes what `build` returns the global pool, and waits until its threads run.
pub(crate) fn build(build: impl FnOnce() -> Result<ThreadPool, BuildError>) -> Result<(), BuildError> {
    let place = place();
    let building = lock(&place.building);
    if place.pool.load().is_some() {
        return Err(BuildError::GlobalPoolExists);
    }
    let pool = place.keep(build()?);
    // A thread may want the pool before it becomes a worker.
    drop(building);
    pool.wait_until_started();
    Ok(())
}
