//! The pools of a parent in a forked child, and the child's own pools.
// Only Linux offers what these tests are about.
#![cfg(not(any(loom, comity_portable)))]

#[path = "harness/child.rs"]
mod child;
#[path = "harness/fib.rs"]
mod fib;
#[path = "harness/forked.rs"]
mod forked;
#[path = "harness/neighbour.rs"]
mod neighbour;
#[path = "harness/watchdog.rs"]
mod watchdog;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use comity::{Policy, ThreadPoolBuilder};
use comity_os::cpu_clock::ThreadId;
use comity_table::{Location, Snapshot};
use fib::fib;
use forked::in_a_fork;
use neighbour::Neighbour;
use watchdog::Watchdog;

/// Uses one MiB of stack per level.
fn deep(levels: u32) -> u32 {
    let frame = std::hint::black_box([1u8; 1 << 20]);
    if levels == 0 { 0 } else { deep(levels - 1) + u32::from(frame[levels as usize]) }
}

#[test]
fn a_forked_child_has_a_global_pool_of_its_own() {
    let watchdog = Watchdog::start("a_forked_child_has_a_global_pool_of_its_own");
    for policy in Policy::all() {
        for role in [
            "idle",
            "busy",
            "before its first use",
            "from a worker",
            "deep stacks",
            "with handles",
            "while pools come and go",
        ] {
            watchdog.step(format!("{role} under {policy}"));
            let mut command = child::command(role);
            command.env("COMITY_POLICY", policy.to_string());
            let output = child::run(command);
            assert!(output.status.success(), "{role} under {policy}: {}", child::stderr(&output));
        }
    }
}

/// Plays a role in a process with a separate core table.
fn with_a_table(role: &str, policy: &str) {
    let table = std::env::temp_dir().join(format!("comity-{role}-{}", std::process::id()));
    let mut command = child::command(role);
    command.env("COMITY_POLICY", policy).env("COMITY_TABLE", &table);
    let output = child::run(command);
    let _ = std::fs::remove_file(table);
    assert!(output.status.success(), "{}", child::stderr(&output));
}

#[test]
fn a_child_that_is_forked_while_another_thread_asks_for_nodes_of_cores_can_ask_too() {
    let watchdog = Watchdog::start("a_child_that_is_forked_while_another_thread_asks_for_nodes_of_cores_can_ask_too");
    watchdog.step("nodes");
    let output = child::run(child::command("nodes"));
    assert!(output.status.success(), "{}", child::stderr(&output));
}

/// Checks that two children of one parent have different program numbers. With the same number, the table would treat
/// them as one program with one share.
#[test]
fn forked_siblings_are_different_programs() {
    let watchdog = Watchdog::start("forked_siblings_are_different_programs");
    watchdog.step("siblings");
    with_a_table("siblings", "comity");
}

#[test]
fn what_a_confined_worker_starts_is_not_confined() {
    if comity_os::cores::usable().get() < 2 {
        println!("skipped: this takes two cores");
        return;
    }
    let watchdog = Watchdog::start("what_a_confined_worker_starts_is_not_confined");
    watchdog.step("confined");
    with_a_table("confined", "dws");
}

/// Returns the number of cores that the calling thread may use.
fn allowed() -> usize {
    comity_os::affinity::of(ThreadId::current()).len()
}

/// Returns the number of this process in the core table, once it is there.
fn number_in_the_table() -> u64 {
    let table = Location::from_environment().unwrap();
    loop {
        assert_eq!(fib(20), 6765);
        let programs = Snapshot::take(&table).unwrap().map_or(Vec::new(), |snapshot| snapshot.programs);
        if let Some(own) = programs.iter().find(|program| program.pid == std::process::id()) {
            return own.program;
        }
    }
}

