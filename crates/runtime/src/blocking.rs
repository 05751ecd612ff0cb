//! Tasks that block, and threads that wait for tasks: the parts from which an executor of futures is built.

pub(crate) mod parker;
pub(crate) mod runnable;
