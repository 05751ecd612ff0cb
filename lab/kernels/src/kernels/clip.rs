//! Areas of the intersection and the union of many pairs of polygons: independent tasks of very different lengths.
//!
//! CLIP of the BWS paper (section 5.1). It takes the operation from a database of pathology images (Wang et al., "A
//! data model and database for high-resolution pathology analytical image informatics", J. Pathol. Inform. 2:32,
//! 2011). There, two methods find outlines in one image, and the outlines are compared by the areas of their
//! intersection and union. The images are not public, so the polygons here are seeded stars of irregular size. The
//! overlay is computed by the crate `i_overlay`, the engine of `geo`, on whole coordinates and without the engine's
//! own threads.

mod polygon;
mod slabs;

use i_overlay::core::extract::BooleanExtractionBuffer;
use i_overlay::core::fill_rule::FillRule;
use i_overlay::core::overlay::Overlay;
use i_overlay::core::overlay_rule::OverlayRule;
use i_overlay::i_shape::flat::buffer::FlatContoursBuffer;

use self::polygon::{Polygon, twice_area};
use comity_graph::Scale;

use crate::definition::Definition;
use crate::random::SplitMix;
use crate::scaling::Scaling;
use crate::{ForkJoin, Kernel, Parameter, ParameterError, Parameters, Verdict};

/// The definition of the program.
pub const DEFINITION: Definition = Definition {
    name: "clip",
    summary: "areas of intersection and union of pairs of star-shaped polygons (BWS paper; Wang 2011, spatial databases)",
    parameters: &[
        Parameter { key: "pairs", default: "20000", help: "pairs of polygons of 8 to 60 vertices, 1 to 100000" },
        Parameter { key: "grain", default: "4", help: "pairs that one task overlays, 1 to 100000" },
        Parameter { key: "seed", default: "1", help: "seed of the polygons, 0 to 4294967295" },
    ],
    prepare: |parameters| Ok(Box::new(prepare(parameters)?)),
    scaling: Ok(Scaling { keys: &["pairs"], rule: "pairs: width", extents }),
};

/// The number of pairs among which one pair has an exactly known result.
const KNOWN_EVERY: usize = 8;

fn prepare(parameters: &Parameters) -> Result<Clip, ParameterError> {
    let pairs = parameters.number("pairs", 1..=100_000)?;
    let grain = parameters.number("grain", 1..=100_000)?;
    let seed = parameters.number("seed", 0..=u32::MAX as usize)?;
    Ok(Clip::random(pairs, grain, seed as u64))
}

fn extents(parameters: &Parameters) -> Result<Scale, ParameterError> {
    let (pairs, grain) = (parameters.number("pairs", 1..=100_000)?, parameters.number("grain", 1..=100_000)?);
    Ok(Scale { width: pairs.div_ceil(grain) as f64, ..Scale::default() })
}

struct Clip {
    pairs: Vec<Pair>,
    /// The number of pairs per task.
    grain: usize,
}

/// Two polygons, and the known result of their overlay.
struct Pair {
    a: Polygon,
    b: Polygon,
    truth: Truth,
}

enum Truth {
    /// The exact areas, which follow from the construction of the pair.
    Exact(Areas),
    /// Twice the area of the intersection, by [`slabs::intersection_area`], up to the rounding of crossings.
    Slabs(f64),
}

/// The areas of one overlay, in square units of the coordinates, times two so that they are whole numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Areas {
    intersection: i64,
    union: i64,
}

/// The output of a run.
struct Overlays {
    pairs: Vec<Areas>,
    /// Twice the sum of the areas of all intersections, and of all unions.
    totals: (i128, i128),
}

impl Clip {
    fn random(pairs: usize, grain: usize, seed: u64) -> Clip {
        let mut random = SplitMix::new(seed);
        let pair = |index: usize| {
            if index.is_multiple_of(KNOWN_EVERY) {
                Pair::known(index / KNOWN_EVERY, &mut random)
            } else {
                Pair::random(&mut random)
            }
        };
        Clip { pairs: (0..pairs).map(pair).collect(), grain }
    }
}

