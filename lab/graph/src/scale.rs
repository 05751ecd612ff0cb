//! The graph of a larger input, from a recording of a small one.
//!
//! A larger input has more phases, and its phases have more leaves or longer leaves. A leaf is a task that forks
//! nothing. A [`Scale`] has a factor for each of these differences:
//!
//! - `repeats`: the number of repetitions of recurring parts that are not inside another recurring part.
//! - `phases`: the number of times that each phase occurs, one after another. A phase is a fork of the root, together
//!   with the stretch between the phase before and this fork. Each repetition of a recurring part is a phase. If the
//!   phases shrink during the run (as in an elimination on a triangle), the scaled phases shrink in the same way. The
//!   parts before the first phase and after the last phase occur once.
//! - `width`: the number of leaves. A binary tree of forks with `width` leaves replaces each leaf. The span therefore
//!   grows as if the program halved a larger range.
//! - `length`: the length of the leaves.
//! - `serial`: the length of stretches outside of forked tasks: before, between and after the phases.
//!
//! If `phases` or `width` is not an integer, some phases or leaves are replaced by one copy more than others.
//!
//! | factor f of | work of leaves | leaves | span |
//! |---|---|---|---|
//! | `repeats`, `phases` | f | f | f, except for parts that occur once |
//! | `width` | f | f | log₂ f nanoseconds more in place of each leaf |
//! | `length` | f | 1 | f, except for stretches that are no leaves |
//! | `serial` | 1 | 1 | f, except for forked tasks |
//!
//! All factors leave the relative lengths of the leaves as they are. Only the halvings of `width` make a recursion
//! deeper. A parallel recursion with serial parts at each level therefore gets a span that is too short by a
//! logarithmic factor.
//!
//! The catalog of kernels states which parameter of a program corresponds to which factor.

use crate::fold::Tasks;
use crate::graph::{Graph, Step, Stretch, Task, TaskId};
use crate::merge::keep;

/// The factors by which a graph is scaled. The default of each is 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "read", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct Scale {
    /// Factor of the number of repetitions of recurring parts.
    pub repeats: f64,
    /// Factor of the number of times that each phase occurs.
    pub phases: f64,
    /// Factor of the number of leaves; at least 1.
    pub width: f64,
    /// Factor of the lengths of leaves.
    pub length: f64,
    /// Factor of the lengths of stretches outside of forked tasks.
    pub serial: f64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { repeats: 1.0, phases: 1.0, width: 1.0, length: 1.0, serial: 1.0 }
    }
}

/// The maximum factor. The minimum is its reciprocal.
const MOST: f64 = 1e6;

