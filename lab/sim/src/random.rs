//! Random numbers that are the same on every computer.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns the random number generator of part `part` of a simulation. Numbers drawn in one part do not change the
/// numbers drawn in another.
pub fn stream(seed: u64, part: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(part);
    random
}
