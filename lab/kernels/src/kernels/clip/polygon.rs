//! Simple polygons with whole coordinates.

use i_overlay::i_float::int::point::IntPoint;

use crate::random::SplitMix;

/// The maximum distance of a star's vertex from its centre, and of its centre from the origin, in units. The engine
/// takes coordinates below 2^30. Six times this distance is below 2^30, and areas are exact in `f64`.
const REACH: f64 = (1 << 24) as f64;

const FEWEST_VERTICES: u64 = 8;
const MOST_VERTICES: u64 = 60;

/// A simple polygon whose vertices run counterclockwise.
#[derive(Clone, Debug)]
pub(super) struct Polygon {
    centre: IntPoint<i32>,
    outline: Vec<IntPoint<i32>>,
}

/// An axis-aligned rectangle.
pub(super) struct Bounds {
    low: (i64, i64),
    high: (i64, i64),
}

impl Bounds {
    /// Returns the width and the height of the intersection of two rectangles.
    pub(super) fn overlap(&self, other: &Bounds) -> (i64, i64) {
        let width = self.high.0.min(other.high.0) - self.low.0.max(other.low.0);
        let height = self.high.1.min(other.high.1) - self.low.1.max(other.low.1);
        (width.max(0), height.max(0))
    }
}

impl Polygon {
    /// Returns a polygon that is star-shaped around its centre: the angles of its vertices increase, and their
    /// distances vary up to threefold. Small numbers of vertices are more frequent than large numbers.
    pub(super) fn star(random: &mut SplitMix) -> Polygon {
        let centre = random_point(random);
        let skewed = random.unit() * random.unit();
        let vertices = FEWEST_VERTICES + (skewed * (MOST_VERTICES - FEWEST_VERTICES + 1) as f64) as u64;
        let radius = REACH * (0.25 + 0.75 * random.unit());
        let vertex = |index: u64| {
            // Neighbouring angles differ by at least a fifth of their mean distance, so that rounding cannot make the
            // outline cross itself.
            let turn = (index as f64 + 0.8 * random.unit()) / vertices as f64;
            let distance = radius * (0.3 + 0.7 * random.unit());
            let (x, y) = direction(turn);
            IntPoint::new(centre.x + (distance * x).round() as i32, centre.y + (distance * y).round() as i32)
        };
        Polygon { centre, outline: (0..vertices).map(vertex).collect() }
    }

    /// Returns a rectangle with sides along the axes.
    pub(super) fn rectangle(random: &mut SplitMix) -> Polygon {
        let centre = random_point(random);
        let mut half = || (REACH * (0.1 + 0.9 * random.unit())) as i32;
        let (half_width, half_height) = (half(), half());
        let corner = |(x, y): (i32, i32)| IntPoint::new(centre.x + x * half_width, centre.y + y * half_height);
        Polygon { centre, outline: [(-1, -1), (1, -1), (1, 1), (-1, 1)].map(corner).to_vec() }
    }

    /// Returns a copy that is so far to the right that it does not overlap the original.
    pub(super) fn beside(&self) -> Polygon {
        let shift = |point: &IntPoint<i32>| IntPoint::new(point.x + 3 * REACH as i32, point.y);
        Polygon { centre: shift(&self.centre), outline: self.outline.iter().map(shift).collect() }
    }

    /// Returns a copy of a star with half the size and the same centre, which lies inside the star.
    pub(super) fn halved(&self) -> Polygon {
        let centre = self.centre;
        let half = |point: &IntPoint<i32>| {
            IntPoint::new(centre.x + (point.x - centre.x) / 2, centre.y + (point.y - centre.y) / 2)
        };
        Polygon { centre, outline: self.outline.iter().map(half).collect() }
    }

    /// Returns the vertices, counterclockwise.
    pub(super) fn outline(&self) -> &[IntPoint<i32>] {
        &self.outline
    }

    /// Returns the edges, each from a vertex to the next.
    pub(super) fn edges(&self) -> impl Iterator<Item = (IntPoint<i32>, IntPoint<i32>)> {
        let next = self.outline.iter().cycle().skip(1);
        self.outline.iter().copied().zip(next.copied())
    }

    /// Returns twice the area, in square units.
    pub(super) fn twice_area(&self) -> i64 {
        twice_area(&self.outline)
    }

    /// Returns the length of the outline, in units.
    pub(super) fn perimeter(&self) -> f64 {
        self.edges().map(|(from, to)| f64::from(to.x - from.x).hypot(f64::from(to.y - from.y))).sum()
    }

    /// Returns the smallest axis-aligned rectangle around the polygon.
    pub(super) fn bounds(&self) -> Bounds {
        let mut bounds = Bounds { low: (i64::MAX, i64::MAX), high: (i64::MIN, i64::MIN) };
        for point in &self.outline {
            let (x, y) = (i64::from(point.x), i64::from(point.y));
            bounds.low = (bounds.low.0.min(x), bounds.low.1.min(y));
            bounds.high = (bounds.high.0.max(x), bounds.high.1.max(y));
        }
        bounds
    }
}

/// Returns twice the area within a closed outline, which is positive if the outline runs counterclockwise.
/// Coordinates are relative to the first vertex, so that sums are far below the maximum of `i64`.
pub(super) fn twice_area(outline: &[IntPoint<i32>]) -> i64 {
    let Some(origin) = outline.first() else {
        return 0;
    };
    let from_origin = |point: &IntPoint<i32>| (i64::from(point.x - origin.x), i64::from(point.y - origin.y));
    let corners = outline.windows(2).map(|edge| {
        let ((x0, y0), (x1, y1)) = (from_origin(&edge[0]), from_origin(&edge[1]));
        x0 * y1 - x1 * y0
    });
    corners.sum()
}

fn random_point(random: &mut SplitMix) -> IntPoint<i32> {
    let mut coordinate = || ((random.unit() - 0.5) * REACH) as i32;
    IntPoint::new(coordinate(), coordinate())
}

/// Returns approximately the unit vector at `turn` (0 to 1) of a full turn, by the rational parametrisation of a
/// quadrant of the circle. The angle is monotonous in `turn`, which is enough for a star. Unlike a sine, the result
/// is rounded in the same way on every machine.
fn direction(turn: f64) -> (f64, f64) {
    let quadrants = 4.0 * turn;
    let t = quadrants.fract();
    let (x, y) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
    match quadrants as u32 {
        0 => (x, y),
        1 => (-y, x),
        2 => (-x, -y),
        _ => (y, -x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_counterclockwise_and_of_the_promised_size() {
        let mut random = SplitMix::new(1);
        for _ in 0..1_000 {
            let star = Polygon::star(&mut random);
            assert!(star.twice_area() > 0);
            assert!((FEWEST_VERTICES..=MOST_VERTICES).contains(&(star.outline.len() as u64)));
            let triangles = star.edges().map(|(from, to)| twice_area(&[star.centre, from, to]));
            assert!(triangles.min().unwrap() > 0, "the centre sees every edge from its left");
        }
    }

    #[test]
    fn a_unit_square_has_twice_the_area_of_one() {
        let square = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(x, y)| IntPoint::new(x, y));
        assert_eq!(twice_area(&square), 2);
        assert_eq!(twice_area(&[]), 0);
    }

    #[test]
    fn a_turn_goes_through_the_four_directions() {
        assert_eq!([0.0, 0.25, 0.5, 0.75].map(direction), [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]);
    }
}
