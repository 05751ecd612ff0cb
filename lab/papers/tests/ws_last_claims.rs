//! Checks that claims of the WS-LAST paper fail for algorithms that only resemble WS-CUR or WS-LAST. This shows that
//! the check of a claim can fail. `headlines.rs` checks that headlines hold for WS-CUR and WS-LAST.

use comity_papers::Serial;
use comity_papers::claims::{CHOSEN, judge};
use comity_papers::measure::Measure;
use comity_papers::paper::Paper;
use comity_papers::vary::Vary;
use comity_papers::ws_last::{NoThreads, Outcome, Point, Setting, Variant, WsLast, divisions, messages, workers};

/// Returns a setting with a sixth of the rounds, measured once.
fn setting(policy: fn(Variant) -> &'static str) -> Setting {
    Setting { policy, one_in: 6, measurements: 1, ..Setting::new(1) }
}

/// Returns the claims of an experiment that hold when it is run with this setting.
fn holding(setting: &Setting, points: Vec<Point>, measures: fn(&[Outcome]) -> Vec<Measure>) -> Vec<String> {
    let Ok(outcomes) = setting.simulate("points", &points, &Serial);
    let claims = WsLast::<NoThreads>::claims().unwrap();
    let judged = judge(&claims, &[(CHOSEN.to_owned(), measures(&outcomes))]);
    judged.iter().filter(|one| one.at[0].is_within).map(|one| one.claim.id.clone()).collect()
}

#[test]
fn a_claim_of_one_algorithm_fails_if_the_other_takes_its_place() {
    for (policy, lost) in [(|_| "ws-last", "cur-100"), (|_| "ws-last:place=current", "last-100")]
        as [(fn(Variant) -> &'static str, &str); 2]
    {
        let one = holding(&setting(policy), divisions::points(), divisions::measures);
        assert!(!one.iter().any(|id| [lost, "last-above-cur"].contains(&id.as_str())), "{one:?}");
    }
    let one = holding(&setting(|_| "ws-last"), workers::points(), workers::measures);
    assert!(!one.contains(&"cur-256".to_owned()), "{one:?}");
}

#[test]
fn ws_last_gains_too_little_without_contention() {
    let mut setting = setting(Variant::policy);
    for none in ["queue=0", "handover=0", "removal=0"] {
        setting.vary(none).unwrap();
    }
    let holding = holding(&setting, messages::points(), messages::measures);
    assert!(!holding.contains(&"last-significant".to_owned()), "{holding:?}");
}

#[test]
fn what_is_varied_is_named_and_bounded() {
    let mut setting = Setting::new(1);
    setting.vary("yield=2500").unwrap();
    assert_eq!(setting.costs.yield_core, 2_500);
    for (wrong, part) in
        [("yeld=3", "is not one of queue"), ("yield=0", "from 1 to"), ("queue", "'' is not a whole number")]
    {
        let refused = setting.vary(wrong).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
}
