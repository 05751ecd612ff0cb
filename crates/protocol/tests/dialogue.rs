//! Tests of the behavior that the dialogue adds to a policy, as a driver sees it.

use std::cell::Cell;

use comity_policy::{Action, Event, Thief, WakeReason, WorkerId};
use comity_protocol::activation::Retirement;
use comity_protocol::dialogue::{Dialogue, Effect, Outcome, Surroundings, Take};
use comity_protocol::sleep::{Admission, Parking, Woken};

/// A policy that never steals.
struct Pauses;

impl Thief for Pauses {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected => Action::Run { wakeups_owed: 0 },
            _ => Action::Pause { hints: 1 },
        }
    }
}

/// A pool of three workers, one of which is always busy. While `excess` is true, too many workers are awake, and the
/// thief rests for a moment.
#[derive(Default)]
struct Around {
    excess: Cell<bool>,
    rests: Cell<u32>,
    /// True if a thief that found no task also looks for tasks from outside.
    takes_from_outside: bool,
    asleep: Cell<bool>,
    /// True if the pool keeps a core when the worker falls asleep.
    keeps_core: Cell<bool>,
    /// The number of times that the worker has looked at that core.
    looks_at_core: Cell<u32>,
    /// A wake-up at the moment at which a doze ends.
    woken_meanwhile: Cell<Option<WakeReason>>,
}

impl Surroundings for Around {
    fn workers(&self) -> u32 {
        3
    }

    fn any_busy(&self) -> bool {
        true
    }

    fn next_without_core(&self, _: WorkerId, _: Option<WorkerId>) -> Option<WorkerId> {
        None
    }

    fn takes_from_outside(&self) -> bool {
        self.takes_from_outside
    }

    fn has_excess(&self, _: WorkerId) -> bool {
        self.excess.take()
    }

    fn retire(&self, _: WorkerId, _: Retirement) -> bool {
        self.rests.set(self.rests.get() + 1);
        true
    }

    fn pass_on(&self, _: WorkerId) {}

    fn announce(&self, _: WorkerId) {
        self.asleep.set(true);
    }

    fn admit(&self, _: WorkerId) -> Admission {
        Admission::Park(None)
    }

    fn park(&self, _: WorkerId) -> Parking {
        match self.asleep.get() {
            true => Parking::Waits { at_rest: 1, looks_again: true },
            false => Parking::Over(Woken::For(WakeReason::Coordinator)),
        }
    }

    fn is_asleep(&self, _: WorkerId) -> bool {
        self.asleep.get()
    }

    fn fell_asleep(&self, _: WorkerId) -> bool {
        self.keeps_core.get()
    }

    fn look_at_kept_core(&self, _: WorkerId) {
        self.looks_at_core.set(self.looks_at_core.get() + 1);
    }

    fn retract(&self, _: WorkerId) -> Option<Woken> {
        self.asleep.set(false);
        self.woken_meanwhile.take().map(Woken::For)
    }
}

/// Worker 1 of three, a thief that finds no task.
struct Spell<'a> {
    dialogue: Dialogue,
    around: &'a Around,
    outcome: Outcome,
}

impl<'a> Spell<'a> {
    fn begin(around: &'a Around) -> Self {
        Spell { dialogue: Dialogue::begin(WorkerId(1), 0, around), around, outcome: Outcome::Done }
    }

    /// Returns how often the thief pauses until the next effect that takes time and is no pause, and that effect. In
    /// pause number `excess_in`, the pool gets one awake worker too many.
    fn pauses(&mut self, excess_in: Option<u32>) -> (u32, Effect) {
        for pauses in 0..10_000 {
            let mut effect = self.dialogue.next(&mut Pauses, self.around, self.outcome);
            while let Effect::Step(_) = effect {
                effect = self.dialogue.next(&mut Pauses, self.around, Outcome::Done);
            }
            match effect {
                Effect::Pause { .. } => self.outcome = Outcome::Done,
                _ => {
                    self.outcome = Outcome::Took(Take::Nothing);
                    return (pauses, effect);
                }
            }
            self.around.excess.set(excess_in == Some(pauses + 1));
        }
        unreachable!("a policy that never steals is swept for")
    }
}

/// Asserts that a sweep follows 4096 events: an attempt to steal from each other worker, and one to take a task from
/// outside.
fn is_swept_after(pauses: u32, spell: &mut Spell, excess_in: Option<u32>) {
    assert_eq!(spell.pauses(excess_in), (pauses, Effect::StealFrom(WorkerId(0))));
    assert_eq!(spell.pauses(None), (0, Effect::TakeInjected));
    assert_eq!(spell.pauses(None), (0, Effect::StealFrom(WorkerId(2))));
}

#[test]
fn a_policy_that_never_steals_is_swept_for_again_and_again() {
    let around = Around::default();
    let mut spell = Spell::begin(&around);
    for _ in 0..3 {
        is_swept_after(4096, &mut spell, None);
    }
    assert_eq!(around.rests.get(), 0);
}

