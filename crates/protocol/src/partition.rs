//! Which cores each program is entitled to: computed by every program alike, from what the table says.
//!
//! There are no states: a pure function of what programs ask for, which program owns and which holds each core, and
//! the time.
//!
//! # Invariants
//!
//! - Programs that see the same table at the same time compute the same owners.
//! - A core has one owner at most, which has work and may use the core.
//! - How many cores a program owns is [`deq_in_turn`]'s to say, or [`gangs_in_turn`]'s, and more only where some are
//!   left.
//! - A program keeps what it owns before it gets what it holds, and that before any other: so little moves.

use alloc::vec;
use alloc::vec::Vec;

use comity_policy::allotment::{Allotted, Claim, Division, deq_in_turn, gangs_in_turn};

use crate::{CoreSet, SlotId};

/// A program that has work.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    /// Its place.
    pub slot: SlotId,
    /// What it asks for.
    pub claim: Claim,
    /// The cores that it may use at all.
    pub may_use: CoreSet,
}

/// The owner of each core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// By core.
    pub owners: Vec<Option<SlotId>>,
    /// By party: how long until a turn of its begins or ends, in units of 2⁻⁶⁴ of a frame.
    pub until_change: Vec<Option<u64>>,
}

/// The owner of each core, for the cores from 0 to one less than the length of `owners`, which holds the present
/// owners.
///
/// How many each gets is [`deq_in_turn`]'s to say, or [`gangs_in_turn`]'s where programs have all cores in turn. Which
/// ones: those that it has, so that little moves; then those that it uses already; then the lowest. Programs that come
/// one after the other so get adjacent cores (DWS §3.1). Where affinities keep a program from its share, or a gang
/// does not desire all cores, what is left goes to those that still desire some.
pub fn partition(
    parties: &[Party],
    division: Division,
    owners: &[Option<SlotId>],
    holder: impl Fn(usize) -> Option<SlotId>,
    phase: u64,
) -> Partition {
    let in_use = parties.iter().fold(CoreSet::EMPTY, |all, party| all.union(party.may_use));
    let cores: Vec<usize> = in_use.iter().filter(|core| *core < owners.len()).collect();
    let claims: Vec<Claim> = parties
        .iter()
        // No program can use more cores than its affinity allows.
        .map(|party| Claim { desire: party.claim.desire.min(party.may_use.len() as u32), ..party.claim })
        .collect();
    let divide = if division == Division::Time { gangs_in_turn } else { deq_in_turn };
    let allotted = divide(cores.len() as u32, &claims, phase);
    let mut left: Vec<u32> = allotted.iter().map(|Allotted { cores, .. }| *cores).collect();
    let mut partition = vec![None; owners.len()];
    // Counted along: with 256 programs on 1,024 cores, counting them for each core takes 66 ms instead of 1.
    let mut has = vec![0; parties.len()];
    let mut give = |core: usize, nth: usize, partition: &mut [Option<SlotId>], has: &mut [u32]| {
        if partition[core].is_none() && left[nth] > 0 && parties[nth].may_use.contains(core) {
            partition[core] = Some(parties[nth].slot);
            left[nth] -= 1;
            has[nth] += 1;
        }
    };
    let find = |slot: Option<SlotId>| parties.iter().position(|party| Some(party.slot) == slot);
    for core in &cores {
        if let Some(nth) = find(owners[*core]) {
            give(*core, nth, &mut partition, &mut has);
        }
    }
    for core in &cores {
        if let Some(nth) = find(holder(*core)) {
            give(*core, nth, &mut partition, &mut has);
        }
    }
    for nth in 0..parties.len() {
        for core in &cores {
            give(*core, nth, &mut partition, &mut has);
        }
    }
    for core in &cores {
        let could =
            (0..parties.len()).filter(|nth| parties[*nth].may_use.contains(*core) && has[*nth] < claims[*nth].desire);
        let weighted = |nth: &usize| (u128::from(has[*nth]) << 64) / u128::from(claims[*nth].weight.max(1));
        if partition[*core].is_none()
            && let Some(nth) = could.min_by_key(weighted)
        {
            partition[*core] = Some(parties[nth].slot);
            has[nth] += 1;
        }
    }
    Partition {
        owners: partition,
        until_change: allotted.iter().map(|Allotted { until_change, .. }| *until_change).collect(),
    }
}
