//! Vectors of three `f64`: points, directions and colours.

use std::ops::{Add, Mul, Neg, Sub};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vector {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) z: f64,
}

pub(super) const fn vector(x: f64, y: f64, z: f64) -> Vector {
    Vector { x, y, z }
}

pub(super) const BLACK: Vector = vector(0.0, 0.0, 0.0);
pub(super) const WHITE: Vector = vector(1.0, 1.0, 1.0);

impl Vector {
    pub(super) fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub(super) fn cross(self, other: Vector) -> Vector {
        vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }

    pub(super) fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    pub(super) fn unit(self) -> Vector {
        self * (1.0 / self.length())
    }

    /// Multiplies component by component, like light through a filter.
    pub(super) fn filter(self, other: Vector) -> Vector {
        vector(self.x * other.x, self.y * other.y, self.z * other.z)
    }

    /// Interpolates from `self` (at 0) to `other` (at 1).
    pub(super) fn mix(self, other: Vector, share: f64) -> Vector {
        self * (1.0 - share) + other * share
    }

    /// Returns this direction, reflected at a surface with the unit normal `normal`.
    pub(super) fn reflected(self, normal: Vector) -> Vector {
        self - normal * (2.0 * self.dot(normal))
    }
}

impl Add for Vector {
    type Output = Vector;

    fn add(self, other: Vector) -> Vector {
        vector(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vector {
    type Output = Vector;

    fn sub(self, other: Vector) -> Vector {
        vector(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f64> for Vector {
    type Output = Vector;

    fn mul(self, factor: f64) -> Vector {
        vector(self.x * factor, self.y * factor, self.z * factor)
    }
}

impl Neg for Vector {
    type Output = Vector;

    fn neg(self) -> Vector {
        vector(-self.x, -self.y, -self.z)
    }
}
