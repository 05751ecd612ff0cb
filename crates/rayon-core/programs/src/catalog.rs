//! The catalog of all programs by name. A new program needs a file under `programs/` and a row here.

use crate::program::Program;
use crate::programs::*;

/// The catalog row of a program.
pub struct Row {
    /// The name, as in `rayon-programs run NAME`.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The default size. A run takes about 10 to 100 ms on two cores of 2 GHz.
    pub size: usize,
    /// Builds a program of a given size.
    pub prepare: fn(usize) -> Box<dyn Program>,
}

/// The rows of all programs except the papers' kernels.
pub const ROWS: &[Row] = &[
    map_reduce::ROW,
    sort::STABLE,
    sort::UNSTABLE,
    chunks::ROW,
    bridge::ROW,
    flat_map::ROW,
    nested_join::ROW,
    trivial_loop::ROW,
    scope::ROW,
    collect::ROW,
    small_jobs::ROW,
    pools::ROW,
    spawns::ROW,
    nested_iter::ROW,
];

/// The prefix of the names of kernels.
const KERNEL: &str = "kernel ";

/// Returns the name and the summary of every program.
pub fn all() -> impl Iterator<Item = (String, String)> {
    let rows = ROWS.iter().map(|row| (row.name.to_owned(), row.summary.to_owned()));
    let kernels = kernel::SIZES.iter().map(|(name, sized)| (format!("{KERNEL}{name}"), format!("the kernel {sized}")));
    rows.chain(kernels)
}

/// Builds the input of the program `text`.
pub fn prepare(text: &str) -> Result<Box<dyn Program>, String> {
    if let Some(kernel) = text.strip_prefix(KERNEL) {
        return kernel::prepare(kernel);
    }
    let (name, size) = text.split_once(':').map_or((text, None), |(name, size)| (name, Some(size)));
    match ROWS.iter().find(|row| row.name == name) {
        Some(row) => match size.map_or(Ok(row.size), str::parse) {
            Ok(size) => Ok((row.prepare)(size)),
            Err(error) => Err(format!("the size in '{text}' is not a number of elements: {error}")),
        },
        None => {
            let names: Vec<String> = all().map(|(name, _)| name).collect();
            Err(format!("no program is called '{name}'; choose one of {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_program_is_right_at_every_small_size() {
        for row in ROWS {
            for size in [0, 1, 2, 3, 50, 701] {
                let mut program = (row.prepare)(size);
                // The second run must find the same input as the first.
                for round in 1..=2 {
                    program
                        .run(Duration::ZERO)
                        .unwrap_or_else(|wrong| panic!("{} of size {size}, round {round}: {wrong}", row.name));
                }
            }
        }
    }

    #[test]
    fn names_are_different_and_an_unknown_one_is_refused() {
        let mut names: Vec<String> = all().map(|(name, _)| name).collect();
        let number = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), number);
        let error = prepare("sorted").err().unwrap();
        assert!(error.contains("no program is called 'sorted'; choose one of map-reduce, "), "{error}");
        let error = prepare("sort:many").err().unwrap();
        assert!(error.contains("the size in 'sort:many' is not a number"), "{error}");
        prepare("sort:7").unwrap().run(Duration::ZERO).unwrap();
    }
}
