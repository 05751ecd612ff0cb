//! Makes a graph from the tree of tasks of a run: recurring parts become repetitions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::graph::{Step, Stretch, Task, TaskId};

/// A task as it ran: stretches with forks between them. It has one stretch more than forks.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    /// The length, in ns, and the number of merged joins of each stretch.
    pub runs: Vec<(u64, u64)>,
    /// The children of each fork, by their index in the list of all tasks, where they precede their parent.
    pub forks: Vec<Vec<u32>>,
}

/// Returns the span T∞ of the last task, in ns.
pub(crate) fn span(raws: &[Raw]) -> u64 {
    let mut spans: Vec<u64> = Vec::with_capacity(raws.len());
    for raw in raws {
        let runs: u64 = raw.runs.iter().map(|(length, _)| length).sum();
        let longest = |children: &Vec<u32>| children.iter().map(|child| spans[*child as usize]).max().unwrap_or(0);
        spans.push(runs + raw.forks.iter().map(longest).sum::<u64>());
    }
    spans.last().copied().unwrap_or(0)
}

/// Assigns each different key a number, from 0.
struct Numbers<K>(HashMap<K, u32>);

impl<K: Hash + Eq> Numbers<K> {
    fn of(&mut self, key: K) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }
}

/// An item of a task's [`plan`]: a fork with the stretch before it, or a repetition.
#[derive(Clone, Debug)]
enum Item {
    /// A fork.
    Fork,
    /// A list that repeats `times` times, with `forks` forks in each repetition.
    Loop { times: u32, body: Vec<Item>, forks: usize },
}

impl Item {
    fn forks(&self) -> usize {
        match self {
            Item::Fork => 1,
            Item::Loop { times, forks, .. } => *times as usize * forks,
        }
    }
}

/// The maximum number of items of a repeated list.
const LONGEST_PERIOD: usize = 64;

/// The minimum number of times that a list must repeat to become a loop.
const LEAST_TIMES: usize = 3;

/// Finds repetitions in a task's list of forks. Two forks have the same number if they have the same shape. Replaces
/// the shortest repeated lists by loops first, and then finds repetitions of these loops.
fn plan(forks: &[u32]) -> Vec<Item> {
    let mut items: Vec<(u32, Item)> = forks.iter().map(|fork| (*fork, Item::Fork)).collect();
    let mut loops: Numbers<(u32, Vec<u32>)> = Numbers(HashMap::new());
    // Loops get numbers above the numbers of all forks.
    let first = forks.iter().max().map_or(0, |most| most + 1);
    let mut period = 1;
    while period <= LONGEST_PERIOD.min(items.len() / LEAST_TIMES) {
        let mut folded = Vec::with_capacity(items.len());
        let mut at = 0;
        while at < items.len() {
            let same = |from: usize| {
                from + period <= items.len() && (0..period).all(|nth| items[at + nth].0 == items[from + nth].0)
            };
            let times = 1 + (1..).take_while(|nth| same(at + nth * period)).count();
            if times < LEAST_TIMES {
                folded.push(items[at].clone());
                at += 1;
                continue;
            }
            let (numbers, body): (Vec<u32>, Vec<Item>) = items[at..at + period].iter().cloned().unzip();
            let number = first + loops.of((times as u32, numbers));
            let forks = body.iter().map(Item::forks).sum();
            folded.push((number, Item::Loop { times: times as u32, body, forks }));
            at += times * period;
        }
        period = if folded.len() < items.len() { 1 } else { period + 1 };
        items = folded;
    }
    items.into_iter().map(|(_, item)| item).collect()
}

/// The tasks of a graph, without duplicates.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: Vec<Task>,
    numbers: HashMap<Task, TaskId>,
}

impl Tasks {
    pub(crate) fn add(&mut self, task: Task) -> TaskId {
        match self.numbers.entry(task) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(vacant) => {
                self.tasks.push(vacant.key().clone());
                *vacant.insert(self.tasks.len() as TaskId - 1)
            }
        }
    }

    pub(crate) fn into_tasks(self) -> Vec<Task> {
        self.tasks
    }
}

struct Fold<'a> {
    raws: &'a mut [Raw],
    /// The shape of each raw task, as a number. Tasks that differ only in their lengths have the same shape.
    shapes: Vec<u32>,
    /// The plan of each shape.
    plans: Vec<Vec<Item>>,
    tasks: Tasks,
}

/// Returns the tasks of the graph of the last raw task. If the first stretch of a repetition also contains work before
/// the repetition, shortens this stretch in `raws`.
pub(crate) fn fold(raws: &mut [Raw]) -> Vec<Task> {
    let (mut shapes, mut plans) = (Vec::with_capacity(raws.len()), Vec::new());
    let (mut of_tasks, mut of_forks) = (Numbers(HashMap::new()), Numbers(HashMap::new()));
    for raw in &*raws {
        let like = |children: &Vec<u32>| children.iter().map(|child| shapes[*child as usize]).collect::<Vec<u32>>();
        let forks: Vec<u32> = raw.forks.iter().map(|children| of_forks.of(like(children))).collect();
        let shape = of_tasks.of(forks.clone());
        if shape as usize == plans.len() {
            plans.push(plan(&forks));
        }
        shapes.push(shape);
    }
    let mut fold = Fold { raws, shapes, plans, tasks: Tasks::default() };
    fold.all();
    fold.tasks.into_tasks()
}

