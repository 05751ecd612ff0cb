//! The rules by which a program's graph is scaled, against recordings of the larger inputs.
//!
//! Compared is what no clock has a part in: tasks, leaves, and the longest path in leaves. How long the leaves are, which
//! depends on caches, is compared by `docs/results/recorded.py LAB FOLDER scale`.

use comity_graph::{About, Graph, Step, Stretch, Task};
use comity_kernels::record::Costs;
use comity_kernels::{catalog, scaling};

/// Small, large, and what tasks and leaves may differ by, and the longest path, in percent.
const CASES: &[(&str, &str, f64, f64)] = &[
    ("fib:n=16", "fib:n=21", 1.0, 99.0),
    ("bfs:nodes=30000", "bfs:nodes=120000", 1.0, 1.0),
    ("bfs:nodes=30000", "bfs:nodes=240000", 1.0, 1.0),
    ("clip:pairs=300", "clip:pairs=900", 1.0, 1.0),
    ("mi:n=100", "mi:n=250", 1.0, 1.0),
    ("mm:n=200", "mm:n=500", 1.0, 1.0),
    ("raytrace:width=80,height=60,samples=1", "raytrace:width=160,height=90,samples=2", 1.0, 1.0),
    ("cg", "cg:class=W", 1.0, 1.0),
    ("cg", "cg:class=A", 1.0, 1.0),
    ("ep", "ep:class=W", 1.0, 1.0),
    ("nqueens:n=9", "nqueens:n=11", 1.0, 1.0),
    ("mergesort:n=200000", "mergesort:n=1000000", 1.0, 1.0),
    ("fft:n=65536", "fft:n=262144", 1.0, 1.0),
    ("pnn:class=small", "pnn:variables=30,samples=2000,layers=6", 1.0, 1.0),
    ("cholesky:class=small", "cholesky:class=medium", 1.0, 1.0),
    ("cholesky:n=500,nonzeros=4000", "cholesky:n=1000,nonzeros=6000", 1.0, 1.0),
    ("lu:n=256", "lu:n=512", 1.0, 1.0),
    ("lu:n=512", "lu:n=1024", 1.0, 1.0),
    ("lu:n=256", "lu:n=1024", 1.0, 1.0),
    ("ge:n=256", "ge:n=512", 1.0, 1.0),
    ("ge:n=512", "ge:n=1024", 1.0, 1.0),
    ("cholesky:n=500,nonzeros=4000", "cholesky:n=2000,nonzeros=10000", 1.0, 1.0),
    ("ge:n=400", "ge:n=512", 1.0, 1.0),
    ("heat:class=small,steps=10", "heat:rows=1024,columns=300,steps=25", 1.0, 1.0),
    ("sor:class=small,sweeps=10", "sor:rows=1024,columns=300,sweeps=25", 1.0, 1.0),
];

fn recorded(program: &str) -> Graph {
    let about = About { program: program.into(), ..About::default() };
    let nothing = Costs { clock_ns: 0, quiet_ns: 0.0 };
    let (graph, verdict) = catalog::prepare(program).unwrap().record(0, nothing, about);
    assert!(verdict.verified, "{program}: {}", verdict.detail);
    graph.unwrap()
}

/// Tasks, leaves, and the leaves on the longest path.
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
    for (small, large, _few, _path) in CASES {
        let factors = scaling::factors(small, large).unwrap();
        let (scaled, wanted) = (shape(&recorded(small).scaled(factors).unwrap()), shape(&recorded(large)));
        eprintln!("{small} {large} {factors:?}");
        eprintln!("    {scaled:?} {wanted:?} {:.3?}", [0, 1, 2].map(|nth| scaled[nth] / wanted[nth]));
    }
}
