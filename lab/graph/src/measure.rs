//! The work, span, number of tasks and leaf lengths of a graph.

use crate::graph::place;
use crate::{Graph, Step, Task, TaskId};

/// The work and the span of a graph that is unfolded with a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measures {
    /// The work T₁, in ns. It does not depend on the seed.
    pub work: u64,
    /// The span T∞, in ns.
    pub span: u64,
}

/// The lengths of the leaves (tasks that fork nothing), in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaves {
    /// The number of leaves.
    pub count: u64,
    /// The 10 % quantile.
    pub tenth: u64,
    /// The median.
    pub median: u64,
    /// The 90 % quantile.
    pub nine_tenths: u64,
    /// The longest leaf: the mean of the last part of its distribution.
    pub longest: u64,
}

/// A task whose steps are being visited.
struct Open {
    task: TaskId,
    step: usize,
    /// The number of visited children of the current fork, or of visited repetitions.
    nth: u32,
    /// The index of this repetition of the task, and the number of all its repetitions.
    instance: u64,
    of: u64,
    span: u64,
    /// The longest span of the visited children of the current fork, in ns.
    longest: u64,
}

impl Graph {
    /// Returns the number of tasks of the unfolded graph: the run itself and all forked tasks.
    pub fn count_tasks(&self) -> u128 {
        let mut counts: Vec<u128> = Vec::with_capacity(self.tasks().len());
        for task in self.tasks() {
            let of = |task: &TaskId| counts[*task as usize];
            let inside = task.0.iter().map(|step| match step {
                Step::Run(_) => 0,
                Step::Fork(children) => {
                    children.iter().map(|child| of(child).saturating_add(1)).fold(0, u128::saturating_add)
                }
                Step::Repeat { task, times } => of(task).saturating_mul((*times).into()),
            });
            counts.push(inside.fold(0, u128::saturating_add));
        }
        counts[self.root() as usize].saturating_add(1)
    }

    /// Returns, for each task, the number of times that it occurs in the unfolded graph.
    fn occurrences(&self) -> Vec<u128> {
        let mut counts = vec![0u128; self.tasks().len()];
        *counts.last_mut().expect("a graph has a task") = 1;
        for (nth, task) in self.tasks().iter().enumerate().rev() {
            let own = counts[nth];
            for step in &task.0 {
                match step {
                    Step::Run(_) => {}
                    Step::Fork(children) => {
                        for child in children {
                            let count = &mut counts[*child as usize];
                            *count = count.saturating_add(own);
                        }
                    }
                    Step::Repeat { task, times } => {
                        let count = &mut counts[*task as usize];
                        *count = count.saturating_add(own.saturating_mul((*times).into()));
                    }
                }
            }
        }
        counts
    }

    /// Returns the number of steps of the unfolded graph.
    pub(crate) fn count_steps(&self) -> u128 {
        let each = self.tasks().iter().zip(self.occurrences());
        each.map(|(task, count)| count.saturating_mul(task.0.len() as u128)).fold(0, u128::saturating_add)
    }

    /// Returns an upper bound of the work T₁, in ns.
    pub(crate) fn total_work(&self) -> u128 {
        let each = self.tasks().iter().zip(self.occurrences());
        each.map(|(task, count)| {
            let longest = task.0.iter().map(|step| match step {
                Step::Run(stretch) => u128::from(*stretch.parts().last().expect("a stretch has a length")),
                _ => 0,
            });
            longest.fold(0, u128::saturating_add).saturating_mul(count)
        })
        .fold(0, u128::saturating_add)
    }

    /// Returns the number of joins that were merged into the stretches of the unfolded graph.
    pub fn merged_joins(&self) -> u64 {
        let each = self.tasks().iter().zip(self.occurrences());
        let joins = each.map(|(task, count)| {
            let joins = task.0.iter().map(|step| if let Step::Run(stretch) = step { stretch.joins } else { 0 });
            count.saturating_mul(joins.map(u128::from).sum())
        });
        u64::try_from(joins.fold(0, u128::saturating_add)).unwrap_or(u64::MAX)
    }

