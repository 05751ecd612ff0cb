//! The graph of a real run, unfolded.
//!
//! Each task that has begun and is not over has a frame, and at most one strand. The strand's identifier is the number
//! of the frame, so the end of a strand needs no search. Frames are reused, so the number of frames is the largest
//! number of tasks that are open at a time. Once there are enough frames, the end of a strand needs no allocation.

use std::cell::OnceCell;
use std::num::NonZeroU64;
use std::sync::Arc;

use comity_graph::{Graph, Step, TaskId};

use super::{Program, Strand};

/// A program that repeats a recorded run. If the length of a stretch has a distribution, each execution draws its own
/// lengths.
#[derive(Clone, Debug)]
pub struct Recorded {
    graph: Arc<Graph>,
    /// Nanoseconds that each fork, and each merged join, costs the worker that forks.
    join_ns: f64,
    seed: u64,
    /// The number of executions that have begun.
    begun: u64,
    frames: Vec<Frame>,
    free: Vec<u32>,
    /// T₁ and T∞ of the first execution, once they have been computed.
    measured: OnceCell<(u64, u64)>,
}

/// A task that has begun and is not over.
#[derive(Clone, Copy, Debug)]
struct Frame {
    task: TaskId,
    /// The next step of the task. While the task waits for children, the step that it waits for.
    step: u32,
    /// The frame of the parent task, which waits for this task. The root's frame has the root's own number here.
    parent: u32,
    /// The number of children that are not over.
    waits: u32,
    /// If the step is a repetition, the number of repetitions that are over.
    over: u32,
    /// The index of this repetition (`instance`), and the number of all repetitions (`of`).
    instance: u64,
    of: u64,
}

impl Recorded {
    /// Creates a program with joins that cost nothing.
    pub fn new(graph: Arc<Graph>, seed: u64) -> Recorded {
        Recorded::with_joins(graph, 0.0, seed)
    }

    /// Creates a program whose joins cost the worker that forks `join_ns` nanoseconds each. Merged joins cost as
    /// much.
    ///
    /// # Panics
    /// Panics if `join_ns` is not a number from 0 to a million.
    pub fn with_joins(graph: Arc<Graph>, join_ns: f64, seed: u64) -> Recorded {
        assert!((0.0..=1e6).contains(&join_ns), "a join costs {join_ns} ns");
        Recorded { graph, join_ns, seed, begun: 0, frames: Vec::new(), free: Vec::new(), measured: OnceCell::new() }
    }

    /// Computes T₁ and T∞ of the first execution.
    fn measure(&self) -> (u64, u64) {
        if self.join_ns == 0.0 {
            let found = self.graph.measure(self.seed_of(0));
            return (found.work, found.span);
        }
        // To include the costs of joins, run a copy of the program in which each strand begins as soon as it is ready.
        let mut copy = Recorded { begun: 0, frames: Vec::new(), free: Vec::new(), ..self.clone() };
        let (mut work, mut latest, mut ready) = (0, 0, Vec::new());
        // The time at which each frame's strand began.
        let mut began: Vec<u64> = Vec::new();
        let root = copy.root();
        ready.push(root);
        let mut due = std::collections::BinaryHeap::new();
        let mut now = 0;
        loop {
            for strand in ready.drain(..) {
                let id = strand.id as usize;
                began.resize(began.len().max(id + 1), 0);
                began[id] = now;
                work += strand.length.get();
                due.push(std::cmp::Reverse((now + strand.length.get(), strand.id)));
            }
            let Some(std::cmp::Reverse((end, strand))) = due.pop() else { return (work, latest) };
            (now, latest) = (end, end);
            copy.done(strand, &mut ready);
        }
    }

