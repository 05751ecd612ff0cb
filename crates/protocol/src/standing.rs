//! The standing of a program among the others in a core table, and the constants that all programs of one table
//! share.
//!
//! [`round`](crate::table::round) computes a [`Standing`] at each look. It is valid for the quantum that begins.

use core::time::Duration;

use comity_policy::allotment::Division;

/// The maximum number of programs in a table at a time.
pub const SLOTS: usize = 256;

/// The time without a look of its coordinator at the table after which a program counts as stopped. The cores of a
/// stopped program are lent, and it has no share until its coordinator looks again. The time is long enough that a
/// coordinator that waits behind many threads for a core does not count as stopped.
pub const STOPPED_AFTER: Duration = Duration::from_millis(500);

/// The length of a frame, divided by the number of programs with a claim to cores. In a frame, the cores that remain
/// after a division into whole cores rotate once.
pub const TURN: Duration = Duration::from_millis(100);

/// The standing of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The number of cores that the program is entitled to.
    pub owned: u32,
    /// The number of cores that the program holds.
    pub held: u32,
    /// The number of cores that no program uses and that the program may claim.
    pub free: u32,
    /// The number of cores that no program uses and that the program owns.
    pub own_free: u32,
    /// The number of cores that the program owns and other programs use.
    pub lent: u32,
    /// True if no other program in the table holds cores or wants cores, and no other party of this program's process
    /// does.
    pub alone: bool,
    /// The program's share by weight, in thousandths of a core, among all programs that have work, whether they hold
    /// cores or not. Parties of one process divide the share of one program among themselves.
    pub share_milli: u32,
    /// The number of programs that have work, this one included. Each party of a process is counted.
    pub programs: u32,
    /// The number of cores that the program is entitled to now, computed from all claims. It may differ from `owned`
    /// while another program has seen an older table.
    pub allotted: u32,
    /// The time in ns until a turn of the program, or a [probe](crate::table::PROBES_EVERY), begins or ends. In its
    /// turn a program is entitled to more cores. `None`: the program has no turns, because its cores do not rotate.
    pub until_change: Option<u64>,
    /// The length of a frame in ns: 100 ms for each program with a claim to cores. Each program has one turn in a
    /// frame.
    pub frame: u64,
    /// The longest time in ns between two turns: one frame, or two frames if there are probes.
    pub most_out: u64,
    /// The division of the cores, computed from the proposals of all programs.
    pub division: Division,
    /// True if there are more programs than cores, and each program has about the same number of threads per weight as
    /// this program. Each program then gets its share without holding cores, because the operating system divides time
    /// equally among threads.
    pub is_even: bool,
    /// True if each program that has work is in a task group of its own, and the weights of the groups are
    /// proportional to the weights of the programs. Each program then gets its share without holding cores, because
    /// the operating system divides time among task groups by weight. `None`: no other program has work.
    pub is_grouped: Option<bool>,
    /// True if this program and the others that have work can take turns, and each of the others can use all cores in
    /// its turn. No core idles then if this program proposes turns. Programs limited by their nice value
    /// ([`Way::Nice`]) are ignored.
    pub may_take_turns: bool,
}

/// The way in which a command is limited to its share of the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The command holds cores. If it has more threads than cores, an affinity mask keeps its threads on them. Out of
    /// turn its processes are halted.
    #[default]
    Cores,
    /// The operating system alone limits the command, because threads of one of its processes may wait for each other,
    /// and the programs cannot take turns. If the command held fewer cores than it has threads, they would wait for
    /// threads without a time slice.
    Team,
    /// The operating system alone limits the command, according to its nice value.
    Nice,
    /// The operating system alone limits the command, because all programs have the same number of threads per weight.
    Even,
    /// The operating system alone limits the command, because it divides time among the task groups of the programs
    /// by the weights of the programs.
    Group,
    /// The command has all cores in turns, because threads of one of its processes may wait for each other. Out of turn
    /// it is frozen.
    Turns,
}

impl Way {
    /// Encodes a way as a word of the core table.
    pub fn to_bits(self) -> u64 {
        self as u64
    }

    /// Decodes a word of the core table. Any word is valid: an unknown word is decoded as [`Way::Cores`].
    pub fn from_bits(bits: u64) -> Way {
        let ways = [Way::Team, Way::Nice, Way::Even, Way::Group, Way::Turns];
        ways.into_iter().find(|way| way.to_bits() == bits).unwrap_or_default()
    }

    /// Returns the name of the way, as `comity table` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Way::Cores => "cores",
            Way::Team => "team",
            Way::Nice => "nice",
            Way::Even => "even",
            Way::Group => "group",
            Way::Turns => "turns",
        }
    }

    /// True if the command stays out of the division of cores, whatever other programs do.
    pub(crate) fn is_apart(self) -> bool {
        matches!(self, Way::Team | Way::Nice)
    }
}
