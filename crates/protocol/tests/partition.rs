//! Tests of the cores that each program is entitled to.

use comity_policy::allotment::{Claim, Division};
use comity_protocol::{Party, SlotId};
use proptest::prelude::*;

fn partition(
    parties: &[Party],
    owners: &[Option<SlotId>],
    holder: impl Fn(usize) -> Option<SlotId>,
    phase: u64,
) -> Vec<Option<SlotId>> {
    comity_protocol::partition(parties, Division::Equal, owners, holder, phase).owners
}

fn party(slot: usize, desire: u32, cores: impl IntoIterator<Item = usize>) -> Party {
    Party {
        slot: SlotId::new(slot).unwrap(),
        claim: Claim { program: slot as u64, weight: 100, desire },
        may_use: cores.into_iter().collect(),
    }
}

fn slots(partition: &[Option<SlotId>]) -> Vec<i32> {
    partition.iter().map(|owner| owner.map_or(-1, |slot| slot.index() as i32)).collect()
}

#[test]
fn programs_that_come_one_after_the_other_get_equal_adjacent_shares() {
    let mut owners = vec![None; 8];
    owners = partition(&[party(0, 8, 0..8)], &owners, |_| None, 0);
    assert_eq!(slots(&owners), [0; 8]);
    owners = partition(&[party(0, 8, 0..8), party(3, 8, 0..8)], &owners, |_| None, 0);
    assert_eq!(slots(&owners), [0, 0, 0, 0, 3, 3, 3, 3]);
    let three = [party(0, 8, 0..8), party(1, 8, 0..8), party(3, 8, 0..8)];
    owners = partition(&three, &owners, |_| None, 0);
    assert_eq!(slots(&owners), [0, 0, 0, 1, 3, 3, 1, 1]);
    owners = partition(&three[1..], &owners, |_| None, 0);
    assert_eq!(slots(&owners), [1, 3, 3, 1, 3, 3, 1, 1]);
}

#[test]
fn what_a_program_uses_already_becomes_its_own_first() {
    let holder = |core| (core == 5).then(|| SlotId::new(1).unwrap());
    let owners = partition(&[party(0, 1, 0..6), party(1, 1, 0..6)], &[None; 6], holder, 0);
    assert_eq!(slots(&owners), [0, -1, -1, -1, -1, 1]);
}

#[test]
fn affinities_are_kept_and_what_one_cannot_use_goes_to_others() {
    let parties = [party(0, 16, 0..4), party(1, 16, 4..16)];
    let owners = partition(&parties, &[None; 16], |_| None, 0);
    assert_eq!(slots(&owners), [[0; 4].as_slice(), &[1; 12]].concat());
}

#[test]
fn what_affinities_leave_over_goes_by_weight_however_large_the_weights() {
    for weight in [1, 100, 10_000_000] {
        let party = |slot, cores: std::ops::Range<usize>| {
            let party = party(slot, 12, cores);
            Party { claim: Claim { weight, ..party.claim }, ..party }
        };
        let parties = [party(0, 0..4), party(1, 0..4), party(2, 4..12), party(3, 4..12)];
        let owners = slots(&partition(&parties, &[None; 12], |_| None, 0));
        let of = |slot| owners.iter().filter(|owner| **owner == slot).count();
        assert_eq!([0, 1, 2, 3].map(of), [3, 1, 4, 4], "{weight}");
    }
}

#[test]
fn a_full_table_of_small_programs_on_the_largest_machine_is_divided() {
    let parties: Vec<Party> = (0..256).map(|slot| party(slot, 2, 0..1024)).collect();
    let mut owners = vec![None; 1024];
    for phase in (0..100).map(|nth| nth << 56) {
        owners = partition(&parties, &owners, |_| None, phase);
        assert_eq!(owners.iter().flatten().count(), 512);
    }
}

proptest! {
    #[test]
    fn no_program_gets_what_it_may_not_use_or_more_than_it_desires_and_nothing_lies_idle(
        wishes in proptest::collection::vec((0u32..10, any::<u32>(), 1u32..5), 0..6),
        before in proptest::collection::vec(proptest::option::of(0usize..8), 16),
        phase: u64,
    ) {
        let parties: Vec<Party> = wishes.iter().enumerate().map(|(nth, (desire, mask, weight))| {
            let mut party = party(nth, *desire, (0..16).filter(|core| mask >> core & 1 == 1));
            party.claim.weight = *weight;
            party
        }).collect();
        let before: Vec<Option<SlotId>> = before.into_iter().map(|slot| slot.and_then(SlotId::new)).collect();
        let after = partition(&parties, &before, |_| None, phase);
        for (nth, party) in parties.iter().enumerate() {
            let own: Vec<usize> = (0..16).filter(|core| after[*core] == Some(party.slot)).collect();
            prop_assert!(own.iter().all(|core| party.may_use.contains(*core)));
            prop_assert!(own.len() <= party.claim.desire as usize, "{nth}");
            if own.len() < party.claim.desire as usize {
                prop_assert!(party.may_use.iter().all(|core| after[core].is_some()));
            }
        }
        // After some rounds the owners no longer change. If all programs may use the same cores, one round is enough.
        let mut settled = after;
        for _ in 0..8 {
            settled = partition(&parties, &settled, |_| None, phase);
        }
        prop_assert_eq!(partition(&parties, &settled, |_| None, phase), settled);
    }
}
