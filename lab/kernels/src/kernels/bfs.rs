//! Breadth-first search of a random graph: many tasks of a few microseconds each.
//!
//! BFS of the BWS paper (section 5.1: a graph of 10 million nodes). It is the level-synchronous top-down search of
//! Leiserson and Schardl, "A work-efficient parallel breadth-first search algorithm" (SPAA 2010, section 2). Each
//! level's frontier is expanded in parallel, and a task claims a node with a compare-and-swap on its distance. In
//! place of the paper's bags, every task collects the nodes that it claimed in a vector. The vectors are copied in
//! parallel into the next frontier. Therefore no node needs a lock, and the frontier is an array that can be halved.

use std::sync::atomic::{AtomicU32, Ordering};

use comity_graph::Scale;

use crate::definition::Definition;
use crate::random::SplitMix;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "bfs",
    summary: "breadth-first search of a random graph from node 0, level by level (BWS paper: 10 million nodes)",
    parameters: &[
        Parameter { key: "nodes", default: "1000000", help: "nodes of the graph, 1 to 20000000" },
        Parameter {
            key: "degree",
            default: "8",
            help: "mean number of edges that leave a node (each node draws from 1 to 2 * degree - 1), 1 to 64",
        },
        Parameter { key: "grain", default: "64", help: "frontier nodes that one task expands, 1 to 1000000" },
        Parameter { key: "seed", default: "1", help: "seed of the graph, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling {
        keys: &["nodes"],
        rule: "nodes: width and serial; the first frontiers grow too, but their number does not",
        extents,
    }),
};

/// The maximum number of edges. A graph with 20 million nodes and more edges does not fit in a small machine's
/// memory.
const MOST_EDGES: usize = 400_000_000;

/// The distance of a node that no path reaches.
const UNREACHED: u32 = u32::MAX;

/// The maximum number of elements of a frontier that are copied without a fork, because a fork would cost more.
const COPY_GRAIN: usize = 16 * 1024;

fn prepare(parameters: &Parameters) -> Result<Bfs, ParameterError> {
    let nodes = parameters.number("nodes", 1..=20_000_000)?;
    let degree = parameters.number("degree", 1..=64)?;
    let grain = parameters.number("grain", 1..=1_000_000)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    if nodes * degree > MOST_EDGES {
        return Err(ParameterError::new(format!(
            "bfs: nodes={nodes} times degree={degree} is more than {MOST_EDGES} edges. Lower nodes or degree"
        )));
    }
    Ok(Bfs::new(Graph::random(nodes, degree, seed as u64), grain))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let nodes = parameters.number("nodes", 1..=20_000_000)? as f64;
    Ok(Scale { width: nodes, serial: nodes, ..Scale::default() })
}

struct Bfs {
    graph: Graph,
    /// The distances by [`Graph::distances_by_queue`], which ran once when the input was built.
    expected: Vec<u32>,
    grain: usize,
}

impl Bfs {
    fn new(graph: Graph, grain: usize) -> Bfs {
        let expected = graph.distances_by_queue();
        Bfs { graph, expected, grain }
    }
}

impl Kernel for Bfs {
    /// The distance of every node from node 0, in edges. The distances are atomic because several tasks write them.
    type Output = Vec<AtomicU32>;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Vec<AtomicU32> {
        let distances: Vec<AtomicU32> = (0..self.graph.nodes()).map(|_| AtomicU32::new(UNREACHED)).collect();
        distances[0].store(0, Ordering::Relaxed);
        let mut frontier = vec![0];
        let mut level = 0;
        while !frontier.is_empty() {
            level += 1;
            frontier = self.expand(fork_join, &frontier, level, &distances);
        }
        distances
    }

    /// Compares every distance with a serial search by another method (a queue), which ran when the input was built.
    /// Distances are unique, so that equality is necessary and sufficient, independent of the order of the tasks.
    fn verify(&self, output: &Vec<AtomicU32>) -> Verdict {
        let found = || output.iter().map(|distance| distance.load(Ordering::Relaxed));
        let wrong = found().zip(&self.expected).filter(|(found, expected)| found != *expected).count();
        let reached = found().filter(|distance| *distance != UNREACHED).count();
        let levels = found().filter(|distance| *distance != UNREACHED).max().unwrap_or(0);
        Verdict::new(
            wrong == 0 && output.len() == self.expected.len(),
            format!(
                "{reached} of {} nodes reached within {levels} levels over {} edges; {wrong} distances differ from a \
                 serial search",
                self.graph.nodes(),
                self.graph.targets.len()
            ),
        )
    }
}

impl Bfs {
    /// Returns the nodes that are first reached from `frontier`, each marked with `level`.
    fn expand<J: ForkJoin>(&self, fork_join: J, frontier: &[u32], level: u32, distances: &[AtomicU32]) -> Vec<u32> {
        let parts = fork_join.reduce_range(
            0..frontier.len(),
            self.grain,
            &|range| vec![self.claim_neighbours(&frontier[range], level, distances)],
            &|mut left: Vec<Vec<u32>>, mut right| {
                left.append(&mut right);
                left
            },
        );
        let mut next = vec![0; parts.iter().map(Vec::len).sum()];
        copy_parts(fork_join, &parts, &mut next);
        next
    }

