//! Linear regressions, and means with their confidence intervals.

use linregress::fit_low_level_regression_model;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

/// A number and the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// The half-width of the interval, or zero if the number has no interval.
    pub half_width: f64,
}

impl From<f64> for Estimate {
    fn from(value: f64) -> Estimate {
        Estimate { value, half_width: 0.0 }
    }
}

/// The fit of the model T ≈ c₁·x₁ + c∞·x∞.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fit {
    /// The coefficient c₁: the work overhead.
    pub c1: Estimate,
    /// The coefficient c∞: the critical-path overhead.
    pub c_infinity: Estimate,
    /// The quality of the fit: 1 − Σ(relative error)²/n.
    pub r_squared: f64,
}

impl Fit {
    /// Returns the value of T that the fit predicts.
    pub fn predict(&self, x1: f64, x_infinity: f64) -> f64 {
        self.c1.value * x1 + self.c_infinity.value * x_infinity
    }
}

/// Returns the least-squares fit of (x₁, x∞, T) that minimises the relative error (A-STEAL §4, after Blumofe et al.'s
/// Cilk paper): 1 is regressed on x₁/T and x∞/T, with no intercept.
///
/// The coefficients are NaN if there are fewer than three points, or if the points do not determine the coefficients.
pub fn minimising_relative_error(points: &[(f64, f64, f64)]) -> Fit {
    let rows: Vec<f64> = points.iter().flat_map(|(x1, x_infinity, t)| [1.0, x1 / t, x_infinity / t]).collect();
    let Ok(model) = fit_low_level_regression_model(&rows, points.len(), 3) else {
        let unknown = Estimate { value: f64::NAN, half_width: f64::NAN };
        return Fit { c1: unknown, c_infinity: unknown, r_squared: f64::NAN };
    };
    let quantile = student(points.len() - 2);
    let estimate = |nth: usize| Estimate { value: model.parameters()[nth], half_width: quantile * model.se()[nth] };
    let (c1, c_infinity) = (estimate(0), estimate(1));
    let error = |(x1, x_infinity, t): &(f64, f64, f64)| {
        let relative = 1.0 - (c1.value * x1 + c_infinity.value * x_infinity) / t;
        relative * relative
    };
    let r_squared = 1.0 - points.iter().map(error).sum::<f64>() / points.len() as f64;
    Fit { c1, c_infinity, r_squared }
}

/// Returns the mean, with its confidence interval if there are at least two numbers.
pub fn mean(numbers: &[f64]) -> Estimate {
    let value = numbers.mean();
    if numbers.len() < 2 {
        return value.into();
    }
    let half_width = student(numbers.len() - 1) * numbers.std_dev() / (numbers.len() as f64).sqrt();
    Estimate { value, half_width }
}

/// Returns the 97.5 % point of Student's distribution with this many degrees of freedom.
fn student(freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("there is freedom").inverse_cdf(0.975)
}

#[cfg(test)]
mod tests {
    use super::*;
    use comity_sim::random::stream;
    use rand::RngExt;

    #[test]
    fn coefficients_are_found_again_within_their_confidence() {
        let mut random = stream(5, 0);
        let mut point = |_| {
            let (x1, x_infinity): (f64, f64) = (random.random_range(1.0..1e6), random.random_range(1.0..1e4));
            (x1, x_infinity, (0.9 * x1 + 1.7 * x_infinity) * random.random_range(0.95..1.05))
        };
        let points: Vec<_> = (0..2_000).map(&mut point).collect();
        let fit = minimising_relative_error(&points);
        assert!((fit.c1.value - 0.9).abs() < 0.01 && fit.c1.half_width < 0.01, "{fit:?}");
        assert!((fit.c_infinity.value - 1.7).abs() < 0.1 && fit.c_infinity.half_width < 0.1, "{fit:?}");
        // Relative errors that are uniform in ±5 % have a mean square of 0.05²/3.
        assert!((fit.r_squared - (1.0 - 0.0025 / 3.0)).abs() < 1e-4, "{fit:?}");
    }

    #[test]
    fn the_mean_of_few_numbers_has_a_wide_interval() {
        let estimate = mean(&[1.0, 3.0]);
        // t(0.975, 1) = 12.706; the standard error is 1.
        assert!((estimate.half_width - 12.706).abs() < 0.001, "{estimate:?}");
        assert_eq!(mean(&[7.0]), 7.0.into());
    }
}
