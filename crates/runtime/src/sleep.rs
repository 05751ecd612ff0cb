//! The sleep protocol of `comity_protocol` on threads: a worker parks on a futex.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod model_tests;

pub(crate) use comity_protocol::sleep::Work;
#[cfg(test)]
pub(crate) use comity_protocol::sleep::{Admission, Woken};

use crate::raw::sync::Threads;

/// The sleep protocol of one pool.
pub(crate) type Sleep = comity_protocol::sleep::Sleep<Threads>;

/// Rests until woken, as a dialogue has a worker do. `None`: the timeout is over and the worker is still announced.
#[cfg(test)]
pub(crate) fn park<P: comity_protocol::platform::Platform<Parker = crate::raw::sync::FutexWord>>(
    sleep: &comity_protocol::sleep::Sleep<P>,
    me: comity_policy::WorkerId,
    timeout: Option<std::time::Duration>,
) -> Option<Woken> {
    use comity_protocol::sleep::Parking;

    let mut is_over = false;
    loop {
        match sleep.park(me) {
            Parking::Over(woken) => return Some(woken),
            Parking::Waits { looks_again: true, .. } if is_over => return None,
            Parking::Waits { at_rest, looks_again } => {
                let timeout = timeout.filter(|_| looks_again);
                sleep.parker(me).wait(at_rest, timeout);
                is_over = timeout.is_some();
            }
        }
    }
}