    /// Returns the lengths of the tasks that fork nothing.
    pub fn leaves(&self) -> Leaves {
        let mut lengths: Vec<(u64, u128)> = Vec::new();
        for (task, count) in self.tasks().iter().zip(self.occurrences()) {
            let Some(stretch) = task.leaf() else { continue };
            let parts = stretch.parts();
            // 720720 is divisible by every number of parts up to 16, so the shares of a leaf are integers.
            lengths.extend(parts.iter().map(|length| (*length, count * 720_720 / parts.len() as u128)));
        }
        lengths.sort_unstable();
        let all: u128 = lengths.iter().map(|(_, share)| share).sum();
        let quantile = |tenths: u128| {
            let mut left = all * tenths / 10;
            let found = lengths.iter().find(|(_, share)| {
                let found = left <= *share;
                left = left.saturating_sub(*share);
                found
            });
            found.map_or(0, |(length, _)| *length)
        };
        Leaves {
            count: (all / 720_720) as u64,
            tenth: quantile(1),
            median: quantile(5),
            nine_tenths: quantile(9),
            longest: quantile(10),
        }
    }

    /// Returns T₁ and T∞ of the graph unfolded with this seed. The running time is proportional to the number of
    /// unfolded tasks.
    pub fn measure(&self, seed: u64) -> Measures {
        let (mut work, mut open) = (0, vec![open(self.root(), 0, 1)]);
        loop {
            let task = open.last_mut().expect("it returns when the root is closed");
            let step = self.tasks()[task.task as usize].0.get(task.step);
            match step {
                Some(Step::Run(stretch)) => {
                    let length = stretch.nth(task.instance, task.of, place(task.task, task.step), seed);
                    (work, task.span, task.step) = (work + length, task.span + length, task.step + 1);
                }
                Some(Step::Fork(children)) => {
                    let Some(child) = children.get(task.nth as usize) else {
                        (task.span, task.step, task.nth) = (task.span + task.longest, task.step + 1, 0);
                        task.longest = 0;
                        continue;
                    };
                    task.nth += 1;
                    let child = self::open(*child, task.instance, task.of);
                    open.push(child);
                }
                Some(Step::Repeat { times, .. }) if task.nth == *times => {
                    (task.step, task.nth) = (task.step + 1, 0);
                }
                Some(Step::Repeat { task: child, times }) => {
                    let times_all = u64::from(*times);
                    let child =
                        self::open(*child, task.instance * times_all + u64::from(task.nth), task.of * times_all);
                    task.nth += 1;
                    open.push(child);
                }
                None => {
                    let span = task.span;
                    open.pop();
                    let Some(parent) = open.last_mut() else { return Measures { work, span } };
                    match self.tasks()[parent.task as usize].0[parent.step] {
                        Step::Repeat { .. } => parent.span += span,
                        _ => parent.longest = parent.longest.max(span),
                    }
                }
            }
        }
    }
}

/// Returns, for each task, the product of the repetition counts that enclose it. If the task occurs in several places,
/// the maximum of these products.
pub(crate) fn times(tasks: &[Task]) -> Vec<u128> {
    let mut most = vec![1u128; tasks.len()];
    for (nth, task) in tasks.iter().enumerate().rev() {
        let own = most[nth];
        for step in &task.0 {
            let (children, times) = match step {
                Step::Run(_) => continue,
                Step::Fork(children) => (children.as_slice(), 1),
                Step::Repeat { task, times } => (std::slice::from_ref(task), *times),
            };
            for child in children {
                let most = &mut most[*child as usize];
                *most = (*most).max(own.saturating_mul(times.into()));
            }
        }
    }
    most
}

fn open(task: TaskId, instance: u64, of: u64) -> Open {
    Open { task, step: 0, nth: 0, instance, of, span: 0, longest: 0 }
}
