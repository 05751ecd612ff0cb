//! The colour of a pixel: rays from the eye are followed from surface to surface.

use super::scene::{Hit, Material, Ray, Scene, haze, light_point, power, sky};
use super::vector::{BLACK, Vector, WHITE, vector};
use crate::random::SplitMix;

const EYE: Vector = vector(0.3, 2.1, -7.6);
const LOOKS_AT: Vector = vector(0.4, 0.85, 0.0);

/// Half the picture's height at a distance of 1 from the eye.
const HALF_HEIGHT: f64 = 0.36;

/// The maximum number of surfaces at which a ray is followed.
const DEEPEST: u32 = 8;

/// The minimum weight of a ray in its pixel. A ray with less weight is not followed.
const FAINTEST: f64 = 0.01;

const LIGHT_COLOUR: Vector = vector(1.0, 0.92, 0.80);
const LIGHT_STRENGTH: f64 = 1.5;
const SKY_STRENGTH: f64 = 0.4;

/// A renderer of the scene for one size of the picture.
pub(super) struct Tracer {
    pub(super) width: usize,
    pub(super) height: usize,
    /// The number of rays from the eye per pixel.
    pub(super) samples: usize,
    scene: Scene,
    right: Vector,
    up: Vector,
    forward: Vector,
}

/// A sequence of points in the unit square that fill it evenly, shifted at random for each pixel. It is the
/// additive recurrence of Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018.
struct Points {
    shift: (f64, f64),
    next: u32,
}

impl Points {
    fn new(random: &mut SplitMix) -> Points {
        Points { shift: (random.unit(), random.unit()), next: 0 }
    }

    fn next(&mut self) -> (f64, f64) {
        let index = f64::from(self.next);
        self.next += 1;
        (
            (self.shift.0 + index * 0.754_877_666_246_692_7).fract(),
            (self.shift.1 + index * 0.569_840_290_998_053_2).fract(),
        )
    }
}

impl Tracer {
    pub(super) fn new(width: usize, height: usize, samples: usize) -> Tracer {
        let forward = (LOOKS_AT - EYE).unit();
        let right = vector(0.0, 1.0, 0.0).cross(forward).unit();
        Tracer { width, height, samples, scene: Scene::new(), right, up: forward.cross(right), forward }
    }

    /// Returns the colour of the pixel number `index`, row by row from the top.
    pub(super) fn render(&self, index: usize) -> [u8; 3] {
        let (column, row) = (index % self.width, index / self.width);
        let mut random = SplitMix::new(index as u64);
        let mut within_pixel = Points::new(&mut random);
        let mut on_light = Points::new(&mut random);
        let mut sum = BLACK;
        for _ in 0..self.samples {
            let (x, y) = within_pixel.next();
            let ray = self.ray(column as f64 + x, row as f64 + y);
            sum = sum + displayed(self.trace(ray, 0, 1.0, &mut on_light));
        }
        let mean = sum * (1.0 / self.samples as f64);
        [mean.x, mean.y, mean.z].map(|channel| (channel.sqrt() * 255.0 + 0.5) as u8)
    }

    /// Returns the ray from the eye through a point of the picture, in pixels from the top left corner.
    fn ray(&self, x: f64, y: f64) -> Ray {
        let scale = 2.0 * HALF_HEIGHT / self.height as f64;
        let across = (x - 0.5 * self.width as f64) * scale;
        let up = (0.5 * self.height as f64 - y) * scale;
        Ray { from: EYE, direction: (self.forward + self.right * across + self.up * up).unit() }
    }

    /// Returns the light that arrives along a ray. The ray has the share `weight` in the colour of the pixel.
    fn trace(&self, ray: Ray, depth: u32, weight: f64, on_light: &mut Points) -> Vector {
        if depth > DEEPEST || weight < FAINTEST {
            return BLACK;
        }
        let Some(hit) = self.scene.hit(ray) else {
            return sky(ray.direction);
        };
        let colour = match hit.material {
            Material::Coated { colour, coat } => self.coated(ray, &hit, colour, coat, depth, weight, on_light),
            Material::Metal { colour } => {
                let tint = colour.mix(WHITE, fresnel(0.0, -ray.direction.dot(hit.normal)));
                self.mirrored(ray, &hit, hit.normal, depth, weight, on_light).filter(tint)
            }
            Material::Glass { index } => self.glass(ray, &hit, index, depth, weight, on_light),
        };
        haze(colour, hit.distance)
    }

