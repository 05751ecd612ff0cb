//! The graph of a larger input, from a recording of a small one.
//!
//! A phase of a larger input has more leaves, or longer ones; a run of it has more phases. So there are factors for each:
//!
//! - `repeats`: how often what recurs does, where it is not part of something else that recurs.
//! - `width`: how many leaves there are. Each leaf becomes as many, by further halvings, so the span grows as it does on a
//!   larger range. Where the factor is no whole number, some become one more than others.
//! - `length`: how long the leaves are.
//! - `serial`: how long the stretches are that are in no forked task, between the phases.
//!
//! Which parameter of a program is which factor is in `docs/results/recorded.md`.

use crate::fold::Tasks;
use crate::graph::{Graph, Step, Stretch, Task, TaskId};
use crate::merge::keep;

/// By which factors a graph is scaled. What is left out is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "read", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Scale {
    /// Of how often what recurs does.
    pub repeats: f64,
    /// Of the number of leaves; 1 at least.
    pub width: f64,
    /// Of the leaves' lengths.
    pub length: f64,
    /// Of the lengths of stretches that are in no forked task.
    pub serial: f64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { repeats: 1.0, width: 1.0, length: 1.0, serial: 1.0 }
    }
}

/// The largest factor, and one over the smallest.
const MOST: f64 = 1e6;

impl Scale {
    fn check(&self) -> Result<(), String> {
        let Scale { repeats, width, length, serial } = *self;
        for (name, factor) in [("repeats", repeats), ("width", width), ("length", length), ("serial", serial)] {
            if !(1.0 / MOST..=MOST).contains(&factor) {
                return Err(format!("{name} = {factor}; a factor is from 1/{MOST} to {MOST}"));
            }
        }
        if width < 1.0 {
            return Err(format!("width = {width}; a graph is widened, so record a smaller input"));
        }
        Ok(())
    }
}

impl Graph {
    /// The graph of an input that differs by these factors.
    ///
    /// # Errors
    /// A factor is out of range, or the graph would be too large; or nothing recurs in it, and that is to be scaled. Says so
    /// in a sentence.
    pub fn scaled(&self, scale: Scale) -> Result<Graph, String> {
        scale.check()?;
        let trunk = self.trunk();
        if scale.repeats != 1.0 && !trunk.contains(&Some(true)) {
            return Err(format!("repeats = {}: nothing recurs in this recording; leave it out", scale.repeats));
        }
        let is_forked = self.forked();
        let mut widened = Widened { tasks: Vec::new(), scale, due: 0.0 };
        let mut places: Vec<TaskId> = Vec::with_capacity(self.tasks().len());
        for (nth, task) in self.tasks().iter().enumerate() {
            let place = |task: &TaskId| places[*task as usize];
            let leaf = task.leaf().filter(|_| is_forked[nth]);
            let task = match leaf {
                Some(stretch) => Task(vec![Step::Run(stretch.map(|length| times(length, scale.length)))]),
                None => Task(
                    (task.0.iter())
                        .map(|step| match step {
                            Step::Run(stretch) if trunk[nth].is_some() => {
                                Step::Run(stretch.map(|length| times(length, scale.serial)))
                            }
                            Step::Run(stretch) => Step::Run(stretch.clone()),
                            Step::Fork(children) => {
                                let widen = |child: &TaskId| {
                                    let is_leaf = self.tasks()[*child as usize].leaf().is_some();
                                    if is_leaf { widened.leaf(place(child)) } else { place(child) }
                                };
                                Step::Fork(children.iter().map(widen).collect())
                            }
                            Step::Repeat { task, times } => {
                                let factor = if trunk[nth] == Some(true) { scale.repeats } else { 1.0 };
                                let times = (f64::from(*times) * factor).round().clamp(1.0, f64::from(u32::MAX));
                                Step::Repeat { task: place(task), times: times as u32 }
                            }
                        })
                        .collect(),
                ),
            };
            if widened.tasks.len() > Graph::MOST_KEPT {
                return Err(format!("width = {}: more than {} tasks would be kept", scale.width, Graph::MOST_KEPT));
            }
            places.push(widened.add(task));
        }
        let mut kept = Tasks::default();
        keep(&widened.tasks, places[self.root() as usize], &mut kept);
        Graph::new(self.about.clone(), kept.into_tasks())
    }

