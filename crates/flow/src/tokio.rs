//! tokio's sockets and timers in the tasks of this crate.
//!
//! tokio's sockets and timers need a tokio runtime that drives them. Without a runtime they panic: *there is no reactor
//! running, must be called from the context of a Tokio 1.x runtime*. With the feature `tokio`, a task is polled inside
//! the runtime in which [`spawn`](crate::spawn) was called. A closure of [`spawn_blocking`](crate::spawn_blocking) and
//! the tasks that a task spawns also run inside that runtime. The threads of that runtime drive the sockets and
//! timers. The task itself remains a task of the pool and may call `join`.
//!
//! Code that tokio itself runs, for example under `#[tokio::main]`, can spawn tasks without further setup. A program
//! without a runtime enters the runtime of [`driver`]:
//!
//! ```
//! use std::time::Duration;
//!
//! # fn main() -> std::io::Result<()> {
//! let tokio = comity_flow::tokio::driver()?;
//! let _entered = tokio.enter();
//! let answer = comity_flow::spawn(async {
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     let (left, right) = comity::join(|| 20, || 22);
//!     left + right
//! });
//! assert_eq!(comity_flow::block_on(answer), 42);
//! # Ok(())
//! # }
//! ```
//!
//! Closures that are not tasks of this crate, for example those of [`comity::spawn`], run outside of any runtime. A
//! task that such a closure spawns has a runtime only if the closure enters one. The runtime must outlive the tasks:
//! after the runtime has shut down, its sockets and timers fail.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ::tokio::runtime::{Builder, Handle};
use comity::internal::{PerProcess, spawn_thread};

/// Returns the runtime of this crate. The first call starts the runtime's only thread, which drives sockets and timers
/// until the process ends. That thread also runs the futures that tasks pass to `tokio::spawn`.
///
/// The thread is no worker of a pool. The processor time that it uses counts as the program's.
///
/// # Errors
/// If the system cannot start the thread, or cannot open a file descriptor for epoll. The next call tries again.
pub fn driver() -> io::Result<Handle> {
    static DRIVER: PerProcess<Mutex<Option<Handle>>> = PerProcess::new();
    let driver = DRIVER.get(|_| Mutex::default());
    let mut driver = driver.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*driver {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    spawn_thread(thread::Builder::new().name("comity-tokio".to_owned()), move || runtime.block_on(pending()))?;
    Ok(driver.insert(handle).clone())
}
