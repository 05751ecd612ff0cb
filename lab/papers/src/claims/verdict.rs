//! Decides whether a claim holds, and whether this result differs from the result in the file of claims.

use serde::Serialize;

use super::{Claim, Claims};
use crate::fit::Estimate;
use crate::measure::Measure;

/// The name of the setting in which all parameters have their chosen values. The other settings are named
/// `key=value`.
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
    /// All measured values are accepted, and the file of claims lists no other setting with which the claim does not
    /// hold. The interval was not widened.
    Holds,
    /// A measured value is not accepted, the interval was widened, or the file of claims lists a setting that was not
    /// run.
    Differs,
}

/// The difference between the verdict and the result in the file of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// No difference: the result is the same as in the file.
    None,
    /// The file has no result for the claim.
    First,
    /// The claim does not hold with a setting with which the file records that it holds. This fails a check.
    Fails,
    /// The claim holds with a setting with which the file records that it differs.
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

    /// True if the measured value with the chosen setting is accepted.
    pub fn is_within(&self) -> bool {
        self.at[0].is_within
    }

    /// True if the measured value with the chosen setting has the sign and the order of magnitude of the paper's.
    pub fn has_order(&self) -> bool {
        self.claim.has_order(self.here().value)
    }

    /// True if a check can fail with this claim: the file records that it holds with a setting that was run, and the
    /// policies can change it.
    pub fn can_fail(&self) -> bool {
        let is_filed = self.news != News::First;
        let is_to_hold = |at: &At| !self.claim.is_to_differ_at(&at.setting);
        is_filed && self.claim.cannot_fail.is_none() && self.at.iter().any(is_to_hold)
    }

    /// Returns the least and the greatest measured value over all settings that were run.
    pub fn range(&self) -> (f64, f64) {
        let values = self.at.iter().map(|at| at.here.value);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    }

    /// Returns the reasons why the claim differs, in words. Empty if the claim holds.
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
