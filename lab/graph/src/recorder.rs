//! The recorder, to which a run reports its forks and joins.

use crate::fold::{Raw, fold, span};
use crate::merge::{merge, round};
use crate::{About, Graph};

/// Builds a graph from the events of a run on one thread. A driver reads the clock, and reports the time when a stretch
/// ends and when the next stretch begins. The time between the end and the next begin is not in the graph.
///
/// After many short forks in a row at the same depth, the recorder asks the driver to make the next fork *quiet*.
/// Inside a quiet fork, the driver only counts joins, and it reads the clock again when this fork is over.
#[derive(Debug)]
pub struct Recorder {
    merge_ns: u64,
    clock_ns: u64,
    /// The cost of a quiet join, in picoseconds.
    quiet_ps: u64,
    /// The time at which the current stretch began, in ns.
    since: u64,
    open: Vec<Open>,
    raws: Vec<Raw>,
    /// The number of tasks that another recorder already keeps, to which this recorder will be [added](Recorder::add).
    kept_before: usize,
    depths: Vec<Depth>,
}

/// A task that has begun.
#[derive(Debug, Default)]
struct Open {
    raw: Raw,
    /// The length of the task's current stretch, in ns, with all work that was merged into the stretch. Negative while
    /// the subtracted cost of the clock is larger than the measured time.
    run: i64,
    joins: u64,
    /// The length of all closed stretches and children, in ns.
    work: u64,
    /// The children of the current fork.
    children: Vec<Closed>,
}

/// A task that is over.
#[derive(Debug)]
enum Closed {
    /// A task that is too short to be kept separately.
    Short(Short),
    /// The index of a kept task, and its work in ns.
    Kept(u32, u64),
}

/// The combined work of short tasks that run one after another: length in ns and number of joins.
#[derive(Debug, Default)]
struct Short {
    length: u64,
    joins: u64,
}

/// A count of the short forks at one depth.
#[derive(Clone, Copy, Debug)]
struct Depth {
    /// The number of consecutive short forks.
    short: u32,
    /// The number of consecutive short forks after which the next fork is quiet.
    patience: u32,
}

impl Recorder {
    /// The number of tasks that are kept even if they are short. While short tasks are kept, repetitions have equal
    /// structure, even if a task is short in some repetitions and long in others.
    const KEPT: usize = 500_000;

    /// Creates a recorder of a run that begins at `now`, in ns. Tasks shorter than `merge_ns` are merged into their
    /// parents, or several of one fork into one. Reading the clock costs `clock_ns`. A join in a quiet fork costs
    /// `quiet_ns`.
    pub fn new(now: u64, merge_ns: u64, clock_ns: u64, quiet_ns: f64) -> Recorder {
        Recorder {
            merge_ns,
            clock_ns,
            quiet_ps: (quiet_ns.max(0.0) * 1e3) as u64,
            since: now,
            open: vec![Open::default()],
            raws: Vec::new(),
            kept_before: 0,
            depths: Vec::new(),
        }
    }

    /// Creates a recorder of a task that runs separately, from time 0. When the task is over, the new recorder can be
    /// [added](Recorder::add) to this recorder. The new recorder starts with this recorder's counts of short forks and
    /// of kept tasks.
    pub fn apart(&self) -> Recorder {
        Recorder {
            since: 0,
            open: vec![Open::default()],
            raws: Vec::new(),
            kept_before: self.kept_before + self.raws.len(),
            depths: self.depths.clone(),
            ..*self
        }
    }

    /// Adds the recording of a task that ran [apart](Recorder::apart), as the next child of the root's current fork.
    /// The first added child begins this fork.
    ///
    /// # Panics
    /// If a child of `other` has begun and is not over.
    pub fn add(&mut self, other: Recorder) {
        let Recorder { mut open, raws, depths, .. } = other;
        let mut task = open.pop().expect("a run has a task");
        assert!(open.is_empty(), "a child has begun that is not over");
        match self.nesting() {
            0 => self.fork(),
            _ => self.next(),
        }
        let first = self.raws.len() as u32;
        let moved = |mut raw: Raw| {
            raw.forks.iter_mut().flatten().for_each(|child| *child += first);
            raw
        };
        self.raws.extend(raws.into_iter().map(moved));
        task.raw = moved(task.raw);
        *self.top() = task;
        self.depths = depths;
    }

    /// Ends the current stretch.
    pub fn stop(&mut self, now: u64) {
        let length = now.saturating_sub(self.since) as i64 - self.clock_ns as i64;
        self.top().run += length;
    }

    /// Begins the next stretch.
    pub fn go(&mut self, now: u64) {
        self.since = now;
    }

    fn top(&mut self) -> &mut Open {
        self.open.last_mut().expect("a run has a task")
    }

    /// Returns the number of forks in which the current task is nested.
    pub fn nesting(&self) -> usize {
        self.open.len() - 1
    }

    /// True if the next fork should be quiet.
    pub fn wants_quiet(&self) -> bool {
        self.depths.get(self.open.len()).is_some_and(|depth| depth.short >= depth.patience)
    }

