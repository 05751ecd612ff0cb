//! Decides whether a claim holds, and whether this differs from the file of claims.

use serde::Serialize;

use super::{Claim, Claims};
use crate::fit::Estimate;
use crate::measure::Measure;

/// The name of the setting with the chosen values, in place of a `key=value`.
pub const CHOSEN: &str = "chosen";

/// The measured value with one setting.
#[derive(Clone, Debug, Serialize)]
pub struct At {
    /// The setting: `key=value`, or [`CHOSEN`].
    pub setting: String,
    /// The measured value.
    pub here: Estimate,
    /// True if the value agrees with the paper.
    pub is_within: bool,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds with every value that was run, and the file lists no other value with which it does not hold.
    Holds,
    /// The claim fails with a value that was run, or the file lists a value that was not run, or its interval was
    /// widened.
    Differs,
}

/// The difference between the outcome and the file of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// No difference: the outcome is the filed one.
    None,
    /// The claim is run for the first time.
    First,
    /// The claim was filed as holding with a value with which it does not hold now. This fails a check.
    Fails,
    /// The claim was filed as differing with a value with which it holds now.
    Holds,
}

/// A claim with its measured values.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The measured values, with the chosen setting first.
    pub at: Vec<At>,
    /// The verdict.
    pub verdict: Verdict,
    /// The difference from the file of claims.
    pub news: News,
}

impl Judged<'_> {
    /// Returns the measured value with the chosen setting.
    pub fn here(&self) -> Estimate {
        self.at[0].here
    }

    /// Returns the least and the greatest measured value over all settings that were run.
    pub fn range(&self) -> (f64, f64) {
        let values = self.at.iter().map(|at| at.here.value);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    }

    /// Returns the reasons why the claim differs, in words. Empty if it holds.
    pub fn why(&self) -> String {
        if self.verdict == Verdict::Holds {
            return String::new();
        }
        let claim = self.claim;
        let mut reasons = Vec::new();
        if claim.is_widened() {
            reasons.push(format!("{} was stated, and {} is accepted since", claim.stated, claim.accepted()));
        }
        let outside: Vec<&str> = self.at.iter().filter(|at| !at.is_within).map(|at| at.setting.as_str()).collect();
        let is_run = |setting: &str| self.at.iter().any(|at| at.setting == setting);
        let elsewhere: Vec<&str> =
            claim.differs_at.iter().map(String::as_str).filter(|setting| !is_run(setting)).collect();
        if !outside.is_empty() && outside != [CHOSEN] {
            reasons.push(format!("at {}", outside.join(", ")));
        }
        if !elsewhere.is_empty() {
            reasons.push(format!("at {} (not run here)", elsewhere.join(", ")));
        }
        reasons.extend(claim.differs.clone());
        if self.news == News::Fails {
            reasons.push("it held when it was filed".into());
        }
        reasons.join(": ")
    }
}

/// Judges the claims that have a measured value with the chosen setting. `measured` lists the measures of each
/// setting.
pub fn judge<'a>(claims: &'a Claims, measured: &[(String, Vec<Measure>)]) -> Vec<Judged<'a>> {
    let one = |claim: &'a Claim| {
        let swept: Vec<String> = claims.sweep(&claim.experiment).collect();
        let at: Vec<At> = measured
            .iter()
            .filter(|(setting, _)| setting == CHOSEN || swept.contains(setting))
            .filter_map(|(setting, measures)| {
                let here = measures.iter().find(|measure| measure.name == claim.measure)?.value;
                Some(At { setting: setting.clone(), here, is_within: claim.accepted().has(here.value) })
            })
            .collect();
        if at.first()?.setting != CHOSEN {
            return None;
        }
        let is_run = |setting: &String| at.iter().any(|at| at.setting == *setting);
        let differs = at.iter().any(|at| !at.is_within) || !claim.differs_at.iter().all(is_run) || claim.is_widened();
        let news = if !claim.holds && claim.differs.is_none() {
            News::First
        } else if at.iter().any(|at| !at.is_within && !claim.is_to_differ_at(&at.setting)) {
            News::Fails
        } else if at.iter().any(|at| at.is_within && claim.is_to_differ_at(&at.setting)) {
            News::Holds
        } else {
            News::None
        };
        Some(Judged { claim, at, verdict: if differs { Verdict::Differs } else { Verdict::Holds }, news })
    };
    claims.claims.iter().filter_map(one).collect()
}
