//! The difference between a result and the expected result.

/// Returns the largest magnitude, or NaN if there is a NaN, so that no NaN passes the comparison `<= tolerance`.
pub(crate) fn largest(magnitudes: impl IntoIterator<Item = f64>) -> f64 {
    let larger = |largest: f64, next: f64| if next > largest || next.is_nan() { next } else { largest };
    magnitudes.into_iter().fold(0.0, |largest, next| if largest.is_nan() { largest } else { larger(largest, next) })
}

/// Returns the largest difference between the elements of two slices. Infinite if their lengths differ.
pub(crate) fn largest_difference(found: &[f64], expected: &[f64]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    largest(found.iter().zip(expected).map(|(found, expected)| (found - expected).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_counts_wherever_it_is() {
        assert_eq!(largest_difference(&[1.0, 2.0, 3.0], &[1.5, 0.0, 3.0]), 2.0);
        assert_eq!(largest_difference(&[], &[]), 0.0);
    }

    #[test]
    fn nothing_that_is_not_a_number_and_no_other_length_passes() {
        for at in 0..3 {
            let mut found = [1.0, 2.0, 3.0];
            found[at] = f64::NAN;
            assert!(largest_difference(&found, &[1.0, 2.0, 4.0]).is_nan(), "{at}");
        }
        assert!(largest_difference(&[f64::INFINITY], &[f64::INFINITY]).is_nan());
        assert_eq!(largest_difference(&[1.0], &[1.0, 2.0]), f64::INFINITY);
    }
}
