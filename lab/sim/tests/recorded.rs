//! Tests of recorded programs, repeating programs, and LOOP, on a host under every policy.

use std::sync::Arc;

use comity_graph::{About, Graph, Step, Stretch, Task};
use comity_policy::Policy;
use comity_sim::program::{Endless, Fork, ForkJoin, Recorded};
use comity_sim::threads::{Costs, Host};

const MS: u64 = 1_000_000;

/// Creates a graph with some serial time, followed by 50 phases of 16 leaves of 20 to 60 µs.
fn graph() -> Arc<Graph> {
    let run = |length| Step::Run(Stretch::of(length, 0));
    let leaf = Task(vec![Step::Run(Stretch::distributed((0..50).map(|nth| 20_000 + 800 * nth).collect(), 0))]);
    let mut tasks = vec![leaf];
    for level in 0..3 {
        tasks.push(Task(vec![run(50), Step::Fork(vec![level, level]), run(20)]));
    }
    tasks.push(Task(vec![run(3_000), Step::Fork(vec![3, 3])]));
    tasks.push(Task(vec![run(100_000), Step::Repeat { task: 4, times: 50 }, run(5_000)]));
    Arc::new(Graph::new(About::default(), tasks).unwrap())
}

fn policies() -> impl Iterator<Item = Policy> {
    Policy::all()
}

#[test]
fn a_recorded_program_does_its_work_once_under_every_policy() {
    let graph = graph();
    for policy in policies() {
        for (cores, workers) in [(1, 1), (2, 2), (4, 8)] {
            let mut host = Host::new(cores, Costs::default(), 7);
            let program = Recorded::new(Arc::clone(&graph), 7);
            let number = host.submit(0, Box::new(program), policy, workers, 7);
            host.run(1_000 * MS, 1).unwrap_or_else(|what| panic!("{policy} on {cores} cores: {what}"));
            let (fate, found) = (host.fate(number), graph.measure(7));
            assert_eq!(fate.spent.work, found.work, "{policy} on {cores} cores");
            assert!(fate.ended.expect("it ends") >= found.span.max(found.work / cores as u64), "{policy}");
        }
    }
}

#[test]
fn whole_executions_are_counted_under_every_policy() {
    for policy in policies() {
        let mut host = Host::new(2, Costs::default(), 3);
        let again = host.submit(0, Box::new(Recorded::new(graph(), 3)), policy, 2, 3);
        host.repeat(again);
        let other = host.submit(MS, Box::new(ForkJoin::new(1_000, 30_000, 12, 40, Fork::Tree)), policy, 2, 4);
        host.repeat(other);
        host.run(400 * MS, 1).unwrap_or_else(|what| panic!("{policy}: {what}"));
        assert_eq!((host.now(), host.fate(again).ended), (400 * MS, None), "{policy}");
        let work = graph().measure(3).work;
        for (number, work) in [(again, work), (other, 40 * (1_000 + 11 + 12 * 30_000))] {
            let ends = host.executions(number);
            assert!(ends.len() >= 2 && ends.is_sorted(), "{policy}: {ends:?}");
            // The workers did the work of all complete executions, and a part of the next execution.
            let done = host.fate(number).spent.work;
            let whole = ends.len() as u64;
            assert!((whole * work..(whole + 1) * work).contains(&done), "{policy}: {whole} of {work}, and {done}");
        }
    }
}

#[test]
fn a_program_ends_beside_those_that_do_not() {
    for policy in policies() {
        let mut host = Host::new(2, Costs::default(), 5);
        let ends = host.submit(0, Box::new(Recorded::new(graph(), 5)), policy, 2, 5);
        let endless = host.submit(0, Box::new(Endless::new(2)), policy, 2, 6);
        host.run(20_000 * MS, 1).unwrap_or_else(|what| panic!("{policy}: {what}"));
        let ended = host.fate(ends).ended.unwrap_or_else(|| panic!("{policy}: it ends"));
        // The host stops when the only program that can end has ended.
        assert_eq!(host.now(), ended, "{policy}");
        let fate = host.fate(endless);
        assert!(fate.ended.is_none() && fate.spent.work > 0, "{policy}: {fate:?}");
    }
}

#[test]
fn a_loop_alone_keeps_every_core_and_steals_nothing() {
    for policy in policies() {
        let mut host = Host::new(3, Costs::default(), 5);
        let endless = host.submit(0, Box::new(Endless::new(3)), policy, 3, 6);
        host.run(200 * MS, 1).unwrap_or_else(|what| panic!("{policy}: {what}"));
        let fate = host.fate(endless);
        assert_eq!(host.now(), 200 * MS, "{policy}");
        // At the start, each worker finds a task. Another worker may have looked at the same place before.
        assert!(fate.spent.work > 3 * 190 * MS && fate.spent.waste() < MS, "{policy}: {fate:?}");
    }
}

#[test]
fn a_loop_that_is_told_to_ends() {
    let mut host = Host::new(2, Costs::default(), 5);
    let policy: Policy = "comity".parse().unwrap();
    let endless = host.submit(0, Box::new(Endless::new(2)), policy, 2, 6);
    host.kill(30 * MS, endless);
    host.run(200 * MS, 1).unwrap();
    assert_eq!((host.fate(endless).died, host.now()), (Some(30 * MS), 30 * MS));
}
