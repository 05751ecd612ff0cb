//! Conversations of BWS, Algorithm 2 and §4: tables of events and the actions that the paper requires.

use comity_policy::definition::Pull;
use comity_policy::{Action, Event, Policy, Role, RunStatus, SleepRefusal, Thief, Victim, WakeReason, WorkerId};

const ME: WorkerId = WorkerId(0);
const PEER: WorkerId = WorkerId(1);
const STEAL: Action = Action::StealFrom(PEER);

fn bws(parameters: &str) -> Box<dyn Thief> {
    format!("bws{parameters}").parse::<Policy>().unwrap().thief(ME, 2, 1)
}

fn seen(role: Role, run_status: RunStatus, wakeups_owed: u32) -> Event {
    Event::Seen(Victim { id: PEER, role, run_status, wakeups_owed })
}

/// A failed steal from a poor, running victim that owes nothing: the simplest failure.
fn fail(thief: &mut dyn Thief) -> Action {
    assert_eq!(thief.next(Event::StealFailed(PEER)), Action::Inspect(PEER));
    thief.next(seen(Role::Poor, RunStatus::Running, 0))
}

/// Holds a conversation: sends each event and checks the answer.
fn converse(thief: &mut dyn Thief, conversation: &[(Event, Action)]) {
    for (step, (event, expected)) in conversation.iter().enumerate() {
        assert_eq!(thief.next(*event), *expected, "step {step}, after {event:?}");
    }
}

#[test]
fn lines_11_to_15_a_successful_steal_owes_two_wakeups_and_starts_at_once() {
    let mut thief = bws("");
    converse(
        &mut *thief,
        &[
            (Event::DequeEmpty { wakeups_owed: 0 }, STEAL),
            (Event::StealSucceeded(PEER), Action::Run { wakeups_owed: 2 }),
            // No thief claimed the two wake-ups. The worker owes them again, and the steal adds two. The counter has
            // no limit.
            (Event::DequeEmpty { wakeups_owed: 2 }, STEAL),
            (Event::StealSucceeded(PEER), Action::Run { wakeups_owed: 4 }),
            // Other thieves claimed three wake-ups meanwhile.
            (Event::DequeEmpty { wakeups_owed: 1 }, STEAL),
            (Event::Injected, Action::Run { wakeups_owed: 3 }),
        ],
    );
}

#[test]
fn lines_17_to_24_what_a_busy_victim_leads_to() {
    let inspect = Action::Inspect(PEER);
    let mut thief = bws("");
    converse(
        &mut *thief,
        &[
            (Event::DequeEmpty { wakeups_owed: 0 }, STEAL),
            // The victim is preempted: the thief yields to it, whether it owes wake-ups or not.
            (Event::StealFailed(PEER), inspect),
            (seen(Role::Poor, RunStatus::Preempted, 3), Action::YieldTo(PEER)),
            (Event::Yielded, STEAL),
            (Event::StealFailed(PEER), inspect),
            (seen(Role::Rich, RunStatus::Preempted, 0), Action::YieldTo(PEER)),
            (Event::Yielded, STEAL),
            // The victim is on its core and owes wake-ups: the thief takes over one of them.
            (Event::StealFailed(PEER), inspect),
            (seen(Role::Poor, RunStatus::Running, 3), Action::ClaimWakeup { from: PEER }),
            (Event::WakeupClaimed(Some(PEER)), STEAL),
            // Another thief claimed the wake-up first.
            (Event::StealFailed(PEER), inspect),
            (seen(Role::Poor, RunStatus::Running, 1), Action::ClaimWakeup { from: PEER }),
            (Event::WakeupClaimed(None), STEAL),
            // The thief claimed one wake-up in total, and the steal adds two.
            (Event::StealSucceeded(PEER), Action::Run { wakeups_owed: 3 }),
        ],
    );
}

