//! The implementation for Linux on 64-bit machines.

pub(crate) mod calls;
pub mod file_lock;
pub mod fork;
pub mod slice;
pub mod stack;
pub mod task_group;

#[cfg(feature = "commands")]
mod capabilities;
#[cfg(feature = "commands")]
pub mod detached;
#[cfg(feature = "commands")]
pub mod freezer;
#[cfg(feature = "commands")]
pub mod jobserver;
#[cfg(feature = "commands")]
pub mod pidfd;
#[cfg(feature = "commands")]
pub mod process;
#[cfg(feature = "commands")]
pub mod signals;
#[cfg(feature = "commands")]
pub mod streams;

#[cfg(feature = "commands")]
pub use capabilities::Capabilities;
