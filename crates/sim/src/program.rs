//! Programs: task graphs that unfold while they are run.
//!
//! A node of the graph takes one time step, and a chain of nodes in which nothing else is enabled is a [`Strand`]: it runs
//! on one processor from end to end, however often it is interrupted.

use std::num::NonZeroU64;

/// A chain of unit-time instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strand {
    /// The program's own name for it.
    pub id: u32,
    /// How many instructions, and so time steps, it has.
    pub length: NonZeroU64,
}

/// A task graph that unfolds: what is ready shows when strands are done.
pub trait Program: Send {
    /// The strand that is ready at the start.
    fn root(&mut self) -> Strand;

    /// `strand` is done: what this makes ready goes to `ready`, in the order in which the program spawns it. Nothing, and
    /// nothing ready elsewhere: the program has ended.
    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>);

    /// How long a strand's thread waits in a system call before its first instruction, on a machine that has threads.
    fn sleep(&self, _strand: u32) -> u64 {
        0
    }

    /// T₁: the number of instructions.
    fn work(&self) -> u64;

    /// T∞: the length of the longest chain of instructions, and of the waits between them.
    fn critical_path(&self) -> u64;

    /// T₁/T∞: the average parallelism.
    fn parallelism(&self) -> f64 {
        self.work() as f64 / self.critical_path() as f64
    }
}

/// How the strands of a parallel phase come into being, which the paper leaves unsaid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// All at once, when the serial phase ends.
    #[default]
    AtOnce,
    /// By a binary tree of unit-time instructions, each of which enables two others.
    Tree,
}

/// The jobs of A-STEAL §3, figure 2: a serial phase, then a parallel one, and so on.
#[derive(Clone, Debug)]
pub struct ForkJoin {
    serial: NonZeroU64,
    parallel: NonZeroU64,
    width: u32,
    iterations: u32,
    fork: Fork,
    /// How long each strand of the parallel phase waits before its work.
    sleep: u64,
    /// Iterations that are over.
    past: u32,
    /// Strands of the parallel phase that are not done yet.
    left: u32,
}

/// The strand of a serial phase. Those of a parallel phase are numbered from 1, as nodes of a binary tree: node k enables
/// 2k and 2k + 1, and the leaves, which are the strands of the phase, come after all others.
const SERIAL: u32 = 0;

impl ForkJoin {
    /// `iterations` times a serial phase of `serial` instructions and a parallel one of `width` strands, each of `parallel`
    /// instructions.
    ///
    /// # Panics
    /// If a phase has no instruction or no strand, if there is no iteration, or with more than 2³⁰ strands.
    pub fn new(serial: u64, parallel: u64, width: u32, iterations: u32, fork: Fork) -> ForkJoin {
        let phase = |length| NonZeroU64::new(length).expect("a phase has at least one instruction");
        assert!((1..=1 << 30).contains(&width) && iterations > 0, "{width} strands, {iterations} iterations");
        ForkJoin {
            serial: phase(serial),
            parallel: phase(parallel),
            width,
            iterations,
            fork,
            sleep: 0,
            past: 0,
            left: 0,
        }
    }

    /// The same, but each strand of the parallel phase first waits for so long, as for a disk or a network.
    pub fn sleeping(self, sleep: u64) -> ForkJoin {
        ForkJoin { sleep, ..self }
    }

    fn strand(&self, node: u32) -> Strand {
        let length = match node {
            SERIAL => self.serial,
            fork if fork < self.width => NonZeroU64::MIN,
            _leaf => self.parallel,
        };
        Strand { id: node, length }
    }
}

impl Program for ForkJoin {
    fn root(&mut self) -> Strand {
        self.strand(SERIAL)
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        let leaves = self.width..2 * self.width;
        match strand {
            SERIAL => {
                self.left = self.width;
                match self.fork {
                    Fork::AtOnce => ready.extend(leaves.map(|leaf| self.strand(leaf))),
                    Fork::Tree => ready.push(self.strand(1)),
                }
            }
            fork if fork < self.width => ready.extend([2 * fork, 2 * fork + 1].map(|node| self.strand(node))),
            _leaf => {
                self.left -= 1;
                if self.left == 0 {
                    self.past += 1;
                    if self.past < self.iterations {
                        ready.push(self.strand(SERIAL));
                    }
                }
            }
        }
    }

    fn sleep(&self, strand: u32) -> u64 {
        let is_leaf = strand != SERIAL && strand >= self.width;
        if is_leaf { self.sleep } else { 0 }
    }

    fn work(&self) -> u64 {
        let forks = match self.fork {
            Fork::AtOnce => 0,
            Fork::Tree => u64::from(self.width) - 1,
        };
        u64::from(self.iterations) * (self.serial.get() + forks + u64::from(self.width) * self.parallel.get())
    }

    fn critical_path(&self) -> u64 {
        let forks = match self.fork {
            Fork::AtOnce => 0,
            Fork::Tree => u64::from(self.width.next_power_of_two().ilog2()),
        };
        u64::from(self.iterations) * (self.serial.get() + forks + self.sleep + self.parallel.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs it with as many processors as it likes: the work that was done, and the time.
    fn unfold(mut program: impl Program) -> (u64, u64) {
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
            let program = ForkJoin::new(serial, parallel, width, iterations, fork);
            let (work, critical_path) = (program.work(), program.critical_path());
            prop_assert_eq!(unfold(program), (work, critical_path));
        }
    }
}
