//! The programs that the model world runs.

use proptest::prelude::*;

/// A task of the model program.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The tasks that this task pushes, one after the other.
    pub(super) children: Vec<usize>,
    /// True if the task keeps its core after its last push until other workers have taken each of its children, like
    /// a task with a long serial part.
    pub(super) needs_thieves: bool,
}

/// A program: a forest of tasks. Its roots come from outside.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) tasks: Vec<Task>,
    pub(super) roots: Vec<usize>,
}

/// Generates programs. Each task is a child of an earlier task, or comes from outside.
pub(super) fn programs() -> impl Strategy<Value = Program> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..5u8, prop::bool::weighted(0.3)), 1..14).prop_map(|shape| {
        let mut program = Program { tasks: Vec::new(), roots: Vec::new() };
        for (nth, (parent, from_outside, needs_thieves)) in shape.into_iter().enumerate() {
            program.tasks.push(Task { children: Vec::new(), needs_thieves });
            if nth == 0 || from_outside == 0 {
                program.roots.push(nth);
            } else {
                program.tasks[parent.index(nth)].children.push(nth);
            }
        }
        program
    })
}

/// Limits the number of tasks that keep their worker until thieves have taken their children. One worker must be left
/// to be a thief.
pub(super) fn bound_demands(tasks: &[Task], workers: u32) -> Vec<Task> {
    let mut demanding = 0;
    let bound = |task: &Task| {
        let needs_thieves = task.needs_thieves && !task.children.is_empty() && demanding + 1 < workers;
        demanding += u32::from(needs_thieves);
        Task { needs_thieves, ..task.clone() }
    };
    tasks.iter().map(bound).collect()
}
