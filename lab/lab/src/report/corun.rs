//! The section of a file that `comity-lab corun --json` wrote: the slowdown of each program under each backend.

use comity_console::machine::Versions;
use fastrand::Rng;
use maud::{Markup, html};

use super::chart::{self, Chart, Measured, Row, Scale, dot, picture};
use super::page::{Cell, Entry, Section, clean, facts, heading, table, warning};
use crate::corun::chart::{backends, rows};
use crate::corun::report::{Corun, CorunProgram, CorunReport};
use crate::corun::summary;
use crate::corun::table::{percent, results, seconds, shorten};

/// Heights in pixels: the lane of a backend within a row, and the space above and below all lanes.
const LANE: usize = 14;
const ROOM: usize = 5;

/// Returns the co-runs' section of the page.
pub fn section(id: &str, file: &str, report: &CorunReport) -> Section {
    let machine = &report.machine;
    let programs: Vec<&str> = {
        let mut names: Vec<&str> = Vec::new();
        for program in report.coruns.iter().flat_map(|corun| &corun.programs) {
            if !names.contains(&program.name.as_str()) {
                names.push(&program.name);
            }
        }
        names
    };
    let names = backends(&report.coruns);
    let groups = groups(report);
    let gist = gist(report, programs.len());
    let lines = summary::lines(report);
    let lines: Vec<&str> = lines.lines().collect();
    let (first, rest) = lines.split_first().map_or(("", &[][..]), |(first, rest)| (*first, rest));
    let (last, each) = rest.split_last().map_or(("", &[][..]), |(last, each)| (*last, each));
    let right = results(&report.coruns);
    let is_wrong = report.coruns.iter().flat_map(|corun| &corun.programs).any(|program| !program.verified);
    let Versions { comity, rayon, rustc } = &report.versions;
    let versions = format!("comity {comity}, rayon {rayon}, {rustc}");
    let body = html! {
        (heading(id, "comity-lab corun", file))
        (facts(&[
            ("machine", html! { (clean(&machine.cpu)) ", " (machine.cores) " cores, Linux " (clean(&machine.kernel)) }),
            ("rounds", html! { (report.rounds) " alone and together, in " (report.blocks) " blocks" }),
            ("task grouping", html! { (clean(machine.task_grouping.as_deref().unwrap_or("unknown"))) }),
            ("versions", html! { (clean(&versions)) }),
            ("command", html! { code { (clean(&report.command.join(" "))) } }),
        ]))
        @if report.partial { (warning("The command was interrupted: some programs have fewer rounds, and some co-runs are missing.")) }
        @if is_wrong { (warning(&right)) }
        p { (clean(first)) }
        ul.lead { @for line in each { li { (clean(line)) } } }
        p { (clean(last)) }
        (slowdowns(&groups, &names))
        (unfairness(&groups, &names))
        (throughput(&groups, &names))
        (of_programs(&groups))
        (of_coruns(&groups))
        @if !report.over_pairs.is_empty() { (over_pairs(report)) }
        @if !is_wrong { p { (right) } }
        p {
            "Brackets: 95 % intervals from a bootstrap over the rounds, which are assumed to be independent. A dash \
             marks a single round. T_b of the weighted speedup and of its bound is "
            @if report.baseline == "own" { "each backend's own time alone." }
            @else { "the time alone under " (clean(&report.baseline)) "." }
        }
    };
    Section { entries: vec![Entry { id: id.to_owned(), title: file.to_owned(), gist, is_part: false }], body }
}

/// Returns the line in the table of contents: the unfairness under the first three backends.
fn gist(report: &CorunReport, programs: usize) -> String {
    let unfairness: Vec<(&str, f64)> = match report.over_pairs.is_empty() {
        true => report.coruns.iter().map(|corun| (corun.policy.as_str(), corun.unfairness)).collect(),
        false => report.over_pairs.iter().map(|over| (over.policy.as_str(), over.unfairness.mean)).collect(),
    };
    let told: Vec<String> =
        unfairness.iter().take(3).map(|(policy, apart)| format!("{} {apart:.2}", shorten(policy))).collect();
    let more = if unfairness.len() > told.len() { ", …" } else { "" };
    let pairs = if report.over_pairs.is_empty() { "" } else { " on average" };
    format!("{programs} programs, difference of slowdowns{pairs}: {}{more}", told.join(", "))
}

