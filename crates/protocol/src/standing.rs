//! How a program stands beside others in a core table, and the constants that all programs of one table count by.
//!
//! Values, without states: [`round`](crate::table::round) makes a [`Standing`], and it holds for the quantum that
//! begins.

use core::time::Duration;

use comity_policy::allotment::Division;

/// How many programs can be in a table at a time.
pub const SLOTS: usize = 256;

/// A program counts as stopped once its coordinator has not come by for this long: its cores are lent, and it has no
/// share until it comes again. The time is so long that a coordinator that waits its turn behind many threads does not
/// count as stopped.
pub const STOPPED_AFTER: Duration = Duration::from_millis(500);

/// Cores that cannot be divided rotate once in this time for each program.
pub const TURN: Duration = Duration::from_millis(100);

/// How things stand for one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Cores that it is entitled to.
    pub owned: u32,
    /// Cores that it holds.
    pub held: u32,
    /// Cores that it may use and that no program uses.
    pub free: u32,
    /// Those of them that are its own.
    pub own_free: u32,
    /// Its own that others use.
    pub lent: u32,
    /// Whether no other program in the table holds cores or wants some.
    pub alone: bool,
    /// Its part, by weight, beside all programs that have work, whether they hold cores or not: in thousandths of a
    /// core.
    pub share_milli: u32,
    /// Programs that have work, this one included.
    pub programs: u32,
    /// Cores that it is entitled to now, as it has computed itself. The words of the cores may say otherwise for as
    /// long as a program has seen another table.
    pub allotted: u32,
    /// In how many nanoseconds a turn of its begins or ends, in which it is entitled to more cores, or a probe does.
    /// `None`: its cores are lasting.
    pub until_change: Option<u64>,
    /// In so many nanoseconds each program has a turn.
    pub frame: u64,
    /// Between two turns are no more than so many nanoseconds: a frame, or two where one of them is a probe.
    pub most_out: u64,
    /// How cores are divided, by what all programs propose.
    pub division: Division,
}
