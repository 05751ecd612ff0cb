//! Waiting for a future on the spot.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use comity::executor::Parker;

/// Runs `future` on this thread until it is ready. A worker of a pool serves its pool while the future is pending: it
/// may run other tasks on top of this one, which goes on when they return. So a task rather awaits.
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
