//! A summary for readers who do not know the measures: the slowdown of each program under each backend, and the
//! processor time that was lost.

use std::fmt::Write;

use super::report::{Corun, CorunProgram, CorunReport};
use super::table::shorten;

/// Returns a line about the programs, a line for each backend, and a line that explains the numbers.
pub fn lines(report: &CorunReport) -> String {
    let Some(first) = report.coruns.first() else { return String::new() };
    let cores = report.machine.cores;
    let plural = if cores == 1 { "" } else { "s" };
    let workers = super::table::workers(&report.coruns);
    let name = |name: &str| format!("{name}:");
    let names: Vec<&str> = match report.over_pairs.is_empty() {
        true => report.coruns.iter().map(|corun| corun.policy.as_str()).collect(),
        false => report.over_pairs.iter().map(|over| over.policy.as_str()).collect(),
    };
    let width = names.iter().map(|name| name.chars().count() + 1).max().unwrap_or(0);
    let mut text = String::new();
    if report.partial {
        text.push_str("PARTIAL, the command was interrupted: ");
    }
    if report.over_pairs.is_empty() {
        let _ = writeln!(text, "{} together on {cores} core{plural}, {workers}.", all_of(first));
        for corun in &report.coruns {
            let (apart, lost) = (corun.unfairness, lost(corun.efficiency));
            let _ = writeln!(
                text,
                "{:<width$} {}; difference {apart:.2}; {lost} wasted.",
                name(&corun.policy),
                slowed(corun)
            );
        }
    } else {
        let pairs = report.over_pairs[0].pairs;
        let plural_pairs = if pairs == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "{pairs} pair{plural_pairs} of programs, each pair together on {cores} core{plural}, {workers}."
        );
        for over in &report.over_pairs {
            let (mean, worst) = (over.unfairness.mean, over.unfairness.worst);
            let lost = lost(over.efficiency.mean);
            let name = name(&over.policy);
            let _ = writeln!(
                text,
                "{name:<width$} difference {mean:.2} on average, {worst:.2} in the worst pair; {lost} wasted."
            );
        }
    }
    let _ = writeln!(text, "1: as fast as alone. Difference 0: fair. Wasted: part of the cores' time.");
    text
}

fn all_of(corun: &Corun) -> String {
    let names: Vec<String> = corun.programs.iter().map(|program| shorten(&program.name)).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Formats `time together / time alone` of each program. With more than three programs, formats only the smallest and
/// the largest ratio.
fn slowed(corun: &Corun) -> String {
    let times = |program: &CorunProgram| format!("{} {:.2}", shorten(&program.name), 1.0 + program.slowdown);
    let mut programs: Vec<_> = corun.programs.iter().collect();
    if programs.len() > 3 {
        programs.sort_by(|a, b| a.slowdown.total_cmp(&b.slowdown));
        return format!("{} to {}", times(programs[0]), times(programs[programs.len() - 1]));
    }
    programs.into_iter().map(times).collect::<Vec<_>>().join(", ")
}

/// Formats the part of the cores' time that was lost, `1 - efficiency`. The text is `nothing` if the efficiency is 1
/// or more, because programs use the gaps of each other.
fn lost(efficiency: f64) -> String {
    match (100.0 * (1.0 - efficiency)).round() {
        part if part >= 1.0 => format!("{part:.0} %"),
        _ => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::tests::corun;
    use super::*;

    #[test]
    fn two_are_named_and_of_many_the_extremes() {
        let mut three = corun("abp", 1.0, [1.0, 1.0], None);
        three.programs[0].slowdown = 0.25;
        three.programs[1].name = "q".to_owned();
        assert_eq!(slowed(&three), "p 1.25, q 1.00");
        assert_eq!(all_of(&three), "p and q");
        three.programs.extend(corun("abp", 1.0, [1.0, 1.0], None).programs);
        three.programs[2].slowdown = 3.0;
        assert_eq!(slowed(&three), "q 1.00 to p 4.00");
        assert_eq!(all_of(&three), "p, q, p and p");
    }

    #[test]
    fn what_was_lost_is_never_less_than_nothing() {
        assert_eq!([0.9, 0.994, 1.0, 1.2].map(lost), ["10 %", "1 %", "nothing", "nothing"]);
    }
}
