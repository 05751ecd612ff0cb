//! Whether a claim holds, and whether that is news.

use serde::Serialize;

use super::{Claim, Claims};
use crate::fit::Estimate;
use crate::measure::Measure;

/// The values of the parameters that were chosen, in the place of a `key=value`.
pub const CHOSEN: &str = "chosen";

/// What came out with one value of one parameter.
#[derive(Clone, Debug, Serialize)]
pub struct At {
    /// `key=value`, or [`CHOSEN`].
    pub setting: String,
    /// What was measured.
    pub here: Estimate,
    /// Whether that counts as the paper's.
    pub is_within: bool,
}

/// What is said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds with every value that was run, and the file says of none that it does not.
    Holds,
    /// It does not, or more is accepted than was first stated.
    Differs,
}

/// What the file does not say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// Nothing: it came out as it was filed.
    None,
    /// It is run for the first time.
    First,
    /// It was filed as holding with a value with which it does not hold now. This fails a check.
    Fails,
    /// It was filed as differing with a value with which it holds now.
    Holds,
}

/// A claim, and what came out.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// What came out, the chosen values first.
    pub at: Vec<At>,
    /// What is said of it.
    pub verdict: Verdict,
    /// What is new.
    pub news: News,
}

impl Judged<'_> {
    /// What came out with the chosen values.
    pub fn here(&self) -> Estimate {
        self.at[0].here
    }

    /// The least and the most over the values that were run.
    pub fn range(&self) -> (f64, f64) {
        let values = self.at.iter().map(|at| at.here.value);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    }

    /// Why it differs, in words; empty, if it holds.
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

/// Judges the claims of which something was measured with the chosen values; `measured` has the measures by setting.
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
