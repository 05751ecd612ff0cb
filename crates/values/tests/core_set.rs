//! Tests of core sets.

use comity_values::{CORES, CoreSet, SharedCoreSet};

#[test]
fn a_core_set_holds_what_was_put_in() {
    let mut set: CoreSet = [3, 64, 1023, 0, 1024].into_iter().collect();
    assert_eq!((set.iter().collect::<Vec<_>>(), set.len()), (vec![0, 3, 64, 1023], 4));
    set.remove(3);
    assert!(!set.contains(3) && set.contains(64) && !set.contains(9_999));
    assert_eq!(set.union([5].into_iter().collect()).len(), 4);
    assert_eq!(set.intersection([0, 5, 64].into_iter().collect()).iter().collect::<Vec<_>>(), [0, 64]);
    assert!(CoreSet::EMPTY.is_empty() && !set.is_empty());
    let shared = SharedCoreSet::default();
    set.store(&shared);
    assert_eq!(CoreSet::load(&shared), set);
    assert_eq!(CoreSet::ALL.len(), CORES);
}
