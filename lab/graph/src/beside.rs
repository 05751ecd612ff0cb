//! Merges task graphs so that they start at the same time.

use crate::fold::Tasks;
use crate::merge::keep;
use crate::{About, Graph, Step, Stretch, Task, TaskId};

impl Graph {
    /// Merges graphs into one graph: its root takes 1 ns and forks the roots of all `graphs`. A single graph gets no
    /// such root. Sets the merge length, the cost of the clock and the span of `about` from the graphs.
    ///
    /// # Errors
    /// A message, if there are no graphs, or if the result is larger than a graph may be.
    pub fn beside(about: About, graphs: Vec<Graph>) -> Result<Graph, String> {
        let Some(first) = graphs.first() else { return Err("nothing was recorded".into()) };
        let span_ns = graphs.iter().map(|graph| graph.about.span_ns).max().unwrap_or(0);
        let About { merge_ns, clock_ns, .. } = first.about;
        let about = About { merge_ns, clock_ns, span_ns, ..about };
        let mut kept = Tasks::default();
        let roots: Vec<TaskId> = graphs.iter().map(|graph| keep(graph.tasks(), graph.root(), &mut kept)).collect();
        let mut tasks = kept.into_tasks();
        if roots.len() > 1 {
            tasks.push(Task(vec![Step::Run(Stretch::of(1, 0)), Step::Fork(roots)]));
        }
        Graph::new(about, tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lengths: &[u64]) -> Graph {
        let leaf = |length: &u64| Task(vec![Step::Run(Stretch::of(*length, 0))]);
        let mut tasks: Vec<Task> = lengths.iter().map(leaf).collect();
        tasks.push(Task(vec![Step::Run(Stretch::of(5, 0)), Step::Fork((0..lengths.len() as TaskId).collect())]));
        Graph::new(About { span_ns: 5 + lengths.iter().max().unwrap(), merge_ns: 7, ..About::default() }, tasks)
            .unwrap()
    }

    #[test]
    fn graphs_beside_each_other_begin_together_and_equal_tasks_are_kept_once() {
        let graph = Graph::beside(About::default(), vec![of(&[10, 20]), of(&[20, 30])]).unwrap();
        let found = graph.measure(0);
        assert_eq!((found.work, found.span), (1 + 35 + 55, 1 + 35));
        assert_eq!((graph.count_tasks(), graph.tasks().len()), (7, 6));
        assert_eq!((graph.about.span_ns, graph.about.merge_ns), (35, 7));
    }

    #[test]
    fn a_graph_alone_stays_as_it_is_and_no_graph_is_refused() {
        let one = of(&[10, 20]);
        assert_eq!(Graph::beside(one.about.clone(), vec![one.clone()]).unwrap(), one);
        assert!(Graph::beside(About::default(), Vec::new()).unwrap_err().contains("nothing was recorded"));
    }
}
