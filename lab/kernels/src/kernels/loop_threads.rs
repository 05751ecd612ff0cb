//! LOOP: threads that only compute, as another program that does not steal work.
//!
//! Source: X. Ding et al., *BWS: Balanced Work Stealing for Time-Sharing Multicores*, EuroSys 2012, section 5.1.
//! Deviation: the paper's threads loop until the main thread tells them to stop. These threads do a fixed amount of
//! work, so that a slowdown is visible in the time. The program has its own threads and does not use the fork-join
//! backend.

use std::num::NonZero;
use std::thread;

use crate::definition::Definition;
use crate::recurrence::{Step, spin};
use crate::scaling::FORKS_NOTHING;
use crate::{ForkJoin, Kernel, Parameter, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "loop",
    summary: "plain threads that each run a fixed busy loop: the program without work stealing of the BWS paper",
    parameters: &[
        Parameter {
            key: "threads",
            default: "0",
            help: "threads that compute, up to 1024; 0 means one for each core that this process may use",
        },
        Parameter { key: "spins", default: "170000000", help: "steps of the loop in each thread, 0 to 10^12" },
    ],
    prepare: |parameters| {
        let threads = match parameters.number("threads", 0..=1024)? {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads,
        };
        let spins = parameters.number("spins", 0..=1_000_000_000_000)? as u64;
        Ok(Box::new(Loop { threads, spins }))
    },
    scaling: Err(FORKS_NOTHING),
};

struct Loop {
    threads: usize,
    spins: u64,
}

impl Kernel for Loop {
    /// The final number of each thread's recurrence.
    type Output = Vec<u64>;

    fn compute<J: ForkJoin>(&self, _fork_join: J) -> Vec<u64> {
        thread::scope(|scope| {
            let spins = self.spins;
            let threads: Vec<_> =
                (0..self.threads).map(|index| scope.spawn(move || spin(index as u64, spins))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a busy loop has nothing to fail at")).collect()
        })
    }

    fn verify(&self, output: &Vec<u64>) -> Verdict {
        let leap = Step::ONE.repeated(self.spins);
        let right = output.iter().enumerate().filter(|(index, reached)| leap.apply(*index as u64) == **reached).count();
        Verdict::new(
            right == self.threads && output.len() == self.threads,
            format!("{right} of {} threads have the value after {} steps", self.threads, self.spins),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn every_thread_reports() {
        let program = Loop { threads: 3, spins: 1000 };
        let output = program.compute(Serial);
        assert_eq!(output.len(), 3);
        assert!(program.verify(&output).verified);
    }

    #[test]
    fn a_missed_step_or_thread_is_refused() {
        let program = Loop { threads: 3, spins: 1000 };
        let output = program.compute(Serial);
        assert!(!program.verify(&output[..2].to_vec()).verified);
        assert!(!Loop { threads: 3, spins: 1001 }.verify(&output).verified);
    }
}
