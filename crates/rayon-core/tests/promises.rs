//! Tests of promises to programs that were not written for Comity. Each test runs itself again in child processes.

#![allow(clippy::disallowed_methods, reason = "a test reads variables of its own")]

use std::process::Command;
use std::sync::mpsc;

use rayon_core::{
    ThreadPool, ThreadPoolBuilder, broadcast, current_num_threads, in_place_scope, in_place_scope_fifo, join,
    join_context, scope, scope_fifo, spawn, spawn_broadcast, spawn_fifo,
};

/// The environment variable that tells a child process which part of the test it runs.
const WITHIN: &str = "COMITY_TEST_WITHIN";

/// Runs a part of `test` again with a variable set, and returns the lines that the process prints on standard error.
fn lines(test: &str, part: &str, name: &str, value: &str) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(WITHIN, part).env("COMITY_TABLE", "off").env(name, value);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{name}={value}: {}: {said}", output.status);
    said.lines().map(str::to_owned).collect()
}

fn works(pool: &ThreadPool) {
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
}

#[test]
fn a_bad_variable_costs_a_process_one_line_however_many_pools_it_builds() {
    const TEST: &str = "a_bad_variable_costs_a_process_one_line_however_many_pools_it_builds";
    if std::env::var_os(WITHIN).is_some() {
        for threads in [0, 1, 2] {
            works(&ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
        }
        ThreadPoolBuilder::new().build_scoped(|thread| thread.run(), works).unwrap();
        // `join` builds the global pool.
        return assert_eq!(join(|| 1, || 2), (1, 2));
    }
    for (name, value) in [
        ("COMITY", "of"),
        ("COMITY_POLICY", "foo"),
        ("COMITY_NUM_THREADS", "many"),
        ("COMITY_WEIGHT", "9e9"),
        ("COMITY_CORES", "0"),
        ("COMITY_WATCH", "soon"),
        ("COMITY_TRACE", "/dev/null"),
    ] {
        assert_is_one_line(&lines(TEST, "", name, value), name);
    }
}

fn assert_is_one_line(said: &[String], name: &str) {
    let [line] = said else { panic!("{name}: {said:?}") };
    assert!(line.starts_with("comity: ") && line.contains(name), "{line}");
    assert!(line.ends_with(". The default is used."), "{line}");
}

#[test]
fn a_bad_variable_ends_no_program_whatever_builds_the_global_pool() {
    const TEST: &str = "a_bad_variable_ends_no_program_whatever_builds_the_global_pool";
    let calls: [(&str, fn()); 11] = [
        ("join", || _ = join(|| (), || ())),
        ("join_context", || _ = join_context(|_| (), |_| ())),
        ("scope", || scope(|_| ())),
        ("scope_fifo", || scope_fifo(|_| ())),
        ("in_place_scope", || in_place_scope(|_| ())),
        ("in_place_scope_fifo", || in_place_scope_fifo(|_| ())),
        ("spawn", || spawn(|| ())),
        ("spawn_fifo", || spawn_fifo(|| ())),
        ("broadcast", || _ = broadcast(|_| ())),
        ("spawn_broadcast", || spawn_broadcast(|_| ())),
        ("current_num_threads", || _ = current_num_threads()),
    ];
    if let Some(part) = std::env::var_os(WITHIN) {
        let (_, call) = calls.iter().find(|(name, _)| part == *name).unwrap();
        return call();
    }
    for (call, _) in calls {
        assert_is_one_line(&lines(TEST, call, "COMITY_WEIGHT", "0"), "COMITY_WEIGHT");
    }
}

/// Tests that a task that an exit handler spawns does not end the program. With assertions off, stock rayon loses such
/// a task.
#[test]
fn a_spawn_from_an_exit_handler_ends_no_program() {
    const TEST: &str = "a_spawn_from_an_exit_handler_ends_no_program";
    if std::env::var_os(WITHIN).is_none() {
        assert_eq!(lines(TEST, "", "RAYON_NUM_THREADS", "2"), [""; 0]);
        return;
    }
    let (sender, receiver) = mpsc::channel();
    let pool = ThreadPoolBuilder::new().exit_handler(move |index| {
        let kept = sender.clone();
        spawn(move || drop(kept));
        let kept = sender.clone();
        spawn_fifo(move || drop(kept));
        spawn_broadcast(|_| ());
        sender.send(index).unwrap();
    });
    let pool = pool.build().unwrap();
    works(&pool);
    drop(pool);
    let mut ended: Vec<usize> = receiver.iter().collect();
    ended.sort();
    assert_eq!(ended, [0, 1]);
}
