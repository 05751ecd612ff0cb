//! What a graph is, and what it may not be.

use crate::measure::times;

/// A task of a graph, by its place in it.
pub type TaskId = u32;

/// The task graph of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Which run it is of, and how that was recorded.
    pub about: About,
    /// Each refers only to tasks before it, so there is no cycle. The last is the whole run.
    tasks: Vec<Task>,
}

/// Which run a graph is of, and how that was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "read", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub struct About {
    /// What ran.
    pub program: String,
    /// For how many workers it was recorded: a program may divide its work by that.
    pub workers: u32,
    /// Tasks shorter than this are part of their parents, or several of one fork are one.
    pub merge_ns: u64,
    /// What reading the clock costs, which is in no length.
    pub clock_ns: u64,
    /// How long the same run takes that is not recorded: the median of some.
    pub plain_ns: u64,
    /// How long the recorded run took.
    pub recorded_ns: u64,
    /// T∞ of the run as it was, in which each stretch had the length that it had then.
    pub span_ns: u64,
    /// What its process computes between one run and the next, on one core: it checks the result, and gives memory
    /// back. The median of some; not known of a command.
    #[cfg_attr(feature = "read", serde(default))]
    pub check_ns: Option<u64>,
}

/// A task: steps, one after another. The first is a [`Step::Run`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task(pub Vec<Step>);

/// A step of a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A serial stretch.
    Run(Stretch),
    /// These run in parallel, the first where their parent did, and the parent goes on when all are done.
    Fork(Vec<TaskId>),
    /// A task so many times, one after another.
    Repeat {
        /// Which,
        task: TaskId,
        /// and how often, at least once.
        times: u32,
    },
}

/// A serial stretch. Its length may differ from one repetition to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stretch {
    /// The means of as many equal parts of its lengths in all repetitions, ascending. One: it has the same each time.
    lengths: Box<[u64]>,
    /// How many joins are in it, of tasks that were shorter than the merge length.
    pub joins: u64,
}

impl Stretch {
    /// The most parts of a distribution.
    pub const MOST_PARTS: usize = 16;

    /// One that is so long each time; one nanosecond at least.
    pub fn of(length: u64, joins: u64) -> Stretch {
        Stretch { lengths: [length.max(1)].into(), joins }
    }

    /// One that had these lengths, in the order of the repetitions.
    ///
    /// # Panics
    /// Without any.
    pub fn distributed(mut lengths: Vec<u64>, joins: u64) -> Stretch {
        assert!(!lengths.is_empty(), "a stretch has a length");
        lengths.sort_unstable();
        if lengths[0] == lengths[lengths.len() - 1] {
            return Stretch::of(lengths[0], joins);
        }
        let parts = lengths.len().min(Stretch::MOST_PARTS);
        let (mut means, mut from) = (Vec::with_capacity(parts), 0);
        for part in 0..parts {
            // The repetitions that `nth` has in this part.
            let to = ((part + 1) * lengths.len()).div_ceil(parts);
            let sum: u128 = lengths[from..to].iter().map(|length| u128::from(*length)).sum();
            let count = (to - from) as u128;
            means.push((((sum + count / 2) / count) as u64).max(1));
            from = to;
        }
        Stretch { lengths: means.into(), joins }
    }

    /// With these parts of its distribution.
    #[cfg(feature = "read")]
    pub(crate) fn with_parts(lengths: Vec<u64>, joins: u64) -> Stretch {
        Stretch { lengths: lengths.into(), joins }
    }

    /// The means of as many equal parts of its lengths, ascending.
    pub fn parts(&self) -> &[u64] {
        &self.lengths
    }

    /// How long it is in one of `of` repetitions. Each part of the distribution has its share of them, in an order
    /// that depends on the seed and on `place`, another for each stretch.
    pub fn nth(&self, instance: u64, of: u64, place: u64, seed: u64) -> u64 {
        let parts = self.lengths.len() as u64;
        if parts == 1 {
            return self.lengths[0];
        }
        // A prime above any number of repetitions has no divisor in common with it: the order is a permutation.
        const FACTORS: [u64; 4] = [4_294_967_291, 4_294_967_279, 4_294_967_231, 4_294_967_197];
        let drawn = mix(seed ^ mix(place));
        let factor = FACTORS[(drawn >> 62) as usize] % of;
        let nth = (instance * factor + (drawn >> 2)) % of;
        self.lengths[(nth * parts / of) as usize]
    }

    /// Its mean length in so many repetitions, of which each part of the distribution has its share.
    pub(crate) fn mean(&self, of: u64) -> f64 {
        let parts = self.lengths.len() as u128;
        let upto = |part: u128| (part * u128::from(of)).div_ceil(parts);
        let each = (0..).zip(&*self.lengths);
        let sum: u128 = each.map(|(part, length)| (upto(part + 1) - upto(part)) * u128::from(*length)).sum();
        sum as f64 / of as f64
    }

