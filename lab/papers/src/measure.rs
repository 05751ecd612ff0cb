//! The measures of an experiment: named numbers, which the papers' `claims.toml` refer to.

use std::borrow::Cow;

use serde::Serialize;
use statrs::statistics::{Data, OrderStatistics};

use crate::fit::Estimate;

/// A number that an experiment measures.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// The name, which is unique among the measures of a paper.
    pub name: Cow<'static, str>,
    /// The number.
    pub value: Estimate,
}

impl Measure {
    /// Returns a measure from a number, or from an estimate with its interval.
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<Estimate>) -> Measure {
        Measure { name: name.into(), value: value.into() }
    }
}

/// Returns the fraction of the items for which `is_so` is true. NaN if there are no items.
pub fn part<T>(all: impl IntoIterator<Item = T>, is_so: impl Fn(T) -> bool) -> f64 {
    let (mut count, mut so) = (0, 0);
    for one in all {
        count += 1;
        so += u32::from(is_so(one));
    }
    f64::from(so) / f64::from(count)
}

/// Returns the percentage of the items for which `is_so` is true. NaN if there are no items.
pub fn percent<T>(all: impl IntoIterator<Item = T>, is_so: impl Fn(T) -> bool) -> f64 {
    100.0 * part(all, is_so)
}

/// Returns the largest number. Negative infinity if there are no numbers.
pub fn most(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the median of the values that are not NaN, or NaN if all values are NaN.
pub fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    Data::new(all.into_iter().filter(|one| !one.is_nan()).collect::<Vec<f64>>()).median()
}

/// Returns the mean. NaN if there are no numbers.
pub fn average(all: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for one in all {
        sum += one;
        count += 1.0;
    }
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_left_out_of_a_median() {
        assert_eq!(median([3.0, f64::NAN, 1.0]), 2.0);
        assert_eq!(median([5.0, 1.0, 2.0]), 2.0);
        assert!(median([f64::NAN; 3]).is_nan() && median([]).is_nan());
    }
}
