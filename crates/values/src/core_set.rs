//! Sets of cores. A set is a plain value.
//!
//! Threads read and write a shared set word by word. Each word is atomic, but the whole set is not.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// The number of possible cores of a set. The affinity masks that Comity exchanges with the kernel have this size too.
pub const CORES: usize = 1024;

/// A set of cores, by the kernel's numbers, each less than [`CORES`].
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreSet {
    words: [u64; CORES / 64],
}

/// Storage for a set that several threads read and write, word by word. A thread that reads during a write may get
/// words of the old set and words of the new set.
pub type SharedCoreSet = [AtomicU64; CORES / 64];

impl CoreSet {
    /// The empty set.
    pub const EMPTY: CoreSet = CoreSet { words: [0; CORES / 64] };

    /// The set of all possible cores.
    pub const ALL: CoreSet = CoreSet { words: [u64::MAX; CORES / 64] };

    /// Returns the set that is stored in `from`.
    pub fn load(from: &SharedCoreSet) -> CoreSet {
        CoreSet { words: core::array::from_fn(|nth| from[nth].load(Ordering::Relaxed)) }
    }

    /// Stores the set in `to`.
    pub fn store(self, to: &SharedCoreSet) {
        to.iter().zip(self.words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }

    /// Adds a core. Does nothing if the number is [`CORES`] or higher.
    pub fn insert(&mut self, core: usize) {
        if core < CORES {
            self.words[core / 64] |= 1 << (core % 64);
        }
    }

    /// Removes a core.
    pub fn remove(&mut self, core: usize) {
        if core < CORES {
            self.words[core / 64] &= !(1 << (core % 64));
        }
    }

    /// True if the core is in the set.
    pub fn contains(&self, core: usize) -> bool {
        core < CORES && self.words[core / 64] >> (core % 64) & 1 == 1
    }

    /// Returns the number of cores in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if the set has no core.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.words;
        (0..CORES / 64).flat_map(move |nth| {
            let mut word = words[nth];
            core::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(nth * 64 + bit)
            })
        })
    }

    /// Returns the cores that are in at least one of the two sets.
    pub fn union(mut self, other: CoreSet) -> CoreSet {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
        self
    }

    /// Returns the cores that are in both sets.
    pub fn intersection(mut self, other: CoreSet) -> CoreSet {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
        self
    }
}

impl FromIterator<usize> for CoreSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cores: I) -> CoreSet {
        let mut set = CoreSet::EMPTY;
        cores.into_iter().for_each(|core| set.insert(core));
        set
    }
}

impl fmt::Debug for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
