//! The cores of a pool's workers: which worker is awake on which core, and where each thread may run.

pub(crate) mod activation;
pub(crate) mod candidate;
pub(crate) mod masks;
pub(crate) mod membership;
pub(crate) mod mender;