/// The co-runs of the same programs.
struct Group<'a> {
    name: String,
    /// The co-runs, each with its intervals.
    coruns: Vec<(&'a Corun, Intervals)>,
}

fn groups(report: &CorunReport) -> Vec<Group<'_>> {
    let count: usize = report
        .coruns
        .iter()
        .flat_map(|corun| &corun.programs)
        .map(|program| rounds(program).iter().sum::<usize>())
        .sum();
    let resamples = (50_000_000 / count.max(1)).clamp(100, 1_000);
    // The seed is fixed, so that the same report always gives the same page.
    let mut random = Rng::with_seed(1);
    let groups = rows(&report.coruns).into_iter().map(|((_, name), coruns)| {
        let baseline = coruns.iter().copied().find(|corun| corun.policy == report.baseline);
        let with = |corun: &'_ Corun, random: &mut Rng| Intervals::of(corun, baseline, resamples, random);
        Group { name, coruns: coruns.iter().map(|corun| (*corun, with(corun, &mut random))).collect() }
    });
    groups.collect()
}

fn rounds(program: &CorunProgram) -> [usize; 2] {
    [program.times.solo_s.len(), program.times.corun_s.len()]
}

/// The interval in which a number lies according to its rounds. `None` if there are too few rounds.
type Interval = Option<(f64, f64)>;

/// The 95 % intervals of a co-run's measures.
#[derive(Debug, Default, PartialEq)]
struct Intervals {
    /// The intervals of T_c / T_s, by program.
    times: Vec<Interval>,
    unfairness: Interval,
    weighted_speedup: Interval,
}

impl Intervals {
    /// Computes the intervals by a bootstrap: computes the measures from rounds that are drawn at random from the
    /// measured rounds, `resamples` times.
    fn of(corun: &Corun, baseline: Option<&Corun>, resamples: usize, random: &mut Rng) -> Intervals {
        let programs = &corun.programs;
        let none = || Intervals { times: vec![None; programs.len()], ..Intervals::default() };
        if programs.iter().flat_map(rounds).any(|rounds| rounds < 2) {
            return none();
        }
        let baseline = baseline.filter(|baseline| !std::ptr::eq(*baseline, corun));
        let baseline = baseline.filter(|baseline| baseline.programs.iter().all(|program| rounds(program)[0] > 0));
        let (mut times, mut unfairness, mut speedups) = (vec![Vec::new(); programs.len()], Vec::new(), Vec::new());
        for _ in 0..resamples {
            let (mut least, mut most, mut speedup) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
            for (nth, program) in programs.iter().enumerate() {
                let solo = drawn(&program.times.solo_s, random);
                let together = drawn(&program.times.corun_s, random);
                let ratio = together / solo;
                times[nth].push(ratio);
                (least, most) = (least.min(ratio), most.max(ratio));
                let of_baseline = baseline.and_then(|baseline| baseline.programs.get(nth));
                speedup += of_baseline.map_or(solo, |program| drawn(&program.times.solo_s, random)) / together;
            }
            unfairness.push(most - least);
            speedups.push(speedup);
        }
        Intervals {
            times: times.into_iter().map(middle).collect(),
            unfairness: middle(unfairness),
            weighted_speedup: middle(speedups),
        }
    }
}

/// Returns the mean of a resample: `times.len()` draws from `times`, with replacement.
fn drawn(times: &[f64], random: &mut Rng) -> f64 {
    (0..times.len()).map(|_| times[random.usize(..times.len())]).sum::<f64>() / times.len() as f64
}

