//! Checks that no core idles while a member of the core table has work. The tests use the scenarios of
//! `lab/scenarios/` in which programs wait. Under `comity`, the programs must use as much time as without a core
//! table. Under `dws` the same scenarios lose up to two cores, because `dws` counts the workers that are awake instead
//! of the time that they use.

use std::fs;
use std::path::PathBuf;

use comity_sim::scenario::{Outcome, Scenario, Written};

fn written(name: &str, policy: &str) -> Written {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut written: Written = toml_edit::de::from_str(&text).unwrap();
    for program in &mut written.programs {
        program.policy = policy.to_owned();
    }
    // Two seconds are long enough to measure more than a policy's first tries to hold cores.
    written.machine.steps = written.machine.steps.max(2_000_000_000);
    written
}

fn outcome(written: Written) -> Outcome {
    Scenario::new(written).unwrap().run(0, 10_000, None).unwrap()
}

/// Returns the mean number of cores that all programs used, and of cores that idled while a program had work.
fn cores(outcome: &Outcome) -> (f64, f64) {
    let mean = |time: u64| time as f64 / outcome.steps as f64;
    (mean(outcome.cycles.total()), mean(outcome.idle_beside_work.unwrap()))
}

/// Checks that the scenario uses nearly as much time under `comity` as without a table, and that it loses at least
/// `lost` cores under `dws`.
fn is_used(name: &str, lost: f64) {
    let mut without_table = written(name, "comity");
    without_table.machine.table = false;
    let (possible, _) = cores(&outcome(without_table));
    let (used, idle) = cores(&outcome(written(name, "comity")));
    println!("{name}: {used:.3} cores used, {possible:.3} without a table, {idle:.3} idle");
    // Time is lost while a program whose threads wait tries to hold cores. A try lasts two quanta, and the number of
    // looks between two tries doubles each time. The first look of a try cannot detect waits for a core: the kernel
    // counts a wait when it ends, and a wait that ends before this look began before the try. The first two tries, in
    // half a second, lose 4 %.
    assert!(used > 0.97 * possible && idle < 0.03 * possible, "{name}: {used} of {possible} used, {idle} idle");
    let (used, idle) = cores(&outcome(written(name, "dws")));
    println!("{name}: {used:.3} cores used under dws, {idle:.3} idle");
    assert!(used < possible - lost && idle > lost, "{name}: {used} of {possible} used, {idle} idle");
}

#[test]
fn tasks_that_sleep_keep_no_core_idle() {
    is_used("sleep.toml", 0.9);
}

#[test]
fn a_program_that_is_throttled_keeps_no_core_idle() {
    is_used("quota.toml", 0.4);
}

#[test]
fn three_members_keep_no_core_idle() {
    is_used("three-members.toml", 2.0);
}

#[test]
fn tasks_that_sleep_take_no_longer_beside_a_neighbour_than_without_a_table() {
    let work = |table| {
        let mut written = written("sleep.toml", "comity");
        written.machine.table = table;
        outcome(written).programs[0].cycles.work as f64
    };
    let (with, without) = (work(true), work(false));
    assert!(with > without / 1.1, "{with} with a table, {without} without");
}

#[test]
fn programs_that_compute_hold_equal_parts() {
    let mut written = written("quota.toml", "comity");
    written.programs[0].quota = None;
    // Workers do not retire within a phase, because they have tasks; they retire between two phases.
    for program in &mut written.programs {
        (program.width, program.iterations) = (100, 2_000);
    }
    let outcome = outcome(written);
    let (used, idle) = cores(&outcome);
    let each: Vec<f64> =
        outcome.programs.iter().map(|program| program.cycles.work as f64 / outcome.steps as f64).collect();
    let preemptions: u64 = outcome.programs.iter().map(|program| program.counts.unwrap().preemptions).sum();
    println!("{each:?} cores, {idle} idle, {preemptions} preemptions");
    assert!(used > 1.94 && idle < 0.06 && each.iter().all(|cores| (0.95..1.05).contains(cores)), "{each:?}, {idle}");
    // Each program is on its own core. With turns of a slice there would be two thousand preemptions.
    assert!(preemptions < 500, "{preemptions} preemptions");
}
