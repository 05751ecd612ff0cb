//! What a paper says that came out, and what came out here.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::fit::Estimate;

/// One number of a paper, and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What was measured.
    pub what: String,
    /// The paper's number, in its words.
    pub paper: &'static str,
    /// Ours.
    pub here: f64,
    /// The half-width of its 95 % confidence interval, where there is one.
    pub half_width: Option<f64>,
    /// What counts as the same: the least and the most.
    pub accepted: (f64, f64),
    /// Why so far from the paper's number and no farther.
    pub because: &'static str,
}

impl Claim {
    /// A number that counts as the paper's if it lies in `accepted`.
    pub fn new(
        what: impl Into<String>,
        paper: &'static str,
        here: impl Into<Estimate>,
        accepted: RangeInclusive<f64>,
        because: &'static str,
    ) -> Claim {
        let Estimate { value, half_width } = here.into();
        let half_width = (half_width > 0.0).then_some(half_width);
        Claim { what: what.into(), paper, here: value, half_width, accepted: accepted.into_inner(), because }
    }

    /// Whether ours counts as the paper's. What is not a number never does.
    pub fn holds(&self) -> bool {
        (self.accepted.0..=self.accepted.1).contains(&self.here)
    }
}
