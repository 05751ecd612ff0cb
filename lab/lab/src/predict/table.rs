//! The report of a prediction as a table for people.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use comity_sim::threads::linux::Groups;

use super::report::{Beside, PredictReport};

/// Formats the table, and the parameters of the simulation.
pub fn render(report: &PredictReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let is_measured = report.coruns.iter().any(|corun| corun.unfairness.measured.is_some());
    let headers = ["policy", "program", "figure", "predicted", "range of starts", "measured", "error"];
    let columns = if is_measured { headers.len() } else { headers.len() - 2 };
    table.set_header(&headers[..columns]);
    let mut row = |cells: [String; 7]| {
        table.add_row(&cells[..columns]);
    };
    for corun in &report.coruns {
        for program in &corun.programs {
            let names = [corun.policy.clone(), program.name.clone()];
            let [least, most] = program.range.map(|slowdown| format!("{slowdown:.2}"));
            row(cells(&names, "slowdown", program.slowdown, format!("{least}–{most}")));
        }
        let names = [corun.policy.clone(), "all".to_owned()];
        row(cells(&names, "unfairness", corun.unfairness, String::new()));
        row(cells(&names, "weighted speedup", corun.weighted_speedup, String::new()));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{}", simulated(report))
}

fn cells([policy, program]: &[String; 2], figure: &str, number: Beside, starts: String) -> [String; 7] {
    let measured = number.measured.map_or_else(String::new, |measured| format!("{measured:.2}"));
    let error = number.error.map_or_else(String::new, |error| format!("{:+.0} %", 100.0 * error));
    [policy.clone(), program.clone(), figure.to_owned(), format!("{:.2}", number.foretold), starts, measured, error]
}

fn simulated(report: &PredictReport) -> String {
    let twin = report.twin;
    let linux = twin.linux;
    let version = serde_json::to_value(linux.version).expect("a version is a word");
    let plural = |number: u32| if number == 1 { "" } else { "s" };
    let smt = if linux.threads_per_core == 2 { ", two hardware threads per core" } else { "" };
    let mut text = format!(
        "Simulated: Linux {}, {} core{} in {} socket{}{smt}, {} ticks per second, {};\n{} workers each, {} start{} \
         from seed {}; a join costs {} ns. Slowdown 1: twice the time alone.\n",
        version.as_str().unwrap_or_default(),
        twin.cores,
        plural(twin.cores as u32),
        linux.sockets,
        plural(linux.sockets),
        linux.hz,
        if linux.groups == Groups::Separate { "one task group per program" } else { "one task group" },
        report.workers,
        report.starts,
        plural(report.starts),
        report.seed,
        report.costs.join,
    );
    for program in &report.programs {
        if program.check_s.is_none() {
            let _ = writeln!(
                text,
                "{}: the work of its process between two rounds is not known and is left out.",
                program.name
            );
        }
    }
    twin.differs.iter().for_each(|sentence| {
        let _ = writeln!(text, "Difference from this machine: {sentence}.");
    });
    text
}
