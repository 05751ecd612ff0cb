//! Writes runs as CSV for spreadsheets and plotting programs: a row per run and program.

use ::csv::Writer;
use comity_sim::scenario::{Model, Outcome};
use comity_sim::threads::{Counts, Switches};

use super::points::{Point, Points};
use super::statistics::waste;

/// The columns, in their order. A column for each `--set` follows. Times and cycles are in steps of the machine. On a
/// host, a step is a nanosecond. A cell is empty if a run or a machine does not have the value.
/// `lab/scenarios/README.md` documents the columns.
const HEADER: [&str; 37] = [
    "point",
    "run",
    "seed",
    "program",
    "vm",
    "nth",
    "policy",
    "model",
    "processors",
    "came",
    "ended",
    "died",
    "time",
    "work",
    "critical_path",
    "work_cycles",
    "steal_cycles",
    "mug_cycles",
    "waste_per_work",
    "waited",
    "sleeps",
    "preemptions",
    "lost",
    "unshared",
    "attempts",
    "placed",
    "barriers",
    "fences",
    "wakeups",
    "shared_writes",
    "accelerations",
    "run_steps",
    "run_utilization",
    "run_idle_beside_work",
    "run_switches",
    "run_switches_to_thieves",
    "run_switches_between_programs",
];

/// Returns the CSV text: a header and all rows, for the runs of each point.
pub fn rows(points: &Points, runs: &[Vec<Outcome>]) -> String {
    const CANNOT_FAIL: &str = "memory takes any row";
    let mut writer = Writer::from_writer(Vec::new());
    let axes = || points.axes.iter().zip(0..).filter(|(axis, _)| !axis.is_policy());
    let header = HEADER.into_iter().chain(axes().map(|(axis, _)| axis.key.as_str()));
    writer.write_record(header).expect(CANNOT_FAIL);
    for (nth, (point, runs)) in points.all.iter().zip(runs).enumerate() {
        let settings: Vec<String> = axes().map(|(_, axis): (_, usize)| point.values[axis].to_string()).collect();
        for (run, outcome) in runs.iter().enumerate() {
            for program in 0..outcome.programs.len() {
                let mut row = vec![nth.to_string(), run.to_string()];
                row.extend(cells(point, outcome, program));
                writer.write_record(row.iter().chain(&settings)).expect(CANNOT_FAIL);
            }
        }
    }
    String::from_utf8(writer.into_inner().expect(CANNOT_FAIL)).expect("names and numbers are UTF-8")
}

/// Returns the cells from the seed on.
fn cells(point: &Point, outcome: &Outcome, nth: usize) -> Vec<String> {
    let (written, program) = (point.scenario.written(), &outcome.programs[nth]);
    let submission = written.programs.iter().find(|one| one.name == program.name).expect("it was submitted");
    let model = match written.machine.model {
        Model::ASteal => "a-steal",
        Model::Host => "host",
    };
    let maybe = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let count = |of: fn(&Counts) -> u64| maybe(program.counts.as_ref().map(of));
    let switches = |of: fn(&Switches) -> u64| maybe(outcome.switches.as_ref().map(of));
    let cycles = program.cycles;
    vec![
        outcome.seed.to_string(),
        program.name.clone(),
        submission.vm.clone().unwrap_or_default(),
        nth.to_string(),
        submission.policy.clone(),
        model.to_owned(),
        written.machine.processors.to_string(),
        program.came.to_string(),
        maybe(program.ended),
        maybe(program.died),
        maybe(program.time().map(|time| time as u64)),
        program.work.to_string(),
        program.critical_path.to_string(),
        cycles.work.to_string(),
        cycles.steal.to_string(),
        cycles.mug.to_string(),
        waste(program).to_string(),
        maybe(program.waited),
        count(|counts| counts.sleeps),
        count(|counts| counts.preemptions),
        count(|counts| counts.lost),
        count(|counts| counts.unshared),
        count(|counts| counts.attempts),
        count(|counts| counts.placed),
        count(|counts| counts.barriers),
        count(|counts| counts.fences),
        count(|counts| counts.wakeups),
        count(|counts| counts.shared_writes),
        count(|counts| counts.accelerations),
        outcome.steps.to_string(),
        outcome.utilization.to_string(),
        maybe(outcome.idle_beside_work),
        switches(|switches| switches.all),
        switches(|switches| switches.to_thieves),
        switches(|switches| switches.between_programs),
    ]
}