#[test]
#[ignore = "a role that the other tests play in a process of their own"]
fn child() {
    let Some(role) = child::role() else { return };
    let build = || ThreadPoolBuilder::new().num_threads(3).build_global();
    // The same holds for a grandchild as for a child. Calls to the parent's pools must panic, and must not hang.
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let uses_it = || {
        let inherited = comity::current_num_threads() == 3 && comity::current_thread_index().is_none();
        let works = fib(20) == 6765 && comity::broadcast(|context| context.index()) == [0, 1, 2];
        let refused = catch_unwind(AssertUnwindSafe(|| pool.install(|| 1))).unwrap_err();
        let sentence = refused.downcast_ref::<&str>().copied().unwrap_or_default();
        let raids = comity_os::barrier::heavy() == comity_os::barrier::is_available();
        inherited && works && raids && sentence.contains("built before a fork")
    };
    let with_a_grandchild = || uses_it() && in_a_fork(uses_it);
    match role.as_str() {
        "siblings" => {
            let mut numbers = vec![number_in_the_table()];
            for _ in 0..2 {
                let (mut from_child, mut to_parent) = UnixStream::pair().unwrap();
                assert!(in_a_fork(|| to_parent.write_all(&number_in_the_table().to_le_bytes()).is_ok()));
                let mut number = [0; 8];
                from_child.read_exact(&mut number).unwrap();
                numbers.push(u64::from_le_bytes(number));
            }
            assert_eq!(BTreeSet::from_iter(&numbers).len(), 3, "{numbers:?}");
        }
        "confined" => {
            let all = allowed();
            let _neighbour = Neighbour::start();
            let sharing = ThreadPoolBuilder::new().num_threads(all).build().unwrap();
            sharing.install(|| {
                while allowed() > 1 {
                    assert_eq!(fib(20), 6765);
                }
                let child = move || allowed() == all && fib(20) == 6765 && comity::current_num_threads() == all;
                assert!(in_a_fork(child));
                let pool = ThreadPoolBuilder::new().policy(Policy::plain()).build().unwrap();
                assert_eq!(pool.broadcast(|_| allowed()), vec![all; all]);
            });
        }
        "nodes" => {
            let ask = || (0..1024).map(comity_os::cores::node).sum::<usize>();
            let asks = std::thread::spawn(ask);
            while !asks.is_finished() {
                assert!(in_a_fork(|| ask() < usize::MAX));
            }
        }
        "idle" => {
            build().unwrap();
            assert_eq!(fib(20), 6765);
            for _ in 0..20 {
                assert!(in_a_fork(with_a_grandchild));
            }
            assert!(in_a_fork(|| ThreadPoolBuilder::new().num_threads(5).build_global().is_ok()));
            assert!(uses_the_parents(&pool));
        }
        "busy" => {
            build().unwrap();
            let end = AtomicBool::new(false);
            let has_begun = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    has_begun.wait();
                    while !end.load(Ordering::Relaxed) {
                        assert_eq!(fib(15), 610);
                    }
                });
                has_begun.wait();
                for _ in 0..30 {
                    assert!(in_a_fork(with_a_grandchild));
                }
                end.store(true, Ordering::Relaxed);
            });
        }
        "before its first use" => {
            assert!(in_a_fork(|| build().is_ok() && uses_it()));
            build().unwrap();
            assert_eq!(fib(20), 6765);
        }
        "deep stacks" => {
            ThreadPoolBuilder::new().stack_size(64 << 20).build_global().unwrap();
            assert!(in_a_fork(|| comity::scope(|_| deep(40)) == 40));
        }
        "while pools come and go" => {
            let end = AtomicBool::new(false);
            let has_begun = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    has_begun.wait();
                    while !end.load(Ordering::Relaxed) {
                        drop(ThreadPoolBuilder::new().num_threads(2).build().unwrap());
                    }
                });
                has_begun.wait();
                for _ in 0..100 {
                    assert!(in_a_fork(|| fib(20) == 6765));
                }
                end.store(true, Ordering::Relaxed);
            });
        }
        "with handles" => {
            build().unwrap();
            // Dropping the parent's handles has no effect in the child. The child's new threads may have the
            // identifiers of the parent's threads.
            assert!(in_a_fork(move || {
                let own = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
                let refused = catch_unwind(AssertUnwindSafe(|| pool.in_place_scope(|scope| scope.spawn(|_| ()))));
                let shut_down = catch_unwind(AssertUnwindSafe(|| pool.shutdown()));
                own.shutdown();
                refused.is_err() && shut_down.is_err()
            }));
        }
        "from a worker" => {
            build().unwrap();
            let (forked, _) = comity::join(|| in_a_fork(uses_it), || fib(10));
            assert!(forked);
        }
        other => panic!("no role {other}"),
    }
}

/// True if the parent's pools still work.
fn uses_the_parents(pool: &comity::ThreadPool) -> bool {
    pool.install(|| fib(20)) == 6765 && fib(20) == 6765
}
