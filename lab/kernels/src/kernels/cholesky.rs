//! Cholesky decomposition of a sparse matrix in a quad-tree: tasks of very different sizes, which allocate memory.
//!
//! Cholesky of the DWS paper (Table III, p-3, compute-intensive), which takes it from MIT Cilk's examples. Like
//! Cilk's program, this one stores a sparse matrix in a tree of quarters, and adds the entries that the factor L
//! fills in. Quarters of zeros are not in the tree. A dense recursion would be shorter, but [`lu`](super::lu) has one
//! already. With the tree, the amount of work of a task is not known beforehand, and all tasks allocate memory.
//!
//! The matrix is split into quarters. The upper left quarter is decomposed, and the lower left quarter is solved for.
//! The product of the lower left quarter and its transpose is subtracted from the lower right quarter, which is then
//! decomposed. Deviation: the smallest blocks have 8 x 8 entries, where Cilk's have 4 x 4. The recursion does not
//! fork below 64 rows, because a block takes only a fraction of a microsecond. A leaf takes up to 100 µs, or almost
//! no time if little is filled in.

mod block;
mod tree;

use comity_graph::Scale;

use crate::definition::Definition;
use crate::difference::{largest, largest_difference};
use crate::random::SplitMix;
use crate::scaling::{Scaling, quarters_on_path};
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};
use tree::{Recursion, Tree};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "cholesky",
    summary: "Cholesky decomposition of a sparse matrix in a quad-tree (DWS paper, compute-intensive; MIT Cilk)",
    parameters: &[
        Parameter {
            key: "class",
            default: "medium",
            help: "small, medium or paper (n = 500, 1000, 2000; nonzeros = 1000, 10000, 10000)",
        },
        Parameter { key: "n", default: "", help: "rows and columns, 1 to 8192; empty: the class's number" },
        Parameter {
            key: "nonzeros",
            default: "",
            help: "random entries below the diagonal, 0 to 1000000 (fewer if two coincide); empty: the class's number",
        },
        Parameter { key: "grain", default: "64", help: "rows of a part with a serial recursion, 1 to 8192" },
        Parameter { key: "seed", default: "1", help: "seed of the matrix, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["class", "n", "nonzeros"],
        rule: "n: phases by the parts on the longest path, width by all parts / these parts; nonzeros: nothing, \
            because most of the factor is filled in",
        extents,
    }),
};

/// The number of rows and of random entries by class. The paper gives no size. The classes medium and paper have the
/// sizes of the standard and the long benchmark of Cilk 5.4.6's example.
const SIZES: [(usize, usize); 3] = [(500, 1_000), (1_000, 10_000), (2_000, 10_000)];

const MOST_ROWS: usize = 8_192;

/// The number of random vectors in the check.
const CHECK_VECTORS: usize = 3;

/// The largest accepted value of (largest entry of L (Lᵀ x) - A x) / (largest entry of A). Rounding causes less than
/// a hundredth of it.
const TOLERANCE: f64 = 1e-12;

fn prepare(parameters: &Parameters) -> Result<Cholesky, ParameterError> {
    let (n, nonzeros, grain) = size(parameters)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Cholesky::random(n, nonzeros, grain, seed as u64))
}

/// Returns the number of rows, of random entries, and of rows of a serial part.
fn size(parameters: &Parameters) -> Result<(usize, usize, usize), ParameterError> {
    let (n, nonzeros) = parameters.class(&SIZES)?;
    let n = parameters.number_or("n", n, 1..=MOST_ROWS)?;
    let nonzeros = parameters.number_or("nonzeros", nonzeros, 0..=1_000_000)?;
    Ok((n, nonzeros, parameters.number("grain", 1..=MOST_ROWS)?))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (n, _, grain) = size(parameters)?;
    let side = n.div_ceil(grain);
    // The parts that are solved for, and the products of pairs of these parts.
    let parts = side * (side - 1) / 2 + side * (side * side - 1) / 6;
    let phases = quarters_on_path(side as f64);
    Ok(Scale { phases, width: (parts as f64 / phases).max(1.0), ..Scale::default() })
}

