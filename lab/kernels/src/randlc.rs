//! The pseudo-random numbers of the NAS Parallel Benchmarks.
//!
//! Source: D. Bailey et al., *The NAS Parallel Benchmarks*, RNR-94-007, section 2.3. The reference code keeps the
//! state in doubles, and splits each factor into halves to multiply exactly. Here, 64-bit integers hold the same 46
//! bits without a split.

const MODULUS_BITS: u32 = 46;
const MASK: u64 = (1 << MODULUS_BITS) - 1;

/// The multiplier 5¹³ of every benchmark of the suite.
const MULTIPLIER: u64 = 1_220_703_125;

/// The sequence x ← 5¹³·x mod 2⁴⁶, scaled to (0, 1).
#[derive(Clone, Debug)]
pub(crate) struct Randlc {
    state: u64,
}

impl Randlc {
    /// Returns the sequence that follows `seed`, which must be odd for the full period.
    pub(crate) fn new(seed: u64) -> Randlc {
        Randlc { state: seed & MASK }
    }

    /// Returns the sequence without its first `count` numbers, in O(log `count`) steps.
    pub(crate) fn skip(self, mut count: u64) -> Randlc {
        let mut state = self.state;
        let mut power = MULTIPLIER;
        while count > 0 {
            if count & 1 == 1 {
                state = multiply(state, power);
            }
            power = multiply(power, power);
            count >>= 1;
        }
        Randlc { state }
    }

    /// Returns the next number, strictly between 0 and 1.
    pub(crate) fn draw(&mut self) -> f64 {
        self.state = multiply(self.state, MULTIPLIER);
        self.state as f64 * const { 1.0 / (1_u64 << MODULUS_BITS) as f64 }
    }
}

/// Multiplies modulo 2⁴⁶. The low 46 bits of a product do not depend on the bits that overflow.
fn multiply(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_is_drawing() {
        for count in [0, 1, 2, 3, 17, 1000] {
            let mut drawn = Randlc::new(271_828_183);
            for _ in 0..count {
                drawn.draw();
            }
            assert_eq!(drawn.state, Randlc::new(271_828_183).skip(count).state, "{count}");
        }
    }

    #[test]
    fn numbers_lie_strictly_inside_the_unit_interval() {
        let mut numbers = Randlc::new(314_159_265);
        assert!((0..10_000).map(|_| numbers.draw()).all(|number| number > 0.0 && number < 1.0));
    }
}