/// Returns the bounds of the middle 95 % of the values.
fn middle(mut values: Vec<f64>) -> Interval {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    Some((at(0.025), at(0.975)))
}

/// Returns the index of a backend in the legend.
fn place(names: &[&str], corun: &Corun) -> usize {
    names.iter().position(|name| *name == corun.policy).unwrap_or(0)
}

fn lanes(names: &[&str], scale: &Scale, dots: &[Markup]) -> Markup {
    picture(LANE * names.len() + 2 * ROOM, scale, &html! { @for dot in dots { (dot) } })
}

fn lane(nth: usize) -> usize {
    ROOM + LANE * nth + LANE / 2
}

fn slowdowns(groups: &[Group], names: &[&str]) -> Markup {
    let measured = |program: &CorunProgram, interval: Interval| Measured { value: 1.0 + program.slowdown, interval };
    let all = groups.iter().flat_map(|group| &group.coruns);
    let ends = all.flat_map(|(corun, intervals)| {
        corun.programs.iter().zip(&intervals.times).flat_map(|(program, interval)| measured(program, *interval).ends())
    });
    let scale = Scale::of_ratios(ends, "time together / time alone (1: as fast as alone)");
    let mut rows = Vec::new();
    for group in groups {
        let programs = group.coruns.first().map_or(0, |(corun, _)| corun.programs.len());
        for nth in 0..programs {
            let dots: Vec<Markup> = group
                .coruns
                .iter()
                .filter_map(|(corun, intervals)| {
                    let (program, place) = (corun.programs.get(nth)?, place(names, corun));
                    let at = measured(program, intervals.times[nth]);
                    let words = format!("{} under {}: {}", shorten(&program.name), corun.policy, told(at));
                    Some(dot(&scale, at, lane(place), &chart::colour(place), &clean(&words)))
                })
                .collect();
            let program = &group.coruns[0].0.programs[nth];
            let name = match groups.len() {
                1 => shorten(&program.name),
                _ => format!("{} in {}", shorten(&program.name), group.name),
            };
            rows.push(Row { name, begins_group: nth == 0 && !rows.is_empty(), picture: lanes(names, &scale, &dots) });
        }
    }
    let caption = html! {
        "Time together / time alone of each program: the ratio of the mean times, without unit, on a logarithmic axis. \
         Dots are in the order of the legend, from the top. Lines are 95 % intervals. Farther left is faster. If the \
         dots of one colour in a co-run are close together, the programs were slowed down equally."
    };
    let label = "Time together / time alone of each program under each backend".to_owned();
    let legend = chart::keys(names.iter().copied());
    html! {
        h3 { "Slowdowns" }
        (Chart { label, legend, rows, scale, caption, dense: false }.html())
    }
}

/// Makes a row for each group. `drawn` draws a co-run in the lane and the colours of its backend.
fn row_of_each(
    groups: &[Group],
    names: &[&str],
    scale: &Scale,
    drawn: impl Fn(&Group, &(&Corun, Intervals), usize) -> Markup,
) -> Vec<Row> {
    let row = |group: &Group| {
        let dots: Vec<Markup> = group.coruns.iter().map(|corun| drawn(group, corun, place(names, corun.0))).collect();
        Row { name: group.name.clone(), begins_group: false, picture: lanes(names, scale, &dots) }
    };
    groups.iter().map(row).collect()
}

fn unfairness(groups: &[Group], names: &[&str]) -> Markup {
    let measured =
        |(corun, intervals): &(&Corun, Intervals)| Measured { value: corun.unfairness, interval: intervals.unfairness };
    let scale = Scale::from_zero(
        groups.iter().flat_map(|group| group.coruns.iter().flat_map(|corun| measured(corun).ends())),
        "unfairness (0: all programs are slowed down equally)",
    );
    let rows = row_of_each(groups, names, &scale, |group, corun, place| {
        let at = measured(corun);
        let words = format!("{} under {}: {}", group.name, corun.0.policy, told(at));
        dot(&scale, at, lane(place), &chart::colour(place), &clean(&words))
    });
    let caption = html! {
        "Unfairness of each co-run: the largest slowdown minus the smallest slowdown, without unit. A slowdown is time \
         together / time alone - 1. Lines are 95 % intervals; they are biased upwards if the slowdowns are almost \
         equal. Farther left is fairer."
    };
    let label = "Unfairness of each co-run under each backend".to_owned();
    let legend = chart::keys(names.iter().copied());
    html! {
        h3 { "Fairness" }
        (Chart { label, legend, rows, scale, caption, dense: false }.html())
    }
}

