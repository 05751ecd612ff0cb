//! The catalog of all programs by name. A new program needs a file under `programs/` and an entry here.

use crate::program::Program;
use crate::programs::*;

/// The definition of a program in the catalog.
pub struct Definition {
    /// The name, as in `rayon-programs run NAME`.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The default size. A run takes about 10 to 100 ms on two cores of 2 GHz.
    pub size: usize,
    /// Builds a program of a given size.
    pub prepare: fn(usize) -> Box<dyn Program>,
}

/// The definitions of all programs except the papers' kernels.
pub const DEFINITIONS: &[Definition] = &[
    map_reduce::DEFINITION,
    sort::STABLE,
    sort::UNSTABLE,
    chunks::DEFINITION,
    bridge::DEFINITION,
    flat_map::DEFINITION,
    nested_join::DEFINITION,
    trivial_loop::DEFINITION,
    scope::DEFINITION,
    collect::DEFINITION,
    small_jobs::DEFINITION,
    pools::DEFINITION,
    spawns::DEFINITION,
    nested_iter::DEFINITION,
];

/// The prefix of the names of kernels.
const KERNEL: &str = "kernel ";

/// Returns the name and the summary of every program.
pub fn all() -> impl Iterator<Item = (String, String)> {
    let programs = DEFINITIONS.iter().map(|definition| (definition.name.to_owned(), definition.summary.to_owned()));
    let kernels = kernel::SIZES.iter().map(|(name, sized)| (format!("{KERNEL}{name}"), format!("the kernel {sized}")));
    programs.chain(kernels)
}

/// Builds the input of the program `text`.
pub fn prepare(text: &str) -> Result<Box<dyn Program>, String> {
    if let Some(kernel) = text.strip_prefix(KERNEL) {
        return kernel::prepare(kernel);
    }
    let (name, size) = text.split_once(':').map_or((text, None), |(name, size)| (name, Some(size)));
    match DEFINITIONS.iter().find(|definition| definition.name == name) {
        Some(definition) => match size.map_or(Ok(definition.size), str::parse) {
            Ok(size) => Ok((definition.prepare)(size)),
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
        for definition in DEFINITIONS {
            for size in [0, 1, 2, 3, 50, 701] {
                let mut program = (definition.prepare)(size);
                // The second run must find the same input as the first.
                for round in 1..=2 {
                    program
                        .run(Duration::ZERO)
                        .unwrap_or_else(|wrong| panic!("{} of size {size}, round {round}: {wrong}", definition.name));
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