impl Scale {
    /// The names of the factors.
    pub const NAMES: [&'static str; 5] = ["repeats", "phases", "width", "length", "serial"];

    /// Returns the factor with this name, so that the caller can set it. `None` if no factor has this name.
    pub fn factor(&mut self, name: &str) -> Option<&mut f64> {
        let Scale { repeats, phases, width, length, serial } = self;
        let place = Scale::NAMES.iter().position(|known| *known == name)?;
        Some([repeats, phases, width, length, serial][place])
    }

    /// Returns each factor with its name.
    pub fn each(&self) -> [(&'static str, f64); 5] {
        let Scale { repeats, phases, width, length, serial } = *self;
        let factors = [repeats, phases, width, length, serial];
        std::array::from_fn(|place| (Scale::NAMES[place], factors[place]))
    }

    /// Returns the factors `self / small`. Here the fields of `self` and of `small` are the amounts of work of two
    /// inputs, in the same units.
    pub fn over(&self, small: &Scale) -> Scale {
        Scale {
            repeats: self.repeats / small.repeats,
            phases: self.phases / small.phases,
            width: self.width / small.width,
            length: self.length / small.length,
            serial: self.serial / small.serial,
        }
    }

    fn check(&self) -> Result<(), String> {
        for (name, factor) in self.each() {
            if !(1.0 / MOST..=MOST).contains(&factor) {
                return Err(format!("{name} = {factor}; a factor must be from 1/{MOST} to {MOST}"));
            }
        }
        if self.width < 1.0 {
            return Err(format!("width = {}; a graph can only be widened, so record a smaller input", self.width));
        }
        Ok(())
    }
}

/// Rounds a sequence of numbers to integers. The remainder is carried to the next number, so the sum is kept.
#[derive(Default)]
struct Rounding(f64);

impl Rounding {
    fn whole(&mut self, more: f64) -> u64 {
        self.0 += more;
        // A sum of thirds may be slightly less than an integer.
        let whole = (self.0 + 1e-6).floor();
        self.0 -= whole;
        whole as u64
    }
}

impl Graph {
    /// Returns the graph of an input that differs by these factors.
    ///
    /// # Errors
    /// A message, in one of these cases:
    ///
    /// - A factor is out of range.
    /// - The graph would be too large.
    /// - `repeats` is not 1 and nothing recurs, or `phases` is not 1 and nothing is forked.
    pub fn scaled(&self, scale: Scale) -> Result<Graph, String> {
        scale.check()?;
        let root = &self.tasks()[self.root() as usize];
        if scale.repeats != 1.0 && !root.0.iter().any(|step| matches!(step, Step::Repeat { .. })) {
            return Err(format!("repeats = {}: nothing recurs in this recording. Leave repeats out", scale.repeats));
        }
        if scale.phases != 1.0 && root.leaf().is_some() {
            return Err(format!("phases = {}: nothing is forked in this recording. Leave phases out", scale.phases));
        }
        let (is_trunk, is_forked) = (self.trunk(), self.forked());
        let mut scaled = Scaled { tasks: Vec::new(), scale, leaves: Rounding::default(), phases: Rounding::default() };
        let mut places: Vec<TaskId> = Vec::with_capacity(self.tasks().len());
        for (nth, task) in self.tasks().iter().enumerate() {
            let place = |task: &TaskId| places[*task as usize];
            let leaf = task.leaf().filter(|_| is_forked[nth]);
            let mut steps = Vec::with_capacity(task.0.len());
            for step in &task.0 {
                steps.push(match step {
                    Step::Run(stretch) => Step::Run(match leaf {
                        Some(_) => stretch.map(|length| times(length, scale.length)),
                        None if is_trunk[nth] => stretch.map(|length| times(length, scale.serial)),
                        None => stretch.clone(),
                    }),
                    Step::Fork(children) => {
                        let widen = |child: &TaskId| {
                            let is_leaf = self.tasks()[*child as usize].leaf().is_some();
                            if is_leaf { scaled.leaf(place(child)) } else { place(child) }
                        };
                        Step::Fork(children.iter().map(widen).collect())
                    }
                    Step::Repeat { task, times } => Step::Repeat { task: place(task), times: *times },
                });
            }
            if nth == self.root() as usize {
                steps = scaled.phases(steps);
            }
            if scaled.tasks.len() > Graph::MOST_KEPT {
                return Err(format!(
                    "width = {}: the result would store more than {} tasks",
                    scale.width,
                    Graph::MOST_KEPT
                ));
            }
            places.push(scaled.add(Task(steps)));
        }
        let mut kept = Tasks::default();
        keep(&scaled.tasks, places[self.root() as usize], &mut kept);
        Graph::new(self.about.clone(), kept.into_tasks())
    }

    /// Returns, for each task, whether it runs outside of all forked tasks.
    fn trunk(&self) -> Vec<bool> {
        let mut is_trunk = vec![false; self.tasks().len()];
        is_trunk[self.root() as usize] = true;
        for nth in (0..self.tasks().len()).rev() {
            for step in &self.tasks()[nth].0 {
                match step {
                    Step::Repeat { task, .. } if is_trunk[nth] => is_trunk[*task as usize] = true,
                    _ => {}
                }
            }
        }
        is_trunk
    }

    /// Returns, for each task, whether any task forks it.
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

/// The tasks of a graph that is being scaled.
struct Scaled {
    tasks: Vec<Task>,
    scale: Scale,
    /// The rounding of the number of leaves.
    leaves: Rounding,
    /// The rounding of the number of phases.
    phases: Rounding,
}

impl Scaled {
    fn add(&mut self, task: Task) -> TaskId {
        self.tasks.push(task);
        self.tasks.len() as TaskId - 1
    }

    /// Returns the task that replaces a leaf.
    fn leaf(&mut self, leaf: TaskId) -> TaskId {
        let leaves = self.leaves.whole(self.scale.width);
        self.halved(leaf, leaves)
    }

    fn halved(&mut self, leaf: TaskId, leaves: u64) -> TaskId {
        if leaves <= 1 || self.tasks.len() > Graph::MOST_KEPT {
            return leaf;
        }
        let left = self.halved(leaf, leaves / 2);
        // The second half is a separate task, so that its lengths are drawn separately.
        let right = self.tasks[leaf as usize].clone();
        let right = self.add(right);
        let right = self.halved(right, leaves - leaves / 2);
        self.add(Task(vec![Step::Run(Stretch::of(1, 0)), Step::Fork(vec![left, right])]))
    }

    /// Returns the root's steps after scaling by `repeats` and `phases`.
    fn phases(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let Scale { repeats, phases, .. } = self.scale;
        let mut scaled: Vec<Step> = Vec::with_capacity(steps.len());
        // The stretches since the last phase. `None` before the first phase.
        let mut between: Option<Vec<Step>> = None;
        for step in steps {
            match step {
                Step::Run(_) => between.as_mut().unwrap_or(&mut scaled).push(step),
                Step::Fork(_) => {
                    let mut phase = between.replace(Vec::new()).unwrap_or_default();
                    match self.phases.whole(phases) {
                        0 => {}
                        1 => scaled.extend(phase.into_iter().chain([step])),
                        times => {
                            if phase.is_empty() {
                                phase.push(Step::Run(Stretch::of(1, 0)));
                            }
                            phase.push(step);
                            scaled.push(Step::Repeat { task: self.add(Task(phase)), times: times as u32 });
                        }
                    }
                }
                Step::Repeat { task, times } => {
                    scaled.extend(between.replace(Vec::new()).unwrap_or_default());
                    let wanted = f64::from(times) * repeats;
                    let times =
                        if phases == 1.0 { wanted.round().max(1.0) as u64 } else { self.phases.whole(wanted * phases) };
                    if times > 0 {
                        scaled.push(Step::Repeat { task, times: times.min(u32::MAX.into()) as u32 });
                    }
                }
            }
        }
        scaled.extend(between.unwrap_or_default());
        scaled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::About;

    fn run(length: u64) -> Step {
        Step::Run(Stretch::of(length, 0))
    }

    /// Returns a graph of three phases, each with four leaves.
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
        // Three levels of halvings replace each leaf, and each level takes one nanosecond.
        assert_eq!(wide.measure(1).span, 1_000 + 3 * (50 + 10 + 3 + 700));
        let wider = graph.scaled(Scale { width: 1.5, ..plain }).unwrap();
        assert_eq!(wider.leaves().count, 3 * 6);
        // Each repetition of a recurring part is a phase.
        let phases = |factor| graph.scaled(Scale { phases: factor, ..plain }).unwrap();
        assert_eq!(phases(2.0), graph.scaled(Scale { repeats: 2.0, ..plain }).unwrap());
        assert_eq!(phases(1.0 / 3.0).measure(1).work, 1_000 + 50 + 2 * 10 + 4 * 700);
    }

    /// Returns the number of children of each phase, in order.
    fn widths(graph: &Graph) -> Vec<usize> {
        let width = |steps: &[Step]| {
            let children = steps.iter().find_map(|step| match step {
                Step::Fork(children) => Some(children.len()),
                _ => None,
            });
            children.unwrap()
        };
        let root = &graph.tasks()[graph.root() as usize];
        let each = root.0.iter().flat_map(|step| match step {
            Step::Run(_) => Vec::new(),
            Step::Fork(_) => vec![width(std::slice::from_ref(step))],
            Step::Repeat { task, times } => vec![width(&graph.tasks()[*task as usize].0); *times as usize],
        });
        each.collect()
    }

    #[test]
    fn a_triangle_stays_one() {
        let phase = |width: usize| [Step::Fork(vec![0; width]), run(30)];
        let root = [run(5_000)].into_iter().chain((2..6).rev().flat_map(phase));
        let tasks = vec![Task(vec![run(700)]), Task(root.chain([run(9_000)]).collect())];
        let triangle = Graph::new(About::default(), tasks).unwrap();
        let phases = |factor| triangle.scaled(Scale { phases: factor, ..Scale::default() }).unwrap();
        assert_eq!(widths(&phases(2.0)), [5, 5, 4, 4, 3, 3, 2, 2]);
        assert_eq!(widths(&phases(1.5)), [5, 4, 4, 3, 2, 2]);
        assert_eq!(widths(&phases(0.5)), [4, 2]);
        assert_eq!(widths(&phases(0.2)), [] as [usize; 0]);
        let found = phases(2.0).measure(0);
        assert_eq!(found.span, 5_000 + 2 + 8 * 700 + 6 * 30 + 30 + 9_000);
        assert_eq!(found.work, found.span + (2 * (5 + 4 + 3 + 2) - 8) * 700);
    }

    #[test]
    fn what_cannot_be_scaled_is_said() {
        let plain = Scale::default();
        let leaf = Graph::new(About::default(), vec![Task(vec![run(5)])]).unwrap();
        for (graph, scale, part) in [
            (&leaf, Scale { repeats: 2.0, ..plain }, "nothing recurs"),
            (&leaf, Scale { phases: 2.0, ..plain }, "nothing is forked"),
            (&leaf, Scale { width: 0.5, ..plain }, "record a smaller input"),
            (&leaf, Scale { length: f64::NAN, ..plain }, "length = NaN"),
            (&leaf, Scale { serial: -1.0, ..plain }, "serial = -1"),
            (&phases(), Scale { repeats: 1e6, width: 1e6, ..plain }, "the maximum is"),
        ] {
            let answer = graph.scaled(scale).unwrap_err();
            assert!(answer.contains(part), "{answer}");
        }
    }
}
