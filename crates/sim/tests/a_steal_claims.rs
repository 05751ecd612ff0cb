//! The claims of the A-STEAL paper hold for A-STEAL, and not for what looks like it: a check that cannot fail is none.

use std::collections::VecDeque;

use comity_policy::{Account, Coordinator, Orders, Policy};
use comity_sim::experiments::Serial;
use comity_sim::experiments::a_steal::{Practical, SECONDS_PER_QUANTUM, Setting, time, waste};
use comity_sim::experiments::claim::Claim;
use comity_sim::job::Deques;
use comity_sim::machine::{Feedback, ThreadScheduler};

/// Those of the time and the waste experiments that do not hold, with one of ten of the paper's runs.
fn broken(a_steal: fn(u32) -> ThreadScheduler) -> Vec<Claim> {
    let mut setting = Setting::new(1, Practical::synthetic(1, SECONDS_PER_QUANTUM).unwrap());
    (setting.a_steal, setting.one_in) = (a_steal, 10);
    let Ok(outcomes) = time::run(&setting, &Serial);
    let Ok(by_delta) = waste::run(&setting, &Serial);
    let claims = time::claims(&outcomes).into_iter().chain(waste::claims(&by_delta, &outcomes));
    let broken: Vec<Claim> = claims.filter(|claim| !claim.holds()).collect();
    broken.iter().for_each(|claim| println!("{}: {:.3}, paper {}", claim.what, claim.here, claim.paper));
    broken
}

fn a_steal(delta: u32) -> Box<dyn Coordinator> {
    ThreadScheduler::a_steal(delta, 150).policy.coordinator().expect("A-STEAL gives feedback")
}

#[test]
fn a_steal_is_what_the_paper_says() {
    let broken = broken(|delta| ThreadScheduler::a_steal(delta, 150));
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn not_without_responsiveness() {
    struct Constant;
    impl Coordinator for Constant {
        fn quantum(&mut self, account: &Account) -> Orders {
            Orders { desire: 1, ..a_steal(80).quantum(account) }
        }
    }
    let scheduler = |delta| ThreadScheduler {
        feedback: Feedback::Other(|| Box::new(Constant)),
        ..ThreadScheduler::a_steal(delta, 150)
    };
    assert!(!broken(scheduler).is_empty());
}

#[test]
fn not_without_mugging() {
    let scheduler = |_| ThreadScheduler {
        policy: "abp".parse::<Policy>().expect("it is in the catalog"),
        deques: Deques::PerAllotted,
        feedback: Feedback::Other(|| a_steal(80)),
    };
    assert!(!broken(scheduler).is_empty());
}

#[test]
fn not_with_feedback_that_comes_ten_quanta_late() {
    struct Late {
        coordinator: Box<dyn Coordinator>,
        orders: VecDeque<Orders>,
    }
    impl Coordinator for Late {
        fn quantum(&mut self, account: &Account) -> Orders {
            self.orders.push_back(self.coordinator.quantum(account));
            if self.orders.len() > 10 { self.orders.pop_front().expect("eleven") } else { self.orders[0] }
        }
    }
    let scheduler = |delta| ThreadScheduler {
        feedback: Feedback::Other(|| Box::new(Late { coordinator: a_steal(80), orders: VecDeque::new() })),
        ..ThreadScheduler::a_steal(delta, 150)
    };
    assert!(!broken(scheduler).is_empty());
}
