//! The random matrix of NPB CG.
//!
//! A = Σᵢ ωⁱ·vᵢ·vᵢᵀ + (rcond − shift)·I with random sparse vectors vᵢ and ω = rcond^(1/n). The reference codes insert
//! each term into its place in a row. Here the terms of a row are summed in the same order in a dense row, from which
//! the nonzeros are then collected. This gives the same bits in less time.

use crate::randlc::Randlc;

const SEED: u64 = 314_159_265;

/// About the reciprocal of the matrix's condition number before the shift.
const RCOND: f64 = 0.1;

/// The element that each vector vᵢ gets at its own index i.
const OWN_ELEMENT: f64 = 0.5;

/// A sparse square matrix by rows.
pub(super) struct Matrix {
    /// The index in `columns` and `values` where each row begins. The last element is the end of the last row.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Matrix {
    /// Returns one element of the product of the matrix and `vector`.
    #[inline]
    pub(super) fn row_times(&self, row: usize, vector: &[f64]) -> f64 {
        let nonzeros = self.starts[row]..self.starts[row + 1];
        let columns = &self.columns[nonzeros.clone()];
        self.values[nonzeros].iter().zip(columns).map(|(value, column)| value * vector[*column as usize]).sum()
    }
}

/// An element of a sparse vector.
type Element = (u32, f64);

/// Returns the matrix with `rows` rows from vectors of `nonzeros` random elements each: `makea` in the reference
/// codes.
///
/// # Panics
/// If a vector should have more elements than there are rows.
pub(super) fn make_matrix(rows: usize, nonzeros: usize, shift: f64) -> Matrix {
    assert!(nonzeros <= rows, "a vector of {rows} elements has no {nonzeros} different ones");
    let vectors = draw_vectors(rows, nonzeros);
    // The terms of row j come from the vectors with an element at j.
    let mut members: Vec<Vec<Element>> = vec![Vec::new(); rows];
    for (index, vector) in vectors.iter().enumerate() {
        for &(column, value) in vector {
            members[column as usize].push((index as u32, value));
        }
    }
    let ratio = RCOND.powf(1.0 / rows as f64);
    let weights: Vec<f64> = std::iter::successors(Some(1.0), |weight| Some(weight * ratio)).take(rows).collect();

    let mut matrix = Matrix { starts: vec![0], columns: Vec::new(), values: Vec::new() };
    let mut line = vec![0.0; rows];
    let mut touched_in_row = vec![usize::MAX; rows];
    let mut touched: Vec<u32> = Vec::new();
    for (row, members) in members.iter().enumerate() {
        touched.clear();
        for &(index, value) in members {
            let scale = weights[index as usize] * value;
            for &(column, other) in &vectors[index as usize] {
                let place = column as usize;
                if touched_in_row[place] != row {
                    touched_in_row[place] = row;
                    line[place] = 0.0;
                    touched.push(column);
                }
                let term = other * scale;
                let on_diagonal = place == row && index as usize == row;
                line[place] += if on_diagonal { term + RCOND - shift } else { term };
            }
        }
        touched.sort_unstable();
        matrix.columns.extend(&touched);
        matrix.values.extend(touched.iter().map(|column| line[*column as usize]));
        matrix.starts.push(matrix.columns.len());
    }
    matrix
}

/// Draws the vectors vᵢ: `nonzeros` random elements at different random places, and one element at place i.
fn draw_vectors(rows: usize, nonzeros: usize) -> Vec<Vec<Element>> {
    let mut numbers = Randlc::new(SEED);
    // The reference codes draw a first ζ and overwrite it.
    numbers.draw();
    // The smallest power of two that the reference codes use is 2.
    let places = rows.next_power_of_two().max(2);
    let mut vectors = Vec::with_capacity(rows);
    for own in 0..rows as u32 {
        let mut vector: Vec<Element> = Vec::with_capacity(nonzeros + 1);
        while vector.len() < nonzeros {
            let value = numbers.draw();
            let place = (numbers.draw() * places as f64) as u32;
            if (place as usize) < rows && vector.iter().all(|(taken, _)| *taken != place) {
                vector.push((place, value));
            }
        }
        match vector.iter_mut().find(|(place, _)| *place == own) {
            Some((_, value)) => *value = OWN_ELEMENT,
            None => vector.push((own, OWN_ELEMENT)),
        }
        vectors.push(vector);
    }
    vectors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(matrix: &Matrix, rows: usize) -> Vec<Vec<f64>> {
        (0..rows)
            .map(|row| {
                (0..rows)
                    .map(|column| {
                        let mut unit = vec![0.0; rows];
                        unit[column] = 1.0;
                        matrix.row_times(row, &unit)
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn rows_are_sorted_and_the_matrix_is_symmetric() {
        let matrix = make_matrix(40, 3, 10.0);
        for row in 0..40 {
            let columns = &matrix.columns[matrix.starts[row]..matrix.starts[row + 1]];
            assert!(columns.is_sorted_by(|a, b| a < b), "row {row}");
        }
        let dense = dense(&matrix, 40);
        for (row, line) in dense.iter().enumerate() {
            for (column, value) in line.iter().enumerate() {
                assert!((value - dense[column][row]).abs() < 1e-12, "({row}, {column})");
            }
        }
    }

    #[test]
    fn one_row_is_its_own_square_and_the_shift() {
        let matrix = make_matrix(1, 1, 10.0);
        assert_eq!(dense(&matrix, 1), [[0.25 + 0.1 - 10.0]]);
    }

    #[test]
    #[should_panic(expected = "has no 3 different ones")]
    fn more_nonzeros_than_rows_are_refused() {
        make_matrix(2, 3, 10.0);
    }
}
