//! The scenarios: the programs that run together, and the events during the run. To add a scenario, add an entry to
//! [`SCENARIOS`].
//!
//! In every scenario, at least one program can use all cores all the time. Therefore the idle time of cores is time
//! that the program could have used.

use std::path::PathBuf;

use comity_console::Failure;

use super::role::Role;
use crate::beside;

/// A scenario: programs that run together.
pub struct Scenario {
    /// The name, as in `--scenario`.
    pub name: &'static str,
    /// A description for people, in one line.
    pub what: &'static str,
    /// The programs, in the order in which they start.
    pub members: &'static [Member],
    /// The events, in the order in which they happen.
    pub events: &'static [Event],
}

/// A program that takes part in a scenario.
pub struct Member {
    /// The program that the member runs.
    pub program: Program,
    /// The number of cores that the member's control group grants. `None` for a member without a control group.
    pub quota: Option<f64>,
}

/// A program that a member runs.
pub enum Program {
    /// Only joins, with two workers per core.
    Fib,
    /// Tasks that sleep for 1 ms and then work.
    Sleepers {
        /// Steps of work, about 1 ns each.
        spins: u32,
        /// Workers per core.
        per_core: usize,
    },
    /// A wavefront: tasks that wait for each other on condition variables, with two tasks and two workers per core.
    Wavefront,
    /// A command of `comity run`, for the shell.
    Command(&'static str),
    /// A program of this bench.
    Role(Role),
}

/// An event that changes a member during the run.
pub struct Event {
    /// The time of the event, as a fraction of the measured time.
    pub after: f64,
    /// The index of the member that the event changes.
    pub to: usize,
    /// The action on the member.
    pub act: Act,
}

/// An action on a member.
#[derive(Clone, Copy)]
pub enum Act {
    /// Stops the member (SIGSTOP).
    Stop,
    /// Continues the member (SIGCONT).
    GoOn,
    /// Changes the number of cores that the member's control group grants.
    Grant(f64),
}

impl Scenario {
    /// True if the scenario needs a control group.
    pub fn has_quota(&self) -> bool {
        self.members.iter().any(|member| member.quota.is_some())
    }
}

impl Program {
    /// Returns the command to start, and its words.
    pub fn command(&self, cores: usize) -> Result<(PathBuf, Vec<String>), Failure> {
        let own =
            |words: &[&str]| (PathBuf::from("/proc/self/exe"), words.iter().map(|word| (*word).to_owned()).collect());
        let kernel = |kernel: &str, workers: usize| {
            own(&["kernel", kernel, "--rounds", "1000000", "--workers", &workers.to_string()])
        };
        Ok(match self {
            Program::Wavefront => kernel(&format!("wavefront:tasks={}", 2 * cores), 2 * cores),
            Program::Fib => kernel("fib:n=38", 2 * cores),
            Program::Sleepers { spins, per_core } => {
                kernel(&format!("io:tasks=1000000000,sleep_us=1000,spins={spins}"), per_core * cores)
            }
            Program::Command(text) => (beside::comity()?, ["run", "sh", "-c", text].map(str::to_owned).to_vec()),
            Program::Role(role) => own(&["bench", "use", "--role", role.name()]),
        })
    }

    /// Returns the program's name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Fib => "fib",
            Program::Wavefront => "wavefront",
            Program::Sleepers { .. } => "sleepers",
            Program::Command(LOOKS_IN) => "looks in",
            Program::Command(BURNERS) => "burners",
            Program::Command(_) => "pipeline",
            Program::Role(role) => role.name(),
        }
    }
}

/// A shell that wakes every 5 ms.
const LOOKS_IN: &str = "while :; do sleep 0.005; done";

/// Four processes that always compute, until their shell has ended.
const BURNERS: &str = "for i in 1 2 3 4; do while kill -0 $$; do :; done 2>/dev/null & done; wait";

/// Three processes that pass data through pipes, until their shell has ended.
const PIPELINE: &str = "while kill -0 $$; do yes | head -c 50000000; done 2>/dev/null | tr y x | wc -c";

const fn of(program: Program) -> Member {
    Member { program, quota: None }
}

const fn with_quota(program: Program, cores: f64) -> Member {
    Member { program, quota: Some(cores) }
}

/// Tasks of 1 ms of sleep and 10 µs of work.
const SLEEPERS: Program = Program::Sleepers { spins: 9_000, per_core: 8 };

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "sleepers",
        what: "tasks that sleep 1 ms and work 10 µs, on 8 workers per core; and fib",
        members: &[of(SLEEPERS), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "sleepers-work",
        what: "tasks that sleep 1 ms and work 200 µs, on 2 workers per core; and fib",
        members: &[of(Program::Sleepers { spins: 180_000, per_core: 2 }), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "looks-in",
        what: "`comity run` of a shell that sleeps 5 ms again and again; and fib",
        members: &[of(Program::Command(LOOKS_IN)), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "quota",
        what: "fib with a quota of half a core; and fib",
        members: &[with_quota(Program::Fib, 0.5), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "quota-run",
        what: "`comity run` of four processes that compute, with a quota of half a core; and another without a quota",
        members: &[with_quota(Program::Command(BURNERS), 0.5), of(Program::Command(BURNERS))],
        events: &[],
    },
    Scenario { name: "compute", what: "fib and fib", members: &[of(Program::Fib), of(Program::Fib)], events: &[] },
    Scenario {
        name: "three",
        what: "two fib, and tasks that sleep",
        members: &[of(Program::Fib), of(SLEEPERS), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "four",
        what: "two fib, tasks that sleep, and a shell that sleeps 5 ms again and again",
        members: &[of(Program::Fib), of(SLEEPERS), of(Program::Command(LOOKS_IN)), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "server",
        what: "bursts of parallel work with 30 ms of idle time between them; and fib",
        members: &[of(Program::Role(Role::Server)), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "pipeline",
        what: "`comity run` of three commands with pipes between them; and fib",
        members: &[of(Program::Command(PIPELINE)), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "pipe",
        what: "tasks that block on a pipe; and the program that fills it",
        members: &[of(Program::Role(Role::Reader)), of(Program::Role(Role::Writer))],
        events: &[],
    },
    Scenario {
        name: "waits",
        what: "tasks that wait for each other on condition variables; and fib",
        members: &[of(Program::Wavefront), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "steps",
        what: "a pool for each step, whose tasks meet at barriers; and fib",
        members: &[of(Program::Role(Role::Steps)), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "phases",
        what: "2 ms of work outside the pool between two parallel phases; and fib",
        members: &[of(Program::Role(Role::Phases)), of(Program::Fib)],
        events: &[],
    },
    Scenario {
        name: "stopped",
        what: "fib; and fib that is stopped for the second third of the time",
        members: &[of(Program::Fib), of(Program::Fib)],
        events: &[Event { after: 1.0 / 3.0, to: 1, act: Act::Stop }, Event { after: 2.0 / 3.0, to: 1, act: Act::GoOn }],
    },
    Scenario {
        name: "quota-changes",
        what: "fib with a quota of half a core, and of one and a half from the middle on; and fib",
        members: &[with_quota(Program::Fib, 0.5), of(Program::Fib)],
        events: &[Event { after: 0.5, to: 0, act: Act::Grant(1.5) }],
    },
];
