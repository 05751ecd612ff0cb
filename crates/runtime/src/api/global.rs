//! The pool of the free functions outside of any other, one per process.

use std::io;
use std::sync::Mutex;

use comity_os::lock;
use crossbeam_utils::atomic::AtomicCell;

use crate::api::builder::{BuildError, ThreadBuilder, ThreadPoolBuilder, lenient_builder};
use crate::api::pool::ThreadPool;
use crate::fork::PerProcess;
use crate::workers::current;

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
/// If it cannot be built, for example because a variable of the environment has a bad value.
pub(crate) fn global() -> &'static ThreadPool {
    built_by(ThreadPoolBuilder::new)
}

/// Builds the global pool with a [lenient builder](lenient_builder), unless this thread is a worker or the pool exists.
/// The drop-in for rayon-core calls this before each function that uses the global pool.
///
/// # Panics
/// If the pool cannot be built.
#[inline(always)]
pub fn have_lenient_global_pool() {
    #[cold]
    #[inline(never)]
    fn build() {
        built_by(lenient_builder);
    }
    if current::with(|worker| worker.is_none()) {
        build();
    }
}

/// The global pool, built by what `new` returns unless there is one. In a forked child it is like the parent's.
fn built_by(new: fn() -> ThreadPoolBuilder) -> &'static ThreadPool {
    let ours = of_process();
    if let Some(pool) = ours.pool.load() {
        return pool;
    }
    let _building = lock(&ours.building);
    // Another thread may have built it meanwhile.
    ours.pool.load().unwrap_or_else(|| {
        let parents = ours.parent.and_then(|parent| parent.pool.load());
        let builder = parents.map_or_else(new, ThreadPoolBuilder::like);
        // No caller has asked for the pool, so there is none that an error could be returned to.
        ours.keep(builder.build().unwrap_or_else(|error| panic!("the global pool cannot be built: {error}")))
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