/// Tests a sweep that is due after a pause, when the thief retires instead. After the rest, the policy pauses once
/// more before the sweep.
#[test]
fn a_rest_in_the_place_of_a_sweep_puts_it_off_and_loses_none() {
    let around = Around::default();
    let mut spell = Spell::begin(&around);
    is_swept_after(4097, &mut spell, Some(4096));
    assert_eq!(around.rests.get(), 1);
    is_swept_after(4096, &mut spell, None);
}

/// A policy that dozes once, then sleeps, and keeps the events that it gets.
#[derive(Default)]
struct Dozes {
    told: Vec<Event>,
}

impl Thief for Dozes {
    fn next(&mut self, event: Event) -> Action {
        self.told.push(event);
        if self.told.len() == 1 { Action::Doze { us: 700 } } else { Action::Sleep }
    }
}

/// Returns the next effect that takes time.
fn next(dialogue: &mut Dialogue, thief: &mut dyn Thief, around: &Around, mut outcome: Outcome) -> Effect {
    loop {
        match dialogue.next(thief, around, outcome) {
            Effect::Step(_) => outcome = Outcome::Done,
            effect => return effect,
        }
    }
}

#[test]
fn a_doze_ends_with_its_time_or_with_a_wake_up_that_was_faster_and_a_sleep_does_not() {
    for (meanwhile, reason) in [(None, WakeReason::Timeout), (Some(WakeReason::Peer), WakeReason::Peer)] {
        let (around, mut thief) = (Around::default(), Dozes::default());
        around.woken_meanwhile.set(meanwhile);
        let mut dialogue = Dialogue::begin(WorkerId(1), 0, &around);
        let Effect::Wait { timeout: Some(_), .. } = next(&mut dialogue, &mut thief, &around, Outcome::Done) else {
            panic!("it dozes")
        };
        let waited = Outcome::Waited { has_timeout: true };
        let Effect::Wait { timeout: None, .. } = next(&mut dialogue, &mut thief, &around, waited) else {
            panic!("it sleeps until it is woken")
        };
        assert_eq!(thief.told, [Event::DequeEmpty { wakeups_owed: 0 }, Event::Woken(reason)]);
    }
}

struct Sleeps;

impl Thief for Sleeps {
    fn next(&mut self, _: Event) -> Action {
        Action::Sleep
    }
}

#[test]
fn a_sleeper_looks_once_at_the_core_that_its_pool_kept_and_sleeps_on() {
    let around = Around::default();
    let mut dialogue = Dialogue::begin(WorkerId(1), 0, &around);
    // If no core is kept, the worker sleeps until it is woken.
    let effect = next(&mut dialogue, &mut Sleeps, &around, Outcome::Done);
    assert!(matches!(effect, Effect::Wait { timeout: None, .. }), "{effect:?}");
    around.keeps_core.set(true);
    around.asleep.set(false);
    let effect = next(&mut dialogue, &mut Sleeps, &around, Outcome::Waited { has_timeout: false });
    assert!(matches!(effect, Effect::Wait { timeout: Some(_), .. }), "{effect:?}");
    for has_timeout in [true, false] {
        let effect = next(&mut dialogue, &mut Sleeps, &around, Outcome::Waited { has_timeout });
        assert!(matches!(effect, Effect::Wait { timeout: None, .. }), "{effect:?}");
        assert_eq!(around.looks_at_core.get(), 1);
    }
    // A worker that was woken before the timeout does not look at the kept core.
    around.asleep.set(false);
    let effect = next(&mut dialogue, &mut Sleeps, &around, Outcome::Waited { has_timeout: false });
    assert!(matches!(effect, Effect::Wait { timeout: Some(_), .. }), "{effect:?}");
    around.asleep.set(false);
    next(&mut dialogue, &mut Sleeps, &around, Outcome::Waited { has_timeout: true });
    assert_eq!(around.looks_at_core.get(), 1);
}

/// A policy that steals from worker 0 again and again, and keeps the events that it gets.
#[derive(Default)]
struct Steals {
    told: Vec<Event>,
}

impl Thief for Steals {
    fn next(&mut self, event: Event) -> Action {
        self.told.push(event);
        Action::StealFrom(WorkerId(0))
    }
}

#[test]
fn a_thief_that_got_no_task_is_told_whether_the_victim_had_one() {
    for takes_from_outside in [false, true] {
        for (outcome, event) in [
            (Outcome::Took(Take::Missed), Event::StealMissed(WorkerId(0))),
            (Outcome::Took(Take::Nothing), Event::StealFailed(WorkerId(0))),
        ] {
            let (around, mut thief) = (Around { takes_from_outside, ..Around::default() }, Steals::default());
            let mut dialogue = Dialogue::begin(WorkerId(1), 0, &around);
            next(&mut dialogue, &mut thief, &around, Outcome::Done);
            let effect = next(&mut dialogue, &mut thief, &around, outcome);
            if takes_from_outside {
                assert_eq!(effect, Effect::TakeInjected);
                next(&mut dialogue, &mut thief, &around, Outcome::Took(Take::Nothing));
            }
            assert_eq!(thief.told[1..], [event], "takes from outside: {takes_from_outside}");
        }
    }
}
