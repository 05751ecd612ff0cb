//! Merging short tasks into their parents, or several short tasks of one fork into one.

use crate::fold::Tasks;
use crate::graph::{Step, Stretch, Task, TaskId};
use crate::measure::times;

/// Merges short tasks, whose mean length is below `least` ns:
///
/// - Short children of a fork become one task as soon as their total reaches `least`.
/// - The parent runs the remaining short children itself, before the fork.
/// - If the fork then has a single child, the parent runs this child too.
///
/// A recorder applies the same rules during the run as soon as it no longer keeps short tasks.
pub(crate) fn merge(tasks: &[Task], least: u64) -> Vec<Task> {
    let mut works: Vec<f64> = Vec::with_capacity(tasks.len());
    // The index of each task in `merged`, which also has the tasks that `one_of` makes.
    let mut places: Vec<TaskId> = Vec::with_capacity(tasks.len());
    let (mut merged, mut kept) = (Vec::with_capacity(tasks.len()), Tasks::default());
    for (task, of) in tasks.iter().zip(times(tasks)) {
        let of = u64::try_from(of).unwrap_or(u64::MAX);
        let mut steps = Steps::default();
        let mut work = 0.0;
        for step in &task.0 {
            match step {
                Step::Run(stretch) => {
                    steps.run(stretch);
                    work += stretch.mean(of);
                }
                Step::Fork(children) => {
                    let mut forked = Vec::new();
                    let (mut group, mut length) = (Vec::new(), 0.0);
                    for child in children {
                        let (place, of_child) = (places[*child as usize], works[*child as usize]);
                        if of_child >= least as f64 {
                            forked.push(place);
                            continue;
                        }
                        group.push(place);
                        length += of_child;
                        if length >= least as f64 {
                            forked.push(one_of(&mut merged, &group));
                            (group, length) = (Vec::new(), 0.0);
                        }
                    }
                    group.iter().for_each(|short| steps.splice(&merged[*short as usize]));
                    let gone = if forked.is_empty() { group.len() - 1 } else { group.len() };
                    steps.joins(gone as u64);
                    match forked.as_slice() {
                        [] => {}
                        [only] => steps.splice(&merged[*only as usize]),
                        _ => steps.0.push(Step::Fork(forked)),
                    }
                    work += children.iter().map(|child| works[*child as usize]).sum::<f64>();
                }
                Step::Repeat { task, times } => {
                    let place = places[*task as usize];
                    match merged[place as usize].leaf() {
                        Some(stretch) => {
                            let length =
                                (stretch.mean(of.saturating_mul((*times).into())) * f64::from(*times)).round() as u64;
                            steps.run(&Stretch::of(length, stretch.joins * u64::from(*times)));
                        }
                        None => steps.0.push(Step::Repeat { task: place, times: *times }),
                    }
                    work += works[*task as usize] * f64::from(*times);
                }
            }
        }
        works.push(work);
        places.push(merged.len() as TaskId);
        merged.push(Task(steps.0));
    }
    keep(&merged, merged.len() as TaskId - 1, &mut kept);
    kept.into_tasks()
}

/// Returns a task that runs all tasks of the group, one after another.
fn one_of(merged: &mut Vec<Task>, group: &[TaskId]) -> TaskId {
    if let [only] = group {
        return *only;
    }
    let mut steps = Steps::default();
    group.iter().for_each(|short| steps.splice(&merged[*short as usize]));
    steps.joins(group.len() as u64 - 1);
    merged.push(Task(steps.0));
    merged.len() as TaskId - 1
}

/// The maximum number of tasks of a graph whose lengths are not rounded.
const MOST_EXACT: usize = 4_096;

/// Rounds the lengths of a large graph to 7 binary digits, so that more tasks are equal and stored once. The next
/// length compensates for the rounding error of the length before it. Lengths of repeated tasks are not rounded.
pub(crate) fn round(tasks: Vec<Task>) -> Vec<Task> {
    if tasks.len() <= MOST_EXACT {
        return tasks;
    }
    let mut gained = 0i64;
    let mut round = |length: u64| {
        let wanted = (length as i64 - gained).max(1) as u64;
        let step = 1u64 << wanted.ilog2().saturating_sub(6);
        let rounded = ((wanted + step / 2) / step * step).max(1);
        gained += rounded as i64 - length as i64;
        rounded
    };
    let mut rounded = Vec::with_capacity(tasks.len());
    for (task, times) in tasks.iter().zip(times(&tasks)) {
        let steps = task.0.iter().map(|step| match step {
            Step::Run(stretch) if times == 1 => Step::Run(stretch.map(&mut round)),
            other => other.clone(),
        });
        rounded.push(Task(steps.collect()));
    }
    let mut kept = Tasks::default();
    keep(&rounded, tasks.len() as TaskId - 1, &mut kept);
    kept.into_tasks()
}

/// Adds the root, and all tasks that it directly or indirectly refers to, to `kept`. Equal tasks are stored once.
/// Returns the root's index in `kept`.
pub(crate) fn keep(tasks: &[Task], root: TaskId, kept: &mut Tasks) -> TaskId {
    let mut is_used = vec![false; tasks.len()];
    is_used[root as usize] = true;
    for nth in (0..=root as usize).rev() {
        if !is_used[nth] {
            continue;
        }
        for step in &tasks[nth].0 {
            match step {
                Step::Run(_) => {}
                Step::Fork(children) => children.iter().for_each(|child| is_used[*child as usize] = true),
                Step::Repeat { task, .. } => is_used[*task as usize] = true,
            }
        }
    }
    let mut places = vec![0; tasks.len()];
    for nth in (0..tasks.len()).filter(|nth| is_used[*nth]) {
        let place = |task: &TaskId| places[*task as usize];
        let steps = tasks[nth].0.iter().map(|step| match step {
            Step::Run(stretch) => Step::Run(stretch.clone()),
            Step::Fork(children) => Step::Fork(children.iter().map(place).collect()),
            Step::Repeat { task, times } => Step::Repeat { task: place(task), times: *times },
        });
        places[nth] = kept.add(Task(steps.collect()));
    }
    places[root as usize]
}

/// A list of steps in which consecutive stretches are joined into one.
#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    fn run(&mut self, stretch: &Stretch) {
        match self.0.last_mut() {
            Some(Step::Run(last)) => *last = last.and(stretch),
            _ => self.0.push(Step::Run(stretch.clone())),
        }
    }

    /// Appends all steps of a task.
    fn splice(&mut self, task: &Task) {
        for step in &task.0 {
            match step {
                Step::Run(stretch) => self.run(stretch),
                other => self.0.push(other.clone()),
            }
        }
    }

    /// Adds `more` merged joins to the last stretch.
    fn joins(&mut self, more: u64) {
        if let Some(Step::Run(last)) = self.0.iter_mut().rev().find(|step| matches!(step, Step::Run(_))) {
            last.joins = last.joins.saturating_add(more);
        }
    }
}
