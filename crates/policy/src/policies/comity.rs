//! `comity`: the default policy.

mod courtesy;
mod efficiency;
mod fold;

use alloc::boxed::Box;
use core::mem;

use self::courtesy::Courtesy;
use super::abp;
use super::dws;
use super::robinhood::CHANGES_PLACES;
use crate::definition::{Accelerates, Definition, Placement, Share, Sharing, Sleeper, Waking};
use crate::parameters::{Field, Parameter, parameters};
use crate::{Action, Event, Level, Place, Role, RunStatus, Thief, Victims, WakeReason, WorkerId};

parameters! {
    /// The parameters of `comity`.
    struct Parameters {
        rounds: u32 = Parameter::number(64, 0..=65_536, "rounds of steals over all peers before a thief sleeps"),
        pause: u32 = Parameter::number(
            64,
            0..=65_536,
            "maximum number of spin-loop hints after a round without a task; starts at 1 and doubles every 4 rounds",
        ),
        quantum_us: u32 = dws::QUANTUM,
        lend_us: u32 = Parameter::number(
            500,
            0..=200_000,
            "time in µs for which another program's core must have been free before it is claimed",
        ),
        share: Divides = Parameter::choice(
            0,
            &Divides::NAMES,
            "equal: parts of the cores; slowdown: parts that slow all programs equally; time: all cores in turn",
        ),
        accelerate: Accelerate = Parameter::choice(
            0,
            &Accelerate::NAMES,
            "action before a thief sleeps while a peer without tasks to steal is preempted",
        ),
        slice_us: u32 = Parameter::number(
            100,
            0..=100_000,
            "µs of a thief's time slices from its first yield until it has a task, at least 100; 0: the kernel's",
        ),
        fold: bool = Parameter::choice(
            1,
            &OFF_OR_ON,
            "use fewer workers while the host of a virtual machine takes processor time away (steal time)",
        ),
    }
}

const OFF_OR_ON: [&str; 2] = ["off", "on"];

/// The parts into which programs divide the processor time by weight, if all programs propose the same division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Divides {
    /// An equal part of the cores.
    Equal,
    /// The part with which all programs are slowed down equally.
    Slowdown,
    /// All cores, for an equal part of the time.
    Time,
}

impl Divides {
    const NAMES: [&str; 3] = ["equal", "slowdown", "time"];
}

impl Field for Divides {
    fn of(value: u32) -> Divides {
        [Divides::Equal, Divides::Slowdown, Divides::Time][value as usize]
    }
}

/// The action of a thief that would sleep, if a poor worker (one with a task but no task to steal) is off its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accelerate {
    /// The thief sleeps.
    None,
    /// The thief yields to the poor worker (BWS §3.1).
    Yield,
    /// The thief gives its time slice to the poor worker (Robinhood §3.1).
    Pull,
}

impl Accelerate {
    const NAMES: [&str; 3] = ["none", "yield", "pull"];
}

