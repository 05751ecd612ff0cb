//! Task graphs and their limits.

use crate::measure::times;

/// The index of a task in its graph.
pub type TaskId = u32;

/// The task graph of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The recorded run, and the settings of the recording.
    pub about: About,
    /// The tasks. Each task refers only to earlier tasks, so there is no cycle. The last task is the whole run.
    tasks: Vec<Task>,
}

/// The recorded run, and the settings of the recording.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "read", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub struct About {
    /// The name of the program.
    pub program: String,
    /// The number of workers for which the run was recorded. A program may divide its work by this number.
    pub workers: u32,
    /// The merge length, in ns. The recorder merges shorter tasks into their parents, or several tasks of one fork into
    /// one task.
    pub merge_ns: u64,
    /// The cost of reading the clock, in ns. The lengths of the stretches do not include this cost.
    pub clock_ns: u64,
    /// The time of the run without recording, in ns: the median of several runs.
    pub plain_ns: u64,
    /// The time of the recorded run, in ns.
    pub recorded_ns: u64,
    /// The span T∞ of the recorded run, in ns, computed from the measured length of each stretch. The span of the graph
    /// may differ, because repetitions share a distribution of lengths.
    pub span_ns: u64,
    /// The processor time between two runs, in ns, in which the process checks the result and frees memory on one core.
    /// The median of several measurements. `None` if a command was recorded, because the time is then unknown.
    #[cfg_attr(feature = "read", serde(default))]
    pub check_ns: Option<u64>,
}

/// A task: a list of steps. The first step is a [`Step::Run`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task(pub Vec<Step>);

/// A step of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A serial stretch.
    Run(Stretch),
    /// Children that run in parallel, the first child on the parent's worker. The parent continues when all children
    /// have ended.
    Fork(Vec<TaskId>),
    /// A task that is repeated, one time after another.
    Repeat {
        /// The repeated task.
        task: TaskId,
        /// The number of repetitions, at least 1.
        times: u32,
    },
}

/// A serial stretch. Its length may differ from one repetition to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stretch {
    /// The lengths of all repetitions, as a distribution: the repetitions are sorted by length and divided into equal
    /// parts, and each number is the mean of a part, in ns. With one part, all lengths are equal.
    lengths: Box<[u64]>,
    /// The number of joins in the stretch. Their tasks were shorter than the merge length and are part of the stretch.
    pub joins: u64,
}

impl Stretch {
    /// The maximum number of parts of a distribution.
    pub const MOST_PARTS: usize = 16;

    /// Creates a stretch with a fixed length, in ns. A length of 0 becomes 1.
    pub fn of(length: u64, joins: u64) -> Stretch {
        Stretch { lengths: [length.max(1)].into(), joins }
    }

    /// Creates a stretch with the distribution of these lengths.
    ///
    /// # Panics
    /// If `lengths` is empty.
    pub fn distributed(mut lengths: Vec<u64>, joins: u64) -> Stretch {
        assert!(!lengths.is_empty(), "a stretch has a length");
        lengths.sort_unstable();
        if lengths[0] == lengths[lengths.len() - 1] {
            return Stretch::of(lengths[0], joins);
        }
        let parts = lengths.len().min(Stretch::MOST_PARTS);
        let (mut means, mut from) = (Vec::with_capacity(parts), 0);
        for part in 0..parts {
            // This part has the repetitions that `nth` assigns to it.
            let to = ((part + 1) * lengths.len()).div_ceil(parts);
            let sum: u128 = lengths[from..to].iter().map(|length| u128::from(*length)).sum();
            let count = (to - from) as u128;
            means.push((((sum + count / 2) / count) as u64).max(1));
            from = to;
        }
        Stretch { lengths: means.into(), joins }
    }

    /// Creates a stretch with the given parts of its distribution.
    #[cfg(feature = "read")]
    pub(crate) fn with_parts(lengths: Vec<u64>, joins: u64) -> Stretch {
        Stretch { lengths: lengths.into(), joins }
    }

    /// Returns the distribution of the lengths: the mean length of each of its equal parts, in ns, in ascending order.
    pub fn parts(&self) -> &[u64] {
        &self.lengths
    }

    /// Returns the length of repetition `instance` of `of` repetitions, in ns. Every part of the distribution provides
    /// the length of an equal share of the repetitions. The order of the lengths depends on `seed` and `place`. Each
    /// stretch has its own `place`, so the order differs between stretches.
    pub fn nth(&self, instance: u64, of: u64, place: u64, seed: u64) -> u64 {
        let parts = self.lengths.len() as u64;
        if parts == 1 {
            return self.lengths[0];
        }
        // A prime above any number of repetitions has no common divisor with that number, so the order is a
        // permutation.
        const FACTORS: [u64; 4] = [4_294_967_291, 4_294_967_279, 4_294_967_231, 4_294_967_197];
        let drawn = mix(seed ^ mix(place));
        let factor = FACTORS[(drawn >> 62) as usize] % of;
        let nth = (instance * factor + (drawn >> 2)) % of;
        self.lengths[(nth * parts / of) as usize]
    }

    /// Returns the mean of the lengths that [`Stretch::nth`] assigns to `of` repetitions, in ns.
    pub(crate) fn mean(&self, of: u64) -> f64 {
        let parts = self.lengths.len() as u128;
        let upto = |part: u128| (part * u128::from(of)).div_ceil(parts);
        let each = (0..).zip(&*self.lengths);
        let sum: u128 = each.map(|(part, length)| (upto(part + 1) - upto(part)) * u128::from(*length)).sum();
        sum as f64 / of as f64
    }

