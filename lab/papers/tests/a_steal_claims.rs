//! Checks that headline claims of the A-STEAL paper fail for algorithms that only resemble A-STEAL. This shows that
//! the check of a headline can fail. `headlines.rs` checks that the headlines hold for A-STEAL.

use std::collections::VecDeque;

use comity_papers::Serial;
use comity_papers::a_steal::{ASteal, Practical, SECONDS_PER_QUANTUM, Setting, time, time_waste, utilization};
use comity_papers::claims::{CHOSEN, judge};
use comity_papers::measure::Measure;
use comity_papers::paper::Paper;
use comity_policy::{Account, Coordinator, Orders, Policy};
use comity_sim::quanta::job::Deques;
use comity_sim::quanta::{Feedback, ThreadScheduler};

/// Returns a setting that does one of every `one_in` of the paper's runs.
fn setting(one_in: usize, a_steal: fn(u32) -> ThreadScheduler) -> Setting {
    Setting { a_steal, one_in, ..Setting::new(1, Practical::synthetic(1, SECONDS_PER_QUANTUM).unwrap()) }
}

/// Returns the ids of the measured headline claims. The boolean is true if the claim holds.
fn headlines(measures: Vec<Measure>) -> Vec<(String, bool)> {
    let claims = ASteal::claims().unwrap();
    let judged = judge(&claims, &[(CHOSEN.to_owned(), measures)]);
    let headlines = judged.iter().filter(|one| one.claim.headline);
    headlines.map(|one| (one.claim.id.clone(), one.at[0].is_within)).collect()
}

/// Returns the headlines of the time experiments that do not hold for a thread scheduler.
fn broken(a_steal: fn(u32) -> ThreadScheduler) -> Vec<String> {
    let Ok(outcomes) = time::run(&setting(20, a_steal), &Serial);
    headlines(time::measures(&outcomes)).into_iter().filter(|(_, holds)| !holds).map(|(id, _)| id).collect()
}

fn a_steal(delta: u32) -> Box<dyn Coordinator> {
    ThreadScheduler::a_steal(delta, 150).policy.coordinator().expect("A-STEAL gives feedback")
}

#[test]
fn a_constant_desire_fails_the_headlines_of_the_time_experiments() {
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
    assert_eq!(broken(scheduler), ["linear-speedup", "twice-optimal"]);
}

#[test]
fn a_steal_without_mugging_fails_the_headlines_of_the_time_experiments() {
    let scheduler = |_| ThreadScheduler {
        policy: "abp".parse::<Policy>().expect("it is in the catalog"),
        deques: Deques::PerAllotted,
        feedback: Feedback::Other(|| a_steal(80)),
    };
    assert_eq!(broken(scheduler), ["linear-speedup", "twice-optimal"]);
}

#[test]
fn feedback_that_comes_ten_quanta_late_fails_the_headlines_of_the_time_experiments() {
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

#[test]
fn abp_in_the_place_of_a_steal_fails_every_headline_that_compares_them() {
    let setting = setting(20, |_| ThreadScheduler::abp());
    let [Ok(large), Ok(small)] = time_waste::MACHINES.map(|machine| time_waste::run(&setting, machine, &Serial));
    let Ok(sets) = utilization::run(&Setting { one_in: 100, ..setting }, &Serial);
    let all = [time_waste::measures(&large, &small), utilization::measures(&sets)].concat();
    let all = headlines(all);
    assert_eq!(all.len(), 6, "{all:?}");
    assert!(all.iter().all(|(_, holds)| !holds), "{all:?}");
}