impl Field for Accelerate {
    fn of(value: u32) -> Accelerate {
        [Accelerate::None, Accelerate::Yield, Accelerate::Pull][value as usize]
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "comity",
    summary: "Thieves spin briefly, then sleep. A push that finds sleepers wakes one, which may wake others.",
    source: "BWS §3.2 for sleeping; docs/decisions/ for the differences",
    waking: Waking::Hungry,
    batch: 8,
    steal_backs: 16,
    place: Place::LastIfUp,
    accelerates: |values| {
        let threads = match Parameters::read(values).accelerate {
            Accelerate::None | Accelerate::Yield => return None,
            Accelerate::Pull => Some(CHANGES_PLACES),
        };
        Some(Accelerates { threads, vcpus: false })
    },
    slice_us: |values| Parameters::read(values).slice_us,
    share: Share::Cores(Sharing {
        placement: Placement::Anywhere,
        sleeper: Sleeper::LendsCore,
        own_only: false,
        plain_alone: true,
        quantum_us: |values| Parameters::read(values).quantum_us,
        lend_us: |values| Parameters::read(values).lend_us,
        folds: |values| Parameters::read(values).fold,
        coordinator: |values| Box::new(Courtesy::new(Parameters::read(values).share)),
    }),
    parameters: Parameters::TABLE,
    rest: |victims, values| {
        let Parameters { rounds, pause, accelerate, .. } = Parameters::read(values);
        let peers = victims.peers().max(1);
        Box::new(Comity {
            victims,
            peers,
            rounds,
            pause,
            accelerate,
            tried: 0,
            round: 0,
            in_vain: 0,
            had_task: false,
            begins: true,
            looks: 0,
            refused: None,
            has_seen_busy: false,
            doze_us: DOZE_US,
        })
    },
    ..abp::DEFINITION
};

/// A thief that rests as in BWS, with two differences that a kernel with EEVDF requires.
///
/// 1. A thief yields the core only while no worker of its pool has a task. The next task then comes from a thread
///    outside the pool, such as the thread that waited for the last task. That thread may be queued behind this
///    spinning thief. While a worker has a task, the thief does not yield: a thread that yields loses its place in the
///    kernel's queue, and its next wake-up may take up to 3 ms.
/// 2. No worker stays awake as a watchdog while another worker runs a long serial task. Instead, each push checks with
///    one load whether there is a sleeper to wake.
///
/// The pauses grow. A program of many short phases has its next task within microseconds, and a thief in a long pause
/// would take each of these tasks late. With the default values a thief spins for some 60 to 130 µs. A wake-up costs
/// about the same under a hypervisor that halts idle cores. So spinning followed by sleep costs at most twice as much
/// as the better of spinning alone and sleep alone.
///
/// While another program waits for a core, a thief of a pool without any work sleeps at once: the other program may
/// use the core. A thief of a pool with a busy worker continues to search, because a core that is free for a short
/// time is not lent.
///
/// If a thief spun in vain several times in succession, the gaps between tasks are longer than its spinning. It then
/// tries only half the rounds, which takes a quarter of the time. After the same number of failures it halves the
/// rounds again, and so on. From time to time it tries all rounds, so that it notices when the gaps have become short.
/// A thief that never had a task tries the smallest number of rounds, because its program may never use this pool.
/// Until it is first woken, it also tries only a few peers in each round: when a pool of thousands of workers begins,
/// all its thieves search at the same time.
struct Comity {
    victims: Victims,
    peers: u32,
    rounds: u32,
    pause: u32,
    accelerate: Accelerate,
    /// Steals that this round has tried.
    tried: u32,
    /// Rounds without a task since the spell began, or since the worker was woken.
    round: u32,
    /// The number of times in a row that the thief spun and then slept.
    in_vain: u32,
    /// True if the thief ever had a task.
    had_task: bool,
    /// True if the thief neither had a task nor was ever woken.
    begins: bool,
    /// The number of peers that the thief has inspected, to accelerate one before it sleeps.
    looks: u32,
    /// The peer whose acceleration was refused once. The thief asks again after a pause, because the shell must read
    /// the peer's clock twice to see that it is off its core.
    refused: Option<WorkerId>,
    /// True if an inspected peer had a task.
    has_seen_busy: bool,
    /// Length of the next doze, in microseconds.
    doze_us: u32,
}

/// The length of the first doze, in microseconds. Each doze is twice as long as the previous doze, up to the longest,
/// because each costs a context switch.
const DOZE_US: u32 = 1_000;
const LONGEST_DOZE_US: u32 = 32_000;

/// The pause before a thief repeats a refused acceleration, in spin-loop hints. It lasts at least the 50 µs between
/// two readings of a clock.
const READS_AGAIN: u32 = 2_500;

/// The number of successive spells without a task after which a thief halves its rounds.
const GIVES_UP_AFTER: u32 = 4;

/// The maximum number of times that the rounds are halved.
const HALVINGS: u32 = 4;

/// The number of spells in vain after which a thief spins for all rounds once.
const TRIES_AGAIN: u32 = 32;

/// The maximum number of peers per round of a thief that never had a task and was never woken. Also the maximum number
/// of peers that a thief inspects before it sleeps.
const FEW_PEERS: u32 = 16;

impl Comity {
    fn hints(&self) -> u32 {
        1u32.checked_shl((self.round - 1) / 4).unwrap_or(u32::MAX).min(self.pause)
    }