#[test]
fn line_19_a_preempted_victim_comes_to_the_thiefs_core_and_stays_there() {
    let yields_to = |policy: &str| policy.parse::<Policy>().unwrap().yield_to();
    for like in ["bws", "bws-busy-wakes", "robinhood", "robinhood-u", "robinhood-s"] {
        // Robinhood's Algorithm 2, line 1: a thread stays on its NUMA node.
        let across_nodes = like != "robinhood";
        assert_eq!(yields_to(like), Some(Pull { across_nodes, changes_places: false }), "{like}");
        assert_eq!(yields_to(&format!("{like}:yield_to=plain")), None);
    }
    for other in ["abp", "wsgi", "comity:accelerate=yield"] {
        assert_eq!(yields_to(other), None, "{other}");
    }
}

#[test]
fn lines_27_to_30_a_sleeping_victim_is_woken_only_while_wakeups_are_owed() {
    let inspect = Action::Inspect(PEER);
    let asleep = seen(Role::Sleeper, RunStatus::Parked, 0);
    let wake = Action::Wake { sleeper: Some(PEER), appoint: false };
    let mut thief = bws("");
    converse(
        &mut *thief,
        &[
            (Event::DequeEmpty { wakeups_owed: 1 }, STEAL),
            (Event::StealFailed(PEER), inspect),
            (asleep, wake),
            // The sleeper was awake already: the wake-up is still owed.
            (Event::PeerWoken(None), STEAL),
            (Event::StealFailed(PEER), inspect),
            (asleep, wake),
            (Event::PeerWoken(Some(PEER)), STEAL),
            (Event::StealFailed(PEER), inspect),
            (asleep, STEAL),
            // The thief does not wake a thief that is awake.
            (Event::StealFailed(PEER), inspect),
            (seen(Role::Thief, RunStatus::Unknown, 0), STEAL),
        ],
    );
}

#[test]
fn line_34_sleep_when_the_counter_is_strictly_above_the_threshold() {
    for (parameters, threshold) in [("", 64), (":sleep_threshold=32", 32), (":sleep_threshold=4096", 4096)] {
        let mut thief = bws(parameters);
        thief.next(Event::DequeEmpty { wakeups_owed: 0 });
        for failure in 1..=threshold {
            assert_eq!(fail(&mut *thief), STEAL, "failure {failure} of {threshold}");
        }
        assert_eq!(fail(&mut *thief), Action::Sleep);
        // Line 39: the counter starts again after the sleep.
        assert_eq!(thief.next(Event::Woken(WakeReason::Peer)), STEAL);
        for _ in 1..=threshold {
            assert_eq!(fail(&mut *thief), STEAL);
        }
        assert_eq!(fail(&mut *thief), Action::Sleep);
    }
}

#[test]
fn line_32_every_failure_counts_the_yields_claims_and_wakeups_too() {
    let mut thief = bws(":sleep_threshold=3");
    converse(
        &mut *thief,
        &[
            (Event::DequeEmpty { wakeups_owed: 1 }, STEAL),
            (Event::StealFailed(PEER), Action::Inspect(PEER)),
            (seen(Role::Poor, RunStatus::Preempted, 0), Action::YieldTo(PEER)),
            (Event::Yielded, STEAL),
            (Event::StealFailed(PEER), Action::Inspect(PEER)),
            (seen(Role::Sleeper, RunStatus::Parked, 0), Action::Wake { sleeper: Some(PEER), appoint: false }),
            (Event::PeerWoken(Some(PEER)), STEAL),
            (Event::StealFailed(PEER), Action::Inspect(PEER)),
            (seen(Role::Poor, RunStatus::Running, 9), Action::ClaimWakeup { from: PEER }),
            (Event::WakeupClaimed(None), STEAL),
            (Event::StealFailed(PEER), Action::Inspect(PEER)),
            (seen(Role::Poor, RunStatus::Running, 0), Action::Sleep),
        ],
    );
}

