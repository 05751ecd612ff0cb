//! Random numbers that are the same on every computer.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns the random number generator of part `part` of a simulation. Numbers that are drawn in one part do not
/// change the numbers that are drawn in other parts.
pub fn stream(seed: u64, part: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(part);
    random
}
