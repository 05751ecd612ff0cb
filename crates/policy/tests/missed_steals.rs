//! Tests that policies that count failures do not count a missed steal, because the victim has tasks.

use comity_policy::{Action, Event, Policy, Role, RunStatus, Victim, WorkerId};

#[test]
fn a_policy_that_counts_failures_does_not_count_a_missed_steal() {
    for name in [
        "plain",
        "delay-yield",
        "selective-yield",
        "bws",
        "bws-busy-wakes",
        "robinhood",
        "robinhood-s",
        "wsgi",
        "dws",
        "dws-nc",
    ] {
        let mut thief = name.parse::<Policy>().unwrap().thief(WorkerId(0), 3, 1);
        let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
        for nth in 0..10_000 {
            let Action::StealFrom(victim) = action else { panic!("{name}: {action:?} after {nth} missed steals") };
            action = thief.next(Event::StealMissed(victim));
            // BWS inspects the victim nevertheless (Algorithm 2, lines 17 to 31).
            if let Action::Inspect(missed) = action {
                assert!(["bws", "robinhood", "robinhood-s"].contains(&name) && missed == victim, "{name}");
                let (role, run_status) = (Role::Rich, RunStatus::Running);
                action = thief.next(Event::Seen(Victim { id: victim, role, run_status, wakeups_owed: 0 }));
            }
        }
    }
}

/// These policies treat every attempt alike: they yield, mug or pause between two attempts, or after a round.
#[test]
fn all_other_policies_take_a_missed_steal_as_a_failed_one() {
    for policy in Policy::all() {
        let name = policy.name();
        if !["comity", "abp", "abp-eq", "abp-mug", "a-steal", "equipartition", "ws-last"].contains(&name) {
            continue;
        }
        let [mut missed, mut failed] = [(); 2].map(|()| policy.thief(WorkerId(0), 3, 1));
        let begins = Event::DequeEmpty { wakeups_owed: 0 };
        let (mut action, mut expected) = (missed.next(begins), failed.next(begins));
        for _ in 0..100 {
            assert_eq!(action, expected, "{name}");
            let [event, as_failed] = match action {
                Action::StealFrom(victim) => [Event::StealMissed(victim), Event::StealFailed(victim)],
                Action::Mug => [Event::NothingToMug; 2],
                Action::Pause { .. } => [Event::Paused { any_busy: true, core_is_wanted: false }; 2],
                _ => [Event::Yielded; 2],
            };
            (action, expected) = (missed.next(event), failed.next(as_failed));
        }
    }
}

/// Tests that the thief yields to a victim that does not answer a request for tasks, because the victim may be off its
/// core. The thief counts no failure.
#[test]
fn bws_yields_to_a_preempted_victim_that_does_not_answer() {
    let mut thief = "bws:sleep_threshold=1".parse::<Policy>().unwrap().thief(WorkerId(0), 2, 1);
    let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
    for _ in 0..100 {
        let Action::StealFrom(id) = action else { panic!("{action:?}") };
        assert_eq!(thief.next(Event::StealMissed(id)), Action::Inspect(id));
        let (role, run_status) = (Role::Rich, RunStatus::Preempted);
        assert_eq!(thief.next(Event::Seen(Victim { id, role, run_status, wakeups_owed: 0 })), Action::YieldTo(id));
        action = thief.next(Event::Yielded);
    }
}
