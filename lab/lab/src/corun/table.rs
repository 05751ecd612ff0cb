//! The report of a co-run as tables for people.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::report::{Corun, CorunProgram, CorunReport, MeanAndWorst, OverPairs};

/// The largest number of letters of a name in the table. Longer names, of commands, are cut. The JSON has the full
/// names.
const NAME_LETTERS: usize = 40;

/// The number of letters of a line of the tables. Only names of programs are wrapped, not numbers.
const WIDTH: u16 = 120;

/// The terminal width below which a table of eight columns does not fit.
const NARROW: u16 = 100;

/// The minimum width of wrapped text, in letters. It applies even if the table is then too wide.
const LEAST_WRAPPED: u16 = 20;

/// Formats the tables, and the settings of the measurement. With `full`, includes all tables.
pub fn render(report: &CorunReport, full: bool) -> String {
    if !full {
        let machine = &report.machine;
        return format!(
            "{}\n{}{} alone and together{}. {} {}, Linux {}.\n",
            few(&report.coruns),
            part(report),
            rounds(report),
            lead_in(report),
            results(&report.coruns),
            machine.cpu,
            machine.kernel,
        );
    }
    let machine = &report.machine;
    let mut text = String::new();
    let _ = writeln!(text, "{}\n\n{}\n", programs(&report.coruns), summary(&report.coruns));
    if let Some(first) = report.over_pairs.first() {
        let plural = if first.pairs == 1 { "" } else { "s" };
        let _ = writeln!(text, "Over {} pair{plural}:\n{}\n", first.pairs, overall(&report.over_pairs));
    }
    let _ = writeln!(
        text,
        "{}{} alone and together{}, in {} blocks; {}. {}\n\
         Times are means; cpu, switches (voluntary + involuntary) and steals (of attempts) are means per\nround \
         together. T/B: mean seconds together over all rounds, counted or not / the baseline's alone;\nD: largest - \
         smallest T/B. Unfairness: largest - smallest slowdown; of cpu: largest - smallest ratio of\ncores used to \
         cores due. T_b of the weighted speedup and its bound, and B: {}. Task grouping: {}.\n{}, {} cores, Linux {}, \
         os tier {}.",
        part(report),
        rounds(report),
        lead_in(report),
        report.blocks,
        workers(&report.coruns),
        results(&report.coruns),
        if report.baseline == "own" {
            "each backend's own time alone".to_owned()
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

/// Formats the number of workers, which is the same for all backends except `serial`.
pub fn workers(coruns: &[Corun]) -> String {
    let of = |corun: &Corun| corun.workers;
    let (least, most) = (coruns.iter().map(of).min().unwrap_or(1), coruns.iter().map(of).max().unwrap_or(1));
    let noun = if most == 1 { "worker" } else { "workers" };
    let but = if least < most { format!(", serial {least}") } else { String::new() };
    format!("{most} {noun} each{but}")
}

/// Returns a sentence: all results are right, or the programs whose results are wrong.
pub fn results(coruns: &[Corun]) -> String {
    let wrong = |corun: &Corun| {
        let programs = corun.programs.iter().filter(|program| !program.verified);
        programs.map(|program| format!("{} under {}", shorten(&program.name), corun.policy)).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = coruns.iter().flat_map(wrong).collect();
    if wrong.is_empty() {
        "All results are correct.".to_owned()
    } else {
        format!("WRONG RESULTS: {}.", wrong.join(", "))
    }
}

/// Returns the beginning of the sentence for a report that a signal cut short.
fn part(report: &CorunReport) -> &'static str {
    if report.partial { "PARTIAL (the command was interrupted): " } else { "" }
}

fn rounds(report: &CorunReport) -> String {
    format!("{} round{}", report.rounds, if report.rounds == 1 { "" } else { "s" })
}

fn lead_in(report: &CorunReport) -> String {
    if report.lead_in > 0 { format!(", together after {} alone", report.lead_in) } else { String::new() }
}

/// Returns the width of the terminal, at most [`WIDTH`].
fn width() -> u16 {
    // Some terminals report 0 columns.
    Table::new().width().filter(|terminal| *terminal > 0).map_or(WIDTH, |terminal| terminal.min(WIDTH))
}

/// Makes the table with the columns that most readers need. In a narrow terminal, the table has only four columns.
fn few(coruns: &[Corun]) -> Table {
    if width() < NARROW {
        let rows = coruns.iter().flat_map(|corun| corun.programs.iter().map(move |program| (corun, program)));
        let cells = rows.map(|(corun, program)| {
            let name = shorten(&program.name);
            [corun.policy.clone(), name, seconds(program.solo_s), seconds(program.corun_s)]
        });
        return table(["backend", "program", "alone", "together"], cells, &[0, 1]);
    }
    let header = ["backend", "program", "alone", "together", "slowdown", "cv", "cpu", "switches"];
    let rows = coruns.iter().flat_map(|corun| corun.programs.iter().map(move |program| (corun, program)));
    let cells = rows.map(|(corun, program)| {
        [
            corun.policy.clone(),
            shorten(&program.name),
            seconds(program.solo_s),
            seconds(program.corun_s),
            percent(program.slowdown),
            program.cv.map_or_else(|| "-".to_owned(), percent),
            seconds(program.cpu_s),
            format!("{:.0}", program.voluntary_switches + program.involuntary_switches),
        ]
    });
    table(header, cells, &[0, 1])
}

fn programs(coruns: &[Corun]) -> Table {
    let header = ["backend", "program", "one core", "alone", "together", "slowdown", "cv", "cpu", "switches", "steals"];
    let rows = coruns.iter().flat_map(|corun| corun.programs.iter().map(move |program| (corun, program)));
    let cells = rows.map(|(corun, program)| {
        let CorunProgram { one_core_s, solo_s, corun_s, slowdown, cpu_s, .. } = program;
        [
            corun.policy.clone(),
            shorten(&program.name),
            seconds(*one_core_s),
            seconds(*solo_s),
            seconds(*corun_s),
            percent(*slowdown),
            program.cv.map_or_else(|| "-".to_owned(), percent),
            seconds(*cpu_s),
            format!("{:.0}+{:.0}", program.voluntary_switches, program.involuntary_switches),
            match program.steals.zip(program.steal_attempts) {
                Some((steals, attempts)) => format!("{steals:.0}/{attempts:.0}"),
                None => "-".to_owned(),
            },
        ]
    });
    table(header, cells, &[1])
}

fn summary(coruns: &[Corun]) -> Table {
    let header = [
        "backend",
        "programs",
        "T/B",
        "D",
        "unfairness",
        "of cpu",
        "weighted\nspeedup",
        "bound",
        "efficiency",
        "switches\nper s",
    ];
    let cells = coruns.iter().map(|corun| {
        let ratios: Vec<String> =
            corun.programs.iter().map(|program| format!("{:.2}", program.slowdown_ratio)).collect();
        [
            corun.policy.clone(),
            together(corun),
            ratios.join(", "),
            format!("{:.2}", corun.slowdown_ratio_difference),
            percent(corun.unfairness),
            percent(corun.cpu_unfairness),
            format!("{:.3}", corun.weighted_speedup),
            format!("{:.3}", corun.bound),
            format!("{:.3}", corun.efficiency),
            format!("{:.0}", corun.switches_per_s),
        ]
    });
    table(header, cells, &[1, 2])
}

/// Makes the table of the summaries over all pairs, with one row per backend.
fn overall(backends: &[OverPairs]) -> Table {
    let header = [
        "backend",
        "T/B\ngeomean",
        "D\nmean (worst)",
        "unfairness\nmean (worst)",
        "of cpu\nmean (worst)",
        "speedup\nmean",
        "efficiency\nmean (worst)",
        "cv\nmean (worst)",
        "switches/s\nmean",
    ];
    let cells = backends.iter().map(|over| {
        [
            over.policy.clone(),
            format!("{:.2}", over.slowdown_ratio_geometric_mean),
            mean_and_worst(over.slowdown_ratio_difference, |value| format!("{value:.2}")),
            mean_and_worst(over.unfairness, percent),
            mean_and_worst(over.cpu_unfairness, percent),
            format!("{:.3}", over.weighted_speedup_mean),
            mean_and_worst(over.efficiency, |value| format!("{value:.3}")),
            over.cv.map_or_else(|| "-".to_owned(), |cv| mean_and_worst(cv, |value| format!("{value:.3}"))),
            format!("{:.0}", over.switches_per_s_mean),
        ]
    });
    table(header, cells, &[])
}

/// Joins the programs of a co-run for one cell.
fn together(corun: &Corun) -> String {
    let names: Vec<String> = corun.programs.iter().map(|program| shorten(&program.name)).collect();
    names.join(" + ")
}

/// Makes a table. The first column has backends, the columns `wrapped` have text that may be wrapped, and the other
/// columns have numbers.
fn table<const N: usize>(header: [&str; N], cells: impl Iterator<Item = [String; N]>, wrapped: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width()).set_header(header.iter().map(Cell::new)).add_rows(cells);
    let contents = table.column_max_content_widths();
    for (nth, (column, content)) in table.column_iter_mut().zip(contents).enumerate() {
        if wrapped.contains(&nth) {
            let least = Width::Fixed(content.min(LEAST_WRAPPED) + column.padding_width());
            column.set_constraint(ColumnConstraint::LowerBoundary(least));
        } else {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        if nth != 0 && !wrapped.contains(&nth) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn mean_and_worst(value: MeanAndWorst, words: fn(f64) -> String) -> String {
    format!("{} ({})", words(value.mean), words(value.worst))
}

/// Formats a time with the unit that fits.
pub fn seconds(time: f64) -> String {
    match time {
        ..9.995e-5 => format!("{:.1} µs", 1e6 * time),
        ..9.995e-4 => format!("{:.0} µs", 1e6 * time),
        ..9.995e-3 => format!("{:.2} ms", 1e3 * time),
        ..0.99995 => format!("{:.1} ms", 1e3 * time),
        _ => format!("{time:.2} s"),
    }
}

/// Formats a ratio in percent.
pub fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

/// Shortens a name to one line of at most `NAME_LETTERS` letters.
pub fn shorten(name: &str) -> String {
    let one_line = name.replace(char::is_whitespace, " ");
    match one_line.char_indices().nth(NAME_LETTERS) {
        Some((end, _)) => format!("{}…", &one_line[..end]),
        None => one_line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::tests::corun;
    use super::{results, seconds, shorten, table, workers};

    #[test]
    fn a_wrong_result_is_named_and_so_is_a_backend_with_fewer_workers() {
        let mut coruns = [corun("abp", 1.0, [1.0, 2.0], None), corun("serial", 1.0, [1.0, 2.0], None)];
        assert_eq!(
            (results(&coruns).as_str(), workers(&coruns).as_str()),
            ("All results are correct.", "2 workers each")
        );
        coruns[1].workers = 1;
        coruns[1].programs[0].verified = false;
        assert_eq!(results(&coruns), "WRONG RESULTS: p under serial.");
        assert_eq!(workers(&coruns), "2 workers each, serial 1");
        assert_eq!(workers(&coruns[1..]), "1 worker each");
    }

    #[test]
    fn names_are_wrapped_before_a_table_gets_too_wide_and_numbers_never_are() {
        let numbers = "1 000 000 000 000 000 000 000 000 000 000 000";
        let row = |name: &str| ["abp".to_owned(), name.to_owned(), numbers.to_owned(), "2.5 %".to_owned()];
        let lines = |name: &str| -> Vec<String> {
            table(["backend", "programs", "much", "little"], [row(name)].into_iter(), &[1])
                .lines()
                .filter(|line| line.contains(char::is_alphanumeric))
                .collect()
        };
        let short = lines("cg + mm");
        assert_eq!(short.len(), 2);
        assert!(short[1].contains("cg + mm") && short[1].contains(numbers) && short[1].contains("2.5 %"), "{short:?}");
        let long = lines(&["a-program"; 12].join(" + "));
        assert!(long.len() > 2 && long[1].contains(numbers), "{long:?}");
        assert!(long.iter().all(|line| line.chars().count() <= 120), "{long:?}");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let shown = [4e-7, 2.5e-4, 1e-3, 0.00999, 0.5, 0.99996, 75.0].map(seconds);
        assert_eq!(shown, ["0.4 µs", "250 µs", "1.00 ms", "9.99 ms", "500.0 ms", "1.00 s", "75.00 s"]);
    }

    #[test]
    fn a_long_command_takes_one_short_line() {
        assert_eq!(shorten("a\nb\tc"), "a b c");
        assert_eq!(shorten(&"ä".repeat(50)), format!("{}…", "ä".repeat(40)));
    }
}
