//! Steal time: the time of virtual CPUs during which their host ran something else.

/// Times since the guest began, in nanoseconds over all CPUs that a program may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time in which the CPUs ran, for any program.
    pub run_ns: u64,
    /// Time in which the CPUs had something to run and the host ran something else.
    pub steal_ns: u64,
}
