//! What the thieves of a program have done, as it says in the table.

use std::array;
use std::iter::repeat;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words for reasons of refusals. There are fewer reasons, so that later builds may have more.
pub(crate) const REASONS: usize = 16;

/// Why a thief did not accelerate a worker, in the order of the table's words: a new reason comes last.
/// `comity::Refusal` explains each.
pub const REFUSALS: [&str; 9] =
    ["no hypervisor", "running", "blocked", "pulled", "taken", "chain", "other node", "mask", "kernel"];

const _: () = assert!(REFUSALS.len() <= REASONS);

/// What the thieves of all pools of a program have done since the first of them began, pools that have ended included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thieves {
    /// How often one took a task from another worker.
    pub steals: u64,
    /// How often one gave a worker what was left of its time slice.
    pub accelerations: u64,
    /// How often one would have, and did not: for each reason of [`REFUSALS`].
    pub refusals: [u64; REFUSALS.len()],
}

impl Thieves {
    /// How often none was accelerated, for whichever reason.
    pub fn refused(&self) -> u64 {
        // The words may hold anything.
        self.refusals.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How often for which reason.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSALS.into_iter().zip(self.refusals)
    }
}

/// The words of refusals in a slot.
pub(crate) type Words = [AtomicU64; REASONS];

/// Writes all words: those for which this build knows no reason may be of a later one, which had the slot before.
pub(crate) fn write(words: &Words, refusals: &[u64]) {
    for (word, count) in words.iter().zip(refusals.iter().copied().chain(repeat(0))) {
        word.store(count, Ordering::Relaxed);
    }
}

/// Reads those for which this build knows the reason.
pub(crate) fn read(words: &Words) -> [u64; REFUSALS.len()] {
    array::from_fn(|nth| words[nth].load(Ordering::Relaxed))
}