    /// Records a quiet fork that lasted from `began` until `now` and had `joins` joins.
    pub fn was_quiet(&mut self, began: u64, now: u64, joins: u64) {
        let costs = self.clock_ns + joins * self.quiet_ps / 1_000;
        let length = now.saturating_sub(began) as i64 - costs as i64;
        let top = self.top();
        top.run += length;
        top.joins += joins;
        if length > self.merge_ns as i64 {
            let depth = self.depth();
            (depth.short, depth.patience) = (0, depth.patience.saturating_mul(4));
        }
    }

    /// True if tasks are kept even if they are short.
    fn keeps_all(&self) -> bool {
        self.kept_before + self.raws.len() < Recorder::KEPT
    }

    fn depth(&mut self) -> &mut Depth {
        let depth = self.open.len();
        if self.depths.len() <= depth {
            self.depths.resize(depth + 1, Depth { short: 0, patience: 1_000 });
        }
        &mut self.depths[depth]
    }

    /// Begins a fork of the current task, and its first child.
    pub fn fork(&mut self) {
        self.open.push(Open::default());
    }

    /// Ends a child of the current fork, and begins the next child.
    ///
    /// # Panics
    /// If no child has begun.
    pub fn next(&mut self) {
        self.close();
        self.open.push(Open::default());
    }

    /// Ends the last child of the current fork. The parent task continues.
    ///
    /// # Panics
    /// If no child has begun.
    pub fn join(&mut self) {
        self.close();
        let keeps_all = self.keeps_all();
        let children = std::mem::take(&mut self.top().children);
        let work: u64 = children.iter().map(Closed::work).sum();
        let (forked, own) = together(children, self.merge_ns);
        let top = self.top();
        (top.run, top.joins, top.work) =
            (top.run + own.length as i64, top.joins + own.joins, top.work + work - own.length);
        if !forked.is_empty() {
            top.end_stretch();
            let children = forked.into_iter().map(|child| self.keep(child)).collect();
            self.top().raw.forks.push(children);
        }
        // While all tasks are kept, no fork may be quiet, because repetitions would then differ in structure.
        let is_short = !keeps_all && work < self.merge_ns / 2;
        let depth = self.depth();
        depth.short = if is_short { depth.short.saturating_add(1) } else { 0 };
    }

    fn keep(&mut self, child: Closed) -> u32 {
        match child {
            Closed::Kept(raw, _) => raw,
            Closed::Short(Short { length, joins }) => self.push(Raw { runs: vec![(length, joins)], forks: Vec::new() }),
        }
    }

    fn push(&mut self, raw: Raw) -> u32 {
        self.raws.push(raw);
        self.raws.len() as u32 - 1
    }

    fn close(&mut self) {
        let mut open = self.open.pop().expect("a child has begun");
        let may_merge = !self.keeps_all() && open.raw.forks.is_empty();
        let closed = if may_merge && open.run < self.merge_ns as i64 {
            Closed::Short(Short { length: open.run.max(0) as u64, joins: open.joins })
        } else {
            open.end_stretch();
            let work = open.work;
            Closed::Kept(self.push(open.raw), work)
        };
        self.top().children.push(closed);
    }

    /// Ends the run and returns its graph. Sets the merge length, the cost of the clock and the span of `about`.
    ///
    /// # Errors
    /// A message, if the run is larger than a graph may be.
    ///
    /// # Panics
    /// If a child has begun and is not over.
    pub fn finish(mut self, about: About) -> Result<Graph, String> {
        let mut root = self.open.pop().expect("a run has a task");
        assert!(self.open.is_empty(), "a child has begun that is not over");
        root.end_stretch();
        self.push(root.raw);
        let span_ns = span(&self.raws);
        let tasks = round(merge(&fold(&mut self.raws), self.merge_ns));
        let about = About { merge_ns: self.merge_ns, clock_ns: self.clock_ns, span_ns, ..about };
        Graph::new(about, tasks)
    }
}

/// Merges the short children of a fork, by the rules of [`merge`]. Short children become one child as soon as their
/// total reaches `least` ns. Returns the children of the fork, and the work that the parent does before the fork.
fn together(children: Vec<Closed>, least: u64) -> (Vec<Closed>, Short) {
    let (mut forked, mut group, mut members) = (Vec::new(), Short::default(), 0);
    for child in children {
        let Closed::Short(short) = child else {
            forked.push(child);
            continue;
        };
        group = group.and(&short);
        members += 1;
        if group.length >= least {
            group.joins += members - 1;
            forked.push(Closed::Short(std::mem::take(&mut group)));
            members = 0;
        }
    }
    // For each child that the parent runs itself, one join is merged. If it runs all n children, there are n − 1 joins.
    group.joins += if forked.is_empty() { members - 1 } else { members };
    if let [Closed::Short(only)] = forked.as_slice() {
        return (Vec::new(), only.and(&group));
    }
    (forked, group)
}

impl Short {
    fn and(&self, next: &Short) -> Short {
        Short { length: self.length + next.length, joins: self.joins + next.joins }
    }
}

impl Open {
    fn end_stretch(&mut self) {
        let length = self.run.max(0) as u64;
        self.raw.runs.push((length, self.joins));
        (self.run, self.joins, self.work) = (0, 0, self.work + length);
    }
}

impl Closed {
    fn work(&self) -> u64 {
        match self {
            Closed::Short(Short { length, .. }) => *length,
            Closed::Kept(_, work) => *work,
        }
    }
}