    /// Of each task whether it is in no forked one; and if so, whether its repetitions are in no other and it has one.
    fn trunk(&self) -> Vec<Option<bool>> {
        // Whether it is repeated.
        let mut found: Vec<Option<bool>> = vec![None; self.tasks().len()];
        found[self.root() as usize] = Some(false);
        for nth in (0..self.tasks().len()).rev() {
            let Some(is_repeated) = found[nth] else { continue };
            let mut has_repeat = false;
            for step in &self.tasks()[nth].0 {
                if let Step::Repeat { task, .. } = step {
                    found[*task as usize] = Some(true);
                    has_repeat = true;
                }
            }
            found[nth] = Some(has_repeat && !is_repeated);
        }
        found
    }

    /// Which tasks are forked somewhere.
    fn forked(&self) -> Vec<bool> {
        let mut is_forked = vec![false; self.tasks().len()];
        for step in self.tasks().iter().flat_map(|task| &task.0) {
            if let Step::Fork(children) = step {
                children.iter().for_each(|child| is_forked[*child as usize] = true);
            }
        }
        is_forked
    }
}

fn times(length: u64, factor: f64) -> u64 {
    ((length as f64 * factor).round() as u64).max(1)
}

/// The tasks of a graph that is widened.
struct Widened {
    tasks: Vec<Task>,
    scale: Scale,
    /// What is owed to leaves of a factor that is no whole number.
    due: f64,
}

impl Widened {
    fn add(&mut self, task: Task) -> TaskId {
        self.tasks.push(task);
        self.tasks.len() as TaskId - 1
    }

    /// What a leaf becomes.
    fn leaf(&mut self, leaf: TaskId) -> TaskId {
        self.due += self.scale.width;
        let leaves = self.due.floor();
        self.due -= leaves;
        self.halved(leaf, leaves as u64)
    }

    fn halved(&mut self, leaf: TaskId, leaves: u64) -> TaskId {
        if leaves <= 1 || self.tasks.len() > Graph::MOST_KEPT {
            return leaf;
        }
        let left = self.halved(leaf, leaves / 2);
        // One of its own draws other lengths.
        let right = self.tasks[leaf as usize].clone();
        let right = self.add(right);
        let right = self.halved(right, leaves - leaves / 2);
        self.add(Task(vec![Step::Run(Stretch::of(1, 0)), Step::Fork(vec![left, right])]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::About;

    fn run(length: u64) -> Step {
        Step::Run(Stretch::of(length, 0))
    }

    /// Three phases of four leaves.
    fn phases() -> Graph {
        let half = Task(vec![run(10), Step::Fork(vec![0, 0])]);
        let phase = Task(vec![run(50), Step::Fork(vec![1, 1])]);
        let root = Task(vec![run(1_000), Step::Repeat { task: 2, times: 3 }]);
        Graph::new(About::default(), vec![Task(vec![run(700)]), half, phase, root]).unwrap()
    }

    #[test]
    fn each_factor_scales_what_it_says() {
        let (graph, plain) = (phases(), Scale::default());
        assert_eq!(graph.scaled(plain).unwrap().measure(1), graph.measure(1));
        assert_eq!(graph.measure(1).work, 1_000 + 3 * (50 + 2 * 10 + 4 * 700));
        let work = |scale| graph.scaled(scale).unwrap().measure(1).work;
        assert_eq!(work(Scale { repeats: 2.0, ..plain }), 1_000 + 6 * (50 + 20 + 4 * 700));
        assert_eq!(work(Scale { length: 0.5, ..plain }), 1_000 + 3 * (50 + 20 + 4 * 350));
        assert_eq!(work(Scale { serial: 3.0, ..plain }), 3_000 + 3 * (150 + 20 + 4 * 700));
        let wide = graph.scaled(Scale { width: 8.0, ..plain }).unwrap();
        assert_eq!(wide.leaves().count, 3 * 32);
        // Each leaf is three levels of halvings, which take a nanosecond each.
        assert_eq!(wide.measure(1).span, 1_000 + 3 * (50 + 10 + 3 + 700));
        let wider = graph.scaled(Scale { width: 1.5, ..plain }).unwrap();
        assert_eq!(wider.leaves().count, 3 * 6);
    }

    #[test]
    fn what_cannot_be_scaled_is_said() {
        let plain = Scale::default();
        let leaf = Graph::new(About::default(), vec![Task(vec![run(5)])]).unwrap();
        for (graph, scale, part) in [
            (&leaf, Scale { repeats: 2.0, ..plain }, "nothing recurs"),
            (&leaf, Scale { width: 0.5, ..plain }, "record a smaller input"),
            (&leaf, Scale { length: f64::NAN, ..plain }, "length = NaN"),
            (&leaf, Scale { serial: -1.0, ..plain }, "serial = -1"),
            (&phases(), Scale { repeats: 1e6, width: 1e6, ..plain }, "are the most"),
        ] {
            let answer = graph.scaled(scale).unwrap_err();
            assert!(answer.contains(part), "{answer}");
        }
    }
}
