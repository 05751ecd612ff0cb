//! UTS: counts the nodes of an implicit tree whose shape becomes known only during the search.
//!
//! Source: S. Olivier et al., *UTS: An Unbalanced Tree Search Benchmark*, LCPC 2006, and the sample trees of its
//! reference code, with the same SHA-1 generator. A node's children depend only on its 20 bytes, so that the size of
//! a subtree cannot be predicted. Each tree node costs one hash.
//!
//! Deviation: all children of a node are created before any of them is visited. Leaves are counted immediately, and
//! joins halve only the other children. A single remaining child is visited in a loop. The binomial trees are long
//! and thin: a join for each child at each level would nest several thousand joins.

use sha1::block_api::compress;

use crate::definition::Definition;
use crate::{ForkJoin, Kernel, Parameter, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "uts",
    summary: "Unbalanced Tree Search: number of nodes of a tree that is generated during the walk",
    parameters: &[Parameter {
        key: "tree",
        default: "T1",
        help: "sample tree: T1 and T5 are geometric, T3 is binomial (4 million nodes each), T1L has 102 million",
    }],
    prepare: |parameters| {
        let tree = &TREES[parameters.choice("tree", &["T1", "T3", "T5", "T1L"])?];
        Ok(Box::new(Uts { tree }))
    },
    scaling: Err("its tree is drawn at random, node by node, so a tree of another size cannot be predicted"),
};

/// The maximum number of children of a node, except the root of a binomial tree.
const MOST_CHILDREN: u32 = 100;

/// The distribution of the number of a node's children.
enum Law {
    /// The root has `root_children`. Any other node has `children` with the given probability, or else no children.
    Binomial { root_children: u32, children: u32, probability: f64 },
    /// A geometric distribution, with a mean that depends only on the depth.
    Geometric { root_mean: f64, depth: u32, shape: Shape },
}

/// The mean number of children as a function of the depth of a geometric tree.
#[derive(Clone, Copy)]
enum Shape {
    /// The mean falls linearly to zero at the full depth.
    Linear,
    /// The mean is constant above the full depth.
    Fixed,
}

/// A sample tree of the reference code and its published size.
struct Tree {
    name: &'static str,
    seed: u32,
    law: Law,
    size: Tally,
}

static TREES: [Tree; 4] = [
    Tree {
        name: "T1",
        seed: 19,
        law: Law::Geometric { root_mean: 4.0, depth: 10, shape: Shape::Fixed },
        size: Tally { nodes: 4_130_071, leaves: 3_305_118, depth: 10 },
    },
    Tree {
        name: "T3",
        seed: 42,
        law: Law::Binomial { root_children: 2000, children: 8, probability: 0.124_875 },
        size: Tally { nodes: 4_112_897, leaves: 3_599_034, depth: 1572 },
    },
    Tree {
        name: "T5",
        seed: 34,
        law: Law::Geometric { root_mean: 4.0, depth: 20, shape: Shape::Linear },
        size: Tally { nodes: 4_147_582, leaves: 2_181_318, depth: 20 },
    },
    Tree {
        name: "T1L",
        seed: 29,
        law: Law::Geometric { root_mean: 4.0, depth: 13, shape: Shape::Fixed },
        size: Tally { nodes: 102_181_082, leaves: 81_746_377, depth: 13 },
    },
];

struct Uts {
    tree: &'static Tree,
}

/// The counts of a tree or of a part of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    nodes: u64,
    leaves: u64,
    /// The depth of the deepest node. The root has depth zero.
    depth: u32,
}

impl Tally {
    const EMPTY: Tally = Tally { nodes: 0, leaves: 0, depth: 0 };

    fn and(self, other: Tally) -> Tally {
        Tally {
            nodes: self.nodes + other.nodes,
            leaves: self.leaves + other.leaves,
            depth: self.depth.max(other.depth),
        }
    }

    fn add_leaf(&mut self, depth: u32) {
        self.nodes += 1;
        self.leaves += 1;
        self.depth = self.depth.max(depth);
    }
}

impl Kernel for Uts {
    type Output = Tally;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Tally {
        let root = Node::root(self.tree);
        if root.children > 0 {
            return walk_from(fork_join, self.tree, root);
        }
        let mut tally = Tally::EMPTY;
        tally.add_leaf(0);
        tally
    }

    fn verify(&self, output: &Tally) -> Verdict {
        let expected = self.tree.size;
        Verdict::new(
            *output == expected,
            format!(
                "{}: {} nodes, {} leaves, depth {}; expected {}, {}, {}",
                self.tree.name,
                output.nodes,
                output.leaves,
                output.depth,
                expected.nodes,
                expected.leaves,
                expected.depth
            ),
        )
    }
}

/// A node: a state of the generator, and the values that follow from it.
#[derive(Clone, Copy)]
struct Node {
    /// The 20 bytes of a SHA-1 hash as its five big-endian words.
    state: [u32; 5],
    depth: u32,
    children: u32,
}

impl Node {
    /// The state of the root is the hash of sixteen zero bytes and the seed.
    fn root(tree: &Tree) -> Node {
        Node::new(tree, sha1_of([0, 0, 0, 0, tree.seed]), 0)
    }

    /// The state of a child is the hash of its parent's state and its index.
    fn child(&self, tree: &Tree, index: u32) -> Node {
        let [a, b, c, d, e] = self.state;
        Node::new(tree, sha1_of([a, b, c, d, e, index]), self.depth + 1)
    }

