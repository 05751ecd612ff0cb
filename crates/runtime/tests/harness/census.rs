//! Values that are counted when they are dropped, and panics that carry one.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::{Arc, Mutex, Once};

/// Makes items and counts the drops of each.
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

    /// Every item was dropped, and none twice.
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

/// The payload of a panic that a test wants.
pub struct Planned {
    pub name: usize,
    _item: Item,
}

/// Panics with a payload that [`caught`] knows, and that is counted.
pub fn panic_as_planned(name: usize, census: &Census) -> ! {
    panic_any(Planned { name, _item: census.item() })
}

/// The name of the planned panic that `f` ends with.
pub fn caught<R>(f: impl FnOnce() -> R) -> usize {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it should have panicked") };
    payload.downcast::<Planned>().expect("the payload arrives as it was thrown").name
}

/// Planned panics print nothing: a failure is not to be looked for among hundreds of them.
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