/// An entry of the matrix, on the diagonal or below it.
#[derive(Clone, Copy)]
struct Entry {
    row: usize,
    column: usize,
    value: f64,
}

struct Cholesky {
    n: usize,
    /// The symmetric matrix, without the entries above the diagonal.
    entries: Vec<Entry>,
    /// The matrix as a tree.
    tree: Tree,
    /// The number of rows up to which a part is not forked.
    grain: usize,
    seed: u64,
}

impl Cholesky {
    fn random(n: usize, nonzeros: usize, grain: usize, seed: u64) -> Cholesky {
        let entries = dominant_matrix(n, nonzeros, seed);
        let mut tree = Tree::of_rows(n);
        for Entry { row, column, value } in &entries {
            tree.set(*row, *column, *value);
        }
        Cholesky { n, entries, tree, grain, seed }
    }
}

/// Returns up to `nonzeros` random entries from -1 to 1 at random places below the diagonal, and the diagonal. Each
/// diagonal entry is larger than the rest of its row, which makes the matrix positive definite.
fn dominant_matrix(n: usize, nonzeros: usize, seed: u64) -> Vec<Entry> {
    let mut random = SplitMix::new(seed);
    let mut entries = Vec::with_capacity(nonzeros + n);
    for _ in 0..nonzeros {
        let [one, other] = [(); 2].map(|()| random.below(n as u64) as usize);
        entries.push(Entry { row: one.max(other), column: one.min(other), value: 2.0 * random.unit() - 1.0 });
    }
    entries.retain(|entry| entry.row != entry.column);
    entries.sort_by_key(|entry| (entry.row, entry.column));
    entries.dedup_by_key(|entry| (entry.row, entry.column));
    let mut diagonal = vec![1.0; n];
    for Entry { row, column, value } in &entries {
        diagonal[*row] += value.abs();
        diagonal[*column] += value.abs();
    }
    entries.extend(diagonal.into_iter().enumerate().map(|(row, value)| Entry { row, column: row, value }));
    entries
}

impl Kernel for Cholesky {
    /// The lower triangular L of A = L Lᵀ.
    type Output = Tree;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Tree {
        let recursion = Recursion { fork_join, grain: self.grain };
        let mut tree = recursion.copy(&self.tree);
        recursion.decompose(&mut tree);
        tree
    }

    /// Does Freivalds' check with a tolerance ("Probabilistic machines can use less running time", 1977). L (Lᵀ x)
    /// must be A x for random vectors x of 1 and -1, with A as a list of entries. The check is sufficient because the
    /// factor with a positive diagonal is unique.
    fn verify(&self, output: &Tree) -> Verdict {
        let n = self.n;
        let factor = output.entries();
        if let Some(entry) = factor.iter().find(|entry| entry.row >= n || entry.column > entry.row) {
            return Verdict::new(false, format!("an entry in row {} and column {}", entry.row, entry.column));
        }
        let positive = factor.iter().filter(|entry| entry.row == entry.column && entry.value > 0.0).count();
        // The seed differs from the seed of the matrix.
        let mut random = SplitMix::new(!self.seed);
        let residual = largest((0..CHECK_VECTORS).map(|_| self.residual(&factor, &mut random)));
        Verdict::new(
            residual <= TOLERANCE && positive == n,
            format!(
                "{n} x {n}: {} entries, {} in the factor; largest entry of L (L^T x) - A x is {residual:.1e} for \
                 {CHECK_VECTORS} random vectors x, allowed {TOLERANCE:.0e}; {positive} of {n} on the diagonal are \
                 positive",
                self.entries.len(),
                factor.len(),
            ),
        )
    }
}