    /// With each length changed; one nanosecond at least.
    pub(crate) fn map(&self, mut change: impl FnMut(u64) -> u64) -> Stretch {
        let lengths = self.lengths.iter().map(|length| change(*length).max(1)).collect();
        Stretch { lengths, joins: self.joins }
    }

    /// This one and then another, the long ones of both in the same repetitions.
    pub(crate) fn and(&self, other: &Stretch) -> Stretch {
        let parts = self.lengths.len().max(other.lengths.len());
        let of = |stretch: &Stretch, part: usize| stretch.lengths[part * stretch.lengths.len() / parts];
        let lengths = (0..parts).map(|part| of(self, part).saturating_add(of(other, part))).collect();
        Stretch { lengths, joins: self.joins.saturating_add(other.joins) }
    }
}

/// The place of a step, which no other step of the graph has.
pub(crate) fn place(task: TaskId, step: usize) -> u64 {
    u64::from(task) << 32 | step as u64
}

/// SplitMix64's mixing of bits.
fn mix(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Graph {
    /// The most tasks that are kept.
    pub const MOST_KEPT: usize = 1 << 22;
    /// The most tasks that may unfold.
    pub const MOST_TASKS: u64 = 100_000_000;
    /// The most repetitions of one task, those of what it is repeated in included.
    pub const MOST_TIMES: u64 = 1 << 31;
    /// T₁ is at most this: 13 days.
    pub const MOST_WORK: u64 = 1 << 50;
    /// The most steps that may unfold. All of them are walked through when a graph is measured.
    const MOST_STEPS: u64 = 1_000_000_000;
    /// The most joins that are merged into stretches. With the highest cost of a join they take less than 2^60 ns.
    const MOST_JOINS: u64 = 1 << 40;

    /// Looks whether the tasks make a graph; the last of them is the whole run.
    ///
    /// # Errors
    /// Says in a sentence what is wrong with them, and with which.
    pub fn new(about: About, tasks: Vec<Task>) -> Result<Graph, String> {
        if tasks.is_empty() {
            return Err("it has no task".into());
        }
        if tasks.len() > Graph::MOST_KEPT {
            return Err(format!("it keeps {} tasks, and {} are the most", tasks.len(), Graph::MOST_KEPT));
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
            return Err(format!("{tasks} tasks unfold from it, and {} are the most", Graph::MOST_TASKS));
        }
        let times = times(&self.tasks).into_iter().max().unwrap_or(1);
        if times > u128::from(Graph::MOST_TIMES) {
            return Err(format!("a task of it is repeated {times} times, and {} are the most", Graph::MOST_TIMES));
        }
        let work = self.total_work();
        if work > u128::from(Graph::MOST_WORK) {
            return Err(format!("its lengths add up to {work} ns, and 2^50 are the most"));
        }
        let steps = self.count_steps();
        if steps > u128::from(Graph::MOST_STEPS) {
            return Err(format!("{steps} steps unfold from it, and {} are the most", Graph::MOST_STEPS));
        }
        let joins = self.merged_joins();
        if joins > Graph::MOST_JOINS {
            return Err(format!("{joins} joins are merged into its stretches, and 2^40 are the most"));
        }
        if let Some(check) = self.about.check_ns.filter(|check| *check > Graph::MOST_WORK) {
            return Err(format!("its check_ns is {check}, and 2^50 are the most"));
        }
        Ok(())
    }

    /// All tasks, each after those that it refers to.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The whole run.
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
            Err(format!("refers to task {task}, which does not come before it: that would be a cycle"))
        };
        if !matches!(self.0.first(), Some(Step::Run(_))) {
            return Err("does not begin with a stretch".into());
        }
        for step in &self.0 {
            match step {
                Step::Run(Stretch { lengths, joins }) => {
                    if *joins > Graph::MOST_JOINS {
                        return Err(format!("has a stretch with {joins} joins; the most are 2^40"));
                    }
                    if lengths.contains(&0) {
                        return Err("has a stretch of 0 ns; the least is 1".into());
                    }
                    if lengths.is_empty() || lengths.len() > Stretch::MOST_PARTS || !lengths.is_sorted() {
                        let most = Stretch::MOST_PARTS;
                        return Err(format!("has a stretch with lengths that are not 1 to {most} that ascend"));
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
                        return Err(format!("repeats task {task} 0 times; the least is 1"));
                    }
                    before(task)?;
                }
            }
        }
        Ok(())
    }

    /// Whether it is one stretch.
    pub(crate) fn leaf(&self) -> Option<&Stretch> {
        match self.0.as_slice() {
            [Step::Run(stretch)] => Some(stretch),
            _ => None,
        }
    }
}
