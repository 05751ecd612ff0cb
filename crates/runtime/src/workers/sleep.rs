//! The sleep protocol of `comity_protocol` on threads: a worker parks on a futex.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod model_tests;

pub(crate) use comity_protocol::sleep::Work;
#[cfg(all(test, loom))]
pub(crate) use comity_protocol::sleep::{Admission, Woken};

pub(crate) use crate::raw::sync::Sleep;
#[cfg(all(test, loom))]
pub(crate) use crate::raw::sync::park;
