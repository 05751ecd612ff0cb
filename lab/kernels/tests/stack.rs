//! Tests that nested waits need no more stack than with stock rayon, for each shape of nesting.
//!
//! Every pool has one thread, and every task waits until all tasks of its shape have begun. Therefore both runtimes
//! place all tasks on the same stack, independent of their speed.

#[path = "../../../crates/runtime/tests/harness/watchdog.rs"]
mod watchdog;

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use watchdog::Watchdog;

/// The number of tasks that wait at the same time: far more tasks than a waiting worker of Comity starts without
/// need.
const TASKS: usize = 400;

/// The number of tasks that have begun, and the largest stack depth in bytes at which a task began.
#[derive(Default)]
struct Depth {
    begun: AtomicUsize,
    bytes: AtomicUsize,
}

thread_local! {
    /// The stack address at which this thread's outermost task began.
    static OUTERMOST: Cell<usize> = const { Cell::new(0) };
}

impl Depth {
    /// Records the depth. Each task calls it when it begins.
    #[inline(never)]
    fn note(&self) {
        let local = 0_u8;
        let here = black_box(&raw const local).addr();
        if OUTERMOST.get() == 0 {
            OUTERMOST.set(here);
        }
        self.bytes.fetch_max(OUTERMOST.get().saturating_sub(here), Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Release);
    }

    fn all_have_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire) >= TASKS
    }

    fn hold(&self) {
        while !self.all_have_begun() {
            std::thread::yield_now();
        }
    }
}

/// Defines the shapes for one of the two runtimes, which have the same interface.
macro_rules! shapes {
    ($runtime:ident) => {
        mod $runtime {
            use super::*;

            fn pool() -> ::$runtime::ThreadPool {
                ::$runtime::ThreadPoolBuilder::new().num_threads(1).stack_size(16 << 20).build().unwrap()
            }

            /// Calls `item` for each number by halves, as a parallel iterator does.
            fn halves(from: usize, to: usize, item: &(impl Fn() + Sync)) {
                if to - from == 1 {
                    item();
                    return;
                }
                let middle = from + (to - from) / 2;
                ::$runtime::join(|| halves(from, middle, item), || halves(middle, to, item));
            }

            fn left(depth: &Depth, levels: usize) {
                depth.note();
                if levels > 1 {
                    ::$runtime::join(|| left(depth, levels - 1), || black_box(1));
                }
            }

            fn right(depth: &Depth, levels: usize) {
                depth.note();
                if levels > 1 {
                    ::$runtime::join(|| black_box(1), || right(depth, levels - 1));
                }
            }

            fn scopes(depth: &Depth, levels: usize) {
                depth.note();
                if levels > 1 {
                    ::$runtime::scope(|scope| scope.spawn(|_| scopes(depth, levels - 1)));
                }
            }

            fn scopes_fifo(depth: &Depth, levels: usize) {
                depth.note();
                if levels > 1 {
                    ::$runtime::scope_fifo(|scope| scope.spawn_fifo(|_| scopes_fifo(depth, levels - 1)));
                }
            }

            /// Runs the items of a parallel iteration, each of which waits for another pool by `wait`. Returns the
            /// bytes of stack that all nested waits need together.
            fn items(wait: impl Fn(&Depth, &::$runtime::ThreadPool, &::$runtime::ThreadPool) + Sync) -> usize {
                let (depth, own, other) = (Depth::default(), pool(), pool());
                own.install(|| {
                    halves(0, TASKS, &|| {
                        depth.note();
                        wait(&depth, &own, &other);
                    })
                });
                depth.bytes.into_inner()
            }

            /// Runs tasks that yield until all tasks have begun. Returns the bytes of stack that all nested waits
            /// need together.
            fn yields(yields: fn()) -> usize {
                let (depth, pool) = (Depth::default(), pool());
                pool.scope(|scope| {
                    for _ in 0..TASKS {
                        scope.spawn(|_| {
                            depth.note();
                            while !depth.all_have_begun() {
                                yields();
                            }
                        });
                    }
                });
                depth.bytes.into_inner()
            }

            /// Returns the bytes of stack that all nested waits need together, for detached tasks that a thread
            /// outside the pool spawns.
            fn detached(yields: fn()) -> usize {
                let (depth, pool) = (Arc::new(Depth::default()), pool());
                for _ in 0..TASKS {
                    let depth = Arc::clone(&depth);
                    pool.spawn(move || {
                        depth.note();
                        while !depth.all_have_begun() {
                            yields();
                        }
                    });
                }
                depth.hold();
                depth.bytes.load(Ordering::Relaxed)
            }

            fn in_pool(recurse: fn(&Depth, usize)) -> usize {
                let depth = Depth::default();
                pool().install(|| recurse(&depth, TASKS));
                depth.bytes.into_inner()
            }

            /// Returns the name of each shape, and the bytes of stack that its nested waits of [`TASKS`] tasks need
            /// together.
            pub fn all() -> Vec<(&'static str, usize)> {
                vec![
                    ("left halves", in_pool(left)),
                    ("right halves", in_pool(right)),
                    ("scopes", in_pool(scopes)),
                    ("scopes, the oldest first", in_pool(scopes_fifo)),
                    ("install into another pool", items(|depth, _, other| other.install(|| depth.hold()))),
                    (
                        "there and back",
                        items(|depth, own, other| {
                            other.install(|| {
                                depth.hold();
                                own.install(|| other.install(|| ()));
                            })
                        }),
                    ),
                    (
                        "a scope in another pool",
                        items(|depth, _, other| other.scope(|scope| scope.spawn(|_| depth.hold()))),
                    ),
                    (
                        "a scope in place in another pool",
                        items(|depth, _, other| other.in_place_scope(|scope| scope.spawn(|_| depth.hold()))),
                    ),
                    (
                        "a broadcast to another pool",
                        items(|depth, _, other| other.broadcast(|_| depth.hold()).truncate(0)),
                    ),
                    ("yields", yields(|| _ = ::$runtime::yield_now())),
                    ("yields to what is queued here", yields(|| _ = ::$runtime::yield_local())),
                    ("yields of detached tasks", detached(|| _ = ::$runtime::yield_now())),
                ]
            }
        }
    };
}

shapes!(comity);
shapes!(rayon);

#[test]
fn nested_waits_need_no_more_stack_than_over_stock_rayon() {
    let watchdog = Watchdog::start("nested_waits_need_no_more_stack_than_over_stock_rayon");
    watchdog.step("Comity");
    let ours = comity::all();
    watchdog.step("stock rayon");
    let stock = rayon::all();
    let mut deeper = Vec::new();
    for ((shape, ours), (_, stock)) in ours.into_iter().zip(stock) {
        println!("{shape}: {} bytes a task, stock rayon {}", ours / TASKS, stock / TASKS);
        // With assertions, a frame of Comity may save one more register, which takes 16 bytes because frames are
        // aligned.
        if ours > stock + 16 * TASKS {
            deeper.push(shape);
        }
    }
    assert!(deeper.is_empty(), "deeper than over stock rayon: {deeper:?}");
}