    fn claim_neighbours(&self, nodes: &[u32], level: u32, distances: &[AtomicU32]) -> Vec<u32> {
        let mut claimed = Vec::with_capacity(2 * nodes.len());
        for &node in nodes {
            for &target in self.graph.targets_of(node) {
                let distance = &distances[target as usize];
                // Relaxed is enough: a claim carries no other data, and the join at the end of a level orders it
                // before the next level. The load comes first because most targets are claimed already, and a failed
                // exchange would still write.
                if distance.load(Ordering::Relaxed) == UNREACHED
                    && distance.compare_exchange(UNREACHED, level, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                {
                    claimed.push(target);
                }
            }
        }
        claimed
    }
}

/// Copies the concatenation of `parts` to `out`, whose length is the sum of the lengths of `parts`.
fn copy_parts<J: ForkJoin>(fork_join: J, parts: &[Vec<u32>], out: &mut [u32]) {
    if out.len() <= COPY_GRAIN || parts.len() == 1 {
        let mut rest = out;
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        return;
    }
    let (left, right) = parts.split_at(parts.len() / 2);
    let (out_left, out_right) = out.split_at_mut(left.iter().map(Vec::len).sum());
    fork_join.join(|| copy_parts(fork_join, left, out_left), || copy_parts(fork_join, right, out_right));
}

/// A directed graph in compressed sparse rows: the edges of a node are a range of `targets`.
struct Graph {
    /// The index in `targets` where each node's edges start. The last element is the number of edges.
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Graph {
    /// Returns a graph of `nodes` nodes, each with 1 to `2 * degree - 1` edges to random nodes. Self-loops and
    /// repeated edges are possible and harmless. A few nodes have no incoming edge and stay unreached.
    fn random(nodes: usize, degree: usize, seed: u64) -> Graph {
        let mut random = SplitMix::new(seed);
        let mut starts = Vec::with_capacity(nodes + 1);
        // The capacity is the expected number plus two per cent, so that the vector rarely grows by doubling.
        let mut targets = Vec::with_capacity(nodes * degree + nodes * degree / 50);
        for _ in 0..nodes {
            starts.push(targets.len() as u32);
            let edges = 1 + random.below(2 * degree as u64 - 1);
            targets.extend((0..edges).map(|_| random.below(nodes as u64) as u32));
        }
        starts.push(targets.len() as u32);
        Graph { starts, targets }
    }

    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    fn targets_of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.targets[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Does the textbook search with one queue. It shares only the graph with the timed search.
    fn distances_by_queue(&self) -> Vec<u32> {
        let mut distances = vec![UNREACHED; self.nodes()];
        distances[0] = 0;
        let mut queue = vec![0];
        let mut first = 0;
        while first < queue.len() {
            let node: u32 = queue[first];
            first += 1;
            for &target in self.targets_of(node) {
                if distances[target as usize] == UNREACHED {
                    distances[target as usize] = distances[node as usize] + 1;
                    queue.push(target);
                }
            }
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    /// Returns a graph with these edges.
    fn graph(nodes: u32, edges: &[(u32, u32)]) -> Graph {
        let mut starts = vec![0];
        let mut targets = Vec::new();
        for node in 0..nodes {
            targets.extend(edges.iter().filter(|(from, _)| *from == node).map(|(_, to)| *to));
            starts.push(targets.len() as u32);
        }
        Graph { starts, targets }
    }

    fn distances(program: &Bfs) -> Vec<u32> {
        program.compute(Serial).into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn a_single_node_is_its_own_traversal() {
        let program = Bfs::new(graph(1, &[]), 64);
        assert_eq!(distances(&program), [0]);
        assert!(program.verify(&program.compute(Serial)).verified);
    }

    #[test]
    fn a_disconnected_part_stays_unreached() {
        let program = Bfs::new(graph(5, &[(0, 1), (1, 2), (2, 0), (3, 4), (4, 3)]), 1);
        assert_eq!(distances(&program), [0, 1, 2, UNREACHED, UNREACHED]);
        assert!(program.verify(&program.compute(Serial)).verified);
    }

    #[test]
    fn the_shorter_of_two_paths_counts() {
        let program = Bfs::new(graph(4, &[(0, 1), (1, 2), (2, 3), (0, 3), (3, 3)]), 1);
        assert_eq!(distances(&program), [0, 1, 2, 1]);
    }

    #[test]
    fn every_grain_gives_the_same_distances() {
        for grain in [1, 7, 64, 1_000_000] {
            let program = Bfs::new(Graph::random(20_000, 8, 3), grain);
            assert!(program.verify(&program.compute(Serial)).verified);
            assert!(program.verify(&program.compute(OnRayon)).verified);
        }
    }

    #[test]
    fn a_large_frontier_is_copied_whole() {
        let parts: Vec<Vec<u32>> = (0..1_000).map(|part| (0..part % 97).collect()).collect();
        let expected = parts.concat();
        assert!(expected.len() > 2 * COPY_GRAIN);
        let mut out = vec![0; expected.len()];
        copy_parts(OnRayon, &parts, &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn a_wrong_distance_and_a_missing_one_are_noticed() {
        let program = Bfs::new(Graph::random(1_000, 4, 5), 64);
        let mut output = program.compute(Serial);
        output[500].store(1_000, Ordering::Relaxed);
        assert!(!program.verify(&output).verified);
        output = program.compute(Serial);
        output.pop();
        assert!(!program.verify(&output).verified);
    }
}
