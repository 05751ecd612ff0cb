//! The unsafe parts: jobs as raw pointers, the deque that holds the pointers, and latches, whose memory may be freed
//! as soon as they are set.

pub(crate) mod abort;
pub(crate) mod deque;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod latch;
pub(crate) mod sync;
