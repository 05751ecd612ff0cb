//! The global pool: the pool that the free functions use outside of any other pool. Each process has one.

use std::io;
use std::sync::Mutex;

use comity_os::lock;
use crossbeam_utils::atomic::AtomicCell;

use crate::api::builder::{BuildError, ThreadBuilder, ThreadPoolBuilder, lenient_builder};
use crate::api::pool::ThreadPool;
use crate::fork::PerProcess;
use crate::workers::current;

/// The global pool of one process. The pool is never freed.
struct Global {
    /// The pool, once it is built. It is set once, under `building`.
    pool: AtomicCell<Option<&'static ThreadPool>>,
    /// The lock that a thread holds while it builds the pool.
    building: Mutex<()>,
    /// The `Global` of the process from which this process was forked.
    parent: Option<&'static Global>,
}

const _: () = assert!(AtomicCell::<Option<&ThreadPool>>::is_lock_free());

/// Returns the `Global` of this process. A forked child gets a new one.
fn of_process() -> &'static Global {
    static GLOBAL: PerProcess<Global> = PerProcess::new();
    GLOBAL.get(|parent| Global { pool: AtomicCell::new(None), building: Mutex::new(()), parent })
}

/// Returns the pool that the free functions use outside of any other pool, and builds it at first use. A forked child
/// builds its own pool with the policy, the number of workers and the stack size of its parent's pool.
///
/// # Panics
/// If the pool cannot be built, for example because an environment variable has a bad value.
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

/// Returns the global pool. If it does not exist, builds it with the builder from `new`, or in a forked child like the
/// parent's.
fn built_by(new: fn() -> ThreadPoolBuilder) -> &'static ThreadPool {
    let ours = of_process();
    if let Some(pool) = ours.pool.load() {
        return pool;
    }
    let _building = lock(&ours.building);
    // Another thread may have built the pool meanwhile.
    ours.pool.load().unwrap_or_else(|| {
        let parents = ours.parent.and_then(|parent| parent.pool.load());
        let builder = parents.map_or_else(new, ThreadPoolBuilder::like);
        // No caller has asked to build the pool, so there is no caller to return an error to.
        ours.keep(builder.build().unwrap_or_else(|error| panic!("the global pool cannot be built: {error}")))
    })
}

impl Global {
    /// Makes `pool` the global pool. Called only once, with the lock.
    fn keep(&self, pool: ThreadPool) -> &'static ThreadPool {
        let pool: &'static ThreadPool = Box::leak(Box::new(pool));
        self.pool.store(Some(pool));
        pool
    }
}

impl ThreadPoolBuilder {
    /// Builds the pool that the free functions use outside of any other pool, and waits until its threads run.
    ///
    /// # Errors
    /// See [`BuildError`]. The global pool is built at most once.
    pub fn build_global(self) -> Result<(), BuildError> {
        build(|| self.build())
    }

    /// Builds the global pool like [`ThreadPoolBuilder::build_global`], on threads that `spawn` provides, like
    /// [`ThreadPoolBuilder::build_with`]. Every worker must be run before this returns, because this waits for the
    /// workers.
    ///
    /// # Errors
    /// See [`ThreadPoolBuilder::build_global`] and [`ThreadPoolBuilder::build_with`].
    pub fn build_global_with<F>(self, spawn: F) -> Result<(), BuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        build(|| self.build_with(spawn))
    }
}

/// Makes the pool that `build` returns the global pool, and waits until its threads run.
fn build(build: impl FnOnce() -> Result<ThreadPool, BuildError>) -> Result<(), BuildError> {
    let ours = of_process();
    let building = lock(&ours.building);
    if ours.pool.load().is_some() {
        return Err(BuildError::GlobalPoolExists);
    }
    let pool = ours.keep(build()?);
    // A thread may ask for the global pool before it becomes a worker.
    drop(building);
    pool.wait_until_started();
    Ok(())
}
