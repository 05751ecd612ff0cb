//! Serial and parallel phases, one after another: the jobs of A-STEAL §3.

use std::num::NonZeroU64;

use super::{Program, Strand};

/// The way in which the strands of a parallel phase are created. The paper does not specify it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fork {
    /// All strands are created at once, when the serial phase ends.
    #[default]
    AtOnce,
    /// A binary tree of unit-time instructions creates the strands. Each instruction enables two others.
    Tree,
}

/// A job of A-STEAL §3, figure 2: serial and parallel phases in turn.
#[derive(Clone, Debug)]
pub struct ForkJoin {
    serial: NonZeroU64,
    parallel: NonZeroU64,
    width: u32,
    iterations: u32,
    fork: Fork,
    /// The time that each strand of a parallel phase waits before its work, in steps.
    sleep: u64,
    /// The time that the strand of a serial phase waits before its work, in steps.
    idle: u64,
    /// The number of iterations that are over.
    past: u32,
    /// The number of strands of the current parallel phase that are not done.
    left: u32,
}

/// The strand of a serial phase. The strands of a parallel phase are numbered from 1, as nodes of a binary tree: node
/// k enables 2k and 2k + 1. The leaves are the phase's parallel strands, and have the highest numbers.
const SERIAL: u32 = 0;

impl ForkJoin {
    /// Creates a job that repeats two phases `iterations` times: a serial phase of `serial` instructions, and a
    /// parallel phase of `width` strands with `parallel` instructions each.
    ///
    /// # Panics
    /// Panics if a phase has no instruction or no strand, if there is no iteration, or with more than 2³⁰ strands.
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
            idle: 0,
            past: 0,
            left: 0,
        }
    }

    /// Makes each strand of a parallel phase wait for `sleep` steps before its work, as for a disk or a network.
    pub fn sleeping(self, sleep: u64) -> ForkJoin {
        ForkJoin { sleep, ..self }
    }

    /// Makes each serial phase wait for `idle` steps before its work, like a server that has nothing to do until the
    /// next requests arrive.
    pub fn idling(self, idle: u64) -> ForkJoin {
        ForkJoin { idle, ..self }
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
        self.past = 0;
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
        match strand {
            SERIAL => self.idle,
            fork if fork < self.width => 0,
            _leaf => self.sleep,
        }
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
        u64::from(self.iterations) * (self.idle + self.serial.get() + forks + self.sleep + self.parallel.get())
    }
}