    fn patience(&self) -> u32 {
        let halvings = match self.in_vain {
            _ if !self.had_task => HALVINGS,
            in_vain if in_vain == 2 * GIVES_UP_AFTER || in_vain.is_multiple_of(TRIES_AGAIN) => 0,
            in_vain => (in_vain / GIVES_UP_AFTER).min(HALVINGS),
        };
        self.rounds >> halvings
    }

    fn peers_to_try(&self) -> u32 {
        if self.begins { self.peers.min(FEW_PEERS) } else { self.peers }
    }

    fn begin(&mut self) -> Action {
        (self.tried, self.round, self.looks, self.refused) = (0, 0, 0, None);
        (self.has_seen_busy, self.doze_us) = (false, DOZE_US);
        self.search()
    }

    /// Inspects the peer after `last`, or a random peer if `last` is `None`. Rests after all peers, or in a large pool
    /// some, were inspected.
    fn look(&mut self, last: Option<WorkerId>) -> Action {
        if self.looks == self.peers.min(FEW_PEERS) {
            return self.rest();
        }
        self.looks += 1;
        Action::Inspect(match last {
            Some(last) => self.victims.after(last),
            None => self.victims.pick(),
        })
    }

    /// Rests. If a peer was busy, the thief dozes: if that peer is preempted while it is poor, no push wakes this
    /// thief.
    fn rest(&mut self) -> Action {
        match mem::take(&mut self.has_seen_busy) && self.accelerate == Accelerate::Pull {
            true => Action::Doze { us: self.doze_us },
            false => Action::Sleep,
        }
    }

    fn give_time_slice(&self, candidate: WorkerId) -> Action {
        match self.accelerate {
            Accelerate::Pull => Action::Accelerate { candidate, level: Level::Thread },
            _ => Action::YieldTo(candidate),
        }
    }

    fn search(&mut self) -> Action {
        self.tried += 1;
        Action::StealFrom(self.victims.pick())
    }
}

impl Thief for Comity {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed => {
                (self.had_task, self.begins, self.looks) = (true, false, 0);
                // The thief found the task while spinning, and not immediately after it was woken.
                if self.round > 0 {
                    self.in_vain = 0;
                }
                if event == Event::Injected && self.accelerate == Accelerate::Pull {
                    // Thieves that fell asleep while no worker had a task sleep without a timeout. One of them is
                    // woken, so that it dozes.
                    return Action::Wake { sleeper: None, appoint: false };
                }
                Action::Run { wakeups_owed: 0 }
            }
            Event::PeerWoken(_) => Action::Run { wakeups_owed: 0 },
            // A missed steal counts as an attempt like a failed one, so a thief pauses after the same number of
            // either.
            Event::StealFailed(_) | Event::StealMissed(_) if self.tried < self.peers_to_try() => self.search(),
            Event::StealFailed(_) | Event::StealMissed(_) => {
                self.tried = 0;
                self.round += 1;
                if self.round <= self.patience() {
                    return Action::Pause { hints: self.hints() };
                }
                self.in_vain = self.in_vain.saturating_add(1);
                if self.accelerate == Accelerate::None { Action::Sleep } else { self.look(None) }
            }
            Event::Seen(victim) => {
                self.has_seen_busy |= victim.role.has_task();
                let is_poor_and_off = victim.role == Role::Poor && victim.run_status == RunStatus::Preempted;
                if is_poor_and_off { self.give_time_slice(victim.id) } else { self.look(Some(victim.id)) }
            }
            Event::AccelerationRefused(candidate) => match self.refused.replace(candidate) {
                None => Action::Pause { hints: READS_AGAIN },
                Some(_) => self.rest(),
            },
            // The thief has been off its core, so it tries all peers once more. It does not spin again, because its
            // peer may be off its core again by now.
            Event::Accelerated(_) | Event::Yielded if self.looks > 0 => {
                let action = self.begin();
                self.round = self.rounds;
                action
            }
            Event::Paused { .. } if self.looks > 0 => match self.refused {
                Some(candidate) => self.give_time_slice(candidate),
                None => self.rest(),
            },
            Event::Paused { any_busy: false, core_is_wanted: true } => Action::Sleep,
            Event::Paused { any_busy: false, core_is_wanted: false } => Action::YieldCore,
            // The thief does not steal here: before the next doze, the shell looks at all queues.
            Event::Woken(WakeReason::Timeout) => {
                self.doze_us = (2 * self.doze_us).min(LONGEST_DOZE_US);
                (self.looks, self.refused) = (0, None);
                self.look(None)
            }
            Event::DequeEmpty { .. } | Event::Woken(_) | Event::SleepRefused(_) => {
                self.begins &= matches!(event, Event::DequeEmpty { .. });
                self.begin()
            }
            _ => self.search(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Victim};
    use alloc::vec::Vec;

