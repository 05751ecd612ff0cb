//! Formats a look in Prometheus' text format, for the node exporter's textfile collector.

use std::fmt::Write;

use comity_table::Thieves;

use super::sample::{Row, Sample};
use crate::table::{Refused, key};

/// A metric of a program.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&Row) -> Option<f64>,
}

const METRICS: [Metric; 12] = [
    Metric {
        name: "comity_program_living",
        kind: "gauge",
        help: "1: living; 0: stopped or dead.",
        value: |row| Some(f64::from(row.life == "living")),
    },
    Metric {
        name: "comity_program_paused",
        kind: "gauge",
        help: "1: paused by comity set; 0: not paused.",
        value: |row| Some(f64::from(row.paused_s.is_some())),
    },
    Metric {
        name: "comity_program_weight",
        kind: "gauge",
        help: "Weight of the program relative to other programs.",
        value: |row| Some(row.weight.into()),
    },
    Metric {
        name: "comity_program_desired_cores",
        kind: "gauge",
        help: "Cores that the program could use now.",
        value: |row| Some(row.desire.into()),
    },
    Metric {
        name: "comity_program_held_cores",
        kind: "gauge",
        help: "Cores that the program holds.",
        value: |row| Some(row.held as f64),
    },
    Metric {
        name: "comity_program_owned_cores",
        kind: "gauge",
        help: "Cores that the program is entitled to.",
        value: |row| Some(row.owned as f64),
    },
    Metric {
        name: "comity_program_lent_cores",
        kind: "gauge",
        help: "Cores that the program owns and that other programs hold.",
        value: |row| Some(row.lends as f64),
    },
    Metric {
        name: "comity_program_awake",
        kind: "gauge",
        help: "Awake workers; for a command, its awake threads.",
        value: |row| Some(row.awake.into()),
    },
    Metric {
        name: "comity_program_lost_cores_total",
        kind: "counter",
        help: "Cores that their owners took back from the program.",
        value: |row| Some(row.lost as f64),
    },
    Metric {
        name: "comity_program_cpu_seconds_total",
        kind: "counter",
        help: "Processor time that the program has used.",
        value: |row| row.cpu_s,
    },
    Metric {
        name: "comity_program_steals_total",
        kind: "counter",
        help: "Tasks that workers of the program took from each other.",
        value: |row| Some(row.steals? as f64),
    },
    Metric {
        name: "comity_program_accelerations_total",
        kind: "counter",
        help: "Times that a worker without a task gave another worker the rest of its time slice.",
        value: |row| Some(row.accelerations? as f64),
    },
];

/// The only metric with several values per program: one for each reason of a refusal.
const REFUSED: &str = "comity_program_refused_accelerations_total";

/// Returns the text of the whole file.
pub fn text(sample: &Sample) -> String {
    let usable = u8::from(sample.trouble.is_none() && sample.table.is_some());
    let mut text = String::new();
    let mut whole = |name: &str, help: &str, value: usize| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    };
    let help = "1: the core table can be read, or does not exist yet; 0: it cannot be read, or is off.";
    whole("comity_table_usable", help, usable.into());
    whole("comity_programs", "Programs in the core table.", sample.programs.len());
    whole("comity_cores", "Cores that a program in the core table may use.", sample.cores.len());
    for Metric { name, kind, help, value } in METRICS {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for row in &sample.programs {
            if let Some(value) = value(row) {
                let _ = writeln!(text, "{name}{{{}}} {value}", labels(row));
            }
        }
    }
    let help = "Times that a worker without a task kept its time slice, by reason.";
    let _ = writeln!(text, "# HELP {REFUSED} {help}\n# TYPE {REFUSED} counter");
    for row in &sample.programs {
        let thieves = row.refused.map(|Refused(thieves)| thieves);
        for (reason, count) in thieves.iter().flat_map(Thieves::by_reason) {
            let _ = writeln!(text, "{REFUSED}{{{},reason=\"{}\"}} {count}", labels(row), key(reason));
        }
    }
    text
}

/// Returns the labels that identify a program.
fn labels(row: &Row) -> String {
    let Row { slot, pid, .. } = row;
    let (program, policy) = (escaped(&row.name), escaped(&row.policy));
    format!("slot=\"{slot}\",pid=\"{pid}\",program=\"{program}\",policy=\"{policy}\"")
}

/// Escapes a label's value: backslashes, quotes and line ends.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_label() {
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
