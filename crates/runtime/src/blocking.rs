//! Tasks that block, and threads that block for them: the base of an executor of futures.

pub(crate) mod parker;
pub(crate) mod runnable;
