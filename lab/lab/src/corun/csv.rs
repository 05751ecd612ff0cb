//! Writes co-runs as CSV for spreadsheets and plotting programs: a row per backend and program.

use ::csv::Writer;
use serde::Serialize;

use super::report::{CorunProgram, CorunReport};

/// The columns, in their order. Times are in seconds.
#[derive(Serialize)]
struct Row<'a> {
    corun: usize,
    policy: &'a str,
    backend: &'a str,
    workers: u16,
    program: &'a str,
    one_core_s: f64,
    solo_s: f64,
    corun_s: f64,
    overlapped_s: f64,
    slowdown: f64,
    slowdown_ratio: f64,
    cv: Option<f64>,
    cpu_s: f64,
    cores_used: f64,
    cores_due: f64,
    voluntary_switches: f64,
    involuntary_switches: f64,
    rounds: usize,
    verified: bool,
    unfairness: f64,
    cpu_unfairness: f64,
    weighted_speedup: f64,
    bound: f64,
    efficiency: f64,
    partial: bool,
}

/// Returns the CSV text: a header and all rows.
pub fn rows(report: &CorunReport) -> String {
    const CANNOT_FAIL: &str = "memory takes any row";
    let mut writer = Writer::from_writer(Vec::new());
    for (nth, corun) in report.coruns.iter().enumerate() {
        for program in &corun.programs {
            let CorunProgram { one_core_s, solo_s, corun_s, overlapped_s, slowdown, slowdown_ratio, cv, .. } = *program;
            let row = Row {
                corun: nth,
                policy: &corun.policy,
                backend: &corun.backend,
                workers: corun.workers,
                program: &program.name,
                one_core_s,
                solo_s,
                corun_s,
                overlapped_s,
                slowdown,
                slowdown_ratio,
                cv,
                cpu_s: program.cpu_s,
                cores_used: program.cores_used,
                cores_due: program.cores_due,
                voluntary_switches: program.voluntary_switches,
                involuntary_switches: program.involuntary_switches,
                rounds: program.rounds,
                verified: program.verified,
                unfairness: corun.unfairness,
                cpu_unfairness: corun.cpu_unfairness,
                weighted_speedup: corun.weighted_speedup,
                bound: corun.bound,
                efficiency: corun.efficiency,
                partial: report.partial,
            };
            writer.serialize(row).expect(CANNOT_FAIL);
        }
    }
    String::from_utf8(writer.into_inner().expect(CANNOT_FAIL)).expect("names and numbers are UTF-8")
}
