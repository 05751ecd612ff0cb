//! The division of the cores among programs. Every program computes it in the same way from the table.
//!
//! The division is a pure function of the programs' claims, the owner and the holder of each core, and the time.
//!
//! # Invariants
//!
//! - Programs that see the same table at the same time compute the same owners.
//! - A core has at most one owner. The owner has work and may use the core.
//! - [`deq_in_turn`] or [`gangs_in_turn`] determines the number of cores of each program. A program gets more only if
//!   cores are left over.
//! - A program keeps cores that it owns, then gets cores that it holds, then other cores. So few cores change their
//!   owner.

use alloc::vec;
use alloc::vec::Vec;

use comity_policy::allotment::{Allotted, Claim, Division, deq_in_turn, gangs_in_turn};

use crate::{CoreSet, SlotId};

/// A program, or a pool of a program, that has work.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    /// The program's place in the table.
    pub slot: SlotId,
    /// The program's claim.
    pub claim: Claim,
    /// The cores that the program may use.
    pub may_use: CoreSet,
}

/// The owner of each core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The owners, by core.
    pub owners: Vec<Option<SlotId>>,
    /// The time until a turn of the party begins or ends, by party, in units of 2⁻⁶⁴ of a frame. `None`: the party has
    /// no turns.
    pub until_change: Vec<Option<u64>>,
}

/// Returns the new owner of each core from 0 to `owners.len() - 1`. `owners` has the present owners.
///
/// [`deq_in_turn`] determines how many cores each program gets, or [`gangs_in_turn`] if programs have all cores in
/// turn. A program keeps the cores that it owns, so few cores change their owner. Then it gets cores that it uses
/// already, then the free cores with the lowest numbers. So programs that start one after another get adjacent cores
/// (DWS §3.1). Cores are left over if a program's affinity does not allow its share, or a program in turn does not
/// request all cores. These cores go to programs that have fewer cores than they requested.
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
    // The counts are updated incrementally. With 256 programs on 1,024 cores, counting again for each core takes 66
    // ms instead of 1 ms.
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
