//! Steal time: the time in which virtual CPUs had something to run, but their host ran something else.

/// The times of virtual CPUs since their machine started, in nanoseconds, summed over all CPUs that a program may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The time in which the CPUs ran any program.
    pub run_ns: u64,
    /// The time in which the CPUs had something to run, but the host ran something else.
    pub steal_ns: u64,
}
