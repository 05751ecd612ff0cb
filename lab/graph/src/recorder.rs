//! What a run says while it forks and joins.

use crate::fold::{Raw, fold, span};
use crate::merge::{merge, round};
use crate::{About, Graph};

/// Makes a graph of what a run says, which is on one thread. A driver reads the clock, and says when a stretch ends
/// and when one begins; what happens in between is not in the graph.
///
/// Where forks at one depth have always been short, the recorder asks the driver to be *quiet*: to count joins, and to
/// read no clock before the outermost is over.
#[derive(Debug)]
pub struct Recorder {
    merge_ns: u64,
    clock_ns: u64,
    /// A quiet join's cost, in picoseconds.
    quiet_ps: u64,
    /// When the stretch began.
    since: u64,
    open: Vec<Open>,
    raws: Vec<Raw>,
    /// How many tasks were kept already where what is recorded here will be added.
    kept_before: usize,
    depths: Vec<Depth>,
}

/// A task that has begun.
#[derive(Debug, Default)]
struct Open {
    raw: Raw,
    /// Its stretch, and that of all that was merged into it. Below zero while the clock's cost exceeds it.
    run: i64,
    joins: u64,
    /// All stretches and children that are closed.
    work: u64,
    /// The children of the fork that it is in.
    children: Vec<Closed>,
}

/// A task that is over.
#[derive(Debug)]
enum Closed {
    /// Too short to be kept by itself.
    Short(Short),
    /// By its place, with its work.
    Kept(u32, u64),
}

/// What tasks do that are too short, one after another.
#[derive(Debug, Default)]
struct Short {
    length: u64,
    joins: u64,
}

/// What is known of the forks at a depth.
#[derive(Clone, Copy, Debug)]
struct Depth {
    /// How many have been short, one after another.
    short: u32,
    /// After how many the next is quiet.
    patience: u32,
}

impl Recorder {
    /// So many tasks are kept, however short: then what recurs is alike each time, although short tasks are not
    /// equally short.
    const KEPT: usize = 500_000;

    /// A recorder of a run that begins at `now`. Tasks shorter than `merge_ns` become part of their parents, or
    /// several of one fork become one. A reading of the clock costs `clock_ns`, and a join in quiet `quiet_ns`.
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

    /// A recorder of a task that runs apart, to be [added](Recorder::add) here when the task is over. Its run begins
    /// at 0. It knows which forks have been short, and keeps no more tasks than this one would.
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

    /// What a recorder has that was taken [apart](Recorder::apart) is a child of the fork that this task is in, after
    /// those that were added before. The first begins the fork.
    ///
    /// # Panics
    /// If in the other a child has begun that is not over.
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

    /// The stretch is over.
    pub fn stop(&mut self, now: u64) {
        let length = now.saturating_sub(self.since) as i64 - self.clock_ns as i64;
        self.top().run += length;
    }

    /// The next stretch begins.
    pub fn go(&mut self, now: u64) {
        self.since = now;
    }

    fn top(&mut self) -> &mut Open {
        self.open.last_mut().expect("a run has a task")
    }

    /// In how many forks the task is.
    pub fn nesting(&self) -> usize {
        self.open.len() - 1
    }

    /// Whether the fork that comes should be quiet.
    pub fn wants_quiet(&self) -> bool {
        self.depths.get(self.open.len()).is_some_and(|depth| depth.short >= depth.patience)
    }

    /// A quiet fork is over, which lasted from `began` until `now` and had so many joins.
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

    /// Whether tasks are kept, however short.
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

    /// The task forks, and its first child begins.
    pub fn fork(&mut self) {
        self.open.push(Open::default());
    }

    /// A child is over, and the next begins.
    ///
    /// # Panics
    /// If no child has begun.
    pub fn next(&mut self) {
        self.close();
        self.open.push(Open::default());
    }

    /// The last child is over, and the task goes on.
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
        // While all is kept, what recurs is alike each time, which it would not be if some were quiet.
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

    /// The run is over: its graph. Of `about` it fills in what it knows.
    ///
    /// # Errors
    /// There are more tasks than a graph may have; says so in a sentence.
    ///
    /// # Panics
    /// If a child has begun that is not over.
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

/// What remains of a fork's children, and what the parent does before them, by the rule of `merge`. As many short ones
/// as take `least` together become one, if others remain beside it.
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
    // Each that the parent does is a join less; where it does all, the first is none.
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
