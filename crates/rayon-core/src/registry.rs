//! Starting the threads of a pool.

use std::{fmt, io, thread};

use crate::private::PrivateMarker;

/// A worker that has no thread yet. [`ThreadPoolBuilder::spawn_handler`](crate::ThreadPoolBuilder::spawn_handler)
/// receives it.
pub struct ThreadBuilder {
    worker: comity::ThreadBuilder,
}

impl ThreadBuilder {
    /// Returns the worker's index in its pool, from 0.
    pub fn index(&self) -> usize {
        self.worker.index()
    }

    /// Returns the name that [`ThreadPoolBuilder::thread_name`](crate::ThreadPoolBuilder::thread_name) chose.
    pub fn name(&self) -> Option<&str> {
        self.worker.name()
    }

    /// Returns the stack size in bytes that [`ThreadPoolBuilder::stack_size`](crate::ThreadPoolBuilder::stack_size)
    /// chose.
    pub fn stack_size(&self) -> Option<usize> {
        self.worker.stack_size()
    }

    /// Makes the calling thread the worker until the pool has ended.
    pub fn run(self) {
        self.worker.run();
    }

    pub(crate) fn new(worker: comity::ThreadBuilder) -> ThreadBuilder {
        ThreadBuilder { worker }
    }

    /// Returns a thread builder with the worker's name and stack size.
    pub(crate) fn thread(&self) -> thread::Builder {
        let mut builder = thread::Builder::new();
        if let Some(name) = self.name() {
            builder = builder.name(name.to_owned());
        }
        if let Some(bytes) = self.stack_size() {
            builder = builder.stack_size(bytes);
        }
        builder
    }
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.worker.fmt(f)
    }
}

/// A way to start a worker's thread. The trait is public only because it bounds a parameter of a public type.
pub trait ThreadSpawn {
    #[doc(hidden)]
    fn __rayon_private__(&self) -> PrivateMarker;

    /// Makes a thread call [`ThreadBuilder::run`].
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// The default `ThreadSpawn`: starts threads of the standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

impl ThreadSpawn for DefaultSpawn {
    fn __rayon_private__(&self) -> PrivateMarker {
        PrivateMarker
    }

    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        let described = thread.thread();
        thread.worker.spawn(described).map(drop)
    }
}

/// A `ThreadSpawn` that calls a function of the program.
#[derive(Debug)]
pub struct CustomSpawn<F>(F);

impl<F> CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    pub(crate) fn new(spawn: F) -> CustomSpawn<F> {
        CustomSpawn(spawn)
    }
}

impl<F> ThreadSpawn for CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    fn __rayon_private__(&self) -> PrivateMarker {
        PrivateMarker
    }

    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}
