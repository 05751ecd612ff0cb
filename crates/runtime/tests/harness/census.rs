//! Values whose drops are counted, and panics whose payload is such a value.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex, Once};

/// A maker of items, which counts the drops of each item.
#[derive(Clone, Default)]
pub struct Census(Arc<Mutex<Vec<u32>>>);

/// A value that counts its drop.
pub struct Item {
    census: Census,
    index: usize,
}

impl Census {
    pub fn item(&self) -> Item {
        let mut drops = self.0.lock().unwrap();
        drops.push(0);
        Item { census: self.clone(), index: drops.len() - 1 }
    }

    /// Panics unless every item was dropped exactly once.
    pub fn assert_each_dropped_once(&self) {
        let drops = self.0.lock().unwrap();
        assert!(!drops.is_empty(), "nothing was counted");
        assert!(drops.iter().all(|drops| *drops == 1), "drops of each item: {drops:?}");
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.census.0.lock().unwrap()[self.index] += 1;
    }
}

/// The payload of a panic that a test causes on purpose.
pub struct Planned {
    pub name: usize,
    _item: Item,
}

/// Panics with a payload that [`caught`] recognizes, and whose drop is counted.
pub fn panic_as_planned(name: usize, census: &Census) -> ! {
    panic_any(Planned { name, _item: census.item() })
}

/// Returns the name of the planned panic with which `f` ends.
pub fn caught<R>(f: impl FnOnce() -> R) -> usize {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it should have panicked") };
    payload.downcast::<Planned>().expect("the payload arrives as it was thrown").name
}

/// Makes planned panics print nothing, so that a real failure is not hidden among hundreds of them.
pub fn silence_planned_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                others(info);
            }
        }));
    });
}
