//! Building a pool.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;

use comity::BuildError;
use comity::internal::lenient_builder;

use crate::registry::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadSpawn};
use crate::thread_pool::{ThreadPool, max_num_threads};

type PanicHandler = dyn Fn(Box<dyn Any + Send>) + Send + Sync;
type ThreadHandler = dyn Fn(usize) + Send + Sync;

/// The options of a pool. Every option has a default.
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    options: Options,
    spawn_handler: S,
}

#[derive(Default)]
struct Options {
    num_threads: usize,
    use_current_thread: bool,
    panic_handler: Option<Box<PanicHandler>>,
    thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    start_handler: Option<Box<ThreadHandler>>,
    exit_handler: Option<Box<ThreadHandler>>,
    breadth_first: bool,
}

impl Options {
    fn into_comity(self) -> comity::ThreadPoolBuilder {
        let mut builder = lenient_builder().num_threads(self.num_threads.min(max_num_threads()));
        if self.use_current_thread {
            builder = builder.use_current_thread();
        }
        if self.breadth_first {
            builder = builder.breadth_first();
        }
        if let Some(handler) = self.panic_handler {
            builder = builder.panic_handler(handler);
        }
        if let Some(name) = self.thread_name {
            builder = builder.thread_name(name);
        }
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        if let Some(handler) = self.start_handler {
            builder = builder.start_handler(handler);
        }
        if let Some(handler) = self.exit_handler {
            builder = builder.exit_handler(handler);
        }
        builder
    }
}

// Implemented by hand: a derived implementation would be generic over `S`, so `S` could not be inferred.
impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        ThreadPoolBuilder { options: Options::default(), spawn_handler: DefaultSpawn }
    }
}

impl ThreadPoolBuilder {
    /// Creates a builder with all defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The type `S` starts the threads: it is the default, or stands for the function given to
/// [`spawn_handler`](#method.spawn_handler).
impl<S> ThreadPoolBuilder<S>
where
    S: ThreadSpawn,
{
    /// Builds the pool.
    ///
    /// # Errors
    /// If the system cannot start a thread. With [`use_current_thread`](#method.use_current_thread), also if the
    /// current thread already belongs to a pool.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        let ThreadPoolBuilder { options, mut spawn_handler } = self;
        let pool = options.into_comity().build_with(|worker| spawn_handler.spawn(ThreadBuilder::new(worker)));
        pool.map(ThreadPool::of).map_err(ThreadPoolBuildError::new)
    }

    /// Builds the global pool, which threads outside of any pool use, and waits until its threads run. A call is only
    /// needed to change a default: without a call, the global pool is built when it is first used.
    ///
    /// # Errors
    /// See [`build`](#method.build). Also if the global pool exists already.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        let ThreadPoolBuilder { options, mut spawn_handler } = self;
        let built = options.into_comity().build_global_with(|worker| spawn_handler.spawn(ThreadBuilder::new(worker)));
        built.map_err(ThreadPoolBuildError::new)
    }
}

impl ThreadPoolBuilder {
    /// Builds a pool of scoped threads, calls `with_pool`, and ends the pool. Each thread calls `wrapper`, which must
    /// call [`ThreadBuilder::run`] and may borrow data. Returns the result of `with_pool` after all threads have ended.
    ///
    /// # Errors
    /// See [`build`](#method.build).
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        std::thread::scope(|scope| {
            let wrapper = &wrapper;
            let pool = self
                .spawn_handler(|thread| thread.thread().spawn_scoped(scope, || wrapper(thread)).map(drop))
                .build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Sets a function that starts the threads of the pool. It is called once for each thread, and must make some
    /// thread call [`ThreadBuilder::run`].
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder { options: self.options, spawn_handler: CustomSpawn::new(spawn) }
    }

    /// Sets the name of each thread by its index. Default: no names.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.options.thread_name = Some(Box::new(closure));
        self
    }