    const BUSY: Event = Event::Paused { any_busy: true, core_is_wanted: false };

    /// A thief that has had a task: it waited for an event, which has occurred.
    fn thief(policy: &str, workers: u32) -> Box<dyn Thief> {
        let mut thief = policy.parse::<Policy>().unwrap().thief(WorkerId(0), workers, 1);
        assert_eq!(thief.next(Event::Resumed), Action::Run { wakeups_owed: 0 });
        thief
    }

    #[test]
    fn a_thief_that_never_had_a_task_hardly_spins() {
        let mut thief = "comity:rounds=32".parse::<Policy>().unwrap().thief(WorkerId(0), 2, 1);
        let begins = Event::DequeEmpty { wakeups_owed: 0 };
        assert_eq!(pauses_until_asleep(&mut *thief, begins), 2);
        assert_eq!(thief.next(Event::Injected), Action::Run { wakeups_owed: 0 });
        assert_eq!(pauses_until_asleep(&mut *thief, begins), 32);
    }

    #[test]
    fn a_thief_that_begins_in_a_large_pool_tries_few_peers_until_it_is_woken() {
        let mut thief = "comity:rounds=16".parse::<Policy>().unwrap().thief(WorkerId(0), 1000, 1);
        let mut steals_until_asleep = |event| {
            let (mut steals, mut action) = (0, thief.next(event));
            loop {
                action = match action {
                    Action::StealFrom(victim) => {
                        steals += 1;
                        thief.next(Event::StealFailed(victim))
                    }
                    Action::Pause { .. } => thief.next(BUSY),
                    Action::Sleep => return steals,
                    other => panic!("{other:?}"),
                };
            }
        };
        assert_eq!(steals_until_asleep(Event::DequeEmpty { wakeups_owed: 0 }), 2 * FEW_PEERS);
        assert_eq!(steals_until_asleep(Event::Woken(crate::WakeReason::Peer)), 2 * 999);
    }

    #[test]
    fn a_thief_of_a_pool_without_work_yields_to_a_thread_that_may_bring_some() {
        let mut thief = Policy::default().thief(WorkerId(0), 2, 1);
        let Action::StealFrom(victim) = thief.next(Event::DequeEmpty { wakeups_owed: 0 }) else { panic!("it looks") };
        assert!(matches!(thief.next(Event::StealFailed(victim)), Action::Pause { .. }));
        assert_eq!(thief.next(Event::Paused { any_busy: false, core_is_wanted: false }), Action::YieldCore);
        assert!(matches!(thief.next(Event::Yielded), Action::StealFrom(_)));
    }

    #[test]
    fn a_core_that_another_program_waits_for_is_given_up_at_once_where_the_pool_has_no_work() {
        let pauses = |any_busy| {
            let mut thief = thief("comity:rounds=16", 2);
            let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
            let mut pauses = 0;
            loop {
                action = match action {
                    Action::StealFrom(victim) => thief.next(Event::StealFailed(victim)),
                    Action::Pause { .. } => {
                        pauses += 1;
                        thief.next(Event::Paused { any_busy, core_is_wanted: true })
                    }
                    Action::Sleep => return pauses,
                    other => panic!("{other:?}"),
                };
            }
        };
        assert_eq!([pauses(false), pauses(true)], [1, 16]);
    }

