//! Tests that each measure of a paper's experiments has a claim, and that each claim has a measure.
//!
//! The names of measures do not depend on the outcomes, so the tests do only one run of each part.

use std::collections::BTreeSet;
use std::convert::Infallible;

use comity_papers::Runner;
use comity_papers::a_steal::{self, ASteal};
use comity_papers::bws::{self, Bws};
use comity_papers::claims::CHOSEN;
use comity_papers::dws::{self, Dws};
use comity_papers::paper::{Paper, Repetition};
use comity_papers::robinhood::{self, Robinhood};
use comity_papers::vary::Vary;
use comity_papers::ws_last::{self, NoThreads, WsLast};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A runner that does only the first run of each part, and returns its outcome for all runs of the part.
struct First;

impl Runner for First {
    type Stop = Infallible;

    fn run<R, W>(&self, _: &str, runs: usize, work: W) -> Result<Vec<R>, Infallible>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync,
    {
        let first = serde_json::to_string(&work(0)).expect("outcomes are filed");
        Ok((0..runs).map(|_| serde_json::from_str(&first).expect("outcomes come back from files")).collect())
    }
}

/// # Panics
/// If no claim speaks of a measure of the paper's experiments, or if a claim names a measure that its experiment does
/// not have.
fn claims_speak_of_all_measures<P: Paper>(setting: &P::Setting) {
    let claims = P::claims().unwrap_or_else(|why| panic!("{why}"));
    let claimed: BTreeSet<_> = claims.claims.into_iter().map(|claim| (claim.experiment, claim.measure)).collect();
    let mut repetition = Repetition::<P>::with(CHOSEN, setting);
    let mut measured = BTreeSet::new();
    for experiment in P::experiments().into_iter().filter(|one| one.is_the_papers) {
        let name = experiment.name;
        let measures = repetition.measure(experiment, &First).map_err(|failure| failure.into_sentence());
        let measures = measures.unwrap().expect("all runs are done here");
        measured.extend(measures.into_iter().map(|measure| (name.to_owned(), measure.name.into_owned())));
    }
    let (file, unclaimed) = (P::TEXT.file, measured.difference(&claimed).collect::<Vec<_>>());
    assert!(unclaimed.is_empty(), "{file}: no claim speaks of these measures: {unclaimed:?}");
    let unmeasured: Vec<_> = claimed.difference(&measured).collect();
    assert!(unmeasured.is_empty(), "{file}: no experiment has these measures, which claims name: {unmeasured:?}");
}

#[test]
fn a_steal_claims_speak_of_all_measures() {
    let usual = a_steal::Setting::usual(1).unwrap();
    claims_speak_of_all_measures::<ASteal>(&a_steal::Setting { one_in: 1_000, ..usual });
}

#[test]
fn bws_claims_speak_of_all_measures() {
    claims_speak_of_all_measures::<Bws>(&bws::Setting { executions: 1, slow: 1.0, ..bws::Setting::new(1) });
}

#[test]
fn dws_claims_speak_of_all_measures() {
    claims_speak_of_all_measures::<Dws>(&dws::Setting { executions: 1, slow: 10.0, ..dws::Setting::new(1) });
}

#[test]
fn robinhood_claims_speak_of_all_measures() {
    let setting = robinhood::Setting { executions: 1, length: 10, ..robinhood::Setting::new(1) };
    claims_speak_of_all_measures::<Robinhood>(&setting);
}

#[test]
fn ws_last_claims_speak_of_all_measures() {
    let setting = ws_last::Setting { one_in: 100, measurements: 1, ..ws_last::Setting::new(1) };
    claims_speak_of_all_measures::<WsLast<NoThreads>>(&setting);
}
