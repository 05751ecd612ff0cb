//! Threads that take the cores from workers.

use std::sync::atomic::{AtomicBool, Ordering};

use comity_os::affinity;
use comity_os::cpu_clock::ThreadId;

/// Runs `work` while two threads on each core compute all the time, so that workers are preempted. The threads are
/// bound to their cores, because otherwise the kernel would move them away from the workers.
pub fn beside_hogs<R>(work: impl FnOnce() -> R) -> R {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for core in affinity::of(ThreadId::current()).iter().flat_map(|core| [core; 2]) {
            scope.spawn({
                let ends = &ends;
                move || {
                    affinity::confine(ThreadId::current(), [core].into_iter().collect());
                    while !ends.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            });
        }
        let _end = End(&ends);
        work()
    })
}
