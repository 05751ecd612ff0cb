//! Conversations of Robinhood's Algorithm 1: tables of events and the actions that the paper requires.

use comity_policy::{Action, Event, Level, Policy, Role, RunStatus, SleepRefusal, Thief, Victim, WakeReason, WorkerId};

const ME: WorkerId = WorkerId(0);
const PEER: WorkerId = WorkerId(1);
const STEAL: Action = Action::StealFrom(PEER);
const INSPECT: Action = Action::Inspect(PEER);
const THREAD: Action = Action::Accelerate { candidate: PEER, level: Level::Thread };
const VCPU: Action = Action::Accelerate { candidate: PEER, level: Level::Vcpu };
const POLICIES: [&str; 3] = ["robinhood", "robinhood-u", "robinhood-s"];

fn thief(policy: &str) -> Box<dyn Thief> {
    let mut thief = policy.parse::<Policy>().unwrap().thief(ME, 2, 1);
    assert_eq!(thief.next(Event::DequeEmpty { wakeups_owed: 0 }), STEAL);
    thief
}

fn seen(role: Role, run_status: RunStatus, wakeups_owed: u32) -> Event {
    Event::Seen(Victim { id: PEER, role, run_status, wakeups_owed })
}

/// Holds a conversation: sends each event and checks the answer.
fn converse(thief: &mut dyn Thief, conversation: &[(Event, Action)]) {
    for (step, (event, expected)) in conversation.iter().enumerate() {
        assert_eq!(thief.next(*event), *expected, "step {step}, after {event:?}");
    }
}

#[test]
fn lines_1_to_5_a_preempted_poor_victims_thread_is_accelerated() {
    for policy in ["robinhood", "robinhood-u"] {
        converse(
            &mut *thief(policy),
            &[
                (Event::StealFailed(PEER), INSPECT),
                // The wake-ups that the victim owes do not matter.
                (seen(Role::Poor, RunStatus::Preempted, 3), THREAD),
                (Event::Accelerated(PEER), STEAL),
                // Refused: the thief continues (Algorithm 2, line 19), and does not claim a wake-up as in BWS.
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Poor, RunStatus::Preempted, 3), THREAD),
                (Event::AccelerationRefused(PEER), STEAL),
            ],
        );
    }
}

#[test]
fn the_variant_s_yields_to_a_preempted_poor_victim_as_bws_does() {
    converse(
        &mut *thief("robinhood-s"),
        &[
            (Event::StealFailed(PEER), INSPECT),
            (seen(Role::Poor, RunStatus::Preempted, 3), Action::YieldTo(PEER)),
            (Event::Yielded, STEAL),
        ],
    );
}

#[test]
fn lines_6_and_7_a_running_poor_victims_virtual_cpu_is_accelerated() {
    for policy in POLICIES {
        converse(
            &mut *thief(policy),
            &[
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Poor, RunStatus::Running, 0), VCPU),
                (Event::Accelerated(PEER), STEAL),
                // Refused, as on every host without a Robinhood hypervisor: the thief continues as under BWS.
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Poor, RunStatus::Running, 0), VCPU),
                (Event::AccelerationRefused(PEER), STEAL),
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Poor, RunStatus::Running, 1), VCPU),
                (Event::AccelerationRefused(PEER), Action::ClaimWakeup { from: PEER }),
                (Event::WakeupClaimed(Some(PEER)), STEAL),
                (Event::StealSucceeded(PEER), Action::Run { wakeups_owed: 3 }),
            ],
        );
    }
}

#[test]
fn lines_9_to_11_a_victim_without_a_task_is_bwss_business() {
    for policy in POLICIES {
        converse(
            &mut *thief(policy),
            &[
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Thief, RunStatus::Unknown, 0), STEAL),
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Sleeper, RunStatus::Parked, 0), STEAL),
            ],
        );
    }
}

#[test]
fn section_2_1_a_victim_that_is_rich_by_now_is_not_poor() {
    for policy in POLICIES {
        converse(
            &mut *thief(policy),
            &[
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Rich, RunStatus::Preempted, 0), Action::YieldTo(PEER)),
                (Event::Yielded, STEAL),
                (Event::StealFailed(PEER), INSPECT),
                (seen(Role::Rich, RunStatus::Running, 0), STEAL),
            ],
        );
    }
}