    #[expect(clippy::too_many_arguments, reason = "they are the state of one ray")]
    fn coated(
        &self,
        ray: Ray,
        hit: &Hit,
        colour: Vector,
        coat: f64,
        depth: u32,
        weight: f64,
        on_light: &mut Points,
    ) -> Vector {
        let mirrors = fresnel(coat, -ray.direction.dot(hit.normal));
        let body = colour.filter(self.daylight(ray, hit, depth, on_light)) * (1.0 - mirrors);
        let mirrored = self.mirrored(ray, hit, hit.normal, depth, weight * mirrors, on_light);
        body + mirrored * mirrors
    }

    fn mirrored(&self, ray: Ray, hit: &Hit, normal: Vector, depth: u32, weight: f64, on_light: &mut Points) -> Vector {
        let mirrored = Ray { from: ray.at(hit.distance), direction: ray.direction.reflected(normal) };
        self.trace(mirrored, depth + 1, weight, on_light)
    }

    /// Applies Snell's law, and weights the reflected and the refracted ray by Schlick's approximation.
    fn glass(&self, ray: Ray, hit: &Hit, index: f64, depth: u32, weight: f64, on_light: &mut Points) -> Vector {
        let enters = ray.direction.dot(hit.normal) < 0.0;
        let (normal, ratio) = if enters { (hit.normal, 1.0 / index) } else { (-hit.normal, index) };
        let cosine = -ray.direction.dot(normal);
        let squared = 1.0 - ratio * ratio * (1.0 - cosine * cosine);
        if squared <= 0.0 {
            return self.mirrored(ray, hit, normal, depth, weight, on_light);
        }
        let beyond = squared.sqrt();
        let straight_on = (index - 1.0) / (index + 1.0);
        let mirrors = fresnel(straight_on * straight_on, if enters { cosine } else { beyond });
        let direction = (ray.direction * ratio + normal * (ratio * cosine - beyond)).unit();
        let refracted = Ray { from: ray.at(hit.distance), direction };
        let through = self.trace(refracted, depth + 1, weight * (1.0 - mirrors), on_light);
        let mirrored = self.mirrored(ray, hit, normal, depth, weight * mirrors, on_light);
        through.filter(vector(0.96, 0.985, 0.97)) * (1.0 - mirrors) + mirrored * mirrors
    }

    /// Returns the light of the lamp and the sky on a matt surface.
    fn daylight(&self, ray: Ray, hit: &Hit, depth: u32, on_light: &mut Points) -> Vector {
        let point = ray.at(hit.distance);
        // Objects that are seen in a mirror need less smooth shadows than objects that are seen directly.
        let shadow_rays = if depth == 0 { 2 } else { 1 };
        let mut lit = 0.0;
        for _ in 0..shadow_rays {
            let (across, up) = on_light.next();
            let to_light = light_point(across, up) - point;
            let distance = to_light.length();
            let direction = to_light * (1.0 / distance);
            let cosine = direction.dot(hit.normal);
            if cosine > 0.0 {
                lit += cosine * self.scene.passes(Ray { from: point, direction }, distance);
            }
        }
        let open = self.scene.open_sky(point, hit.normal) * (0.6 + 0.4 * hit.normal.y);
        LIGHT_COLOUR * (LIGHT_STRENGTH * lit / f64::from(shadow_rays)) + SKY_COLOUR * (SKY_STRENGTH * open)
    }
}

/// The colour of the light of the whole sky on a surface that faces up.
const SKY_COLOUR: Vector = vector(0.62, 0.68, 0.86);

/// Returns the share of light that is reflected at an angle with this cosine. `straight_on` is the share at
/// perpendicular incidence (Schlick, "An inexpensive BRDF model for physically-based rendering", 1994).
fn fresnel(straight_on: f64, cosine: f64) -> f64 {
    let grazing = (1.0 - cosine).clamp(0.0, 1.0);
    straight_on + (1.0 - straight_on) * power(grazing, 2) * grazing
}

/// Maps light of any strength to a display's 0 to 1 by a rational film curve (Narkowicz, "ACES filmic tone mapping
/// curve", 2015). The curve is applied to every ray, so that the edges of bright spots are smooth.
fn displayed(light: Vector) -> Vector {
    let curve = |x: f64| (x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)).clamp(0.0, 1.0);
    vector(curve(light.x), curve(light.y), curve(light.z))
}