fn throughput(groups: &[Group], names: &[&str]) -> Markup {
    let measured = |(corun, intervals): &(&Corun, Intervals)| Measured {
        value: corun.weighted_speedup,
        interval: intervals.weighted_speedup,
    };
    let ends = groups
        .iter()
        .flat_map(|group| group.coruns.iter().flat_map(|corun| measured(corun).ends().chain([corun.0.bound])));
    let scale = Scale::from_zero(ends.chain([1.0]), "weighted speedup (1: as fast as one program after the other)");
    let rows = row_of_each(groups, names, &scale, |group, corun, place| {
        let (at, bound) = (measured(corun), corun.0.bound);
        let words = format!("{} under {}: {} of at most {bound:.2}", group.name, corun.0.policy, told(at));
        let (y, x) = (lane(place), chart::percent(scale.place(bound)));
        html! {
            @if bound.is_finite() { line.bound x1=(x) x2=(x) y1=(y - 6) y2=(y + 6) {} }
            (dot(&scale, at, y, &chart::colour(place), &clean(&words)))
        }
    });
    let mut legend = chart::keys(names.iter().copied());
    legend.push(("bound".to_owned(), "bound".to_owned()));
    let caption = html! {
        "Throughput of each co-run: the weighted speedup, which is the sum of time alone / time together over the \
         programs, without unit, with 95 % intervals. The vertical line is its bound: the weighted speedup if no work \
         is wasted and all programs are slowed down equally. Farther right is better. If a program uses another \
         program's gaps, the weighted speedup can exceed the bound."
    };
    let label = "Weighted speedup of each co-run under each backend, and its bound".to_owned();
    html! {
        h3 { "Throughput" }
        (Chart { label, legend, rows, scale, caption, dense: false }.html())
    }
}

/// Formats a number with its interval in brackets.
fn told(Measured { value, interval }: Measured) -> String {
    match interval {
        Some((low, high)) => format!("{value:.2} [{low:.2}, {high:.2}]"),
        None => format!("{value:.2}"),
    }
}

fn of_programs(groups: &[Group]) -> Markup {
    let header = [
        "backend",
        "program",
        "alone",
        "together",
        "together / alone",
        "cv",
        "processor time",
        "cores used",
        "cores due",
        "switches",
        "steals",
        "result",
    ];
    let coruns = groups.iter().flat_map(|group| &group.coruns);
    let programs = coruns.flat_map(|(corun, intervals)| {
        corun.programs.iter().zip(&intervals.times).map(move |(program, interval)| (corun, program, interval))
    });
    let rows: Vec<Vec<Cell>> = programs
        .map(|(corun, program, interval)| {
            let ratio = Measured { value: 1.0 + program.slowdown, interval: *interval };
            let result = if program.verified { "right" } else { "WRONG" };
            vec![
                corun.policy.as_str().into(),
                shorten(&program.name).into(),
                seconds(program.solo_s).into(),
                seconds(program.corun_s).into(),
                told(ratio).into(),
                program.cv.map_or_else(|| "-".to_owned(), percent).into(),
                seconds(program.cpu_s).into(),
                format!("{:.2}", program.cores_used).into(),
                format!("{:.2}", program.cores_due).into(),
                format!("{:.0}", program.voluntary_switches + program.involuntary_switches).into(),
                program.steals.map_or_else(|| "-".to_owned(), |steals| format!("{steals:.0}")).into(),
                Cell::from(result).wrong_if(!program.verified),
            ]
        })
        .collect();
    table(
        "Programs: means over the counted rounds; processor time, switches and steals per round together",
        &header,
        2,
        &rows,
    )
}

