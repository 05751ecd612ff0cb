//! The structure of every program: an input, a parallel part that is measured, and a check.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The time after the parallel part in which processor time is still counted.
pub const AFTERMATH: Duration = Duration::from_millis(20);

/// A program with its input, ready to run any number of times.
pub trait Program {
    /// Runs the program once. Counts processor time until the time `aftermath` after the run, which is [`AFTERMATH`]
    /// or 0.
    ///
    /// # Errors
    /// If the result is wrong. The message does not contain the program's name.
    fn run(&mut self, aftermath: Duration) -> Result<Took, String>;
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// The wall-clock time of the parallel part.
    pub wall: Duration,
    /// The user and system time of all threads, from just before the parallel part until the end of the aftermath.
    pub cpu: Duration,
}

/// Creates a program of three steps: `input` creates the input of one run, `run` is the parallel part, and `check`
/// returns an error for a wrong output.
pub fn steps<I: 'static, O: 'static>(
    input: impl FnMut() -> I + 'static,
    run: impl FnMut(I) -> O + 'static,
    check: impl FnMut(O) -> Result<(), String> + 'static,
) -> Box<dyn Program> {
    Box::new(Steps { input, run, check })
}

struct Steps<Input, Run, Check> {
    input: Input,
    run: Run,
    check: Check,
}

impl<I, O, Input, Run, Check> Program for Steps<Input, Run, Check>
where
    Input: FnMut() -> I,
    Run: FnMut(I) -> O,
    Check: FnMut(O) -> Result<(), String>,
{
    fn run(&mut self, aftermath: Duration) -> Result<Took, String> {
        let input = (self.input)();
        let (output, took) = measure(aftermath, || (self.run)(input));
        (self.check)(output).map(|()| took)
    }
}

/// Runs `parallel_part`, waits for the time `aftermath`, and returns the output and the times.
pub fn measure<O>(aftermath: Duration, parallel_part: impl FnOnce() -> O) -> (O, Took) {
    let (used, start) = (cpu_time(), Instant::now());
    let output = parallel_part();
    let wall = start.elapsed();
    thread::sleep(aftermath);
    (output, Took { wall, cpu: cpu_time().saturating_sub(used) })
}

/// Waits for `time` without work, and returns the times of this interval.
pub fn idle(time: Duration) -> Took {
    let (used, start) = (cpu_time(), Instant::now());
    thread::sleep(time);
    Took { wall: start.elapsed(), cpu: cpu_time().saturating_sub(used) }
}

/// Returns the processor time of all threads of this process, including ended threads.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("a process has used no less than nothing")
}

/// Returns an error if `found` is not `expected`.
pub fn equal<T: PartialEq + Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("the result is {found:?} instead of {expected:?}")) }
}

/// Returns an error if `found` does not have the elements of `expected`, in the same order.
pub fn same<T: PartialEq + Debug>(found: &[T], expected: &[T]) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("the result has {} elements instead of {}", found.len(), expected.len()));
    }
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("element {at} is {:?} instead of {:?}", found[at], expected[at])),
    }
}

/// Returns an error if `found` differs from `expected` by more than the rounding errors of a sum in another order.
pub fn close(found: f64, expected: f64) -> Result<(), String> {
    let tolerance = 1e-9 * expected.abs().max(1.0);
    if (found - expected).abs() <= tolerance { Ok(()) } else { equal(found, expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_an_error() {
        assert_eq!(equal(3, 4).unwrap_err(), "the result is 3 instead of 4");
        assert_eq!(same(&[1, 2, 3], &[1, 7, 3]).unwrap_err(), "element 1 is 2 instead of 7");
        assert_eq!(same(&[1], &[]).unwrap_err(), "the result has 1 elements instead of 0");
        for wrong in [1.0001, f64::NAN, f64::INFINITY] {
            assert!(close(wrong, 1.0).is_err(), "{wrong}");
        }
        close(1.0 + 1e-12, 1.0).unwrap();
        let mut program = steps(|| 2, |two| two + two, |sum| equal(sum, 5));
        assert_eq!(program.run(Duration::ZERO).unwrap_err(), "the result is 4 instead of 5");
    }
}
