//! tokio's sockets and timers in the tasks of this crate.
//!
//! They need a runtime of tokio's that drives them, and panic without one: *there is no reactor running, must be called
//! from the context of a Tokio 1.x runtime*. With this feature a task is polled within the runtime in which
//! [`spawn`](crate::spawn) was called, and so are the tasks that it spawns itself. The same holds of
//! [`spawn_blocking`](crate::spawn_blocking). Sockets and timers are driven by that runtime's threads, and the task
//! goes on as one of the pool, beside its joins.
//!
//! Under `#[tokio::main]`, and wherever else tokio runs the code that spawns, nothing else is to be done. A program
//! without a runtime enters the one of [`driver`]:
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
//! A closure that is no task, as of [`comity::spawn`], is in no runtime: what it spawns is in one only if it enters
//! one. The runtime must outlive the tasks: its sockets and timers fail once it is shut down.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use ::tokio::runtime::{Builder, Handle};
use comity::internal::{PerProcess, spawn_thread};

/// The runtime of this crate: one thread that drives sockets and timers, started by the first call, until the process
/// ends. It also runs what is given to `tokio::spawn` within the tasks.
///
/// Its thread is none of a pool's workers: what it computes counts as the program's processor time.
///
/// # Errors
/// If the system gives no thread, or nothing to wait for sockets with. The next call tries again.
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
