//! Tasks that block, and threads that block for them: what an executor of futures is built on.

pub(crate) mod parker;
pub(crate) mod runnable;
