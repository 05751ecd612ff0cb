//! Building a pool.

use std::any::Any;
use std::io;

use comity::{BuildError, MAX_THREADS, Policy, ThreadBuilder};

use crate::pool::{self, ThreadPool};
use crate::process;

/// Returns a builder for programs whose users may not know Comity, like [`comity::internal::lenient_builder`]: invalid
/// values in the environment are reported and replaced by the default.
pub fn lenient_builder() -> ThreadPoolBuilder {
    ThreadPoolBuilder { inner: comity::internal::lenient_builder(), ..ThreadPoolBuilder::new() }
}

/// The options of a pool, as in `comity`. The pool claims to have the chosen number of threads, but has one worker.
#[derive(Default)]
pub struct ThreadPoolBuilder {
    inner: comity::ThreadPoolBuilder,
    /// The chosen number of threads, or 0.
    num_threads: usize,
    use_current_thread: bool,
    start_handler: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

impl ThreadPoolBuilder {
    /// Creates a builder with all defaults.
    pub fn new() -> ThreadPoolBuilder {
        ThreadPoolBuilder::default()
    }

    /// Sets the number of threads that the pool claims to have. For 0 and the default, see `comity`.
    pub fn num_threads(self, num_threads: usize) -> Self {
        ThreadPoolBuilder { num_threads, ..self }
    }

    /// Makes the calling thread the pool's first worker. If the program chooses more than one thread, the pool has a
    /// second worker, which runs tasks from other threads.
    pub fn use_current_thread(self) -> Self {
        ThreadPoolBuilder { inner: self.inner.use_current_thread(), use_current_thread: true, ..self }
    }

    /// Makes the worker run the tasks that it has spawned in FIFO order.
    pub fn breadth_first(self) -> Self {
        ThreadPoolBuilder { inner: self.inner.breadth_first(), ..self }
    }

    /// Sets the function that returns the name of the worker's thread. Its argument is the thread's index.
    pub fn thread_name<F>(self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        ThreadPoolBuilder { inner: self.inner.thread_name(name), ..self }
    }

    /// Sets the stack size of the worker's thread, in bytes.
    pub fn stack_size(self, bytes: usize) -> Self {
        ThreadPoolBuilder { inner: self.inner.stack_size(bytes), ..self }
    }

    /// Sets the handler of panics in tasks that no caller waits for. Without a handler, or if the handler panics, the
    /// process aborts.
    pub fn panic_handler<F>(self, handler: F) -> Self
    where
        F: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        ThreadPoolBuilder { inner: self.inner.panic_handler(handler), ..self }
    }

    /// Sets a function that the worker's thread calls with its index before any other code runs on it.
    pub fn start_handler<F>(self, handler: F) -> Self
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        ThreadPoolBuilder { start_handler: Some(Box::new(handler)), ..self }
    }

    /// Sets a function that the worker's thread calls with its index after all other code has run.
    pub fn exit_handler<F>(self, handler: F) -> Self
    where
        F: Fn(usize) + Send + Sync + 'static,
    {
        ThreadPoolBuilder { inner: self.inner.exit_handler(handler), ..self }
    }

    /// Builds the pool on the thread that `spawn` provides.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build_with<F>(self, spawn: F) -> Result<ThreadPool, BuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        let (inner, threads, is_built) = self.ready(false)?;
        let pool = inner.build_with(spawn)?;
        is_built();
        Ok(ThreadPool::new(pool, threads))
    }

    /// Builds the global pool, which the free functions use when the calling thread belongs to no pool.
    ///
    /// # Errors
    /// See [`BuildError`]; the global pool is built at most once.
    pub fn build_global(self) -> Result<(), BuildError> {
        let (inner, _, is_built) = self.ready(true)?;
        pool::building_global(|| inner.build_global().map(|()| is_built()))
    }

    /// Builds the global pool like [`ThreadPoolBuilder::build_global`], on the thread that `spawn` provides.
    ///
    /// # Errors
    /// As for [`ThreadPoolBuilder::build_global`] and [`ThreadPoolBuilder::build_with`].
    pub fn build_global_with<F>(self, spawn: F) -> Result<(), BuildError>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        let (inner, _, is_built) = self.ready(true)?;
        pool::building_global(|| inner.build_global_with(spawn).map(|()| is_built()))
    }

    /// Returns the inner builder, the number of threads that the pool claims to have, and a function that the caller
    /// must call when the pool is built.
    fn ready(self, is_global: bool) -> Result<(comity::ThreadPoolBuilder, usize, impl FnOnce()), BuildError> {
        let ThreadPoolBuilder { inner, num_threads, use_current_thread, start_handler } = self;
        let threads = match num_threads {
            0 => comity::internal::default_num_threads(&inner)?,
            number if number > MAX_THREADS => return Err(BuildError::TooManyThreads(number)),
            number => number,
        };
        let tell = move || {
            if is_global {
                pool::is_global(threads);
            }
        };
        let inner = inner
            .num_threads(if use_current_thread && threads > 1 { 2 } else { 1 })
            .policy(Policy::plain())
            .start_handler(move |index| {
                pool::is_worker_of(threads);
                // Publish the number before calling the handler, which may wait for a thread that asks for the number.
                tell();
                if let Some(handler) = &start_handler {
                    handler(index);
                }
            });
        let is_built = move || {
            process::has_pool(threads);
            tell();
            if use_current_thread {
                pool::is_worker_of(threads);
            }
        };
        Ok((inner, threads, is_built))
    }
}
