//! A function that blocks a thread until a future is ready.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use comity::executor::Parker;

/// Runs `future` on this thread until it is ready, and returns its output. On a worker, other tasks of the pool may
/// run on top of the caller's stack frame while the future is pending. The caller continues only after they return,
/// so code inside a task should await the future instead of calling `block_on`.
#[doc(alias = "main")]
#[doc(alias = "Runtime")]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parker = Parker::new();
    let waker = Waker::from(Arc::clone(&parker));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => parker.park(),
        }
    }
}
