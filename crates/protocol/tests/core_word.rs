//! Tests of the transitions of one core.

use comity_protocol::{CoreWord, SlotId};
use proptest::prelude::*;

fn slot() -> impl Strategy<Value = SlotId> {
    (0usize..=255).prop_map(|index| SlotId::new(index).unwrap())
}

proptest! {
    /// Tests any word, including words that no program of Comity has written.
    #[test]
    fn each_transition_changes_what_it_says_and_counts_once(bits: u64, by in slot(), other in proptest::option::of(slot())) {
        let word = CoreWord::from_bits(bits);
        let (owner, holder) = (word.owner(), word.holder());
        let counted = |next: CoreWord| next.generation() == word.generation().wrapping_add(1);

        match word.claimed(by) {
            Some(next) => prop_assert!(
                holder.is_none() && counted(next) && (next.owner(), next.holder()) == (owner, Some(by))
            ),
            None => prop_assert!(holder.is_some()),
        }
        match word.taken_back(by) {
            Some(next) => prop_assert!(
                owner == Some(by) && holder.is_some() && holder != Some(by) && counted(next)
                    && (next.owner(), next.holder()) == (Some(by), Some(by))
            ),
            None => prop_assert!(owner != Some(by) || holder.is_none() || holder == Some(by)),
        }
        match word.released(by) {
            Some(next) => prop_assert!(
                holder == Some(by) && counted(next) && (next.owner(), next.holder()) == (owner, None)
            ),
            None => prop_assert!(holder != Some(by)),
        }
        match word.granted(other) {
            Some(next) => prop_assert!(
                owner != other && counted(next) && (next.owner(), next.holder()) == (other, holder)
            ),
            None => prop_assert!(owner == other),
        }
        match word.without(by) {
            Some(next) => prop_assert!(
                counted(next) && next.owner() != Some(by) && next.holder() != Some(by)
                    && (owner == Some(by) || next.owner() == owner)
                    && (holder == Some(by) || next.holder() == holder)
            ),
            None => prop_assert!(owner != Some(by) && holder != Some(by)),
        }
    }
}

#[test]
fn every_slot_can_be_named() {
    for index in 0..=255 {
        let slot = SlotId::new(index).unwrap();
        let word = CoreWord::UNUSED.claimed(slot).unwrap().granted(Some(slot)).unwrap();
        assert_eq!((word.owner(), word.holder(), word.generation()), (Some(slot), Some(slot), 2));
    }
    assert_eq!(SlotId::new(256), None);
}
