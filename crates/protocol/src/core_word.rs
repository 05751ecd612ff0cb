//! The state of one core: which program is entitled to it, and which program uses it.
//!
//! # States
//!
//! | owner | holder | the core is | left by |
//! |---|---|---|---|
//! | – or A | – | free: any program may claim it | [`claimed`](CoreWord::claimed) |
//! | A | A | used by the program that is entitled to it | [`released`](CoreWord::released) |
//! | A | B | lent: A may take it back at any time | [`taken_back`](CoreWord::taken_back) by A, [`released`](CoreWord::released) by B |
//! | – | B | used, without an owner | [`released`](CoreWord::released) |
//!
//! In any state, [`granted`](CoreWord::granted) changes the owner, [`without`](CoreWord::without) removes a dead
//! program, and [`seized`](CoreWord::seized) removes a holder that is stopped.
//!
//! # Invariants
//!
//! - A transition that does not fit the state is refused, and changes nothing.
//! - Each transition increments the generation. So if a program is stopped after it read the word, and other programs
//!   change the word, its own change fails.
//! - Only the owner takes a core back. Only the holder releases it. Exception: other programs remove a holder that is
//!   stopped or dead.
//! - A grant does not change the holder. The holder notices the grant at its next look, or when the owner takes the
//!   core back.

use core::fmt;

/// A program's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u8);

impl SlotId {
    /// Returns the place at this index. `None`: there is no such place.
    pub fn new(index: usize) -> Option<SlotId> {
        u8::try_from(index).ok().map(SlotId)
    }

    /// Returns the index, from 0.
    pub fn index(self) -> usize {
        self.0.into()
    }

    fn pack(slot: Option<SlotId>) -> u64 {
        slot.map_or(0, |slot| u64::from(slot.0) + 1)
    }

    /// Unpacks a place. A value that no version of Comity writes is decoded as no program.
    fn unpack(field: u64) -> Option<SlotId> {
        u8::try_from(field.checked_sub(1)?).ok().map(SlotId)
    }
}

/// The state of one core, as the table's word holds it.
///
/// ```text
///   63        32 31    16 15     0
///   │ generation │ owner │ holder │        owner and holder: 0 for no program, else a slot's index plus one
/// ```
///
/// Every change is one of the pure transitions below, made by compare-and-swap. The head of the module lists the
/// states.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoreWord(u64);

impl CoreWord {
    /// The word of a core in a new table: free, and without an owner.
    pub const UNUSED: CoreWord = CoreWord(0);

    /// Decodes a word of the table.
    pub fn from_bits(bits: u64) -> CoreWord {
        CoreWord(bits)
    }

    /// Encodes the state as a word of the table.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the program that is entitled to the core.
    pub fn owner(self) -> Option<SlotId> {
        SlotId::unpack(self.0 >> 16 & 0xffff)
    }

    /// Returns the program that uses the core.
    pub fn holder(self) -> Option<SlotId> {
        SlotId::unpack(self.0 & 0xffff)
    }

    /// Returns the number of changes of the word, modulo 2³².
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// True if no program uses the core.
    pub fn is_free(self) -> bool {
        self.holder().is_none()
    }

    fn next(self, owner: Option<SlotId>, holder: Option<SlotId>) -> CoreWord {
        let generation = u64::from(self.generation().wrapping_add(1));
        CoreWord(generation << 32 | SlotId::pack(owner) << 16 | SlotId::pack(holder))
    }

    /// Returns the word after `by` claims the core. `None`: the core is not free.
    pub fn claimed(self, by: SlotId) -> Option<CoreWord> {
        self.is_free().then(|| self.next(self.owner(), Some(by)))
    }

    /// Returns the word after `by`, the owner, takes the core from the program that uses it. `None`: the core is not
    /// lent by `by`.
    pub fn taken_back(self, by: SlotId) -> Option<CoreWord> {
        let is_lent = self.owner() == Some(by) && self.holder().is_some_and(|holder| holder != by);
        is_lent.then(|| self.next(self.owner(), Some(by)))
    }

    /// Returns the word after `by` stops using the core. `None`: `by` does not hold it.
    pub fn released(self, by: SlotId) -> Option<CoreWord> {
        (self.holder() == Some(by)).then(|| self.next(self.owner(), None))
    }

    /// Returns the word after the core is taken from the stopped program `from`, of which no thread runs on the core.
    /// `None`: `from` does not hold it.
    pub fn seized(self, from: SlotId) -> Option<CoreWord> {
        self.released(from)
    }

    /// Returns the word after `owner` becomes entitled to the core. The program that uses the core continues to use
    /// it. `None`: `owner` is the owner already.
    pub fn granted(self, owner: Option<SlotId>) -> Option<CoreWord> {
        (self.owner() != owner).then(|| self.next(owner, self.holder()))
    }

    /// Returns the word without the dead program as owner or holder. `None`: the word does not name it.
    pub fn without(self, dead: SlotId) -> Option<CoreWord> {
        let others = |slot: Option<SlotId>| slot.filter(|slot| *slot != dead);
        let (owner, holder) = (others(self.owner()), others(self.holder()));
        ((owner, holder) != (self.owner(), self.holder())).then(|| self.next(owner, holder))
    }
}

impl fmt::Debug for CoreWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreWord")
            .field("owner", &self.owner().map(SlotId::index))
            .field("holder", &self.holder().map(SlotId::index))
            .field("generation", &self.generation())
            .finish()
    }
}