    fn seed_of(&self, execution: u64) -> u64 {
        self.seed.wrapping_add(execution.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn open(&mut self, frame: Frame) -> u32 {
        if let Some(free) = self.free.pop() {
            self.frames[free as usize] = frame;
            return free;
        }
        self.frames.push(frame);
        self.frames.len() as u32 - 1
    }

    /// Returns the strand of a frame's next stretch, and advances the frame. The next step must be a stretch.
    fn run(&mut self, number: u32) -> Strand {
        let Frame { task, step, instance, of, .. } = self.frames[number as usize];
        let steps = &self.graph.tasks()[task as usize].0;
        let Step::Run(stretch) = &steps[step as usize] else { unreachable!("a graph's tasks begin with a stretch") };
        let mut length =
            stretch.nth(instance, of, u64::from(task) << 32 | u64::from(step), self.seed_of(self.begun - 1));
        if self.join_ns > 0.0 {
            let forks = match steps.get(step as usize + 1) {
                Some(Step::Fork(children)) => children.len() as u64 - 1,
                _ => 0,
            };
            length += ((stretch.joins + forks) as f64 * self.join_ns).round() as u64;
        }
        self.frames[number as usize].step += 1;
        Strand { id: number, length: NonZeroU64::new(length).expect("a stretch takes a nanosecond at least") }
    }
}

impl Program for Recorded {
    fn root(&mut self) -> Strand {
        self.begun += 1;
        self.frames.clear();
        self.free.clear();
        let root = Frame { task: self.graph.root(), step: 0, parent: 0, waits: 0, over: 0, instance: 0, of: 1 };
        let root = self.open(root);
        self.run(root)
    }

    fn done(&mut self, strand: u32, ready: &mut Vec<Strand>) {
        let graph = Arc::clone(&self.graph);
        let mut number = strand;
        loop {
            let frame = self.frames[number as usize];
            match graph.tasks()[frame.task as usize].0.get(frame.step as usize) {
                Some(Step::Run(_)) => return ready.push(self.run(number)),
                Some(Step::Fork(children)) => {
                    self.frames[number as usize].waits = children.len() as u32;
                    // The first child is the newest strand. The worker of its parent continues with it.
                    for child in children.iter().rev() {
                        let child = Frame { task: *child, step: 0, parent: number, waits: 0, over: 0, ..frame };
                        let child = self.open(child);
                        ready.push(self.run(child));
                    }
                    return;
                }
                Some(Step::Repeat { task, times }) if frame.over < *times => {
                    let (times, over) = (u64::from(*times), u64::from(frame.over));
                    self.frames[number as usize].waits = 1;
                    let (instance, of) = (frame.instance * times + over, frame.of * times);
                    let child = Frame { task: *task, step: 0, parent: number, waits: 0, over: 0, instance, of };
                    let child = self.open(child);
                    return ready.push(self.run(child));
                }
                Some(Step::Repeat { .. }) => {
                    let frame = &mut self.frames[number as usize];
                    (frame.step, frame.over) = (frame.step + 1, 0);
                }
                None if number == 0 => return,
                None => {
                    self.free.push(number);
                    number = frame.parent;
                    let parent = &mut self.frames[number as usize];
                    parent.waits -= 1;
                    if parent.waits > 0 {
                        return;
                    }
                    match graph.tasks()[parent.task as usize].0[parent.step as usize] {
                        Step::Repeat { .. } => parent.over += 1,
                        _ => parent.step += 1,
                    }
                }
            }
        }
    }

    fn work(&self) -> u64 {
        self.measured.get_or_init(|| self.measure()).0
    }

    fn critical_path(&self) -> u64 {
        self.measured.get_or_init(|| self.measure()).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::tests::unfold;
    use comity_graph::{About, Stretch, Task};
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Draws a graph in which each task refers to earlier tasks by drawn numbers.
    fn graph() -> impl Strategy<Value = Option<Graph>> {
        let run = (vec(1..9_000u64, 1..40), 0..3u64).prop_map(|(lengths, joins)| (0, lengths, joins));
        let fork = vec(0..1_000u64, 1..4).prop_map(|children| (1, children, 0));
        let repeat = (0..1_000u64, 1..7u64).prop_map(|(task, times)| (2, vec![task], times));
        let step = prop_oneof![run, fork, repeat];
        vec(vec(step, 0..4), 1..9).prop_map(|written| {
            let tasks = written.into_iter().enumerate().map(|(own, steps)| {
                let refer = |number: &u64| (own > 0).then(|| (*number % own as u64) as TaskId);
                let steps = steps.into_iter().filter_map(|(kind, numbers, more)| match kind {
                    0 => Some(Step::Run(Stretch::distributed(numbers, more))),
                    1 => Some(Step::Fork(numbers.iter().map(refer).collect::<Option<_>>()?)),
                    _ => Some(Step::Repeat { task: refer(&numbers[0])?, times: more as u32 }),
                });
                Task([Step::Run(Stretch::of(5, 0))].into_iter().chain(steps).collect())
            });
            Graph::new(About::default(), tasks.collect()).ok().filter(|graph| graph.count_tasks() < 20_000)
        })
    }

    proptest! {
        #[test]
        fn what_unfolds_is_what_the_graph_says(graph in graph(), seed: u64) {
            let Some(graph) = graph else { return Ok(()) };
            let found = graph.measure(seed);
            let mut program = Recorded::new(Arc::new(graph), seed);
            prop_assert_eq!((program.work(), program.critical_path()), (found.work, found.span));
            prop_assert_eq!(unfold(&mut program), (found.work, found.span));
            let frames = program.frames.len();
            prop_assert_eq!(program.free.len() + 1, frames);
            // A second execution draws lengths in another order, but does the same work.
            prop_assert_eq!(unfold(&mut program).0, found.work);
        }

        #[test]
        fn joins_cost_what_they_are_said_to(graph in graph(), join_ns in 0..50u32) {
            let Some(graph) = graph else { return Ok(()) };
            let plain = graph.measure(0);
            let mut program = Recorded::with_joins(Arc::new(graph), join_ns.into(), 0);
            let told = (program.work(), program.critical_path());
            prop_assert_eq!(unfold(&mut program), told);
            prop_assert!(told.0 >= plain.work && told.1 >= plain.span);
        }
    }

    #[test]
    fn the_first_child_is_the_newest() {
        let leaf = |length| Task(vec![Step::Run(Stretch::of(length, 0))]);
        let root = Task(vec![Step::Run(Stretch::of(10, 0)), Step::Fork(vec![0, 1])]);
        let graph = Graph::new(About::default(), vec![leaf(7), leaf(9), root]).unwrap();
        let mut program = Recorded::new(Arc::new(graph), 1);
        let root = program.root();
        let mut ready = Vec::new();
        program.done(root.id, &mut ready);
        assert_eq!(ready.iter().map(|strand| strand.length.get()).collect::<Vec<_>>(), [9, 7]);
    }
}
