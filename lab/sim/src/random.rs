//! Random numbers that are the same on every computer.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The generator of one part of a simulation. What one part draws does not move what another will.
pub fn stream(seed: u64, part: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(part);
    random
}
