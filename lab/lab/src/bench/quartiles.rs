//! Quantiles of a sample.

use serde::Serialize;
use statrs::statistics::{Data, OrderStatistics};

/// The median of a sample, with the lower and the upper quartile as a measure of spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    /// A quarter of the sample lies below this value.
    pub lower: f64,
    /// Half of the sample lies below this value.
    pub median: f64,
    /// Three quarters of the sample lie below this value.
    pub upper: f64,
}

impl Quartiles {
    /// Computes the quartiles of `sample`, which must not be empty.
    pub fn of(sample: &[f64]) -> Quartiles {
        let mut data = Data::new(sample.to_vec());
        Quartiles { lower: data.lower_quartile(), median: data.median(), upper: data.upper_quartile() }
    }
}

impl Quartiles {
    /// Formats the median with `digits` decimals, and the quartiles in brackets.
    pub fn told(self, digits: usize) -> String {
        let Quartiles { lower, median, upper } = self;
        format!("{median:.digits$} ({lower:.digits$}–{upper:.digits$})")
    }

    /// Returns `(x, lower, upper)`, an interval of a figure at `x`.
    pub fn interval(self, x: f64) -> (f64, f64, f64) {
        (x, self.lower, self.upper)
    }
}

/// Returns the percentile of `sample` for `percent`. `sample` must not be empty.
pub fn percentile(sample: &[f64], percent: usize) -> f64 {
    Data::new(sample.to_vec()).percentile(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_sample_has_its_quartiles() {
        let sample: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let Quartiles { lower, median, upper } = Quartiles::of(&sample);
        assert!((lower - 26.0).abs() < 1.0 && (upper - 76.0).abs() < 1.0, "{lower} {upper}");
        assert_eq!(median, 51.0);
        assert!((percentile(&sample, 99) - 100.0).abs() < 1.0);
    }
}
