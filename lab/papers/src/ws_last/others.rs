//! Workloads of tasks that block without a barrier. The paper says that WS-LAST has no "negative impact on other types
//! of workloads" (abstract, §1 and §5), and shows no numbers for them.

use super::setting::Shape;
use super::{Outcome, Point, Variant};
use crate::measure::{Measure, most};

/// The number of tasks of a ring, and of pairs of a client and a server.
const TASKS: u32 = 50;

/// The work of a message, in nanoseconds: that of experiment 1 at which the algorithms differ most, and ten times as
/// much.
const WORKS: [u64; 2] = [10_000, 100_000];

/// The shapes, with the names of their measures.
const SHAPES: [(Shape, &str); 2] =
    [(Shape::TokenRing, "token-ring-last-over-cur"), (Shape::RequestReply, "request-reply-last-over-cur")];

/// Returns the data points of the experiment.
pub fn points() -> Vec<Point> {
    let mut all = Vec::new();
    for (shape, _) in SHAPES {
        for work in WORKS {
            all.extend(Variant::ALL.map(|variant| Point { workers: TASKS, work, variant, shape }));
        }
    }
    all
}

/// Computes the measures: the longest time under WS-LAST / the time under WS-CUR, for each shape.
pub fn measures(outcomes: &[Outcome]) -> Vec<Measure> {
    let seconds = |shape, work, variant| {
        let point = Point { workers: TASKS, work, variant, shape };
        outcomes.iter().find(|outcome| outcome.point == point).expect("the experiment has that point").seconds()
    };
    let ratio = |shape, work| seconds(shape, work, Variant::Last) / seconds(shape, work, Variant::Cur);
    SHAPES.map(|(shape, name)| Measure::new(name, most(WORKS.map(|work| ratio(shape, work))))).into()
}
