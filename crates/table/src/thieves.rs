//! Counters of a program's thieves (workers that look for a task), as the program publishes them in the table.

use std::array;
use std::iter::repeat;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of words for refusal reasons. It exceeds the number of reasons, so that later builds can add reasons.
pub(crate) const REASONS: usize = 16;

/// The reasons why a thief did not accelerate a worker (give it the rest of its own time slice), in the order of the
/// table's words. New reasons are added at the end. `comity::Refusal` explains each reason.
pub const REFUSALS: [&str; 9] =
    ["no hypervisor", "running", "blocked", "pulled", "taken", "chain", "other node", "mask", "kernel"];

const _: () = assert!(REFUSALS.len() <= REASONS);

/// Counters of the thieves of all pools of a program, including ended pools, since the first pool began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thieves {
    /// The number of tasks that thieves took from other workers.
    pub steals: u64,
    /// The number of times that a thief gave a worker the rest of its time slice.
    pub accelerations: u64,
    /// The number of refused accelerations, for each reason of [`REFUSALS`].
    pub refusals: [u64; REFUSALS.len()],
}

impl Thieves {
    /// Returns the number of refused accelerations, for all reasons together.
    pub fn refused(&self) -> u64 {
        // The words may hold any value, so the sum must not overflow.
        self.refusals.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the number of refused accelerations for each reason, with the reason's name.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSALS.into_iter().zip(self.refusals)
    }
}

/// The words of a slot that count refusals.
pub(crate) type Words = [AtomicU64; REASONS];

/// Writes all words. The words for reasons that only later builds know are set to 0, because a later build may have had
/// the slot before.
pub(crate) fn write(words: &Words, refusals: &[u64]) {
    for (word, count) in words.iter().zip(refusals.iter().copied().chain(repeat(0))) {
        word.store(count, Ordering::Relaxed);
    }
}

/// Reads the words of the reasons that this build knows.
pub(crate) fn read(words: &Words) -> [u64; REFUSALS.len()] {
    array::from_fn(|nth| words[nth].load(Ordering::Relaxed))
}
