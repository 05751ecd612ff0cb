//! The probes. A probe is a set of programs that share one core, and the numbers that are measured.

use comity_sim::threads::linux::Groups;

/// The threads of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The given number of threads. All of them compute.
    Computes(u32),
    /// Two threads: one computes, the other yields all the time.
    Yields,
    /// A thread that repeatedly sleeps for [`SLEEP_US`] and computes for [`WORK_US`].
    Sleeps,
}

/// The time that a sleeper sleeps, in microseconds.
pub const SLEEP_US: u64 = 5_000;
/// The time that a sleeper computes after each sleep, in microseconds.
pub const WORK_US: u64 = 50;

/// The percentiles of a sleeper's lateness that are reported.
pub const PERCENTS: [usize; 3] = [50, 90, 99];

/// The numbers that a probe reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Time slices: milliseconds on the core between two waits for the core.
    Slices,
    /// Percentages of the core for three threads: the thread that yields, the other thread of its program, and the
    /// thread of the other program.
    Shares,
    /// Microseconds from the time at which a sleeper should wake until it ran, at the percentiles [`PERCENTS`].
    Lateness,
}

impl Figures {
    /// Returns the names and units of the numbers.
    pub fn names(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Figures::Slices => &[("slice", "ms")],
            Figures::Shares => &[("thread that yields", "%"), ("its program's other", "%"), ("other program", "%")],
            Figures::Lateness => &[("late, p50", "µs"), ("late, p90", "µs"), ("late, p99", "µs")],
        }
    }
}

/// A set of programs that share a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// A short description of the programs' threads.
    pub name: &'static str,
    /// The task groups of the programs.
    pub groups: Groups,
    /// The threads of each program.
    pub parts: &'static [Part],
    /// The numbers that are measured.
    pub figures: Figures,
}

impl Probe {
    /// All probes.
    pub const ALL: [Probe; 11] = {
        use Figures::{Lateness, Shares, Slices};
        use Groups::{Same, Separate};
        use Part::{Computes, Sleeps, Yields};
        const fn probe(name: &'static str, groups: Groups, parts: &'static [Part], figures: Figures) -> Probe {
            Probe { name, groups, parts, figures }
        }
        [
            probe("2 compute", Same, &[Computes(1), Computes(1)], Slices),
            probe("3 compute", Same, &[Computes(3)], Slices),
            probe("5 compute", Same, &[Computes(5)], Slices),
            probe("2 compute", Separate, &[Computes(1), Computes(1)], Slices),
            probe("1 of 2 yields, 1 computes", Same, &[Yields, Computes(1)], Shares),
            probe("1 of 2 yields, 1 computes", Separate, &[Yields, Computes(1)], Shares),
            probe("1 sleeps", Same, &[Sleeps], Lateness),
            probe("1 sleeps, 1 computes", Same, &[Sleeps, Computes(1)], Lateness),
            probe("1 sleeps, 2 compute", Same, &[Sleeps, Computes(2)], Lateness),
            probe("1 sleeps, 1 computes", Separate, &[Sleeps, Computes(1)], Lateness),
            probe("1 sleeps, 2 compute", Separate, &[Sleeps, Computes(2)], Lateness),
        ]
    };

    /// Returns the name of the grouping in reports.
    pub fn grouping(&self) -> &'static str {
        match self.groups {
            Groups::Same => "same",
            Groups::Separate => "separate",
        }
    }
}