    /// Returns the stretch with each length changed, to at least 1 ns.
    pub(crate) fn map(&self, mut change: impl FnMut(u64) -> u64) -> Stretch {
        let lengths = self.lengths.iter().map(|length| change(*length).max(1)).collect();
        Stretch { lengths, joins: self.joins }
    }

    /// Returns this stretch followed by `other`. Assumes that both stretches are long in the same repetitions.
    pub(crate) fn and(&self, other: &Stretch) -> Stretch {
        let parts = self.lengths.len().max(other.lengths.len());
        let of = |stretch: &Stretch, part: usize| stretch.lengths[part * stretch.lengths.len() / parts];
        let lengths = (0..parts).map(|part| of(self, part).saturating_add(of(other, part))).collect();
        Stretch { lengths, joins: self.joins.saturating_add(other.joins) }
    }
}

/// Returns a number for a step. Different steps of a graph have different numbers.
pub(crate) fn place(task: TaskId, step: usize) -> u64 {
    u64::from(task) << 32 | step as u64
}

/// Mixes bits like SplitMix64.
fn mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Graph {
    /// The maximum number of tasks that a graph stores.
    pub const MOST_KEPT: usize = 1 << 22;
    /// The maximum number of tasks of the unfolded graph, in which every repetition counts.
    pub const MOST_TASKS: u64 = 100_000_000;
    /// The maximum number of repetitions of one task: the product of the repetition counts that enclose it.
    pub const MOST_TIMES: u64 = 1 << 31;
    /// The maximum of the work T₁: 13 days, in ns.
    pub const MOST_WORK: u64 = 1 << 50;
    /// The maximum number of steps of the unfolded graph. [`Graph::measure`] visits all of them.
    const MOST_STEPS: u64 = 1_000_000_000;
    /// The maximum number of merged joins. With the highest cost per join, all joins together take less than 2^60 ns.
    const MOST_JOINS: u64 = 1 << 40;

    /// Creates a graph from its tasks, of which the last is the whole run. Checks that the tasks make a valid graph.
    ///
    /// # Errors
    /// A message that names the problem and the task.
    pub fn new(about: About, tasks: Vec<Task>) -> Result<Graph, String> {
        if tasks.is_empty() {
            return Err("it has no task".into());
        }
        if tasks.len() > Graph::MOST_KEPT {
            return Err(format!("it stores {} tasks, and the maximum is {}", tasks.len(), Graph::MOST_KEPT));
        }
        for (nth, task) in tasks.iter().enumerate() {
            task.check(nth).map_err(|why| format!("task {nth} {why}"))?;
        }
        let graph = Graph { about, tasks };
        graph.check_size()?;
        Ok(graph)
    }

    fn check_size(&self) -> Result<(), String> {
        let tasks = self.count_tasks();
        if tasks > u128::from(Graph::MOST_TASKS) {
            return Err(format!("it unfolds to {tasks} tasks, and the maximum is {}", Graph::MOST_TASKS));
        }
        let times = times(&self.tasks).into_iter().max().unwrap_or(1);
        if times > u128::from(Graph::MOST_TIMES) {
            return Err(format!(
                "one of its tasks is repeated {times} times, and the maximum is {}",
                Graph::MOST_TIMES
            ));
        }
        let work = self.total_work();
        if work > u128::from(Graph::MOST_WORK) {
            return Err(format!("its lengths add up to {work} ns, and the maximum is 2^50"));
        }
        let steps = self.count_steps();
        if steps > u128::from(Graph::MOST_STEPS) {
            return Err(format!("it unfolds to {steps} steps, and the maximum is {}", Graph::MOST_STEPS));
        }
        let joins = self.merged_joins();
        if joins > Graph::MOST_JOINS {
            return Err(format!("{joins} joins are merged into its stretches, and the maximum is 2^40"));
        }
        if let Some(check) = self.about.check_ns.filter(|check| *check > Graph::MOST_WORK) {
            return Err(format!("its check_ns is {check}, and the maximum is 2^50"));
        }
        Ok(())
    }

    /// Returns all tasks. Each task is after the tasks that it refers to.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the task of the whole run.
    pub fn root(&self) -> TaskId {
        self.tasks.len() as TaskId - 1
    }
}

impl Task {
    fn check(&self, own: usize) -> Result<(), String> {
        let before = |task: &TaskId| {
            if (*task as usize) < own {
                return Ok(());
            }
            Err(format!("refers to task {task}, which is not before it; this would be a cycle"))
        };
        if !matches!(self.0.first(), Some(Step::Run(_))) {
            return Err("does not begin with a stretch".into());
        }
        for step in &self.0 {
            match step {
                Step::Run(Stretch { lengths, joins }) => {
                    if *joins > Graph::MOST_JOINS {
                        return Err(format!("has a stretch with {joins} joins; the maximum is 2^40"));
                    }
                    if lengths.contains(&0) {
                        return Err("has a stretch of 0 ns; the minimum is 1".into());
                    }
                    if lengths.is_empty() || lengths.len() > Stretch::MOST_PARTS || !lengths.is_sorted() {
                        let most = Stretch::MOST_PARTS;
                        return Err(format!("has a stretch whose lengths are not 1 to {most} ascending numbers"));
                    }
                }
                Step::Fork(children) => {
                    if children.is_empty() {
                        return Err("forks nothing".into());
                    }
                    children.iter().try_for_each(before)?;
                }
                Step::Repeat { task, times } => {
                    if *times == 0 {
                        return Err(format!("repeats task {task} 0 times; the minimum is 1"));
                    }
                    before(task)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the task's stretch if the task is a leaf, which consists of a single stretch.
    pub(crate) fn leaf(&self) -> Option<&Stretch> {
        match self.0.as_slice() {
            [Step::Run(stretch)] => Some(stretch),
            _ => None,
        }
    }
}
