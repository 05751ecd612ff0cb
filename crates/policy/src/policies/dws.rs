//! `dws`: programs lend cores that they do not use, and take them back.

use alloc::boxed::Box;

use super::abp;
use crate::definition::{Definition, Placement, Share, Sharing, Sleeper, Waking};
use crate::parameters::{Parameter, Values, parameters};
use crate::{Account, Action, Claims, Coordinator, Event, Orders, SleepRefusal, Thief, Victims};

/// T of DWS §3.4: the time between two looks of a coordinator. With fewer than two looks per second, other programs
/// would take this program for stopped.
pub(super) const QUANTUM: Parameter = Parameter::number(
    10_000,
    100..=200_000,
    "time in µs between two looks of the coordinator (T of DWS, L of A-STEAL)",
);

parameters! {
    /// The parameters of `dws` and `dws-nc`.
    struct Parameters {
        /// T_SLEEP of §3.2, k by default (§3.4).
        t_sleep: u32 = Parameter::number(
            0,
            0..=65_536,
            "successive failed steals after which a worker sleeps; 0: the number of workers of the pool",
        ),
        quantum_us: u32 = QUANTUM,
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "dws",
    summary: "One worker per core. A worker sleeps after k failures and lends its core until it is taken back.",
    source: "DWS §3.2 to §3.5, Algorithms 1 and 2",
    waking: Waking::Hungry,
    share: Share::Cores(SHARING),
    parameters: Parameters::TABLE,
    rest,
    ..abp::DEFINITION
};

/// The rules by which `dws` and `dws-nc` use the core table.
pub(super) const SHARING: Sharing = Sharing {
    placement: Placement::OnePerCore,
    sleeper: Sleeper::LeavesCore,
    own_only: false,
    plain_alone: true,
    quantum_us: |values| Parameters::read(values).quantum_us,
    lend_us: |_| 0,
    folds: |_| false,
    coordinator: |_| Box::new(Demand { own_only: false }),
};

/// Makes the thief of `dws` and of `dws-nc`.
fn rest(victims: Victims, values: &Values) -> Box<dyn Thief> {
    let t_sleep = match Parameters::read(values).t_sleep {
        0 => victims.peers() + 1,
        failures => failures,
    };
    Box::new(Dws { victims, t_sleep, failed_steals: 0 })
}

/// The thief of Algorithm 1.
struct Dws {
    victims: Victims,
    t_sleep: u32,
    failed_steals: u32,
}

impl Thief for Dws {
    fn next(&mut self, event: Event) -> Action {
        match event {
            // Lines 4–6, 10–11 and 17.
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed | Event::Mugged(_) => {
                self.failed_steals = 0;
                return Action::Run { wakeups_owed: 0 };
            }
            Event::DequeEmpty { .. } | Event::Woken(_) => self.failed_steals = 0,
            // Lines 13–16.
            Event::StealFailed(_) => {
                self.failed_steals += 1;
                if self.failed_steals > self.t_sleep {
                    return Action::Sleep;
                }
            }
            // §3.5: a program alone on the machine steals as it would without DWS. In Cilk that is ABP, so the thief
            // yields.
            Event::SleepRefused(SleepRefusal::Alone) => return Action::YieldCore,
            _ => {}
        }
        // Line 8.
        Action::StealFrom(self.victims.pick())
    }
}

/// The coordinator of `dws` and `dws-nc`: Algorithm 2.
pub(super) struct Demand {
    /// True for `dws-nc`: free cores of other programs count as used.
    pub(super) own_only: bool,
}

impl Coordinator for Demand {
    fn quantum(&mut self, account: &Account) -> Orders {
        let Account { usable, awake, queued, lent, .. } = *account;
        let orders = |cores| Orders::hold(usable, cores);
        if account.first {
            // §3.1: a program begins with its share of the cores.
            return orders(Claims::Owned);
        }
        // Line 3. A program with at most one queued task per awake worker wakes no worker.
        if queued <= awake {
            return orders(Claims::AS_BEFORE);
        }
        // Line 4. The paper does not define N_w for N_a = 0. Here, a program without an awake worker wants one worker
        // per task.
        let wanted = queued / awake.max(1);
        let usable_free = if self.own_only { account.own_free } else { account.free };
        // Lines 5–12. If numbers are equal, the text of §3.3 decides, because the algorithm omits this case.
        let free = wanted.min(usable_free);
        let back = (wanted - free).min(lent);
        orders(Claims::More { free, own_only: self.own_only, back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WakeReason, WorkerId};

    #[test]
    fn sleeps_after_more_than_t_sleep_failures_in_succession() {
        for (policy, workers, t_sleep) in [("dws", 4, 4), ("dws:t_sleep=2", 4, 2), ("dws-nc", 16, 16)] {
            let mut thief = policy.parse::<Policy>().unwrap().thief(WorkerId(0), workers, 1);
            for spell in [Event::DequeEmpty { wakeups_owed: 0 }, Event::Woken(WakeReason::Coordinator)] {
                let mut action = thief.next(spell);
                for _ in 0..t_sleep {
                    let Action::StealFrom(victim) = action else { panic!("{action:?}") };
                    action = thief.next(Event::StealFailed(victim));
                }
                let Action::StealFrom(victim) = action else { panic!("{action:?}") };
                assert_eq!(thief.next(Event::StealFailed(victim)), Action::Sleep);
            }
        }
    }

    #[test]
    fn alone_it_yields_between_steals_and_does_not_sleep() {
        let mut thief = "dws:t_sleep=1".parse::<Policy>().unwrap().thief(WorkerId(0), 2, 1);
        let mut action = thief.next(Event::DequeEmpty { wakeups_owed: 0 });
        let mut yields = 0;
        for _ in 0..100 {
            action = match action {
                Action::StealFrom(victim) => thief.next(Event::StealFailed(victim)),
                Action::Sleep => thief.next(Event::SleepRefused(SleepRefusal::Alone)),
                Action::YieldCore => {
                    yields += 1;
                    thief.next(Event::Yielded)
                }
                other => panic!("{other:?}"),
            };
        }
        assert!(yields > 20, "{yields}");
    }

    /// The columns: N_a, N_b, N_f, N_r, the number of free cores to claim, and the number of cores to take back.
    #[test]
    fn a_coordinator_follows_the_three_cases_of_algorithm_2() {
        for (awake, queued, free, lent, taken, back) in [
            // Line 3: no more tasks than workers.
            (1, 1, 4, 4, 0, 0),
            (4, 4, 4, 4, 0, 0),
            // N_w ≤ N_f.
            (1, 2, 4, 4, 2, 0),
            (2, 8, 4, 4, 4, 0),
            (3, 8, 4, 4, 2, 0),
            // N_f ≤ N_w ≤ N_f + N_r.
            (1, 5, 4, 4, 4, 1),
            (1, 8, 4, 4, 4, 4),
            (1, 4, 0, 4, 0, 4),
            // N_w > N_f + N_r.
            (1, 50, 4, 3, 4, 3),
            (1, 50, 0, 0, 0, 0),
            // Not defined by the paper.
            (0, 3, 4, 4, 3, 0),
        ] {
            let account = Account { awake, queued, free, lent, usable: 16, ..Account::default() };
            let expected = Claims::More { free: taken, own_only: false, back };
            let orders = Demand { own_only: false }.quantum(&account);
            assert_eq!(orders, Orders::hold(16, expected), "{account:?}");
        }
    }

    #[test]
    fn without_the_exchange_of_cores_only_the_own_ones_are_taken() {
        let account = Account { awake: 1, queued: 9, free: 8, own_free: 2, lent: 1, usable: 16, ..Account::default() };
        let orders = Demand { own_only: true }.quantum(&account);
        assert_eq!(orders.cores, Claims::More { free: 2, own_only: true, back: 1 });
    }

    #[test]
    fn in_the_beginning_a_program_has_its_share() {
        let account = Account { first: true, queued: 9, free: 8, usable: 16, ..Account::default() };
        assert_eq!(Demand { own_only: false }.quantum(&account).cores, Claims::Owned);
    }
}
