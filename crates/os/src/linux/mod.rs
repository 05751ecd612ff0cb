//! Linux on a machine of 64 bits.

pub(crate) mod calls;
pub mod file_lock;
pub mod fork;
pub mod slice;
pub mod stack;
