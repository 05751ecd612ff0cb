//! The ratio of a backend's numbers to the numbers of another backend, the base, in the same rounds.

use std::fmt;

use serde::Serialize;

use super::quartiles::Quartiles;

/// The ratio of a backend's numbers to those of a base.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// The quartiles of the ratios, round by round.
    #[serde(flatten)]
    pub quartiles: Quartiles,
    /// The backend's median divided by the base's median.
    pub of_medians: f64,
}

impl Ratio {
    /// Returns the ratio `own / base`. Both slices have one number per round, in the same order.
    pub fn of(own: &[f64], base: &[f64]) -> Ratio {
        let pairs: Vec<f64> = own.iter().zip(base).map(|(own, base)| own / base).collect();
        Ratio { quartiles: Quartiles::of(&pairs), of_medians: Quartiles::of(own).median / Quartiles::of(base).median }
    }
}

/// Formats the cell of a table: the ratio of medians, and the quartiles in brackets.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ({:.3}–{:.3})", self.of_medians, self.quartiles.lower, self.quartiles.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_compared_and_rounds_are_spread() {
        let ratio = Ratio::of(&[2.0, 2.0, 6.0], &[1.0, 2.0, 2.0]);
        assert_eq!((ratio.of_medians, ratio.quartiles.median), (1.0, 2.0));
        assert!(ratio.to_string().starts_with("1.000 ("), "{ratio}");
    }
}
