//! Tasks that sleep in a system call and then compute, like a program that reads files or asks servers from its pool.
//!
//! The kernel's sleep stands for the file or the server: it blocks the worker for a time that depends on no other
//! program. The work is given in steps instead of time, so that each run does the same work, whatever else runs.

use std::thread::sleep;
use std::time::Duration;

use crate::definition::Definition;
use crate::recurrence::{Step, spin};
use crate::scaling::FORKS_NOTHING;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "io",
    summary: "tasks that sleep in a system call and then compute: workers block, as in reading files",
    parameters: &[
        Parameter { key: "tasks", default: "200", help: "number of tasks, 1 to 10^9" },
        Parameter { key: "sleep_us", default: "1000", help: "time that each task sleeps, in microseconds, 0 to 10^7" },
        Parameter {
            key: "spins",
            default: "9000",
            help: "steps of a busy loop in each task after its sleep, 0 to 10^12; 9000 take about 10 µs",
        },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Err(FORKS_NOTHING),
};

fn prepare(parameters: &Parameters) -> Result<Io, ParameterError> {
    let tasks = parameters.number("tasks", 1..=1_000_000_000)?;
    let sleep_us = parameters.number("sleep_us", 0..=10_000_000)? as u64;
    let spins = parameters.number("spins", 0..=1_000_000_000_000)? as u64;
    Ok(Io { tasks, asleep: Duration::from_micros(sleep_us), spins })
}

struct Io {
    tasks: usize,
    asleep: Duration,
    spins: u64,
}

impl Kernel for Io {
    /// The sum of the final numbers of the tasks' recurrences.
    type Output = u64;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> u64 {
        let task = |index: usize| {
            // Even a sleep of zero length enters the kernel.
            if !self.asleep.is_zero() {
                sleep(self.asleep);
            }
            spin(index as u64, self.spins)
        };
        fork_join.reduce_range(0..self.tasks, 1, &|tasks| sum(tasks.map(task)), &u64::wrapping_add)
    }

    fn verify(&self, output: &u64) -> Verdict {
        let leap = Step::ONE.repeated(self.spins);
        let expected = sum((0..self.tasks).map(|index| leap.apply(index as u64)));
        Verdict::new(
            *output == expected,
            format!("{} tasks of {} steps add up to {output:016x}, expected {expected:016x}", self.tasks, self.spins),
        )
    }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    #[test]
    fn a_task_that_is_missing_or_too_short_is_noticed() {
        let program = |tasks, spins| Io { tasks, asleep: Duration::ZERO, spins };
        let output = program(5, 100).compute(Serial);
        assert!(program(5, 100).verify(&output).verified);
        assert!(!program(6, 100).verify(&output).verified);
        assert!(!program(5, 101).verify(&output).verified);
    }

    #[test]
    fn tasks_sleep_one_after_the_other_on_one_thread() {
        let program = Io { tasks: 3, asleep: Duration::from_millis(2), spins: 0 };
        let start = std::time::Instant::now();
        program.compute(Serial);
        assert!(start.elapsed() >= 3 * program.asleep);
    }
}
