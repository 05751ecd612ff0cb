//! The objects in the picture: a checkered floor under an evening sky, a mirror, a glass ball, three coloured balls
//! and an arc of beads.

use super::vector::{Vector, WHITE, vector};

/// A ray: a point and a unit direction.
#[derive(Clone, Copy)]
pub(super) struct Ray {
    pub(super) from: Vector,
    pub(super) direction: Vector,
}

impl Ray {
    pub(super) fn at(self, distance: f64) -> Vector {
        self.from + self.direction * distance
    }
}

/// A material: the way in which a surface reflects light.
#[derive(Clone, Copy)]
pub(super) enum Material {
    /// A coloured body under a clear coat. The coat reflects the share `coat` of the light at perpendicular
    /// incidence.
    Coated { colour: Vector, coat: f64 },
    /// A metal of this colour.
    Metal { colour: Vector },
    /// A clear body of this refractive index.
    Glass { index: f64 },
}

/// The point where a ray first meets a surface.
pub(super) struct Hit {
    pub(super) distance: f64,
    /// A unit vector that points out of the body.
    pub(super) normal: Vector,
    pub(super) material: Material,
}

pub(super) struct Sphere {
    centre: Vector,
    radius: f64,
    material: Material,
}

/// Spheres within a larger bounding sphere, which most rays miss.
struct Cluster {
    bound: Sphere,
    spheres: Vec<Sphere>,
}

pub(super) struct Scene {
    spheres: Vec<Sphere>,
    beads: Cluster,
}

/// The centre of the light and its two sides. The light is a square, so that shadows have soft edges.
const LIGHT: Vector = vector(-7.0, 8.0, -4.2);
const LIGHT_ACROSS: Vector = vector(1.0, 0.0, -1.6);
const LIGHT_UP: Vector = vector(0.9, 1.0, 0.5);

const HORIZON: Vector = vector(0.93, 0.60, 0.36);
const LOW_SKY: Vector = vector(0.34, 0.50, 0.72);
const ZENITH: Vector = vector(0.05, 0.14, 0.42);

/// The distance below which a hit is the surface where the ray starts.
const NEAREST: f64 = 1e-6;

/// Returns the point of the light at `across` and `up` (each 0 to 1).
pub(super) fn light_point(across: f64, up: f64) -> Vector {
    LIGHT + LIGHT_ACROSS * (across - 0.5) + LIGHT_UP * (up - 0.5)
}

/// Returns the colour of a ray that meets no surface.
pub(super) fn sky(direction: Vector) -> Vector {
    let height = direction.y.max(0.0);
    let low = (5.0 * height).min(1.0);
    let gradient = HORIZON.mix(LOW_SKY, low * (2.0 - low)).mix(ZENITH, height.sqrt());
    let towards_light = direction.dot(LIGHT.unit()).max(0.0);
    let glow = power(towards_light, 5);
    let lamp = power(towards_light, 9);
    gradient + vector(1.0, 0.78, 0.5) * (0.3 * glow) + WHITE * (5.0 * lamp)
}

/// Returns `base` raised to 2^`squarings`, by squaring. The library's powers are rounded differently on each machine.
pub(super) fn power(base: f64, squarings: u32) -> f64 {
    (0..squarings).fold(base, |value, _| value * value)
}

impl Sphere {
    /// Returns the distances at which the line of a ray enters and leaves the sphere.
    fn crossed(&self, ray: Ray) -> Option<(f64, f64)> {
        let to_centre = self.centre - ray.from;
        let nearest = to_centre.dot(ray.direction);
        let squared = nearest * nearest - to_centre.dot(to_centre) + self.radius * self.radius;
        if squared <= 0.0 {
            return None;
        }
        let half = squared.sqrt();
        Some((nearest - half, nearest + half))
    }

    /// Returns the first distance beyond the ray's start.
    fn distance(&self, ray: Ray) -> Option<f64> {
        let (enters, leaves) = self.crossed(ray)?;
        if enters > NEAREST {
            Some(enters)
        } else if leaves > NEAREST {
            Some(leaves)
        } else {
            None
        }
    }

    /// Returns the share of the sky above `point` that the sphere hides, weighted by the cosine from `normal`. This
    /// is approximately the form factor of a sphere.
    fn hidden_from(&self, point: Vector, normal: Vector) -> f64 {
        let to_centre = self.centre - point;
        let squared = to_centre.dot(to_centre);
        // A point on the sphere itself is not hidden by that sphere.
        if squared < 1.0001 * self.radius * self.radius {
            return 0.0;
        }
        let cosine = to_centre.dot(normal) / squared.sqrt();
        cosine.max(0.0) * self.radius * self.radius / squared
    }
}

impl Cluster {
    fn met_by(&self, ray: Ray, within: f64) -> bool {
        self.bound.crossed(ray).is_some_and(|(enters, leaves)| leaves > NEAREST && enters < within)
    }
}

impl Scene {
    pub(super) fn new() -> Scene {
        let coated = |r, g, b, coat| Material::Coated { colour: vector(r, g, b), coat };
        let sphere = |x: f64, y: f64, z: f64, radius, material| Sphere { centre: vector(x, y, z), radius, material };
        let spheres = vec![
            sphere(-1.35, 1.3, 1.1, 1.3, Material::Metal { colour: vector(0.93, 0.94, 0.96) }),
            sphere(1.0, 0.85, -0.75, 0.85, Material::Glass { index: 1.5 }),
            sphere(2.65, 1.05, 1.7, 1.05, coated(0.68, 0.05, 0.04, 0.05)),
            sphere(0.35, 0.55, 0.75, 0.55, coated(0.90, 0.52, 0.04, 0.05)),
            sphere(-0.75, 0.48, -1.15, 0.48, coated(0.02, 0.28, 0.34, 0.06)),
        ];
        Scene { spheres, beads: beads() }
    }