    /// Sets the number of threads, at most [`max_num_threads`]. For 0 and the default, see the crate's documentation.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.options.num_threads = num_threads;
        self
    }

    /// Makes the calling thread the pool's thread 0 until the thread ends. It runs tasks only while it waits for tasks
    /// or [yields](crate::yield_now). The start and exit handlers are not called for it.
    pub fn use_current_thread(mut self) -> Self {
        self.options.use_current_thread = true;
        self
    }

    /// Sets the handler of panics for which no caller waits. Without a handler, or if the handler panics, the process
    /// aborts.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.options.panic_handler = Some(Box::new(panic_handler));
        self
    }

    /// Sets the stack size of each thread, in bytes. Default: the stack size of the standard library.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.options.stack_size = Some(stack_size);
        self
    }

    /// Makes each thread run the tasks that it has spawned oldest first, instead of newest first. The right half of a
    /// join is still taken back newest first.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.options.breadth_first = true;
        self
    }

    /// Sets a function that each thread calls with its index before any other code runs on it. A panic goes to the
    /// panic handler.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.options.start_handler = Some(Box::new(start_handler));
        self
    }

    /// Sets a function that each thread calls with its index after all other code has run. A panic goes to the panic
    /// handler.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.options.exit_handler = Some(Box::new(exit_handler));
        self
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Closure;
        impl fmt::Debug for Closure {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("<closure>")
            }
        }
        let options = &self.options;
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &options.num_threads)
            .field("use_current_thread", &options.use_current_thread)
            .field("get_thread_name", &options.thread_name.as_ref().map(|_| Closure))
            .field("panic_handler", &options.panic_handler.as_ref().map(|_| Closure))
            .field("stack_size", &options.stack_size)
            .field("start_handler", &options.start_handler.as_ref().map(|_| Closure))
            .field("exit_handler", &options.exit_handler.as_ref().map(|_| Closure))
            .field("breadth_first", &options.breadth_first)
            .finish()
    }
}

/// The reason why a pool could not be built.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    GlobalPoolAlreadyInitialized,
    CurrentThreadAlreadyInPool,
    IOError(io::Error),
    Comity(BuildError),
}

impl ThreadPoolBuildError {
    fn new(error: BuildError) -> ThreadPoolBuildError {
        let kind = match error {
            BuildError::GlobalPoolExists => ErrorKind::GlobalPoolAlreadyInitialized,
            BuildError::CurrentThreadInPool => ErrorKind::CurrentThreadAlreadyInPool,
            BuildError::Spawn { error, .. } => ErrorKind::IOError(error),
            error @ BuildError::ThreadLimit { .. } => ErrorKind::IOError(io::Error::other(error)),
            other => ErrorKind::Comity(other),
        };
        ThreadPoolBuildError { kind }
    }
}

impl Error for ThreadPoolBuildError {
    #[allow(deprecated)]
    fn description(&self) -> &str {
        match &self.kind {
            ErrorKind::IOError(error) => error.description(),
            ErrorKind::Comity(error) => error.description(),
            ErrorKind::GlobalPoolAlreadyInitialized => GLOBAL_POOL_ALREADY_INITIALIZED,
            ErrorKind::CurrentThreadAlreadyInPool => CURRENT_THREAD_ALREADY_IN_POOL,
        }
    }

    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ErrorKind::IOError(error) => Some(error),
            ErrorKind::Comity(error) => Some(error),
            ErrorKind::GlobalPoolAlreadyInitialized | ErrorKind::CurrentThreadAlreadyInPool => None,
        }
    }
}

/// The stock crate's message, word for word, because programs compare it.
const GLOBAL_POOL_ALREADY_INITIALIZED: &str = "The global thread pool has already been initialized.";

/// The stock crate's message, word for word, because programs compare it.
const CURRENT_THREAD_ALREADY_IN_POOL: &str = "The current thread is already part of another thread pool.";

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::GlobalPoolAlreadyInitialized => GLOBAL_POOL_ALREADY_INITIALIZED.fmt(f),
            ErrorKind::CurrentThreadAlreadyInPool => CURRENT_THREAD_ALREADY_IN_POOL.fmt(f),
            ErrorKind::IOError(error) => error.fmt(f),
            ErrorKind::Comity(error) => error.fmt(f),
        }
    }
}
