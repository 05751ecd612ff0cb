//! What is probed: programs that share one core, and what is counted of them.

use comity_sim::threads::linux::Groups;

/// The threads of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many compute.
    Computes(u32),
    /// One computes, and another yields all the time.
    Yields,
    /// One sleeps for [`SLEEP_US`], computes for [`WORK_US`], and so on.
    Sleeps,
}

/// How long a sleeper sleeps, in microseconds,
pub const SLEEP_US: u64 = 5_000;
/// and computes.
pub const WORK_US: u64 = 50;

/// The percentiles of a sleeper's lateness.
pub const PERCENTS: [usize; 3] = [50, 90, 99];

/// Which figures a probe has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Milliseconds on the core from one wait for it to the next.
    Slices,
    /// Per cent of the core of the thread that yields, the other of its program, and the other program.
    Shares,
    /// Microseconds from when a sleeper was due until it ran, at [`PERCENTS`].
    Lateness,
}

impl Figures {
    /// Their names and units.
    pub fn names(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Figures::Slices => &[("slice", "ms")],
            Figures::Shares => &[("thread that yields", "%"), ("its program's other", "%"), ("other program", "%")],
            Figures::Lateness => &[("late, p50", "µs"), ("late, p90", "µs"), ("late, p99", "µs")],
        }
    }
}

/// Programs that share a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What they are.
    pub name: &'static str,
    /// Their task groups.
    pub groups: Groups,
    /// Of each its threads.
    pub parts: &'static [Part],
    /// What is counted.
    pub figures: Figures,
}

impl Probe {
    /// All of them.
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

    /// The groups, in a word.
    pub fn grouping(&self) -> &'static str {
        match self.groups {
            Groups::Same => "same",
            Groups::Separate => "separate",
        }
    }
}
