//! tokio's sockets and timers in the tasks of this crate.
//!
//! Sockets and timers need a tokio runtime that drives them. Without one they panic: *there is no reactor running,
//! must be called from the context of a Tokio 1.x runtime*. With the feature `tokio`, a task is polled inside the
//! runtime in which [`spawn`](crate::spawn) was called. So are the tasks that it spawns, and calls of
//! [`spawn_blocking`](crate::spawn_blocking). The threads of that runtime drive the sockets and timers. The task
//! itself remains a task of the pool and may call `join`.
//!
//! Under `#[tokio::main]`, and wherever else tokio runs the spawning code, the program needs to do nothing else. A
//! program without a runtime enters the runtime of [`driver`]:
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
//! Closures that are no tasks, for example those of [`comity::spawn`], run in no runtime. A task that they spawn has
//! a runtime only if the closure enters one. The runtime must outlive the tasks: its sockets and timers fail once it
//! is shut down.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ::tokio::runtime::{Builder, Handle};
use comity::internal::{PerProcess, spawn_thread};

/// Returns the runtime of this crate. The first call starts its one thread, which drives sockets and timers until the
/// process ends. That thread also runs the futures that tasks give to `tokio::spawn`.
///
/// The thread is no worker of a pool. The processor time that it uses counts as the program's.
///
/// # Errors
/// If the system provides no thread, or no descriptor to wait for sockets with. The next call tries again.
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
