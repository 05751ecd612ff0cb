//! A wavefront: tasks that wait for each other while they occupy their workers.
//!
//! The program has the shape of the pipelined sweeps in NAS's LU (D. Bailey et al., *The NAS Parallel Benchmarks*,
//! RNR-94-007, section 3.7). Each task has a band of columns, and may relax a strip of rows after the task on its
//! left has relaxed it. Deviation: LU's SSOR of a system in three dimensions is here a Gauss-Seidel sweep of
//! Laplace's equation in two, in the natural order. It has the same dependences, and a known result.
//!
//! **Termination**: the program ends on any number of workers and in any schedule. A task waits inside its worker,
//! which runs nothing else meanwhile. Therefore a task must not wait for a task that has not begun. The leaves of the
//! tree of joins are all equal, and each leaf takes the next band from the left when the leaf begins. Hence the task
//! of band i knows that all bands left of it are taken, each by a leaf that runs on a thread of its own. The leftmost
//! unfinished band waits for no other band, and its thread continues if the kernel lets every thread run. When this
//! band is finished, the next band is the leftmost.

use std::f64::consts::PI;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::{hint, thread};

use crate::definition::Definition;
use crate::difference::largest_difference;
use crate::scaling::FORKS_NOTHING;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "wavefront",
    summary: "Gauss-Seidel sweeps by tasks that wait for each other, as in LU of the NAS benchmarks",
    parameters: &[
        Parameter { key: "tasks", default: "8", help: "number of tasks, each with a band of columns, 1 to 1024" },
        Parameter {
            key: "wait",
            default: "condvar",
            help: "method of waiting: condvar (sleep), spin (busy loop) or yield (busy loop that yields the core)",
        },
        Parameter { key: "rows", default: "1024", help: "rows of cells, 1 to 8192" },
        Parameter { key: "columns", default: "1024", help: "cells in a row, 1 to 8192" },
        Parameter {
            key: "strip",
            default: "32",
            help: "rows that a task relaxes between two checks of its neighbour, 1 to 8192",
        },
        Parameter { key: "sweeps", default: "20", help: "sweeps over all cells, 1 to 100000" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Err(FORKS_NOTHING),
};

const LONGEST_SIDE: usize = 8_192;

/// The half-waves down and across, and the amplitude, of each wave that is added to the solution at the start. The
/// waves are so long that every cell changes in every sweep by more than the tolerance.
const WAVES: [(usize, usize, f64); 3] = [(1, 1, 1.0), (2, 1, 0.5), (3, 2, 0.75)];

/// The largest accepted error of a cell. The values of the solution and of the waves are about 1.
const TOLERANCE: f64 = 1e-11;

fn prepare(parameters: &Parameters) -> Result<Wavefront, ParameterError> {
    let wait =
        [Wait::Asleep, Wait::Looking, Wait::Yielding][parameters.choice("wait", &["condvar", "spin", "yield"])?];
    let rows = parameters.number("rows", 1..=LONGEST_SIDE)?;
    let columns = parameters.number("columns", 1..=LONGEST_SIDE)?;
    let strip = parameters.number("strip", 1..=LONGEST_SIDE)?;
    let sweeps = parameters.number("sweeps", 1..=100_000)?;
    let grid = Grid { rows, columns };
    Ok(Wavefront { tasks: parameters.number("tasks", 1..=1024)?, wait, grid, strip, sweeps, start: grid.after(0) })
}

/// The cells to relax. The array has a fixed border of one more cell on each side.
#[derive(Clone, Copy)]
struct Grid {
    rows: usize,
    columns: usize,
}

impl Grid {
    fn width(self) -> usize {
        self.columns + 2
    }

    /// Returns all cells after this many sweeps, border included, row by row: the solution plus the decayed waves.
    ///
    /// Let μ = (mean of a cell's four neighbours) / (value of the cell) for a wave. A sweep in the natural order
    /// multiplies the wave · μ^(row + column) by μ² in every cell.
    fn after(self, sweeps: usize) -> Vec<f64> {
        let angle = |half_waves: usize, cells: usize| PI * half_waves as f64 / (cells + 1) as f64;
        let cell = |row: usize, column: usize| {
            let is_border = [0, self.rows + 1].contains(&row) || [0, self.columns + 1].contains(&column);
            let wave = |(down, across, amplitude): (usize, usize, f64)| {
                let (down, across) = (angle(down, self.rows), angle(across, self.columns));
                let mean = (down.cos() + across.cos()) / 2.0;
                let decay = mean.powi((row + column + 2 * sweeps) as i32);
                amplitude * decay * (down * row as f64).sin() * (across * column as f64).sin()
            };
            // The border is exactly the solution. The rounded sine of a multiple of π would change the border.
            let waves = if is_border { 0.0 } else { WAVES.into_iter().map(wave).sum() };
            self.solution(row, column) + waves
        };
        (0..self.rows + 2).flat_map(|row| (0..self.width()).map(move |column| cell(row, column))).collect()
    }

    /// Returns the solution: a polynomial whose value in any cell is exactly the mean of the values in its four
    /// neighbours.
    fn solution(self, row: usize, column: usize) -> f64 {
        let distance = 1.0 / (self.rows.max(self.columns) + 1) as f64;
        let (x, y) = (column as f64 * distance, row as f64 * distance);
        x * x - y * y + x * y
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The task sleeps on a condition variable.
    Asleep,
    /// The task polls on a core.
    Looking,
    /// The task polls on a core, and yields the core after each poll.
    Yielding,
}

/// The number of rows that a task has relaxed in this sweep.
#[derive(Default)]
struct Progress {
    rows: AtomicUsize,
    /// A lock that is held while `rows` changes, so that no task falls asleep between its check and the change.
    lock: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    fn announce(&self, rows: usize) {
        let _changing = self.lock.lock().expect("no task panics while it holds the lock");
        // Release: a task that sees the number of rows also sees their cells.
        self.rows.store(rows, Ordering::Release);
        self.changed.notify_one();
    }

    fn wait_for(&self, rows: usize, wait: Wait) {
        let is_behind = || self.rows.load(Ordering::Acquire) < rows;
        match wait {
            Wait::Asleep => {
                let guard = self.lock.lock().expect("no task panics while it holds the lock");
                drop(self.changed.wait_while(guard, |()| is_behind()).expect("no task panics while it holds the lock"));
            }
            Wait::Looking => {
                while is_behind() {
                    hint::spin_loop();
                }
            }
            Wait::Yielding => {
                while is_behind() {
                    thread::yield_now();
                }
            }
        }
    }
}

struct Wavefront {
    tasks: usize,
    wait: Wait,
    grid: Grid,
    strip: usize,
    sweeps: usize,
    start: Vec<f64>,
}

impl Wavefront {
    /// Runs one task of a sweep: relaxes a band, strip by strip.
    fn relax_band(&self, band: usize, cells: &[AtomicU64], progress: &[Progress]) {
        let columns = 1 + band * self.grid.columns / self.tasks..1 + (band + 1) * self.grid.columns / self.tasks;
        for first in (0..self.grid.rows).step_by(self.strip) {
            let end = (first + self.strip).min(self.grid.rows);
            if let Some(left) = band.checked_sub(1) {
                progress[left].wait_for(end, self.wait);
            }
            for row in first + 1..=end {
                self.relax_row(row, columns.clone(), cells);
            }
            progress[band].announce(end);
        }
    }

    /// Relaxes some cells of a row from left to right, each from its new neighbours above and on the left, and from
    /// its old neighbours below and on the right. The cell right of the band still has its old value, because the
    /// task of that cell waits for this task.
    fn relax_row(&self, row: usize, columns: Range<usize>, cells: &[AtomicU64]) {
        let width = self.grid.width();
        let [above, here, below] = [row - 1, row, row + 1].map(|row| &cells[row * width..][..width]);
        let mut left = load(&here[columns.start - 1]);
        for column in columns {
            left = 0.25 * ((load(&above[column]) + left) + (load(&below[column]) + load(&here[column + 1])));
            // Relaxed, like the loads: the announcements order the accesses, and the join orders them between sweeps.
            here[column].store(left.to_bits(), Ordering::Relaxed);
        }
    }
}

fn load(cell: &AtomicU64) -> f64 {
    f64::from_bits(cell.load(Ordering::Relaxed))
}

impl Kernel for Wavefront {
    /// The cells, border included.
    type Output = Vec<f64>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<f64> {
        let cells: Vec<AtomicU64> = self.start.iter().map(|cell| AtomicU64::new(cell.to_bits())).collect();
        for _ in 0..self.sweeps {
            let progress: Vec<Progress> = (0..self.tasks).map(|_| Progress::default()).collect();
            let next = AtomicUsize::new(0);
            fork_join.for_range(0..self.tasks, 1, &|leaf| {
                for _ in leaf {
                    self.relax_band(next.fetch_add(1, Ordering::Relaxed), &cells, &progress);
                }
            });
        }
        cells.into_iter().map(|cell| f64::from_bits(cell.into_inner())).collect()
    }

    fn verify(&self, output: &Vec<f64>) -> Verdict {
        let error = largest_difference(output, &self.grid.after(self.sweeps));
        Verdict::new(
            error <= TOLERANCE,
            format!("largest error of a cell after {} sweeps {error:.2e}, allowed {TOLERANCE:.0e}", self.sweeps),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    fn program(tasks: usize, wait: Wait, sweeps: usize) -> Wavefront {
        let grid = Grid { rows: 50, columns: 70 };
        Wavefront { tasks, wait, grid, strip: 3, sweeps, start: grid.after(0) }
    }

    #[test]
    fn the_waves_decay_as_the_theory_says() {
        let program = program(4, Wait::Asleep, 30);
        let output = program.compute(Serial);
        let verdict = program.verify(&output);
        assert!(verdict.verified, "{}", verdict.detail);
        // A cell that is left out of one sweep has a visible error.
        let one_less = Wavefront { sweeps: 29, start: program.start.clone(), ..program }.compute(Serial);
        assert!(largest_difference(&output, &one_less) > 1e6 * TOLERANCE);
    }

    #[test]
    fn it_ends_with_fewer_workers_than_tasks_and_with_more_tasks_than_columns() {
        let serial = program(1, Wait::Asleep, 5).compute(Serial);
        for workers in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
            for tasks in [2, 16, 200] {
                for wait in [Wait::Asleep, Wait::Looking, Wait::Yielding] {
                    let output = pool.install(|| program(tasks, wait, 5).compute(OnRayon));
                    assert!(output == serial, "{tasks} tasks on {workers} workers");
                }
            }
        }
    }
}
