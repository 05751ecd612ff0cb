//! The area that two polygons share, by a method that is independent of the timed method.
//!
//! Horizontal lines through every vertex and every crossing of two edges cut the plane into slabs. Within a slab no
//! edges cross, so the length of a horizontal line inside both polygons is a linear function of its height. The
//! length in the middle of a slab times the slab's thickness is the shared area in the slab. The method is slow,
//! simple, and exact except for floating-point rounding.

use i_overlay::i_float::int::point::IntPoint;

use super::polygon::Polygon;

type Edge = (IntPoint<i32>, IntPoint<i32>);

/// Returns the area of the intersection of two simple polygons, in square units.
pub(super) fn intersection_area(a: &Polygon, b: &Polygon) -> f64 {
    let mut heights: Vec<f64> = a.outline().iter().chain(b.outline()).map(|point| f64::from(point.y)).collect();
    for edge in a.edges() {
        heights.extend(b.edges().filter_map(|other| crossing_height(edge, other)));
    }
    heights.sort_by(f64::total_cmp);
    let slab = |heights: &[f64]| {
        let middle = 0.5 * (heights[0] + heights[1]);
        (heights[1] - heights[0]) * shared_length(&crossed_at(a, middle), &crossed_at(b, middle))
    };
    heights.windows(2).filter(|heights| heights[0] < heights[1]).map(slab).sum()
}

/// Returns the height at which two edges cross. `None` if they do not cross or are parallel.
fn crossing_height(first: Edge, second: Edge) -> Option<f64> {
    let (along, across) = (vector(first.0, first.1), vector(second.0, second.1));
    let between = vector(first.0, second.0);
    let area = cross(along, across);
    let on_first = cross(between, across) / area;
    let on_second = cross(between, along) / area;
    let within = |position: f64| (0.0..=1.0).contains(&position);
    (area != 0.0 && within(on_first) && within(on_second)).then(|| f64::from(first.0.y) + on_first * along.1)
}

fn vector(from: IntPoint<i32>, to: IntPoint<i32>) -> (f64, f64) {
    (f64::from(to.x - from.x), f64::from(to.y - from.y))
}

fn cross(a: (f64, f64), b: (f64, f64)) -> f64 {
    a.0 * b.1 - a.1 * b.0
}

/// Returns the places where the horizontal line at `height` enters and leaves the polygon, from left to right.
fn crossed_at(polygon: &Polygon, height: f64) -> Vec<f64> {
    let crossing = |(from, to): Edge| {
        let (low, high) = (f64::from(from.y), f64::from(to.y));
        ((low < height) != (high < height))
            .then(|| f64::from(from.x) + f64::from(to.x - from.x) * ((height - low) / (high - low)))
    };
    let mut crossed: Vec<f64> = polygon.edges().filter_map(crossing).collect();
    crossed.sort_by(f64::total_cmp);
    crossed
}

/// Returns the length that two sorted lists of disjoint intervals (start, end, start, end, …) have in common.
fn shared_length(a: &[f64], b: &[f64]) -> f64 {
    let mut length = 0.0;
    for a in a.chunks_exact(2) {
        for b in b.chunks_exact(2) {
            length += (a[1].min(b[1]) - a[0].max(b[0])).max(0.0);
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    #[test]
    fn rectangles_share_the_product_of_their_overlaps() {
        let mut random = SplitMix::new(4);
        for _ in 0..100 {
            let (a, b) = (Polygon::rectangle(&mut random), Polygon::rectangle(&mut random));
            let (width, height) = a.bounds().overlap(&b.bounds());
            let exact = (width * height) as f64;
            assert!((intersection_area(&a, &b) - exact).abs() <= 1e-12 * exact);
        }
    }

    #[test]
    fn a_polygon_shares_itself_with_itself_and_nothing_with_a_copy_beside_it() {
        let mut random = SplitMix::new(5);
        for _ in 0..100 {
            let star = Polygon::star(&mut random);
            let area = 0.5 * star.twice_area() as f64;
            assert!((intersection_area(&star, &star) / area - 1.0).abs() < 1e-12);
            assert_eq!(intersection_area(&star, &star.beside()), 0.0);
        }
    }
}
