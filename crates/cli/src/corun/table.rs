//! The report for people.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::measures::mean;
use crate::json::{Corun, CorunProgram, CorunReport};

/// Longer names (of commands) are cut in the table; the JSON has them whole.
const NAME_LETTERS: usize = 40;

/// Both tables and what they were taken with.
pub fn render(report: &CorunReport) -> String {
    let machine = &report.machine;
    let mut text = String::new();
    let _ = writeln!(text, "{}\n\n{}\n", programs(&report.coruns), summary(&report.coruns));
    let first = report.coruns.first().map(together);
    if report.coruns.iter().any(|corun| Some(together(corun)) != first) {
        let _ = writeln!(text, "{}\n", overall(&report.coruns));
    }
    let _ = writeln!(
        text,
        "{} rounds alone and together, in {} blocks. Times are means in seconds; cpu, switches (voluntary + \
         involuntary)\nand steals (of attempts) are means per round together.\n\
         T_b of the weighted speedup and its bound: {}. Task grouping: {}.\n\
         {}, {} cores, Linux {}, os tier {}.",
        report.rounds,
        report.blocks,
        if report.baseline == "own" {
            "each contestant's own time alone".to_owned()
        } else {
            format!("the time alone under {}", report.baseline)
        },
        machine.task_grouping.as_deref().unwrap_or("unknown"),
        machine.cpu,
        machine.cores,
        machine.kernel,
        machine.os_tier,
    );
    text
}

fn programs(coruns: &[Corun]) -> Table {
    let header =
        ["contestant", "program", "one core", "alone", "together", "slowdown", "cv", "cpu", "switches", "steals"];
    let mut table = table(&header, 2);
    for corun in coruns {
        for program in &corun.programs {
            let CorunProgram { one_core_s, solo_s, corun_s, slowdown, cpu_s, .. } = program;
            table.add_row([
                corun.policy.clone(),
                shorten(&program.name),
                format!("{one_core_s:.4}"),
                format!("{solo_s:.4}"),
                format!("{corun_s:.4}"),
                percent(*slowdown),
                program.cv.map_or_else(|| "-".to_owned(), percent),
                format!("{cpu_s:.4}"),
                format!("{:.0}+{:.0}", program.voluntary_switches, program.involuntary_switches),
                match program.steals.zip(program.steal_attempts) {
                    Some((steals, attempts)) => format!("{steals:.0}/{attempts:.0}"),
                    None => "-".to_owned(),
                },
            ]);
        }
    }
    table
}

fn summary(coruns: &[Corun]) -> Table {
    let header = [
        "contestant",
        "workers",
        "programs",
        "slowdowns",
        "unfairness",
        "weighted speedup",
        "bound",
        "efficiency",
        "results",
    ];
    let mut table = table(&header, 3);
    for corun in coruns {
        let verified = corun.programs.iter().all(|program| program.verified);
        let slowdowns: Vec<String> = corun.programs.iter().map(|program| percent(program.slowdown)).collect();
        table.add_row([
            corun.policy.clone(),
            corun.workers.to_string(),
            together(corun),
            slowdowns.join(", "),
            percent(corun.unfairness),
            format!("{:.3}", corun.weighted_speedup),
            format!("{:.3}", corun.bound),
            format!("{:.3}", corun.efficiency),
            if verified { "right" } else { "WRONG" }.to_owned(),
        ]);
    }
    table
}

/// Over all pairs, one row per contestant.
fn overall(coruns: &[Corun]) -> Table {
    let header =
        ["contestant", "pairs", "unfairness mean", "max", "weighted speedup mean", "efficiency mean", "min", "cv mean"];
    let mut table = table(&header, 1);
    let mut contestants: Vec<&str> = Vec::new();
    for corun in coruns {
        if !contestants.contains(&corun.policy.as_str()) {
            contestants.push(&corun.policy);
        }
    }
    for contestant in contestants {
        let own: Vec<&Corun> = coruns.iter().filter(|corun| corun.policy == contestant).collect();
        let all = |value: fn(&Corun) -> f64| own.iter().map(|corun| value(corun)).collect::<Vec<f64>>();
        let (unfairness, efficiency) = (all(|corun| corun.unfairness), all(|corun| corun.efficiency));
        let variations: Vec<f64> =
            own.iter().flat_map(|corun| corun.programs.iter().filter_map(|program| program.cv)).collect();
        table.add_row([
            contestant.to_owned(),
            own.len().to_string(),
            percent(mean(&unfairness)),
            percent(unfairness.iter().copied().fold(0.0, f64::max)),
            format!("{:.3}", mean(&all(|corun| corun.weighted_speedup))),
            format!("{:.3}", mean(&efficiency)),
            format!("{:.3}", efficiency.iter().copied().fold(f64::INFINITY, f64::min)),
            if variations.is_empty() { "-".to_owned() } else { format!("{:.3}", mean(&variations)) },
        ]);
    }
    table
}

/// The programs of a co-run in one cell.
fn together(corun: &Corun) -> String {
    let names: Vec<String> = corun.programs.iter().map(|program| shorten(&program.name)).collect();
    names.join(" + ")
}

/// A table whose columns after the first `names` are numbers.
fn table(header: &[&str], names: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(Cell::new));
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

fn shorten(name: &str) -> String {
    let one_line = name.replace(char::is_whitespace, " ");
    match one_line.char_indices().nth(NAME_LETTERS) {
        Some((end, _)) => format!("{}…", &one_line[..end]),
        None => one_line,
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn a_long_command_takes_one_short_line() {
        assert_eq!(shorten("a\nb\tc"), "a b c");
        assert_eq!(shorten(&"ä".repeat(50)), format!("{}…", "ä".repeat(40)));
    }
}