    /// Returns the nearest surface that the ray meets.
    pub(super) fn hit(&self, ray: Ray) -> Option<Hit> {
        let mut nearest = f64::INFINITY;
        let mut met = None;
        let visit = |spheres: &[Sphere], nearest: &mut f64| {
            let mut found = None;
            for (index, sphere) in spheres.iter().enumerate() {
                if let Some(distance) = sphere.distance(ray).filter(|distance| *distance < *nearest) {
                    *nearest = distance;
                    found = Some(index);
                }
            }
            found
        };
        if let Some(index) = visit(&self.spheres, &mut nearest) {
            met = Some(&self.spheres[index]);
        }
        if self.beads.met_by(ray, nearest)
            && let Some(index) = visit(&self.beads.spheres, &mut nearest)
        {
            met = Some(&self.beads.spheres[index]);
        }
        let to_floor = -ray.from.y / ray.direction.y;
        if to_floor > NEAREST && to_floor < nearest {
            let material = floor(ray.at(to_floor), to_floor);
            return Some(Hit { distance: to_floor, normal: vector(0.0, 1.0, 0.0), material });
        }
        met.map(|sphere| Hit {
            distance: nearest,
            normal: (ray.at(nearest) - sphere.centre) * (1.0 / sphere.radius),
            material: sphere.material,
        })
    }

    /// Returns the fraction of light that reaches the start of the ray from a lamp `distance` away along the ray. Each
    /// glass ball in between lets a part of the light through, and any other ball blocks all light.
    pub(super) fn passes(&self, ray: Ray, distance: f64) -> f64 {
        let blocks = |sphere: &Sphere| sphere.distance(ray).is_some_and(|met| met < distance);
        let mut share = 1.0;
        for sphere in self.spheres.iter().filter(|sphere| blocks(sphere)) {
            match sphere.material {
                Material::Glass { .. } => share *= 0.55,
                _ => return 0.0,
            }
        }
        if self.beads.met_by(ray, distance) && self.beads.spheres.iter().any(blocks) {
            return 0.0;
        }
        share
    }

    /// Returns the share of the sky that `point` sees. Without this shading, balls seem to hover above the floor.
    pub(super) fn open_sky(&self, point: Vector, normal: Vector) -> f64 {
        let mut open = 1.0;
        for sphere in &self.spheres {
            open *= 1.0 - sphere.hidden_from(point, normal);
        }
        let to_beads = self.beads.bound.centre - point;
        if to_beads.dot(to_beads) < 4.0 * self.beads.bound.radius * self.beads.bound.radius {
            for sphere in &self.beads.spheres {
                open *= 1.0 - sphere.hidden_from(point, normal);
            }
        }
        open
    }
}

/// Returns beads in the colours of a rainbow, on an arc in front of the other balls.
fn beads() -> Cluster {
    const COLOURS: [Vector; 7] = [
        vector(0.75, 0.07, 0.10),
        vector(0.90, 0.33, 0.05),
        vector(0.93, 0.70, 0.08),
        vector(0.18, 0.55, 0.14),
        vector(0.04, 0.45, 0.62),
        vector(0.10, 0.16, 0.60),
        vector(0.42, 0.10, 0.52),
    ];
    const RADIUS: f64 = 0.2;
    const ARC: f64 = 3.3;
    let beads = 13;
    let bead = |index: usize| {
        // The rational parametrisation of the circle: t runs from one end of the arc to the other.
        let t = (index as f64 / (beads - 1) as f64 - 0.5) * 0.84;
        let (x, z) = (ARC * 2.0 * t / (1.0 + t * t), -ARC * (1.0 - t * t) / (1.0 + t * t));
        let material = Material::Coated { colour: COLOURS[index % COLOURS.len()], coat: 0.06 };
        Sphere { centre: vector(x, RADIUS, z + 0.65), radius: RADIUS, material }
    };
    let spheres: Vec<Sphere> = (0..beads).map(bead).collect();
    let centre = (spheres[0].centre + spheres[beads / 2].centre) * 0.5;
    let centre = vector(0.0, RADIUS, centre.z);
    let reach = spheres.iter().map(|sphere| (sphere.centre - centre).length() + sphere.radius).fold(0.0, f64::max);
    Cluster { bound: Sphere { centre, radius: reach, material: spheres[0].material }, spheres }
}

/// Returns the floor's material at `point`. The contrast of its squares fades with distance, where squares are
/// smaller than a pixel.
fn floor(point: Vector, distance: f64) -> Material {
    const LIGHT_SQUARE: Vector = vector(0.60, 0.56, 0.50);
    const DARK_SQUARE: Vector = vector(0.045, 0.05, 0.07);
    let odd = (point.x.floor() as i64 + point.z.floor() as i64) & 1 == 1;
    let far = distance * distance / (distance * distance + 900.0);
    let (here, other) = if odd { (DARK_SQUARE, LIGHT_SQUARE) } else { (LIGHT_SQUARE, DARK_SQUARE) };
    Material::Coated { colour: here.mix(other, 0.5 * far), coat: 0.05 }
}

/// Returns a colour after haze over `distance`.
pub(super) fn haze(colour: Vector, distance: f64) -> Vector {
    let squared = distance * distance;
    colour.mix(HORIZON, squared / (squared + 4_000.0))
}
