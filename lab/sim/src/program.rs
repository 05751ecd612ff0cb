//! Programs: task graphs that unfold while they are run.
//!
//! A node of the graph takes one time step. A [`Strand`] is a chain of nodes that makes other nodes ready only at its
//! end. One processor at a time runs a strand. An interrupted strand continues later, possibly on another processor.
//!
//! ```text
//! fork_join.rs  the jobs of A-STEAL: serial and parallel phases
//! recorded.rs   the graph of a real run
//! endless.rs    LOOP: workers that compute without end
//! requests.rs   a server: workers that answer requests without end
//! ```

mod endless;
mod fork_join;
mod recorded;
mod requests;

use std::num::NonZeroU64;

pub use endless::Endless;
pub use fork_join::{Fork, ForkJoin};
pub use recorded::Recorded;
pub use requests::Requests;

/// A chain of unit-time instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strand {
    /// The program's own identifier of the strand.
    pub id: u32,
    /// The number of instructions, which is also the number of time steps.
    pub length: NonZeroU64,
}

/// A task graph that unfolds while it runs: the end of a strand makes other strands ready.
pub trait Program: Send {
    /// Starts the program, for the first time or again after it has ended. Returns the strand that is ready first.
    fn root(&mut self) -> Strand;

    /// Returns the strands that are ready at the start in addition to the root, each for a separate worker.
    fn others(&mut self) -> Vec<Strand> {
        Vec::new()
    }

    /// True if the program never ends.
    fn is_endless(&self) -> bool {
        false
    }

    /// Ends `strand`: appends the strands that it makes ready to `ready`, in the order in which the program spawns
    /// them. The program has ended if nothing is added and no other strand is ready or runs.
    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>);

    /// Returns the number of time steps that a strand's thread waits in a system call before the strand's first
    /// instruction. Only [`crate::threads`] simulates these waits.
    fn sleep(&self, _strand: u32) -> u64 {
        0
    }

    /// Returns T₁: the number of instructions.
    fn work(&self) -> u64;

    /// Returns T∞: the length of the longest chain of instructions, and of the waits between them.
    fn critical_path(&self) -> u64;

    /// Returns T₁/T∞: the average parallelism.
    fn parallelism(&self) -> f64 {
        self.work() as f64 / self.critical_path() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs the program with unlimited processors. Returns the work that was done, and the time from start to end.
    pub(super) fn unfold(program: &mut dyn Program) -> (u64, u64) {
        let root = program.root();
        let mut running = vec![(root.length.get(), root)];
        let (mut work, mut now, mut ready) = (0, 0, Vec::new());
        while let Some(nth) = (0..running.len()).min_by_key(|nth| running[*nth].0) {
            let (end, strand) = running.swap_remove(nth);
            (now, work) = (end, work + strand.length.get());
            program.done(strand.id, &mut ready);
            running.extend(ready.drain(..).map(|strand| (now + strand.length.get(), strand)));
        }
        (work, now)
    }

    proptest! {
        #[test]
        fn work_and_critical_path_are_what_unfolds(
            (serial, parallel, width, iterations) in (1..50u64, 1..50u64, 1..200u32, 1..4u32),
            fork in prop_oneof![Just(Fork::AtOnce), Just(Fork::Tree)],
        ) {
            let mut program = ForkJoin::new(serial, parallel, width, iterations, fork);
            let told = (program.work(), program.critical_path());
            // The program starts again when it has ended.
            for _ in 0..2 {
                prop_assert_eq!(unfold(&mut program), told);
            }
        }
    }
}
