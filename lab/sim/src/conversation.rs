//! Recordings of conversations with thieves, and their replay. A conversation consists of the events that a thief
//! received and the actions with which it answered.
//!
//! A thief is a pure state machine. A new thief with the same policy, worker number and seed that receives the same
//! events answers with the same actions. A replay therefore shows whether a policy still behaves as in the recording.

use std::collections::BTreeMap;

use comity_policy::{Action, Event, Level, Policy, Role, RunStatus, SleepRefusal, Thief, Victim, WakeReason, WorkerId};
use serde::{Deserialize, Serialize};

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "line")]
pub enum Line {
    /// A new thief. It replaces any earlier thief of the same program and worker.
    Thief {
        /// The program's number.
        program: u32,
        /// The worker's number.
        worker: u32,
        /// The policy, in the form that [`Policy`] parses.
        policy: String,
        /// The number of workers of the program.
        workers: u32,
        /// The seed of the thief's random choices.
        seed: u64,
    },
    /// A thief received an event and answered with an action.
    Turn {
        /// The program's number.
        program: u32,
        /// The worker's number.
        worker: u32,
        /// The event that the thief received.
        #[serde(with = "EventText")]
        event: Event,
        /// The action with which the thief answered.
        #[serde(with = "ActionText")]
        action: Action,
    },
}

/// Replays the conversations of a recording. Returns the number of turns ([`Line::Turn`]).
///
/// # Errors
/// If a thief now answers an event differently, a message with the number of the first such turn, counted from 1, and
/// both answers. If the recording is invalid, a message with the reason.
pub fn replay(lines: impl IntoIterator<Item = Line>) -> Result<u64, String> {
    let mut thieves: BTreeMap<(u32, u32), Box<dyn Thief>> = BTreeMap::new();
    let mut turns = 0;
    for line in lines {
        match line {
            Line::Thief { program, worker, policy, workers, seed } => {
                let policy: Policy = policy.parse().map_err(|error| format!("{error}"))?;
                if worker >= workers {
                    return Err(format!("worker {worker} is not one of {workers} workers"));
                }
                thieves.insert((program, worker), policy.thief(WorkerId(worker), workers, seed));
            }
            Line::Turn { program, worker, event, action } => {
                turns += 1;
                let thief = thieves.get_mut(&(program, worker));
                let thief =
                    thief.ok_or_else(|| format!("turn {turns}: worker {worker} of program {program} has no thief"))?;
                let now = thief.next(event);
                if now != action {
                    return Err(format!(
                        "turn {turns}: worker {worker} of program {program} answers {event:?} with {now:?}, but \
                         the recorded answer is {action:?}"
                    ));
                }
            }
        }
    }
    Ok(turns)
}

// Serialized forms of the types of `comity-policy`, which has no dependencies and so cannot derive them itself.

#[derive(Serialize, Deserialize)]
#[serde(remote = "WorkerId")]
struct WorkerIdText(u32);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Event", rename_all = "kebab-case")]
enum EventText {
    DequeEmpty {
        wakeups_owed: u32,
    },
    StealFailed(#[serde(with = "WorkerIdText")] WorkerId),
    StealMissed(#[serde(with = "WorkerIdText")] WorkerId),
    StealSucceeded(#[serde(with = "WorkerIdText")] WorkerId),
    Injected,
    Resumed,
    Seen(#[serde(with = "VictimText")] Victim),
    Counted {
        busy: u32,
        thieves: u32,
        sleepers: u32,
    },
    Mugged(#[serde(with = "WorkerIdText")] WorkerId),
    NothingToMug,
    Yielded,
    Accelerated(#[serde(with = "WorkerIdText")] WorkerId),
    AccelerationRefused(#[serde(with = "WorkerIdText")] WorkerId),
    Paused {
        #[serde(alias = "anyone_busy")]
        any_busy: bool,
        core_is_wanted: bool,
    },
    WakeupClaimed(#[serde(with = "optional")] Option<WorkerId>),
    PeerWoken(#[serde(with = "optional")] Option<WorkerId>),
    SleepRefused(#[serde(with = "SleepRefusalText")] SleepRefusal),
    Woken(#[serde(with = "WakeReasonText")] WakeReason),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Action", rename_all = "kebab-case")]
enum ActionText {
    StealFrom(#[serde(with = "WorkerIdText")] WorkerId),
    Mug,
    Inspect(#[serde(with = "WorkerIdText")] WorkerId),
    Count,
    YieldTo(#[serde(with = "WorkerIdText")] WorkerId),
    YieldCore,
    Accelerate {
        #[serde(with = "WorkerIdText", alias = "who")]
        candidate: WorkerId,
        #[serde(with = "LevelText")]
        level: Level,
    },
    Pause {
        hints: u32,
    },
    ClaimWakeup {
        #[serde(with = "WorkerIdText")]
        from: WorkerId,
    },
    Wake {
        #[serde(with = "optional", alias = "whom")]
        sleeper: Option<WorkerId>,
        appoint: bool,
    },
    Sleep,
    Doze {
        us: u32,
    },
    Run {
        wakeups_owed: u32,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Level", rename_all = "kebab-case")]
enum LevelText {
    Thread,
    Vcpu,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Victim")]
struct VictimText {
    #[serde(with = "WorkerIdText")]
    id: WorkerId,
    #[serde(with = "RoleText")]
    role: Role,
    #[serde(with = "RunStatusText")]
    run_status: RunStatus,
    wakeups_owed: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Role", rename_all = "kebab-case")]
enum RoleText {
    Rich,
    Poor,
    Thief,
    Sleeper,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RunStatus", rename_all = "kebab-case")]
enum RunStatusText {
    Running,
    Preempted,
    Parked,
    Unknown,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SleepRefusal", rename_all = "kebab-case")]
enum SleepRefusalText {
    WorkArrived,
    YouAreWatchdog,
    Alone,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WakeReason", rename_all = "kebab-case")]
enum WakeReasonText {
    Peer,
    Appointed,
    Injected,
    Coordinator,
    Timeout,
}

mod optional {
    use comity_policy::WorkerId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(worker: &Option<WorkerId>, to: S) -> Result<S::Ok, S::Error> {
        worker.map(|worker| worker.0).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<WorkerId>, D::Error> {
        Ok(Option::<u32>::deserialize(from)?.map(WorkerId))
    }
}
