//! The unsafe parts: jobs as bare pointers, the deque that holds them, latches that outlive their waiters' frames.

pub(crate) mod abort;
pub(crate) mod deque;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod latch;
pub(crate) mod sync;