impl Pair {
    /// Returns two stars whose centres are so close that most pairs overlap.
    fn random(random: &mut SplitMix) -> Pair {
        let (a, b) = (Polygon::star(random), Polygon::star(random));
        let truth = Truth::Slabs(2.0 * slabs::intersection_area(&a, &b));
        Pair { a, b, truth }
    }

    /// Returns a pair whose areas follow from its construction. `kind` modulo 4 selects one of four constructions.
    fn known(kind: usize, random: &mut SplitMix) -> Pair {
        let a = Polygon::star(random);
        let area = a.twice_area();
        let (a, b, intersection) = match kind % 4 {
            0 => {
                let (a, b) = (Polygon::rectangle(random), Polygon::rectangle(random));
                let (width, height) = a.bounds().overlap(&b.bounds());
                (a, b, 2 * width * height)
            }
            1 => (a.clone(), a.beside(), 0),
            2 => (a.clone(), a, area),
            _ => {
                let inner = a.halved();
                let inside = inner.twice_area();
                (a, inner, inside)
            }
        };
        let union = a.twice_area() + b.twice_area() - intersection;
        Pair { a, b, truth: Truth::Exact(Areas { intersection, union }) }
    }

    /// Returns twice the maximum accepted error of an area. Crossings are rounded to whole coordinates, which moves
    /// the outlines by at most one unit along their length.
    fn tolerance(&self) -> f64 {
        2.0 * (self.a.perimeter() + self.b.perimeter())
    }

    /// Returns the reason why `found` is wrong, or `None`.
    fn fault(&self, found: Areas) -> Option<&'static str> {
        let (a, b) = (self.a.twice_area(), self.b.twice_area());
        let tolerance = self.tolerance();
        if found.intersection < 0 || found.intersection as f64 > a.min(b) as f64 + tolerance {
            return Some("the intersection is larger than one of the polygons, or negative");
        }
        if (found.intersection + found.union - a - b).abs() as f64 > tolerance {
            return Some("intersection and union do not add up to the two polygons");
        }
        match &self.truth {
            Truth::Exact(exact) if found != *exact => Some("the areas differ from the known exact areas"),
            Truth::Slabs(intersection) if (found.intersection as f64 - intersection).abs() > tolerance => {
                Some("the slab method finds a different intersection")
            }
            _ => None,
        }
    }
}

impl Kernel for Clip {
    type Output = Overlays;

    fn compute<J: ForkJoin>(&self, fork_join: J) -> Overlays {
        let mut pairs = vec![Areas::default(); self.pairs.len()];
        fork_join.for_chunks_mut(&mut pairs, self.grain, &|chunk, areas| {
            let mut engine = Engine::new();
            for (pair, areas) in self.pairs[chunk * self.grain..].iter().zip(areas) {
                *areas = engine.areas(pair);
            }
        });
        let totals = fork_join.reduce_range(
            0..pairs.len(),
            self.grain.max(1_000),
            &|range| totals(&pairs[range]),
            &|(a, b), (c, d)| (a + c, b + d),
        );
        Overlays { pairs, totals }
    }

    /// Checks every pair in every run. Intersection and union must add up to the two polygons. The intersection must
    /// agree with the result of another method, which ran when the input was built (see [`slabs`]). For one pair in
    /// [`KNOWN_EVERY`] (rectangles, disjoint, equal and nested polygons), both areas must be exact.
    fn verify(&self, output: &Overlays) -> Verdict {
        if output.pairs.len() != self.pairs.len() {
            return Verdict::new(false, format!("{} results for {} pairs", output.pairs.len(), self.pairs.len()));
        }
        let mut faults = self.pairs.iter().zip(&output.pairs).enumerate();
        if let Some((index, fault)) = faults.find_map(|(index, (pair, found))| Some((index, pair.fault(*found)?))) {
            return Verdict::new(false, format!("pair {index}: {fault}"));
        }
        let exact = self.pairs.iter().filter(|pair| matches!(pair.truth, Truth::Exact(_))).count();
        Verdict::new(
            output.totals == totals(&output.pairs),
            format!(
                "{} pairs, {exact} equal to exact areas and the others within rounding of the slab method; intersections \
                 are {:.3} % of unions in all",
                self.pairs.len(),
                100.0 * output.totals.0 as f64 / output.totals.1 as f64
            ),
        )
    }
}

