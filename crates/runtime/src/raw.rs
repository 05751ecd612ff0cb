//! The unsafe parts: jobs as raw pointers, the deque that holds them, and latches that may outlive their waiters'
//! frames.

pub(crate) mod abort;
pub(crate) mod deque;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod latch;
pub(crate) mod sync;