#[test]
fn section_4_2_a_missed_lock_accelerates_nothing_and_counts_nothing() {
    for policy in POLICIES {
        let mut thief = thief(&format!("{policy}:sleep_threshold=1"));
        for _ in 0..100 {
            for (role, run_status) in [(Role::Poor, RunStatus::Running), (Role::Rich, RunStatus::Running)] {
                converse(&mut *thief, &[(Event::StealMissed(PEER), INSPECT), (seen(role, run_status, 0), STEAL)]);
            }
            let preempted = seen(Role::Poor, RunStatus::Preempted, 0);
            let as_bws = Action::YieldTo(PEER);
            converse(&mut *thief, &[(Event::StealMissed(PEER), INSPECT), (preempted, as_bws), (Event::Yielded, STEAL)]);
        }
    }
}

#[test]
fn an_acceleration_counts_as_a_failure_granted_or_not() {
    for (run_status, action) in [(RunStatus::Preempted, THREAD), (RunStatus::Running, VCPU)] {
        for answer in [Event::Accelerated(PEER), Event::AccelerationRefused(PEER)] {
            let mut thief = thief("robinhood:sleep_threshold=3");
            for expected in [STEAL, STEAL, STEAL, Action::Sleep] {
                converse(
                    &mut *thief,
                    &[
                        (Event::StealFailed(PEER), INSPECT),
                        (seen(Role::Poor, run_status, 0), action),
                        (answer, expected),
                    ],
                );
            }
        }
    }
}

/// Tests that an event in place of an answer is not taken for the answer: it concerns another victim, or no victim.
#[test]
fn a_wake_up_in_place_of_an_answer_leaves_nothing_behind() {
    let mut thief = thief("robinhood");
    converse(
        &mut *thief,
        &[
            (Event::StealFailed(PEER), INSPECT),
            (seen(Role::Poor, RunStatus::Running, 5), VCPU),
            (Event::Woken(WakeReason::Peer), STEAL),
            (Event::StealFailed(PEER), INSPECT),
            (seen(Role::Poor, RunStatus::Preempted, 5), THREAD),
            // The thief does not claim a wake-up from the victim that was running.
            (Event::AccelerationRefused(PEER), STEAL),
        ],
    );
}

/// Every acceleration of a virtual CPU is refused, as on a host without a Robinhood hypervisor.
#[test]
fn without_a_hypervisor_the_variant_s_answers_as_bws_does() {
    let [mut variant, mut bws] = ["robinhood-s", "bws"].map(|policy| policy.parse::<Policy>().unwrap().thief(ME, 4, 7));
    let mut events = vec![Event::DequeEmpty { wakeups_owed: 0 }];
    let mut random = 1_u32;
    let mut below = |n: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % n
    };
    for _ in 0..100_000 {
        let event = events.pop().unwrap();
        let expected = bws.next(event);
        let mut action = variant.next(event);
        if let Action::Accelerate { candidate, level } = action {
            assert_eq!(level, Level::Vcpu);
            action = variant.next(Event::AccelerationRefused(candidate));
        }
        assert_eq!(action, expected, "after {event:?}");
        events.push(match action {
            Action::StealFrom(victim) => match below(8) {
                0 => Event::StealSucceeded(victim),
                1 => Event::StealMissed(victim),
                _ => Event::StealFailed(victim),
            },
            Action::Inspect(id) => {
                let role = [Role::Rich, Role::Poor, Role::Thief, Role::Sleeper][below(4) as usize];
                let run_status = [RunStatus::Running, RunStatus::Preempted, RunStatus::Unknown][below(3) as usize];
                Event::Seen(Victim { id, role, run_status, wakeups_owed: below(3) })
            }
            Action::YieldTo(_) => Event::Yielded,
            Action::ClaimWakeup { from } => Event::WakeupClaimed((below(2) == 0).then_some(from)),
            Action::Wake { sleeper, .. } => Event::PeerWoken(sleeper.filter(|_| below(2) == 0)),
            Action::Sleep if below(4) == 0 => Event::SleepRefused(SleepRefusal::YouAreWatchdog),
            Action::Sleep => Event::Woken(WakeReason::Peer),
            Action::Run { wakeups_owed } => Event::DequeEmpty { wakeups_owed },
            action => panic!("{action:?}"),
        });
    }
}