fn totals(areas: &[Areas]) -> (i128, i128) {
    areas.iter().fold((0, 0), |(intersections, unions), areas| {
        (intersections + i128::from(areas.intersection), unions + i128::from(areas.union))
    })
}

/// The overlay engine and its buffers, which a task reuses for all of its pairs.
struct Engine {
    overlay: Overlay<i32>,
    buffer: BooleanExtractionBuffer<i32>,
    contours: FlatContoursBuffer<i32>,
}

impl Engine {
    fn new() -> Engine {
        Engine { overlay: Overlay::new(128), buffer: Default::default(), contours: Default::default() }
    }

    /// Returns both areas from one arrangement of the two outlines.
    fn areas(&mut self, pair: &Pair) -> Areas {
        self.overlay.reinit_with_subj_and_clip(pair.a.outline(), pair.b.outline());
        let Some(graph) = self.overlay.build_graph_view(FillRule::EvenOdd) else {
            return Areas::default();
        };
        let mut area = |rule| {
            graph.extract_contours_into(rule, &mut self.buffer, &mut self.contours);
            let contours = self.contours.ranges.iter().map(|range| &self.contours.points[range.clone()]);
            // Outlines run counterclockwise and holes clockwise, so that holes have a negative area.
            contours.map(twice_area).sum()
        };
        Areas { intersection: area(OverlayRule::Intersect), union: area(OverlayRule::Union) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OnRayon, Serial};

    #[test]
    fn every_kind_of_pair_verifies_at_every_grain() {
        for (pairs, grain) in [(1, 4), (40, 1), (40, 7), (40, 100_000)] {
            let program = Clip::random(pairs, grain, 3);
            let serial = program.compute(Serial);
            let verdict = program.verify(&serial);
            assert!(verdict.verified, "{}", verdict.detail);
            assert_eq!(program.compute(OnRayon).pairs, serial.pairs);
        }
    }

    #[test]
    fn many_seeds_verify() {
        for seed in 0..20 {
            let program = Clip::random(200, 50, seed);
            let verdict = program.verify(&program.compute(OnRayon));
            assert!(verdict.verified, "seed {seed}: {}", verdict.detail);
        }
    }

    #[test]
    fn the_kinds_of_known_pairs_are_what_they_say() {
        let program = Clip::random(8 * KNOWN_EVERY, 1, 5);
        let exact = |kind: usize| match program.pairs[kind * KNOWN_EVERY].truth {
            Truth::Exact(areas) => areas,
            Truth::Slabs(_) => panic!("a known pair has exact areas"),
        };
        assert_eq!(exact(1).intersection, 0);
        assert_eq!(exact(2).intersection, exact(2).union);
        assert!(exact(3).intersection > 0 && exact(3).intersection < exact(3).union);
        assert!((0..8).step_by(4).any(|kind| exact(kind).intersection > 0));
    }

    #[test]
    fn wrong_areas_are_noticed() {
        let program = Clip::random(20, 4, 1);
        let changes: [fn(&mut Overlays); 6] = [
            |overlays| overlays.pairs[0].union += 1,
            |overlays| overlays.pairs[3] = Areas::default(),
            |overlays| overlays.pairs[3].intersection = -1,
            // A shift from the intersection to the union keeps their sum, so that only the slab method can notice it.
            |overlays| {
                overlays.pairs[3].intersection -= 1 << 34;
                overlays.pairs[3].union += 1 << 34;
            },
            |overlays| overlays.totals.0 += 1,
            |overlays| overlays.pairs.truncate(19),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut output = program.compute(Serial);
            assert!(program.verify(&output).verified);
            change(&mut output);
            assert!(!program.verify(&output).verified, "change {index}");
        }
    }
}
