//! Sleeping, timeouts and intervals, on the timers of async-io.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_io::Timer;
use futures_util::stream::StreamExt;

/// Waits for `duration`. A waiting task uses no thread.
///
/// ```
/// use std::time::Duration;
///
/// comity_flow::block_on(comity_flow::sleep(Duration::from_millis(1)));
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    Sleep(Timer::after(duration))
}

/// Waits until `deadline`. A waiting task uses no thread.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep(Timer::at(deadline))
}

/// A future that is ready at a certain time. See [`sleep`] and [`sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Sleep(Timer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}

/// Waits for `future`, but no longer than `limit`, counted from the call of this function. A future that is not ready
/// in time is dropped. If it is a [`Task`](crate::Task), the drop cancels the task.
///
/// # Errors
/// [`Elapsed`] if the time is over before the future is ready. The future is polled before the time is checked, so a
/// future that is ready when polled never fails.
///
/// ```
/// use std::future::pending;
/// use std::time::Duration;
///
/// use comity_flow::{Elapsed, block_on, timeout};
///
/// let late: Result<(), Elapsed> = block_on(timeout(Duration::from_millis(1), pending()));
/// assert!(late.is_err());
/// assert_eq!(block_on(timeout(Duration::MAX, async { 42 })), Ok(42));
/// ```
pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    within(sleep(limit), future)
}

/// Like [`timeout`], with a deadline instead of a duration.
///
/// # Errors
/// See [`timeout`].
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    within(sleep_until(deadline), future)
}

async fn within<F: IntoFuture>(mut limit: Sleep, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future.into_future());
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut limit).poll(context).map(|()| Err(Elapsed(())))
    })
    .await
}

/// The error of a future that was not ready in time. See [`timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the timeout elapsed before the future was ready")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// Returns a sequence of ticks. The first tick is due immediately, and the others follow `period` apart. A task that is
/// late gets the missed ticks without waiting.
///
/// # Panics
/// If `period` is zero.
///
/// ```
/// use std::time::Duration;
///
/// comity_flow::block_on(async {
///     let mut interval = comity_flow::interval(Duration::from_millis(1));
///     let first = interval.tick().await;
///     assert_eq!(interval.tick().await, first + Duration::from_millis(1));
/// });
/// ```
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval is 0. It must be longer");
    Interval(Timer::interval_at(Instant::now(), period))
}

/// A sequence of ticks. See [`interval`].
#[derive(Debug)]
pub struct Interval(Timer);

impl Interval {
    /// Waits for the next tick, and returns the time at which the tick was due. Cancel safe: no tick is lost if the
    /// future is dropped.
    pub async fn tick(&mut self) -> Instant {
        self.0.next().await.expect("an interval has no end")
    }
}
