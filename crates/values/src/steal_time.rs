//! Steal time: the time of virtual CPUs that their host gave to others.

/// What the CPUs that a program may use have had since the guest began, in nanoseconds over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// In which they ran, whichever programs.
    pub run_ns: u64,
    /// In which they had something to run, and the host ran something else.
    pub steal_ns: u64,
}
