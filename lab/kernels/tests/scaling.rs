//! Tests the rules that scale a program's graph, by recordings of the larger inputs.
//!
//! The tests compare values that do not depend on time: tasks, leaves, and the longest path in leaves. The lengths of
//! leaves, which depend on caches, are compared by `lab/bench/recorded.py LAB FOLDER scale`.

use comity_graph::{About, Graph, Step, Stretch, Task};
use comity_kernels::catalog;
use comity_kernels::record::Costs;

/// Cases: the small input, the large input, the tolerance of the numbers of tasks and leaves in percent, and the
/// tolerance of the longest path in percent.
///
/// Few rules are exact. The number of leaves of a halved range is not always proportional to its length, and a part
/// that is forked only once is scaled like all other parts. Scaling makes a recursion in forked tasks (`mergesort`,
/// `fft`) wider but not deeper, so that its path is too short by a logarithm. The frontiers of `bfs` grow by the
/// degree of 8. Only a graph with eight times the nodes therefore has proportional frontiers, and one more frontier.
/// The path also contains the forks that copy a frontier, which small frontiers do not need.
const CASES: &[(&str, &str, f64, f64)] = &[
    ("fib:n=16", "fib:n=21", 1.0, 0.0),
    ("bfs:nodes=30000", "bfs:nodes=240000", 2.0, 50.0),
    ("bfs:nodes=30000", "bfs:nodes=120000", 25.0, 50.0),
    ("clip:pairs=300", "clip:pairs=900", 0.0, 0.0),
    ("mi:n=100", "mi:n=250", 2.0, 2.0),
    ("mm:n=200", "mm:n=500", 0.0, 0.0),
    ("raytrace:width=80,height=60,samples=1", "raytrace:width=160,height=90,samples=2", 0.0, 0.0),
    ("cg", "cg:class=W", 6.0, 0.0),
    ("cg", "cg:class=A", 6.0, 0.0),
    ("ep", "ep:class=W", 0.0, 0.0),
    ("nqueens:n=9", "nqueens:n=11", 1.0, 0.0),
    ("mergesort:n=200000", "mergesort:n=1000000", 10.0, 25.0),
    ("fft:n=65536", "fft:n=262144", 15.0, 35.0),
    ("pnn:class=small", "pnn:variables=30,samples=2000,layers=6", 6.0, 0.0),
    ("cholesky:n=500,nonzeros=4000", "cholesky:n=1000,nonzeros=10000", 15.0, 20.0),
    ("cholesky:n=500,nonzeros=4000", "cholesky:n=2000,nonzeros=10000", 45.0, 20.0),
    ("lu:n=256", "lu:n=512", 15.0, 0.0),
    ("lu:n=512", "lu:n=1024", 15.0, 5.0),
    ("lu:n=256", "lu:n=1024", 30.0, 5.0),
    ("ge:n=400", "ge:n=512", 5.0, 1.0),
    ("ge:n=512", "ge:n=1024", 1.0, 1.0),
    ("heat:class=small,steps=10", "heat:rows=1024,columns=300,steps=25", 0.0, 0.0),
    ("sor:class=small,sweeps=10", "sor:rows=1024,columns=300,sweeps=25", 6.0, 6.0),
];

fn recorded(program: &str) -> Graph {
    let about = About { program: program.into(), ..About::default() };
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let (graph, verdict) = catalog::prepare(program).unwrap().record(0, nothing, about);
    assert!(verdict.verified, "{program}: {}", verdict.detail);
    graph.unwrap()
}

/// Returns the number of tasks, of leaves, and of leaves on the longest path.
fn shape(graph: &Graph) -> [f64; 3] {
    const LEAF: u64 = 1 << 20;
    let alike = |task: &Task| {
        let is_leaf = task.0.len() == 1;
        let step = |step: &Step| match step {
            Step::Run(_) => Step::Run(Stretch::of(if is_leaf { LEAF } else { 1 }, 0)),
            other => other.clone(),
        };
        Task(task.0.iter().map(step).collect())
    };
    let alike = Graph::new(About::default(), graph.tasks().iter().map(alike).collect()).unwrap();
    let path = alike.measure(0).span / LEAF;
    [graph.count_tasks() as f64, graph.leaves().count as f64, path as f64]
}

#[test]
fn a_scaled_graph_has_the_shape_of_the_larger_one() {
    for &(small, large, few, path) in CASES {
        let factors = catalog::factors(small, large).unwrap();
        let recording = recorded(small);
        let (scaled, wanted) = (shape(&recording.scaled(factors).unwrap()), shape(&recorded(large)));
        for (nth, within) in [few, few, path].into_iter().enumerate() {
            let off = 100.0 * (scaled[nth] / wanted[nth] - 1.0);
            assert!(off.abs() <= within, "{small} as {large}: {scaled:?}, and recorded {wanted:?}; {off:.1} % off");
        }
        // The sizes differ enough that a rule that changes nothing fails.
        assert!(shape(&recording)[1] < 0.7 * wanted[1], "{small} and {large} are of about one size");
    }
}

#[test]
fn each_program_that_is_recorded_has_a_rule_that_is_tested_or_a_reason() {
    for definition in catalog::DEFINITIONS {
        let is_tested = CASES.iter().any(|case| catalog::parse(case.0).unwrap().0.name == definition.name);
        assert_eq!(definition.scaling.is_ok(), is_tested, "{}", definition.name);
        let (known, rule) = definition.scaling.map_or((&[] as &[&str], ""), |scaling| (scaling.keys, scaling.rule));
        for key in known {
            assert!(
                definition.parameters.iter().any(|parameter| parameter.key == *key),
                "{} has no {key}",
                definition.name
            );
        }
        assert!(rule.is_empty() || known.iter().any(|key| rule.contains(key)), "{}: {rule}", definition.name);
    }
}