fn of_coruns(groups: &[Group]) -> Markup {
    let header = [
        "backend",
        "programs",
        "unfairness",
        "of processor time",
        "weighted speedup",
        "bound",
        "efficiency",
        "switches per s",
    ];
    let coruns = groups.iter().flat_map(|group| group.coruns.iter().map(|corun| (&group.name, corun)));
    let rows: Vec<Vec<Cell>> = coruns
        .map(|(name, (corun, intervals))| {
            vec![
                corun.policy.as_str().into(),
                name.into(),
                told(Measured { value: corun.unfairness, interval: intervals.unfairness }).into(),
                format!("{:.2}", corun.cpu_unfairness).into(),
                told(Measured { value: corun.weighted_speedup, interval: intervals.weighted_speedup }).into(),
                format!("{:.2}", corun.bound).into(),
                percent(corun.efficiency).into(),
                format!("{:.0}", corun.switches_per_s).into(),
            ]
        })
        .collect();
    table("Co-runs", &header, 2, &rows)
}

fn over_pairs(report: &CorunReport) -> Markup {
    let header = ["backend", "pairs", "unfairness", "worst", "D", "worst", "efficiency", "worst", "weighted speedup"];
    let rows: Vec<Vec<Cell>> = report
        .over_pairs
        .iter()
        .map(|over| {
            let (unfairness, d, efficiency) = (over.unfairness, over.slowdown_ratio_difference, over.efficiency);
            let two = |value: f64| Cell::from(format!("{value:.2}"));
            vec![
                over.policy.as_str().into(),
                over.pairs.to_string().into(),
                two(unfairness.mean),
                two(unfairness.worst),
                two(d.mean),
                two(d.worst),
                percent(efficiency.mean).into(),
                percent(efficiency.worst).into(),
                two(over.weighted_speedup_mean),
            ]
        })
        .collect();
    table("Over all pairs: means, and the worst pair", &header, 1, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corun::pairs::tests::corun;

    fn with_times(solo: &[f64], together: &[f64]) -> Corun {
        let mut corun = corun("abp", 1.0, [1.0, 1.0], None);
        for program in &mut corun.programs {
            program.times.solo_s = solo.to_vec();
            program.times.corun_s = together.to_vec();
        }
        corun
    }

    #[test]
    fn what_does_not_vary_has_an_interval_without_width() {
        let found = Intervals::of(&with_times(&[1.0; 4], &[2.0; 4]), None, 100, &mut Rng::with_seed(3));
        assert_eq!(
            found,
            Intervals {
                times: vec![Some((2.0, 2.0)); 2],
                unfairness: Some((0.0, 0.0)),
                weighted_speedup: Some((1.0, 1.0))
            }
        );
    }

    #[test]
    fn what_varies_lies_in_its_interval_and_another_baseline_counts() {
        let corun = with_times(&[1.0, 1.2, 1.1, 0.9], &[2.0, 2.4, 2.2, 1.8]);
        let of = |baseline| Intervals::of(&corun, baseline, 1_000, &mut Rng::with_seed(3));
        let (low, high) = of(None).times[0].unwrap();
        assert!(1.6 < low && low < 2.0 && 2.0 < high && high < 2.5, "{low} {high}");
        let twice = with_times(&[2.1; 4], &[3.0; 4]);
        let ((_, own), (other, _)) = (of(None).weighted_speedup.unwrap(), of(Some(&twice)).weighted_speedup.unwrap());
        assert!(own < 1.3 && other > 1.6, "{own} {other}");
    }

    #[test]
    fn a_single_round_has_no_interval() {
        let found = Intervals::of(&with_times(&[1.0], &[2.0]), None, 100, &mut Rng::with_seed(3));
        assert_eq!(found, Intervals { times: vec![None; 2], unfairness: None, weighted_speedup: None });
    }
}
