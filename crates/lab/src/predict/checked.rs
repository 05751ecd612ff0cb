//! A program as the process of a co-run has it: after each round it checks its result, on one core and not in its time.

use std::num::NonZeroU64;

use comity_sim::program::{Program, Recorded, Strand};

/// Each second execution is a check.
pub struct Checked {
    program: Recorded,
    check: NonZeroU64,
    is_checking: bool,
}

impl Checked {
    /// Of a program that repeats, whose checks take so many nanoseconds.
    pub fn new(program: Recorded, check_ns: u64) -> Checked {
        // Before the first execution there is none.
        Checked { program, check: NonZeroU64::new(check_ns).unwrap_or(NonZeroU64::MIN), is_checking: true }
    }

    /// How long the program's own executions took that have ended, where it came at a time and each execution ended at a time.
    pub fn rounds(came: u64, ended: &[u64]) -> Vec<u64> {
        let began = std::iter::once(came).chain(ended.iter().skip(1).step_by(2).copied());
        ended.iter().step_by(2).zip(began).map(|(ended, began)| ended - began).collect()
    }
}

impl Program for Checked {
    fn root(&mut self) -> Strand {
        self.is_checking = !self.is_checking;
        if self.is_checking { Strand { id: 0, length: self.check } } else { self.program.root() }
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        if !self.is_checking {
            self.program.done(strand, ready);
        }
    }

    fn work(&self) -> u64 {
        self.program.work()
    }

    fn critical_path(&self) -> u64 {
        self.program.critical_path()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use comity_graph::{About, Graph, Step, Stretch, Task};

    use super::*;

    #[test]
    fn rounds_and_checks_take_turns() {
        let graph = Graph::new(About::default(), vec![Task(vec![Step::Run(Stretch::of(7, 0))])]).unwrap();
        let mut program = Checked::new(Recorded::new(Arc::new(graph), 1), 3);
        let mut ready = Vec::new();
        for length in [7, 3, 7, 3, 7] {
            let root = program.root();
            assert_eq!(root.length.get(), length);
            program.done(root.id, &mut ready);
            assert!(ready.is_empty());
        }
    }

    #[test]
    fn a_check_is_in_no_round() {
        assert_eq!(Checked::rounds(5, &[]), [0; 0]);
        assert_eq!(Checked::rounds(5, &[15, 18]), [10]);
        assert_eq!(Checked::rounds(5, &[15, 18, 38, 41, 42]), [10, 20, 1]);
    }
}
