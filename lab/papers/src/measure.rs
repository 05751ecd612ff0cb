//! What an experiment measures: numbers by name, which the papers' `claims.toml` speak of.

use std::borrow::Cow;

use serde::Serialize;
use statrs::statistics::{Data, OrderStatistics};

use crate::fit::Estimate;

/// A number that came out of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// Its name: of a paper's measures it has one of its own.
    pub name: Cow<'static, str>,
    /// The number.
    pub value: Estimate,
}

impl Measure {
    /// A number, or an estimate with its interval.
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<Estimate>) -> Measure {
        Measure { name: name.into(), value: value.into() }
    }
}

/// The part of all for which it is so; not a number, if there is none.
pub fn part<T>(all: impl IntoIterator<Item = T>, is_so: impl Fn(T) -> bool) -> f64 {
    let (mut count, mut so) = (0, 0);
    for one in all {
        count += 1;
        so += u32::from(is_so(one));
    }
    f64::from(so) / f64::from(count)
}

/// The part of all for which it is so, in per cent; not a number, if there is none.
pub fn percent<T>(all: impl IntoIterator<Item = T>, is_so: impl Fn(T) -> bool) -> f64 {
    100.0 * part(all, is_so)
}

/// The largest of all; negative infinity, if there is none.
pub fn most(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// The median of all that are numbers; not one, if there is none.
pub fn median(all: impl IntoIterator<Item = f64>) -> f64 {
    Data::new(all.into_iter().filter(|one| !one.is_nan()).collect::<Vec<f64>>()).median()
}

/// The mean of all; not a number, if there is none.
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