impl Cholesky {
    /// Returns (largest entry of L (Lᵀ x) - A x for a random x) / (largest entry of A).
    fn residual(&self, factor: &[Entry], random: &mut SplitMix) -> f64 {
        let mut x = vec![0.0; self.n];
        x.fill_with(|| if random.next() & 1 == 0 { 1.0 } else { -1.0 });
        let mut a_x = vec![0.0; self.n];
        for Entry { row, column, value } in &self.entries {
            a_x[*row] += value * x[*column];
            if row != column {
                a_x[*column] += value * x[*row];
            }
        }
        let (mut transposed, mut product) = (vec![0.0; self.n], vec![0.0; self.n]);
        for Entry { row, column, value } in factor {
            transposed[*column] += value * x[*row];
        }
        for Entry { row, column, value } in factor {
            product[*row] += value * transposed[*column];
        }
        largest_difference(&product, &a_x) / largest(self.entries.iter().map(|entry| entry.value.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn values(tree: &Tree) -> Vec<(usize, usize, u64)> {
        tree.entries().iter().map(|entry| (entry.row, entry.column, entry.value.to_bits())).collect()
    }

    #[test]
    fn every_size_density_and_grain_gives_the_same_verified_factor() {
        for (n, nonzeros) in [(1, 0), (2, 5), (8, 3), (9, 40), (100, 0), (130, 200), (150, 20_000)] {
            let serial = values(&Cholesky::random(n, nonzeros, 1, 7).compute(Serial));
            for grain in [1, 32, MOST_ROWS] {
                let program = Cholesky::random(n, nonzeros, grain, 7);
                let factor = program.compute(OnRayon);
                assert!(program.verify(&factor).verified, "n={n}: {}", program.verify(&factor).detail);
                assert_eq!(values(&factor), serial, "n={n}, nonzeros={nonzeros}, grain={grain}");
            }
        }
    }

    #[test]
    fn the_factor_is_that_of_the_definition() {
        let n = 40;
        let program = Cholesky::random(n, 200, 8, 3);
        let mut dense = vec![vec![0.0; n]; n];
        for entry in &program.entries {
            dense[entry.row][entry.column] = entry.value;
        }
        for column in 0..n {
            for row in column..n {
                let sum: f64 = (0..column).map(|k| dense[row][k] * dense[column][k]).sum();
                let value = dense[row][column] - sum;
                dense[row][column] = if row == column { value.sqrt() } else { value / dense[column][column] };
            }
        }
        let mut found = vec![vec![0.0; n]; n];
        for entry in program.compute(Serial).entries() {
            found[entry.row][entry.column] = entry.value;
        }
        for (found, expected) in found.iter().zip(&dense) {
            assert!(largest_difference(found, expected) < 1e-14);
        }
    }

    #[test]
    fn a_sparse_matrix_keeps_its_zeros() {
        // Without entries below the diagonal, nothing is filled in.
        let factor = Cholesky::random(1_000, 0, 64, 1).compute(Serial);
        assert!(factor.entries().iter().all(|entry| entry.row == entry.column));
        assert_eq!(factor.blocks(), 125);
    }

    #[test]
    fn a_single_wrong_entry_and_a_missing_one_are_noticed() {
        let program = Cholesky::random(100, 300, 16, 2);
        let factor = program.compute(Serial).entries();
        let with = |change: &dyn Fn(&mut Entry)| {
            let mut tree = Tree::of_rows(100);
            for (index, entry) in factor.iter().enumerate() {
                let mut entry = *entry;
                if index == factor.len() / 2 {
                    change(&mut entry);
                }
                tree.set(entry.row, entry.column, entry.value);
            }
            program.verify(&tree).verified
        };
        assert!(with(&|_| {}));
        assert!(!with(&|entry| entry.value += 1e-9));
        assert!(!with(&|entry| entry.value = 0.0));
        assert!(!with(&|entry| entry.value = f64::NAN));
        assert!(!with(&|entry| std::mem::swap(&mut entry.row, &mut entry.column)));
        assert!(!program.verify(&program.tree).verified);
        assert!(!program.verify(&Tree::of_rows(100)).verified);
    }

    #[test]
    fn a_factor_with_a_negative_diagonal_is_refused() {
        let program = Cholesky::random(20, 30, 16, 2);
        let mut tree = Tree::of_rows(20);
        for entry in program.compute(Serial).entries() {
            tree.set(entry.row, entry.column, -entry.value);
        }
        assert!(!program.verify(&tree).verified);
    }
}