    #[test]
    fn spins_for_its_rounds_then_sleeps_and_never_yields() {
        let mut thief = thief("comity:rounds=14,pause=7", 3);
        for spell in [Event::DequeEmpty { wakeups_owed: 0 }, Event::Woken(crate::WakeReason::Peer)] {
            let (mut steals, mut pauses) = (0, Vec::new());
            let mut action = thief.next(spell);
            loop {
                action = match action {
                    Action::StealFrom(victim) => {
                        steals += 1;
                        thief.next(Event::StealFailed(victim))
                    }
                    Action::Pause { hints } => {
                        pauses.push(hints);
                        thief.next(BUSY)
                    }
                    Action::Sleep => break,
                    other => panic!("{other:?}"),
                };
            }
            assert_eq!(steals, 2 * 15);
            assert_eq!(pauses, [1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 7, 7]);
        }
    }

    /// Returns the number of pauses from this event until the thief sleeps.
    fn pauses_until_asleep(thief: &mut dyn Thief, event: Event) -> u32 {
        let (mut pauses, mut action) = (0, thief.next(event));
        loop {
            action = match action {
                Action::StealFrom(victim) => thief.next(Event::StealFailed(victim)),
                Action::Pause { .. } => {
                    pauses += 1;
                    thief.next(BUSY)
                }
                Action::Sleep => return pauses,
                other => panic!("{other:?}"),
            };
        }
    }

    #[test]
    fn spins_less_where_it_is_in_vain_and_more_again_where_it_is_not() {
        let mut thief = thief("comity:rounds=16", 2);
        let woken = Event::Woken(crate::WakeReason::Peer);
        let spells: Vec<u32> = (0..34).map(|_| pauses_until_asleep(&mut *thief, woken)).collect();
        assert_eq!(spells[..18], [16, 16, 16, 16, 8, 8, 8, 8, 16, 4, 4, 4, 2, 2, 2, 2, 1, 1]);
        assert_eq!(spells[30..], [1, 1, 16, 1]);
        // A task that a thief finds when it is woken does not show that the gaps are short.
        let Action::StealFrom(victim) = thief.next(woken) else { panic!("a woken thief looks for tasks") };
        assert_eq!(thief.next(Event::StealSucceeded(victim)), Action::Run { wakeups_owed: 0 });
        assert_eq!(pauses_until_asleep(&mut *thief, Event::DequeEmpty { wakeups_owed: 0 }), 1);
        // A task that comes while the thief spins shows that the gaps are short.
        let Action::StealFrom(victim) = thief.next(woken) else { panic!("a woken thief looks for tasks") };
        assert!(matches!(thief.next(Event::StealFailed(victim)), Action::Pause { .. }));
        assert!(matches!(thief.next(BUSY), Action::StealFrom(_)));
        thief.next(Event::StealSucceeded(victim));
        assert_eq!(pauses_until_asleep(&mut *thief, Event::DequeEmpty { wakeups_owed: 0 }), 16);
    }

    /// Returns the thief's action after its only steal has failed, and the action after each of `answers`.
    fn after_a_failed_steal(policy: &str, answers: &[Event]) -> Vec<Action> {
        let mut thief = thief(policy, 2);
        assert_eq!(thief.next(Event::DequeEmpty { wakeups_owed: 0 }), Action::StealFrom(WorkerId(1)));
        let failed = [Event::StealFailed(WorkerId(1))];
        failed.iter().chain(answers).map(|event| thief.next(*event)).collect()
    }

