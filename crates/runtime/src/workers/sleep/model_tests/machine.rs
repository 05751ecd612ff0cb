//! The cores of the model world.

use std::cell::Cell;

use comity_protocol::activation::Cores;
use comity_protocol::table::Gain;
use comity_table::CoreSet;

/// The cores of a machine: cores of this pool, cores of other programs, and free cores. The cores that the pool owns
/// are drawn at random.
#[derive(Default)]
pub(super) struct Machine {
    cores: usize,
    held: Cell<CoreSet>,
    others: Cell<CoreSet>,
    /// True if the pool has announced that it wants a core.
    pub(super) wants: Cell<bool>,
    lot: Cell<u64>,
}

/// Changes the set, for example adds or removes a core.
fn change(set: &Cell<CoreSet>, change: impl FnOnce(&mut CoreSet)) {
    let mut changed = set.get();
    change(&mut changed);
    set.set(changed);
}

impl Machine {
    pub(super) fn new(cores: usize, seed: u64) -> Machine {
        Machine { cores, lot: Cell::new(seed), ..Machine::default() }
    }

    fn draw(&self) -> bool {
        self.lot.set(self.lot.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        self.lot.get() >> 63 == 1
    }

    fn free(&self) -> Option<usize> {
        (0..self.cores).find(|core| !self.held.get().contains(*core) && !self.others.get().contains(*core))
    }

    /// Lets another program claim a core, take one back or release one.
    pub(super) fn another_moves(&self) {
        let first = |set: &Cell<CoreSet>| set.get().iter().next();
        if self.draw() {
            if let Some(core) = first(&self.others) {
                change(&self.others, |others| others.remove(core));
            }
        } else if let Some(core) = self.free().or_else(|| first(&self.held)) {
            change(&self.held, |held| held.remove(core));
            change(&self.others, |others| others.insert(core));
        }
    }
}

impl Cores for Machine {
    fn held(&self) -> CoreSet {
        self.held.get()
    }

    fn gain(&self, how: Gain) -> Option<usize> {
        let core = match how {
            Gain::Claim { .. } => self.free()?,
            Gain::TakeBack => self.others.get().iter().next().filter(|_| self.draw())?,
        };
        change(&self.others, |others| others.remove(core));
        change(&self.held, |held| held.insert(core));
        Some(core)
    }

    fn release(&self, core: Option<usize>) -> Option<usize> {
        let held = self.held.get();
        let core = core.or_else(|| held.iter().next()).filter(|core| held.contains(*core))?;
        change(&self.held, |held| held.remove(core));
        Some(core)
    }

    fn any_free(&self) -> bool {
        self.free().is_some()
    }

    fn want(&self, wants: bool) {
        self.wants.set(wants);
    }

    fn reclaim(&self) {}

    fn decline(&self) {}

    fn is_core_wanted(&self) -> bool {
        false
    }
}
