//! Empty tasks, each after a pause, like rayon-demo's `noop`. The program measures the cost of waking a pool for almost
//! no work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::catalog::Definition;
use crate::program::{Program, equal, steps};

/// The definition of the program.
pub const DEFINITION: Definition =
    Definition { name: "spawns", summary: "spawn nothing, every two milliseconds", size: 300, prepare };

const PAUSE: Duration = Duration::from_millis(2);

fn prepare(tasks: usize) -> Box<dyn Program> {
    steps(
        || Arc::new(AtomicUsize::new(0)),
        move |done| {
            for _ in 0..tasks {
                thread::sleep(PAUSE);
                let done = Arc::clone(&done);
                rayon::spawn(move || _ = done.fetch_add(1, Ordering::Relaxed));
            }
            while Arc::strong_count(&done) > 1 {
                thread::sleep(PAUSE);
            }
            done.load(Ordering::Relaxed)
        },
        move |done| equal(done, tasks),
    )
}
