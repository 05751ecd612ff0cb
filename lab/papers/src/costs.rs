//! The costs of operations that the papers state, or that their results fix. The setting of each paper takes the costs
//! on which its own claims depend. The comparison of all papers takes all of them, so that no mechanism is free.
//!
//! Times are in nanoseconds. The pages in `docs/papers` give the reasons.

use comity_sim::hypervisor::{Vmm, WeightOf};
use comity_sim::threads::Costs;

/// The time of an attempt to steal. In Cilk, "a steal/mug-cycle takes approximately 0.5 to 5 microseconds" (A-STEAL
/// §3).
pub const STEAL: u64 = 500;

/// The time of a yield of a core. BWS, DWS and Robinhood give no time; their claims sweep it.
pub const YIELD: u64 = 700;

/// The time to send or receive a message (WS-LAST).
pub const MESSAGE: u64 = 50;

/// The fraction of CG's time alone in which it waits for memory, in thousandths (BWS).
pub const CG_MEMORY: u32 = 1_000;

/// The fraction of its time alone in which a data-intensive program waits for memory, in thousandths (DWS).
pub const DATA_MEMORY: u32 = 600;

/// The mean time between two wake-ups of a kernel's thread on a core, if a paper's claims are run with such threads. It
/// is that of Robinhood's Domain 0.
pub const NOISE_EVERY: u64 = 10_000_000;

/// Returns the costs under BWS: with a push that looks for sleepers, and a thief that counts roles (§5.5).
pub fn bws() -> Costs {
    Costs { steal: STEAL, yield_core: YIELD, bell: 500, count: 500, ..Costs::default() }
}

/// Returns the costs under DWS: with caches that are filled again after a switch to another program.
pub fn dws() -> Costs {
    Costs { steal: STEAL, yield_core: YIELD, refill: 30_000, ..Costs::default() }
}

/// Returns the costs in the guests of Robinhood.
pub fn robinhood() -> Costs {
    Costs { steal: STEAL, yield_core: YIELD, ..Costs::default() }
}

/// Returns the costs under WS-LAST, whose run queues have a mutex. A thief looks at a queue under its mutex.
pub fn ws_last() -> Costs {
    Costs {
        queue: 150,
        removal: 1_000,
        handover: 5_000,
        steal: 1_000,
        yield_core: 5_000,
        switch_task: 100,
        ..Costs::default()
    }
}

/// Returns the costs of all papers together. Two papers have their own times of an attempt and of a yield; the times
/// here are those of three of the four.
pub fn all() -> Costs {
    let Costs { queue, removal, handover, switch_task, .. } = ws_last();
    Costs { queue, removal, handover, switch_task, refill: dws().refill, ..bws() }
}

/// Returns the hypervisor of Robinhood (§6): two nodes, a weight for each machine, and Domain 0.
pub fn hypervisor() -> Vmm {
    Vmm {
        weight_of: WeightOf::Machine,
        nodes: 2,
        near: 20_000,
        far: 1_000_000,
        dom0_every: NOISE_EVERY,
        ..Vmm::default()
    }
}
