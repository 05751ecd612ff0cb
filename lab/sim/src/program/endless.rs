//! LOOP: each worker computes without end, and shares nothing with the others.

use std::num::NonZeroU64;

use super::{Program, Strand};

/// The program LOOP of BWS §5.1. It has one task for each worker, and no task forks or ends. Once each worker has a
/// task, nothing can be stolen. The program runs until the simulation ends or the program is killed.
#[derive(Clone, Debug)]
pub struct Endless {
    workers: u32,
}

/// The length of a strand in instructions. It is longer than any run: a simulation ends before 2⁴¹ ns.
const FOR_EVER: NonZeroU64 = NonZeroU64::new(1 << 50).expect("the length is not zero");

impl Endless {
    /// Creates the program for this many workers.
    ///
    /// # Panics
    /// Panics if `workers` is zero.
    pub fn new(workers: u32) -> Endless {
        assert!(workers > 0, "a program has workers");
        Endless { workers }
    }
}

impl Program for Endless {
    fn root(&mut self) -> Strand {
        Strand { id: 0, length: FOR_EVER }
    }

    fn others(&mut self) -> Vec<Strand> {
        (1..self.workers).map(|id| Strand { id, length: FOR_EVER }).collect()
    }

    fn is_endless(&self) -> bool {
        true
    }

    fn done(&mut self, strand: u32, _ready: &mut Vec<Strand>) {
        panic!("strand {strand} of LOOP has ended");
    }

    fn work(&self) -> u64 {
        FOR_EVER.get()
    }

    fn critical_path(&self) -> u64 {
        FOR_EVER.get()
    }

    fn parallelism(&self) -> f64 {
        f64::from(self.workers)
    }
}