    fn new(tree: &Tree, state: [u32; 5], depth: u32) -> Node {
        let draw = f64::from(state[4] & 0x7fff_ffff) / f64::from(1_u32 << 31);
        Node { state, depth, children: tree.law.children(depth, draw) }
    }
}

impl Law {
    /// Returns the number of children of a node that drew a number from 0 (included) to 1 (excluded).
    fn children(&self, depth: u32, draw: f64) -> u32 {
        match *self {
            Law::Binomial { root_children, .. } if depth == 0 => root_children,
            Law::Binomial { children, probability, .. } => {
                if draw < probability {
                    children
                } else {
                    0
                }
            }
            Law::Geometric { root_mean, depth: full_depth, shape } => {
                let mean = match shape {
                    Shape::Linear => root_mean * (1.0 - f64::from(depth) / f64::from(full_depth)),
                    Shape::Fixed => root_mean,
                };
                if depth >= full_depth {
                    return 0;
                }
                let probability = 1.0 / (1.0 + mean);
                let children = ((1.0 - draw).ln() / (1.0 - probability).ln()).floor();
                (children as u32).min(MOST_CHILDREN)
            }
        }
    }
}

/// The SHA-1 hash of at most thirteen big-endian words, which fit one block with the padding.
#[inline(never)] // The block must not be in the frames of the recursion.
fn sha1_of<const WORDS: usize>(words: [u32; WORDS]) -> [u32; 5] {
    const { assert!(WORDS <= 13, "the end mark and the length take three words of the block") };
    let mut block = [0; 64];
    for (bytes, word) in block.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    block[4 * WORDS] = 0x80;
    block[60..].copy_from_slice(&(32 * WORDS as u32).to_be_bytes());
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    compress(&mut state, &[block]);
    state
}

/// Counts the subtrees of `nodes`, none of which is a leaf.
fn walk<J: ForkJoin>(fork_join: J, tree: &Tree, nodes: &[Node]) -> Tally {
    if let [node] = nodes {
        return walk_from(fork_join, tree, *node);
    }
    let (left, right) = nodes.split_at(nodes.len() / 2);
    let (left, right) = fork_join.join(|| walk(fork_join, tree, left), || walk(fork_join, tree, right));
    left.and(right)
}

/// Counts the subtree of `node`, which is not a leaf.
fn walk_from<J: ForkJoin>(fork_join: J, tree: &Tree, mut node: Node) -> Tally {
    let mut tally = Tally::EMPTY;
    loop {
        tally.nodes += 1;
        let parents = split_children(tree, &node, &mut tally);
        match parents.as_slice() {
            [] => return tally,
            [only] => node = *only,
            several => return tally.and(walk(fork_join, tree, several)),
        }
    }
}

/// Counts the children of `node` that are leaves, and returns the other children.
#[inline(never)] // See `sha1_of`.
fn split_children(tree: &Tree, node: &Node, tally: &mut Tally) -> Vec<Node> {
    let mut parents = Vec::new();
    for index in 0..node.children {
        let child = node.child(tree, index);
        if child.children == 0 {
            tally.add_leaf(child.depth);
        } else {
            parents.push(child);
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;
    use sha1::{Digest, Sha1};

    fn tree(law: Law) -> &'static Tree {
        Box::leak(Box::new(Tree { name: "test", seed: 1, law, size: Tally { nodes: 1, leaves: 1, depth: 0 } }))
    }

    #[test]
    fn the_hash_is_sha1() {
        let words = [1, 2, 3, 4, 5, 0xdead_beef];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        let ours: Vec<u8> = sha1_of(words).iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(ours, Sha1::digest(&bytes).to_vec());
    }

    #[test]
    fn a_root_without_children_is_a_leaf() {
        for law in [
            Law::Geometric { root_mean: 4.0, depth: 0, shape: Shape::Fixed },
            Law::Binomial { root_children: 0, children: 8, probability: 0.1 },
        ] {
            let program = Uts { tree: tree(law) };
            assert!(program.verify(&program.compute(Serial)).verified);
        }
    }

    #[test]
    fn a_certain_child_is_there_and_an_impossible_one_is_not() {
        let star = tree(Law::Binomial { root_children: 2000, children: 8, probability: 0.0 });
        assert_eq!(Uts { tree: star }.compute(Serial), Tally { nodes: 2001, leaves: 2000, depth: 1 });
    }

    #[test]
    fn no_node_has_more_children_than_the_cap() {
        let law = Law::Geometric { root_mean: 1e6, depth: 3, shape: Shape::Fixed };
        assert_eq!(law.children(1, 0.999), MOST_CHILDREN);
        assert_eq!(law.children(1, 0.0), 0);
        assert_eq!(law.children(3, 0.999), 0);
    }

    #[test]
    fn a_wrong_tally_is_refused() {
        for tree in &TREES {
            let program = Uts { tree };
            assert!(program.verify(&tree.size).verified);
            assert!(!program.verify(&Tally { nodes: tree.size.nodes + 1, ..tree.size }).verified);
            assert!(!program.verify(&Tally { leaves: 0, ..tree.size }).verified);
            assert!(!program.verify(&Tally { depth: tree.size.depth - 1, ..tree.size }).verified);
        }
    }
}