#[test]
fn lines_35_to_39_an_owed_wakeup_is_cancelled_instead_of_sleeping() {
    let mut thief = bws(":sleep_threshold=2");
    thief.next(Event::DequeEmpty { wakeups_owed: 2 });
    for spell in 0..2 {
        for _ in 0..3 {
            assert_eq!(fail(&mut *thief), STEAL, "spell {spell}");
        }
    }
    assert_eq!((fail(&mut *thief), fail(&mut *thief), fail(&mut *thief)), (STEAL, STEAL, Action::Sleep));
}

#[test]
fn line_39_the_steal_counter_restarts_after_a_sleep_that_ends_because_a_task_can_continue() {
    let mut thief = bws(":sleep_threshold=1");
    for _ in 0..2 {
        thief.next(Event::DequeEmpty { wakeups_owed: 0 });
        assert_eq!((fail(&mut *thief), fail(&mut *thief)), (STEAL, Action::Sleep));
        assert_eq!(thief.next(Event::Resumed), Action::Run { wakeups_owed: 0 });
    }
}

#[test]
fn section_4_a_watchdog_wakes_peers_itself_and_appoints_the_first() {
    let mut thief = bws(":sleep_threshold=1");
    thief.next(Event::DequeEmpty { wakeups_owed: 0 });
    fail(&mut *thief);
    assert_eq!(fail(&mut *thief), Action::Sleep);
    let wake = |appoint| Action::Wake { sleeper: None, appoint };
    converse(
        &mut *thief,
        &[
            (Event::SleepRefused(SleepRefusal::YouAreWatchdog), STEAL),
            (Event::StealSucceeded(PEER), wake(true)),
            (Event::PeerWoken(Some(PEER)), wake(false)),
            (Event::PeerWoken(Some(PEER)), Action::Run { wakeups_owed: 0 }),
            // Afterwards the worker is a normal worker.
            (Event::DequeEmpty { wakeups_owed: 0 }, STEAL),
            (Event::StealSucceeded(PEER), Action::Run { wakeups_owed: 2 }),
        ],
    );
}

#[test]
fn section_4_an_appointed_watchdog_hands_over_when_its_wait_ends() {
    let mut thief = bws("");
    let appoint = Action::Wake { sleeper: None, appoint: true };
    converse(
        &mut *thief,
        &[
            (Event::Woken(WakeReason::Appointed), STEAL),
            (Event::Resumed, appoint),
            // No worker sleeps: the post stays vacant and nothing is owed.
            (Event::PeerWoken(None), Action::Run { wakeups_owed: 0 }),
            (Event::DequeEmpty { wakeups_owed: 0 }, STEAL),
            (Event::Resumed, Action::Run { wakeups_owed: 0 }),
        ],
    );
}

#[test]
fn a_searching_watchdog_pays_owed_wakeups_like_any_thief() {
    let mut thief = bws("");
    converse(
        &mut *thief,
        &[
            (Event::Woken(WakeReason::Appointed), STEAL),
            (Event::StealFailed(PEER), Action::Inspect(PEER)),
            (seen(Role::Poor, RunStatus::Running, 1), Action::ClaimWakeup { from: PEER }),
            (Event::WakeupClaimed(Some(PEER)), STEAL),
            (Event::StealFailed(PEER), Action::Inspect(PEER)),
            (seen(Role::Sleeper, RunStatus::Parked, 0), Action::Wake { sleeper: Some(PEER), appoint: false }),
            // The watchdog continues to search: it has no task yet.
            (Event::PeerWoken(Some(PEER)), STEAL),
        ],
    );
}

#[test]
fn a_watchdog_that_was_put_to_sleep_is_one_no_longer() {
    let mut thief = bws("");
    converse(
        &mut *thief,
        &[
            (Event::Woken(WakeReason::Appointed), STEAL),
            (Event::Woken(WakeReason::Injected), STEAL),
            (Event::Injected, Action::Run { wakeups_owed: 2 }),
        ],
    );
}
