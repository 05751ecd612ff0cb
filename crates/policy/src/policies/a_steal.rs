//! `a-steal`: a program publishes how many cores it can use, and gets at most this number.

use alloc::boxed::Box;

use super::abp;
use super::dws;
use crate::definition::{Definition, Placement, Share, Sharing, Sleeper};
use crate::parameters::{Parameter, parameters};
use crate::{Account, Action, Claims, Coordinator, Event, Orders, Thief, Victims};

parameters! {
    /// The parameters of `a-steal`.
    struct Parameters {
        delta_percent: u32 = Parameter::number(
            80,
            1..=100,
            "utilization parameter δ: the part of its cores' time that an efficient program uses, in percent",
        ),
        rho_percent: u32 = Parameter::number(
            150,
            101..=1_000,
            "responsiveness parameter ρ: the factor by which the desire grows and shrinks, in percent",
        ),
        // A job grows to P cores in log P / log ρ quanta. With quanta of 10 ms, most programs would end before they
        // have all cores.
        quantum_us: u32 = dws::QUANTUM.or(2_000),
    }
}

/// The definition of the policy.
pub const DEFINITION: Definition = Definition {
    name: "a-steal",
    summary: "A program desires more cores if it uses its cores, otherwise fewer. Thieves mug before they steal.",
    source: "A-STEAL §2, figure 1; DEQ of §3",
    share: Share::Cores(Sharing {
        placement: Placement::WithinCores,
        sleeper: Sleeper::KeepsCore,
        own_only: true,
        plain_alone: false,
        quantum_us: |values| Parameters::read(values).quantum_us,
        lend_us: |_| 0,
        folds: |_| false,
        coordinator: |values| {
            let Parameters { delta_percent, rho_percent, .. } = Parameters::read(values);
            let [delta, rho] = [delta_percent, rho_percent].map(|percent| f64::from(percent) / 100.0);
            Box::new(Desire { delta, rho, desire: 1.0 })
        },
    }),
    parameters: Parameters::TABLE,
    rest: |victims, _| Box::new(ASteal { victims }),
    ..abp::DEFINITION
};

/// A thief that always mugs or steals: every cycle is spent working, stealing or mugging (§1).
struct ASteal {
    victims: Victims,
}

impl Thief for ASteal {
    fn next(&mut self, event: Event) -> Action {
        match event {
            Event::StealSucceeded(_) | Event::Injected | Event::Resumed | Event::Mugged(_) => {
                Action::Run { wakeups_owed: 0 }
            }
            Event::NothingToMug => Action::StealFrom(self.victims.pick()),
            _ => Action::Mug,
        }
    }
}

/// The desire of a job (figure 1).
struct Desire {
    /// The utilization parameter δ.
    delta: f64,
    /// The responsiveness parameter ρ.
    rho: f64,
    /// The desire d, a real number of at least 1.
    desire: f64,
}

impl Desire {
    /// The desire that the job scheduler gets: the nearest whole number.
    fn rounded(&self) -> u32 {
        (self.desire + 0.5) as u32
    }
}

impl Coordinator for Desire {
    fn quantum(&mut self, account: &Account) -> Orders {
        if account.first {
            // Lines 1–2.
            self.desire = 1.0;
        } else if (account.usage_ns as f64) < self.delta * account.allotted_ns as f64 {
            // Lines 3–4: inefficient.
            self.desire = (self.desire / self.rho).max(1.0);
        } else if account.allotment >= self.rounded() {
            // Lines 5–6: efficient and satisfied.
            self.desire *= self.rho;
        }
        // Line 7: efficient and deprived. The desire is at most ρ times what the program's workers can use.
        self.desire = self.desire.min(f64::from(account.usable.max(1)) * self.rho);
        Orders::hold(self.rounded().min(account.usable), Claims::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, WorkerId};

    fn desire() -> Desire {
        Desire { delta: 0.8, rho: 1.5, desire: 1.0 }
    }

    fn quantum(used_percent: u64, allotment: u32) -> Account {
        let allotted_ns = 10_000_000 * u64::from(allotment);
        let usage_ns = allotted_ns * used_percent / 100;
        Account { usable: 16, usage_ns, allotted_ns, allotment, ..Account::default() }
    }

    #[test]
    fn desire_starts_at_one_and_follows_figure_1() {
        let mut job = desire();
        let mut desires = |account: Account| {
            let orders = job.quantum(&account);
            assert_eq!(orders.cores, Claims::Owned);
            (orders.desire, (job.desire * 1e4) as u32)
        };
        assert_eq!(desires(Account { first: true, ..quantum(0, 0) }), (1, 10_000));
        // Efficient and satisfied; exactly δ is efficient.
        assert_eq!(desires(quantum(100, 1)), (2, 15_000));
        assert_eq!(desires(quantum(80, 2)), (2, 22_500));
        assert_eq!(desires(quantum(90, 2)), (3, 33_750));
        // Efficient and deprived: the program keeps its desire.
        assert_eq!(desires(quantum(100, 2)), (3, 33_750));
        // Inefficient, satisfied or not.
        assert_eq!(desires(quantum(79, 3)), (2, 22_500));
        assert_eq!(desires(quantum(10, 1)), (2, 15_000));
        assert_eq!(desires(quantum(0, 2)), (1, 10_000));
        // The desire never falls below 1.
        assert_eq!(desires(quantum(0, 1)), (1, 10_000));
    }

    #[test]
    fn no_program_desires_more_than_its_workers_can_use() {
        let mut job = desire();
        for _ in 0..50 {
            let usable = 4;
            assert!(job.quantum(&Account { usable, ..quantum(100, 16) }).desire <= usable);
        }
        // The bound lets the desire fall again within a few quanta.
        let downs = (0..).take_while(|_| job.quantum(&quantum(0, 4)).desire > 1).count();
        assert!(downs <= 5, "{downs}");
    }

    #[test]
    fn mugs_before_it_steals_and_never_yields() {
        let mut thief = Policy::of(&DEFINITION).thief(WorkerId(0), 2, 1);
        assert_eq!(thief.next(Event::DequeEmpty { wakeups_owed: 0 }), Action::Mug);
        for _ in 0..3 {
            assert_eq!(thief.next(Event::NothingToMug), Action::StealFrom(WorkerId(1)));
            assert_eq!(thief.next(Event::StealFailed(WorkerId(1))), Action::Mug);
        }
        assert_eq!(thief.next(Event::Mugged(WorkerId(1))), Action::Run { wakeups_owed: 0 });
    }
}
