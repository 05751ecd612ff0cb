//! The pool of the free functions outside of any other, one per process.

use std::io;
use std::sync::Mutex;

use comity_os::lock;
use crossbeam_utils::atomic::AtomicCell;

use crate::api::builder::{BuildError, ThreadBuilder, ThreadPoolBuilder};
use crate::api::pool::ThreadPool;
use crate::fork::PerProcess;

/// Where one process has its global pool, which is never freed.
struct Global {
    /// Set once, under the lock below.
    pool: AtomicCell<Option<&'static ThreadPool>>,
    /// Held by the thread that builds the pool.
    building: Mutex<()>,
    /// That of the process that this one was forked from.
    parent: Option<&'static Global>,
}

const _: () = assert!(AtomicCell::<Option<&ThreadPool>>::is_lock_free());

/// That of this process, a new one after a fork.
fn of_process() -> &'static Global {
    static GLOBAL: PerProcess<Global> = PerProcess::new();
    GLOBAL.get(|parent| Global { pool: AtomicCell::new(None), building: Mutex::new(()), parent })
}

/// The pool of the free functions outside of any other, built at first use. After a fork the child gets one of its own,
/// with as many workers, as large stacks and the same policy as its parent's had.
///
/// # Panics
/// If it cannot be built: the sentence says why. Where a variable of the environment has a bad value, or asks for more
/// threads than the process can have, the process ends. Its exit code is then 2, after a line on standard error. With
/// the feature `lenient` the line is told and the default taken.
pub(crate) fn global() -> &'static ThreadPool {
    let ours = of_process();
    if let Some(pool) = ours.pool.load() {
        return pool;
    }
    let _building = lock(&ours.building);
    // Another thread may have built it meanwhile.
    ours.pool.load().unwrap_or_else(|| {
        let parents = ours.parent.and_then(|parent| parent.pool.load());
        let builder = parents.map_or_else(ThreadPoolBuilder::new, ThreadPoolBuilder::like);
        ours.keep(builder.build_implicitly())
    })
}

impl Global {
    /// Makes this the pool. Only with the lock, and only once.
    fn keep(&self, pool: ThreadPool) -> &'static ThreadPool {
        let pool: &'static ThreadPool = Box::leak(Box::new(pool));
        self.pool.store(Some(pool));
        pool
    }
}

impl ThreadPoolBuilder {
    /// Builds the pool that the free functions use outside of any other, and waits until its threads run.
    ///
    /// # Errors
    /// See [`BuildError`]; the global pool is built at most once.
    pub fn build_global(self) -> Result<(), BuildError> {
        build(|| self.build())
    }

    /// [`ThreadPoolBuilder::build_global`] as in [`ThreadPoolBuilder::build_with`]. Every worker must be made to run
    /// before this returns.
    ///
    /// # Errors
    /// As both.
    pub fn build_global_with<F>(self, spawn: F) -> Result<(), BuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        build(|| self.build_with(spawn))
    }
}

/// Makes what `build` returns the global pool, and waits until its threads run.
fn build(build: impl FnOnce() -> Result<ThreadPool, BuildError>) -> Result<(), BuildError> {
    let ours = of_process();
    let building = lock(&ours.building);
    if ours.pool.load().is_some() {
        return Err(BuildError::GlobalPoolExists);
    }
    let pool = ours.keep(build()?);
    // A thread may want the pool before it becomes a worker.
    drop(building);
    pool.wait_until_started();
    Ok(())
}