/// A list of items whose steps are being built.
struct List {
    plan: Vec<Item>,
    /// The start of each instance of the list: the raw task, and the index of the instance's first fork in that task.
    at: Vec<(u32, usize)>,
    /// True if the list is a whole task, false if it is the body of a repetition.
    is_task: bool,
    steps: Vec<Step>,
    /// The number of finished items, and of the forks in these items.
    items: usize,
    forks: usize,
    /// If the next item is a fork: the instances of each of its children, and the finished children.
    each: Vec<Vec<u32>>,
    children: Vec<TaskId>,
}

impl List {
    fn new(plan: Vec<Item>, at: Vec<(u32, usize)>, is_task: bool) -> List {
        let (each, children) = (Vec::new(), Vec::new());
        List { plan, at, is_task, steps: Vec::new(), items: 0, forks: 0, each, children }
    }

    /// Adds the finished `task`: a child of the next item if the item is a fork, otherwise the item's repeated body.
    fn has(&mut self, task: TaskId) {
        if let Item::Loop { times, .. } = &self.plan[self.items] {
            let times = *times;
            return self.push(Step::Repeat { task, times });
        }
        self.children.push(task);
        if self.children.len() == self.each.len() {
            self.each.clear();
            let children = std::mem::take(&mut self.children);
            self.push(Step::Fork(children));
        }
    }

    /// Adds the step of the next item, which is now finished.
    fn push(&mut self, step: Step) {
        self.steps.push(step);
        self.forks += self.plan[self.items].forks();
        self.items += 1;
    }
}

impl Fold<'_> {
    /// Returns the list of a task. `instances` are the raw tasks that become this task, in the order of the run.
    fn task(&self, instances: &[u32]) -> List {
        let plan = self.plans[self.shapes[instances[0] as usize] as usize].clone();
        List::new(plan, instances.iter().map(|raw| (*raw, 0)).collect(), true)
    }

    /// Builds all tasks, children before their parents. Not recursive, because a run may be nested deeper than the
    /// stack allows.
    fn all(&mut self) {
        let mut lists = vec![self.task(&[self.raws.len() as u32 - 1])];
        while let Some(mut list) = lists.pop() {
            let inner = match list.plan.get(list.items) {
                Some(Item::Fork) => {
                    let children = |(raw, from): &(u32, usize)| &self.raws[*raw as usize].forks[from + list.forks];
                    if list.each.is_empty() {
                        self.run(&mut list.steps, &list.at, list.forks);
                        let width = children(&list.at[0]).len();
                        list.each =
                            (0..width).map(|nth| list.at.iter().map(|at| children(at)[nth]).collect()).collect();
                    }
                    self.task(&list.each[list.children.len()])
                }
                Some(Item::Loop { times, body, forks }) => {
                    let split = |(raw, from): &(u32, usize)| self.split_off(*raw, from + list.forks, *times, *forks);
                    let before: Vec<u64> = list.at.iter().map(split).collect();
                    if list.steps.is_empty() || before.iter().any(|length| *length > 0) {
                        list.steps.push(Step::Run(Stretch::distributed(before, 0)));
                    }
                    let all = list.at.iter().flat_map(|(raw, from)| {
                        (0..*times as usize).map(move |nth| (*raw, from + list.forks + nth * forks))
                    });
                    List::new(body.clone(), all.collect(), false)
                }
                None => {
                    if list.is_task {
                        self.run(&mut list.steps, &list.at, list.forks);
                    }
                    let done = self.tasks.add(Task(list.steps));
                    if let Some(outer) = lists.last_mut() {
                        outer.has(done);
                    }
                    continue;
                }
            };
            lists.extend([list, inner]);
        }
    }

    /// Separates the work before a repetition from the repetition's first stretch. If this stretch is longer the first
    /// time than every later time, shortens it to the mean of the later times. Returns the difference in ns, or 0.
    fn split_off(&mut self, raw: u32, first: usize, times: u32, forks: usize) -> u64 {
        let runs = &mut self.raws[raw as usize].runs;
        let again = || (1..times as usize).map(|nth| runs[first + nth * forks].0);
        let (longest, sum) = (again().max().unwrap_or(0), again().sum::<u64>());
        let own = runs[first].0;
        if own <= longest {
            return 0;
        }
        runs[first].0 = sum / u64::from(times - 1);
        own - runs[first].0
    }

    /// Adds the stretch before a fork, or after the last fork. Omits an empty stretch, except at the start of a task,
    /// because a task always begins with a stretch.
    fn run(&self, steps: &mut Vec<Step>, at: &[(u32, usize)], offset: usize) {
        let runs = at.iter().map(|(raw, from)| self.raws[*raw as usize].runs[from + offset]);
        let (lengths, joins): (Vec<u64>, Vec<u64>) = runs.unzip();
        let joins = joins.iter().sum::<u64>() / joins.len() as u64;
        if steps.is_empty() || joins > 0 || lengths.iter().any(|length| *length > 0) {
            steps.push(Step::Run(Stretch::distributed(lengths, joins)));
        }
    }
}
