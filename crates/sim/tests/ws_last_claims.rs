//! The claims of the WS-LAST paper hold for its two algorithms, and not for what looks like them: a check that cannot fail is none.

use comity_sim::experiments::Serial;
use comity_sim::experiments::claim::Claim;
use comity_sim::experiments::ws_last::{Outcome, Point, Setting, Variant, divisions, messages, sawtooth, workers};

/// A sixth of the rounds, measured once.
fn setting(policy: fn(Variant) -> &'static str) -> Setting {
    Setting { policy, one_in: 6, measurements: 1, ..Setting::new(1) }
}

/// The claims that do not hold.
fn broken(setting: &Setting, points: Vec<Point>, claims: fn(&[Outcome]) -> Vec<Claim>) -> Vec<String> {
    let Ok(outcomes) = setting.simulate("points", &points, &Serial);
    let broken = claims(&outcomes).into_iter().filter(|claim| !claim.holds());
    broken.map(|claim| format!("{}: {:.3}, paper {}", claim.what, claim.here, claim.paper)).collect()
}

fn all_broken(setting: &Setting) -> Vec<String> {
    let mut all = broken(setting, divisions::points(), divisions::claims);
    all.extend(broken(setting, workers::points(), workers::claims));
    all.extend(broken(setting, messages::points(), messages::claims));
    all.extend(broken(setting, sawtooth::points(), sawtooth::claims));
    all
}

#[test]
fn both_are_what_the_paper_says() {
    let broken = all_broken(&setting(Variant::policy));
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn not_if_one_takes_the_place_of_the_other() {
    for policy in [|_| "ws-last", |_| "ws-last:place=current"] as [fn(Variant) -> &'static str; 2] {
        let broken = broken(&setting(policy), workers::points(), workers::claims);
        assert_eq!(broken.len(), 1, "{broken:#?}");
    }
    let broken = broken(&setting(|_| "ws-last"), divisions::points(), divisions::claims);
    assert!(broken.len() >= 4, "{broken:#?}");
}

#[test]
fn ws_cur_is_not_so_slow_without_contention() {
    let mut setting = setting(Variant::policy);
    for none in ["queue=0", "handover=0"] {
        setting.vary(none).unwrap();
    }
    let broken = broken(&setting, divisions::points(), divisions::claims);
    assert!(broken.iter().any(|what| what.contains("d = 100000: speedup under WS-CUR")), "{broken:#?}");
}

#[test]
fn what_is_varied_is_named_and_bounded() {
    let mut setting = Setting::new(1);
    setting.vary("yield=2500").unwrap();
    assert_eq!(setting.costs.yield_core, 2_500);
    for (wrong, part) in [("yeld=3", "is none of queue"), ("yield=0", "from 1 to"), ("queue", "'' is no whole number")]
    {
        let refused = setting.vary(wrong).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
}
