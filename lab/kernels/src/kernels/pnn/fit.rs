//! Polynomials of second order in two variables, and their least-squares fit to samples.

/// The coefficients of 1, a, b, ab, a² and b².
pub(super) type Polynomial = [f64; TERMS];

const TERMS: usize = 6;

/// The index of the coefficient of ab.
pub(super) const PRODUCT: usize = 3;

/// The relative increase of the diagonal of the normal equations. It is enough for variables that are nearly equal,
/// and has no visible effect on other fits.
const RIDGE: f64 = 1e-9;

fn terms(a: f64, b: f64) -> [f64; TERMS] {
    [1.0, a, b, a * b, a * a, b * b]
}

/// Returns the polynomial's value at `a` and `b`.
pub(super) fn value(polynomial: &Polynomial, a: f64, b: f64) -> f64 {
    polynomial.iter().zip(terms(a, b)).map(|(coefficient, term)| coefficient * term).sum()
}

/// Returns the mean square of the polynomial's error at `targets`.
pub(super) fn mean_square_error(polynomial: &Polynomial, a: &[f64], b: &[f64], targets: &[f64]) -> f64 {
    let square = |((a, b), target): ((&f64, &f64), &f64)| {
        let error = value(polynomial, *a, *b) - target;
        error * error
    };
    a.iter().zip(b).zip(targets).map(square).sum::<f64>() / targets.len() as f64
}

/// Returns the polynomial with the least sum of squared errors, by the normal equations.
pub(super) fn fit(a: &[f64], b: &[f64], targets: &[f64]) -> Polynomial {
    let mut matrix = [[0.0; TERMS]; TERMS];
    let mut right = [0.0; TERMS];
    for ((a, b), target) in a.iter().zip(b).zip(targets) {
        let terms = terms(*a, *b);
        for row in 0..TERMS {
            for column in 0..=row {
                matrix[row][column] += terms[row] * terms[column];
            }
            right[row] += terms[row] * target;
        }
    }
    for (row, entries) in matrix.iter_mut().enumerate() {
        entries[row] *= 1.0 + RIDGE;
    }
    solve(matrix, right)
}

/// Solves a positive definite system by its Cholesky factor. Entries above the diagonal are not read.
fn solve(mut matrix: [[f64; TERMS]; TERMS], mut right: [f64; TERMS]) -> [f64; TERMS] {
    for row in 0..TERMS {
        for column in 0..=row {
            let known: f64 = (0..column).map(|k| matrix[row][k] * matrix[column][k]).sum();
            let rest = matrix[row][column] - known;
            matrix[row][column] = if row == column { rest.sqrt() } else { rest / matrix[column][column] };
        }
    }
    for row in 0..TERMS {
        let known: f64 = (0..row).map(|k| matrix[row][k] * right[k]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    for row in (0..TERMS).rev() {
        let known: f64 = (row + 1..TERMS).map(|k| matrix[k][row] * right[k]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut random = SplitMix::new(seed);
        (0..count).map(|_| 2.0 * random.unit() - 1.0).collect()
    }

    #[test]
    fn a_polynomial_of_second_order_is_found_again() {
        let polynomial = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5];
        let (a, b) = (numbers(100, 1), numbers(100, 2));
        let targets: Vec<f64> = a.iter().zip(&b).map(|(a, b)| value(&polynomial, *a, *b)).collect();
        let found = fit(&a, &b, &targets);
        for (found, expected) in found.iter().zip(polynomial) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert!(mean_square_error(&found, &a, &b, &targets) < 1e-12);
    }

    /// Tests the property of a least-squares fit: the error is orthogonal to every term.
    #[test]
    fn what_is_missed_is_orthogonal_to_every_term() {
        let (a, b, targets) = (numbers(500, 3), numbers(500, 4), numbers(500, 5));
        let found = fit(&a, &b, &targets);
        for term in 0..TERMS {
            let missed =
                |index: usize| (value(&found, a[index], b[index]) - targets[index]) * terms(a[index], b[index])[term];
            assert!((0..500).map(missed).sum::<f64>().abs() < 1e-6, "{term}");
        }
    }

    #[test]
    fn two_variables_that_are_the_same_are_fitted_all_the_same() {
        let a = numbers(200, 6);
        let targets: Vec<f64> = a.iter().map(|a| 1.0 + a * a).collect();
        assert!(mean_square_error(&fit(&a, &a, &targets), &a, &a, &targets) < 1e-9);
    }
}
