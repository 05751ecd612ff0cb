//! Sets of cores. A set has no states: it is a value, and its operations are those of sets.
//!
//! A set that threads share is read and written word by word, each word atomically, and the whole not.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// How many cores there are room for. No more fit into the masks that are exchanged with the kernel.
pub const CORES: usize = 1024;

/// A set of cores, by the kernel's numbers; [`CORES`] and what is above is never in it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreSet {
    words: [u64; CORES / 64],
}

/// A place for a set that several threads read and write, word by word. A thread that reads while another writes may
/// find a part of each.
pub type SharedCoreSet = [AtomicU64; CORES / 64];

impl CoreSet {
    /// No core.
    pub const EMPTY: CoreSet = CoreSet { words: [0; CORES / 64] };

    /// All cores that there could be.
    pub const ALL: CoreSet = CoreSet { words: [u64::MAX; CORES / 64] };

    /// The set that was stored there.
    pub fn load(from: &SharedCoreSet) -> CoreSet {
        CoreSet { words: core::array::from_fn(|nth| from[nth].load(Ordering::Relaxed)) }
    }

    /// Stores the set there.
    pub fn store(self, to: &SharedCoreSet) {
        to.iter().zip(self.words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }

    /// Adds a core.
    pub fn insert(&mut self, core: usize) {
        if core < CORES {
            self.words[core / 64] |= 1 << (core % 64);
        }
    }

    /// Takes a core out.
    pub fn remove(&mut self, core: usize) {
        if core < CORES {
            self.words[core / 64] &= !(1 << (core % 64));
        }
    }

    /// Whether the core is in the set.
    pub fn contains(&self, core: usize) -> bool {
        core < CORES && self.words[core / 64] >> (core % 64) & 1 == 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The cores in ascending order.
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

    /// Those in either.
    pub fn union(mut self, other: CoreSet) -> CoreSet {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
        self
    }

    /// Those in both.
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
