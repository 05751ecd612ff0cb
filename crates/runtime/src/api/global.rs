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
    /// The pool, once it is built. Set once, under the lock `building`.
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

/// Returns the pool that the free functions use outside of any other pool. The first call builds it. A forked child
/// builds its own pool with the policy, the number of workers and the stack size of the parent's global pool.
///
/// # Panics
/// If the pool cannot be built, for example because an environment variable has a bad value.
pub(crate) fn global() -> &'static ThreadPool {
    built_by(ThreadPoolBuilder::new)
}

/// Builds the global pool with a [lenient builder](lenient_builder) if it does not exist and this thread is not a
/// worker. The drop-in for rayon-core calls this before each function that uses the global pool.
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

/// Returns the global pool. If it does not exist, builds it with the builder from `new`. In a forked child whose
/// parent had a global pool, builds it like the parent's pool instead.
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
        // This panics, because the caller asked for a task to run and cannot receive a build error.
        ours.keep(builder.build().unwrap_or_else(|error| panic!("the global pool cannot be built: {error}")))
    })
}

impl Global {
    /// Makes `pool` the global pool. Called once, with the lock `building`.
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
    /// See [`BuildError`]. [`BuildError::GlobalPoolExists`]: the global pool has been built or used before.
    pub fn build_global(self) -> Result<(), BuildError> {
        build(|| self.build())
    }

    /// Builds the global pool like [`ThreadPoolBuilder::build_global`], on threads that `spawn` provides, like
    /// [`ThreadPoolBuilder::build_with`]. Returns only after every worker runs. So `spawn` must not wait for this
    /// function to return before it runs a worker.
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
    // The lock is released before the wait, because a thread may use the global pool before it becomes a worker.
    drop(building);
    pool.wait_until_started();
    Ok(())
}