    #[test]
    fn a_preempted_poor_peer_is_accelerated_before_the_thief_sleeps() {
        let seen = |role, run_status| Event::Seen(Victim { id: WorkerId(1), role, run_status, wakeups_owed: 0 });
        let poor = seen(Role::Poor, RunStatus::Preempted);
        let (candidate, level) = (WorkerId(1), Level::Thread);
        let accelerate = Action::Accelerate { candidate, level };
        let refused = Event::AccelerationRefused(candidate);
        let look = Action::Inspect(candidate);
        let pull = "comity:rounds=0,accelerate=pull";
        let waits = Action::Pause { hints: READS_AGAIN };
        let told = after_a_failed_steal;
        let doze = Action::Doze { us: DOZE_US };
        assert_eq!(told(pull, &[poor, refused, BUSY, refused]), [look, accelerate, waits, accelerate, doze]);
        let granted = Event::Accelerated(candidate);
        assert_eq!(told(pull, &[poor, granted]), [look, accelerate, Action::StealFrom(candidate)]);
        assert_eq!(told(pull, &[seen(Role::Rich, RunStatus::Preempted)]), [look, doze]);
        assert_eq!(told(pull, &[seen(Role::Sleeper, RunStatus::Parked)]), [look, Action::Sleep]);
        let yields = "comity:rounds=0,accelerate=yield";
        assert_eq!(
            told(yields, &[poor, Event::Yielded]),
            [look, Action::YieldTo(candidate), Action::StealFrom(candidate)]
        );
        assert_eq!(told("comity:rounds=0", &[]), [Action::Sleep]);
    }

    #[test]
    fn a_thief_beside_a_busy_peer_dozes_for_longer_and_longer() {
        let runs =
            Event::Seen(Victim { id: WorkerId(1), role: Role::Poor, run_status: RunStatus::Running, wakeups_owed: 0 });
        let over = Event::Woken(WakeReason::Timeout);
        let looks: Vec<Event> = [over, runs].into_iter().cycle().skip(1).take(13).collect();
        let told = after_a_failed_steal("comity:rounds=0,accelerate=pull", &looks);
        let dozes = told.iter().filter_map(|action| match action {
            Action::Doze { us } => Some(us / DOZE_US),
            _ => None,
        });
        assert_eq!(dozes.collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 32]);
        // Without a busy peer the thief sleeps. After a wake-up its first doze is the shortest again.
        let asleep =
            Event::Seen(Victim { id: WorkerId(1), role: Role::Thief, run_status: RunStatus::Unknown, wakeups_owed: 0 });
        let woken = Event::Woken(WakeReason::Peer);
        let failed = Event::StealFailed(WorkerId(1));
        let told = after_a_failed_steal("comity:rounds=0,accelerate=pull", &[runs, over, asleep, woken, failed, runs]);
        assert_eq!([told[3], told[6]], [Action::Sleep, Action::Doze { us: DOZE_US }]);
    }

    #[test]
    fn the_worker_that_takes_a_task_from_outside_wakes_one_that_dozes_beside_it() {
        let answers = |policy| {
            let mut thief = thief(policy, 2);
            thief.next(Event::DequeEmpty { wakeups_owed: 0 });
            [Event::Injected, Event::PeerWoken(None)].map(|event| thief.next(event))
        };
        let (runs, wakes) = (Action::Run { wakeups_owed: 0 }, Action::Wake { sleeper: None, appoint: false });
        assert_eq!(answers("comity:accelerate=pull"), [wakes, runs]);
        assert_eq!(answers("comity:accelerate=yield")[0], runs);
        assert_eq!(answers("comity")[0], runs);
    }

    #[test]
    fn a_thief_looks_at_as_many_peers_as_a_small_pool_has() {
        for (workers, looks) in [(2, 1), (5, 4), (100, 16)] {
            let mut thief = thief("comity:rounds=0,accelerate=pull", workers);
            let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
            let mut looked = Vec::new();
            loop {
                action = match action {
                    Action::StealFrom(victim) => thief.next(Event::StealFailed(victim)),
                    Action::Inspect(id) => {
                        looked.push(id);
                        let (role, run_status) = (Role::Thief, RunStatus::Unknown);
                        thief.next(Event::Seen(Victim { id, role, run_status, wakeups_owed: 0 }))
                    }
                    Action::Sleep => break,
                    other => panic!("{other:?}"),
                };
            }
            assert_eq!(looked.len(), looks);
            looked.sort();
            looked.dedup();
            assert_eq!(looked.len(), looks, "at each once");
        }
    }
}
