//! What a run says while it forks and joins.

use crate::fold::{Raw, fold, span};
use crate::merge::{merge, round};
use crate::{About, Graph};

/// Makes a graph of what a run says, which is on one thread. A driver reads the clock, and says when a stretch ends and when one
/// begins; what happens in between is not in the graph.
///
/// Where forks at one depth have always been short, the recorder asks the driver to be *quiet*: to count joins, and to read no
/// clock before the outermost is over.
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
    /// Too short to be kept.
    Short { length: u64, joins: u64 },
    /// By its place, with its work.
    Kept(u32, u64),
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
    /// So many tasks are kept, however short: then what recurs is alike each time, although short tasks are not equally short.
    const KEPT: usize = 500_000;

    /// A recorder whose run begins at `now`. Tasks shorter than `merge_ns` become part of their parents; a reading of the clock
    /// costs `clock_ns`, and a join in quiet `quiet_ns`.
    pub fn new(now: u64, merge_ns: u64, clock_ns: u64, quiet_ns: f64) -> Recorder {
        Recorder {
            merge_ns,
            clock_ns,
            quiet_ps: (quiet_ns.max(0.0) * 1e3) as u64,
            since: now,
            open: vec![Open::default()],
            raws: Vec::new(),
            depths: Vec::new(),
        }
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
        let kept = self.raws.len() < Recorder::KEPT;
        let top = self.top();
        let children = std::mem::take(&mut top.children);
        let work: u64 = children.iter().map(Closed::work).sum();
        top.work += work;
        let children = together(children, self.merge_ns);
        let top = self.top();
        if let [Closed::Short { length, joins }] = children.as_slice() {
            (top.run, top.joins, top.work) = (top.run + *length as i64, top.joins + joins, top.work - length);
        } else {
            top.end_stretch();
            let children = children.into_iter().map(|child| self.keep(child)).collect();
            self.top().raw.forks.push(children);
        }
        // While all is kept, what recurs is alike each time, which it would not be if some were quiet.
        let is_short = !kept && work < self.merge_ns / 2;
        let depth = self.depth();
        depth.short = if is_short { depth.short.saturating_add(1) } else { 0 };
    }

    fn keep(&mut self, child: Closed) -> u32 {
        match child {
            Closed::Kept(raw, _) => raw,
            Closed::Short { length, joins } => self.push(Raw { runs: vec![(length, joins)], forks: Vec::new() }),
        }
    }

    fn push(&mut self, raw: Raw) -> u32 {
        self.raws.push(raw);
        self.raws.len() as u32 - 1
    }

    fn close(&mut self) {
        let mut open = self.open.pop().expect("a child has begun");
        let may_merge = self.raws.len() >= Recorder::KEPT && open.raw.forks.is_empty();
        let closed = if may_merge && open.run < self.merge_ns as i64 {
            Closed::Short { length: open.run.max(0) as u64, joins: open.joins }
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

/// A fork's children, of which as many short ones in a row as take `least` together have become one, and what is left at an end is part of
/// that. So two are one.
fn together(children: Vec<Closed>, least: u64) -> Vec<Closed> {
    let mut all: Vec<Closed> = Vec::new();
    for child in children {
        match (all.last_mut(), child) {
            (Some(Closed::Short { length, joins }), Closed::Short { length: more, joins: within })
                if *length < least =>
            {
                (*length, *joins) = (*length + more, *joins + within + 1);
            }
            (_, child) => all.push(child),
        }
    }
    if let [.., Closed::Short { length, .. }] = all.as_slice()
        && *length < least
        && let Some(Closed::Short { length: more, joins: within }) = all.pop()
    {
        match all.last_mut() {
            Some(Closed::Short { length, joins }) => (*length, *joins) = (*length + more, *joins + within + 1),
            _ => all.push(Closed::Short { length: more, joins: within }),
        }
    }
    all
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
            Closed::Short { length, .. } => *length,
            Closed::Kept(_, work) => *work,
        }
    }
}
