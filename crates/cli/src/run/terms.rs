//! The parameters of a command's membership in the core table.

use comity_policy::Policy;
use comity_table::{ADOPTED, COMMAND, CoreSet, Own, Profile, this_program};

/// The parameters of a command's membership in the core table.
pub struct Terms {
    /// The first process of the command.
    pub process: u32,
    /// The start time of that process, in the kernel's units.
    pub start: u64,
    /// The value of [`MARK`](super::tree::MARK) in the environments of the command's processes. `None`: they have no
    /// mark, because the command was adopted.
    pub mark: Option<String>,
    /// The processes of an adopted command, each with its start time, that are members of the table themselves.
    pub left_out: Vec<(u32, u64)>,
    /// The command's name for other programs.
    pub name: String,
    /// The policy by which its coordinator decides.
    pub policy: Policy,
    /// The weight.
    pub weight: u32,
    /// True if the user has set the weight. Otherwise a later change of the nice value changes the weight.
    pub is_weight_chosen: bool,
    /// The nice value of the command's session before the command began. `None` if the command does not begin the
    /// session, or if the session is not a task group.
    pub session_nice: Option<i32>,
    /// The maximum number of cores that the user has set. `None` means no maximum.
    pub cores: Option<u32>,
    /// The number of cores that the affinity and the cgroup quota allow.
    pub most: u32,
    /// The affinity of the command.
    pub may_use: CoreSet,
}

impl Terms {
    /// Returns the profile with which the command joins the table.
    pub fn profile(&self) -> Profile {
        Profile {
            program: this_program(),
            name: self.name.clone(),
            policy: if self.mark.is_some() { COMMAND } else { ADOPTED }.to_owned(),
            weight: self.weight,
            workers: self.cap(),
            may_use: self.may_use,
            lend_after: self.policy.lend_after(),
        }
    }

    /// Returns the command's own values, which apply unless a request changes them.
    pub fn own(&self) -> Own {
        Own { weight: self.weight, cores: self.cores }
    }

    /// Returns the maximum number of cores that the command uses.
    pub fn cap(&self) -> u32 {
        self.cores.unwrap_or(self.most)
    }
}
