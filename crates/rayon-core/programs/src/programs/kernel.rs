//! The papers' kernels, written with `rayon::join` alone.
//!
//! The kernels run in a separate pool with the same number of threads as the global pool.

use std::sync::LazyLock;
use std::time::Duration;

use comity_kernels::{Backend, catalog};

use crate::program::{Program, Took, measure};

/// The name of every kernel that uses `join`, and the size that it has here.
pub const SIZES: &[(&str, &str)] = &[
    ("fib", "fib:n=32"),
    ("bfs", "bfs:nodes=300000"),
    ("clip", "clip:pairs=8000"),
    ("mi", "mi:n=500"),
    ("mm", "mm:n=800"),
    ("raytrace", "raytrace:samples=1"),
    ("cg", "cg:class=S"),
    ("ep", "ep:class=S"),
    ("uts", "uts:tree=T1"),
    ("nqueens", "nqueens:n=13"),
    ("mergesort", "mergesort:n=1500000"),
    ("fft", "fft:class=medium"),
    ("pnn", "pnn:class=medium"),
    ("cholesky", "cholesky:class=medium"),
    ("lu", "lu:class=medium"),
    ("ge", "ge:class=medium"),
    ("heat", "heat:class=medium"),
    ("sor", "sor:class=medium"),
];

/// The pool of all kernels, which run one at a time.
static POOL: LazyLock<Result<Backend, String>> = LazyLock::new(|| {
    let pool = rayon::ThreadPoolBuilder::new().build();
    pool.map(Backend::Rayon).map_err(|error| format!("cannot start the kernels' pool: {error}"))
});

struct Kernel {
    program: Box<dyn comity_kernels::Program>,
    pool: &'static Backend,
}

/// Builds the input of a kernel. `text` is its name, alone or with parameters.
pub fn prepare(text: &str) -> Result<Box<dyn Program>, String> {
    let name = text.split(':').next().unwrap_or_default();
    let Some((_, sized)) = SIZES.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = SIZES.iter().map(|(name, _)| *name).collect();
        return Err(format!("no kernel is called '{name}'; choose one of {}", names.join(", ")));
    };
    let text = if text == name { sized } else { text };
    let program = catalog::prepare(text).map_err(|error| error.to_string())?;
    let pool = POOL.as_ref().map_err(String::clone)?;
    Ok(Box::new(Kernel { program, pool }))
}

impl Program for Kernel {
    fn run(&mut self, aftermath: Duration) -> Result<Took, String> {
        let (check, took) = measure(aftermath, || self.program.compute_on(self.pool));
        let verdict = check();
        if verdict.verified { Ok(took) } else { Err(verdict.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_right_when_it_is_small() {
        for text in [
            "fib:n=15",
            "bfs:nodes=2000",
            "clip:pairs=50",
            "mi:n=40",
            "mm:n=70",
            "raytrace:width=32,height=24,samples=1",
            "cg",
            "nqueens:n=8",
            "mergesort:n=20000",
            "fft:n=4096",
            "pnn:variables=8,samples=1500,layers=4",
            "cholesky:n=100,nonzeros=200",
            "lu:n=70",
            "ge:n=70",
            "heat:rows=50,columns=40,steps=5",
            "sor:rows=50,columns=40,sweeps=5",
        ] {
            prepare(text).unwrap().run(Duration::ZERO).unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
        }
    }

    #[test]
    fn what_does_not_join_or_is_not_there_is_refused() {
        for name in ["loop", "fibonacci", ""] {
            let error = prepare(name).err().unwrap();
            assert!(error.contains(&format!("no kernel is called '{name}'; choose one of fib, ")), "{error}");
        }
        assert!(prepare("fib:depth=3").err().unwrap().contains("no key 'depth'"));
    }
}
