//! The terms on which a command takes part.

use comity_os::affinity;
use comity_os::cpu_clock::ThreadId;
use comity_policy::Policy;
use comity_table::{Own, Profile, this_program};

/// On what terms a command takes part.
pub struct Terms {
    /// The process that becomes the command.
    pub process: u32,
    /// When that began, as the kernel counts.
    pub start: u64,
    /// The value of [`MARK`](super::tree::MARK) in the environments of its processes.
    pub mark: String,
    /// What others call it.
    pub name: String,
    /// By which its coordinator decides.
    pub policy: Policy,
    /// How much it counts.
    pub weight: u32,
    /// True if the user has set the weight. Then the nice value does not change it.
    pub is_weight_chosen: bool,
    /// The nice value of the command's session before the command began, if the command begins the session and the
    /// session is a task group.
    pub session_nice: Option<i32>,
    /// The maximum number of cores that the command uses; `None`: no maximum.
    pub cores: Option<u32>,
    /// The most that it can use.
    pub most: u32,
}

impl Terms {
    /// How it introduces itself in the table.
    pub fn profile(&self) -> Profile {
        Profile {
            program: this_program(),
            name: self.name.clone(),
            policy: "run".to_owned(),
            weight: self.weight,
            workers: self.cap(),
            may_use: affinity::of(ThreadId::current()),
            lend_after: self.policy.lend_after(),
        }
    }

    /// What the command asks for itself, unless others ask for something else.
    pub fn own(&self) -> Own {
        Own { weight: self.weight, cores: self.cores }
    }

    /// The largest number of cores that the command uses.
    pub fn cap(&self) -> u32 {
        self.cores.unwrap_or(self.most)
    }
}
