//! The comparison at the command line: its arguments, its text and its tables.

use std::fmt::Write;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use comfy_table::{Table, presets};
use comity_console::parse::whole;
use comity_console::{Failure, output};
use serde::Serialize;

use super::{CORES, Ground, Measured, MeasuredCell, Mix, POLICIES, Setting, run as run_cells};
use crate::driver::{self, Asked, Definition};
use crate::figure::{Cell, Heat};
use crate::measure::median;
use crate::report::{Pictures, Report};
use crate::{Runner, here};

const EXAMPLES: &str = "Examples:
  comity-lab reproduce all-five --cores 8 --runs 1
  comity-lab reproduce all-five --out all-five
  comity-lab reproduce all-five half-serial bursts --on bare --measure waste
  comity-lab reproduce all-five --vary kernel=6.18
  comity-lab reproduce all-five spins --vary comity=comity:share=time

If a command with --out is interrupted, run it again to continue.

No paper contains this comparison, so there are no claims to check.
docs/results/all-five.md has the results.";

const SCHEMA: &str = "comity-all-five/2";

/// Returns the definition of the comparison.
pub const fn definition<R: Runner + 'static>() -> Definition<R> {
    Definition {
        name: "all-five",
        title: "The five papers' policies, comity, and their predecessors, on the same mixes",
        about: "Programs run together repeatedly, on a simulated host and in a simulated virtual machine, on 8, 32 and \
            128 cores. Each cell is the median of several runs. --out writes the tables as SVG files, and the numbers \
            to result.json.",
        examples: EXAMPLES,
        schema: SCHEMA,
        draws: "table",
        arguments: Arguments::augment_args,
        ask: ask::<R>,
    }
}

#[derive(Args)]
#[group(skip)]
struct Arguments {
    /// Mixes to run [default: all]
    #[arg(value_name = "MIX", value_parser = mix())]
    mixes: Vec<Mix>,
    /// Machine to simulate; can be repeated [default: both]
    #[arg(long, value_name = "GROUND")]
    on: Vec<GroundName>,
    /// Numbers of cores of the machines, 8 to 256 each [default: 8,32,128]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u32>(8..=256))]
    cores: Vec<u32>,
    /// Number of runs of each cell; each run uses the next seed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u16>(1..=1000))]
    runs: u16,
    /// Measure to print; can be repeated. JSON has all measures [default: efficiency, unfairness]
    #[arg(long, value_name = "MEASURE")]
    measure: Vec<Quantity>,
    /// Change a parameter: kernel (3.9, with the kernel support that BWS and Robinhood need; 6.18, without it), groups
    /// (same, separate), queues (mutex; lock-free), steal (time of an attempt to steal, in ns), comity (a policy to use
    /// instead of comity); can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    vary: Vec<String>,
}

/// Reads the name of a mix.
fn mix() -> impl TypedValueParser<Value = Mix> {
    let values = Mix::ALL.map(|mix| PossibleValue::new(mix.name()).help(mix.about()));
    let named =
        |name: String| Mix::ALL.into_iter().find(|mix| mix.name() == name).expect("clap accepts only names of mixes");
    PossibleValuesParser::new(values).map(named)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroundName {
    /// A host
    Bare,
    /// A virtual machine, together with a virtual machine that computes all the time
    Virtual,
}

/// A measured quantity.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Quantity {
    /// Weighted speedup / its bound: higher is better
    Efficiency,
    /// Largest slowdown - smallest slowdown: lower is better
    Unfairness,
    /// Part of the used time in which thieves searched for tasks, or tasks spun on flags
    Waste,
    /// Part of the cores' time in which they idled while work waited
    Idle,
    /// Switches per core and second
    Switches,
    /// Time until a program that arrives has its first core, in µs
    Delay,
    /// Time of a server's burst / its time alone
    Burst,
}

impl Quantity {
    fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }

    fn of(self, measured: &Measured) -> f64 {
        match self {
            Quantity::Efficiency => measured.efficiency,
            Quantity::Unfairness => measured.unfairness,
            Quantity::Waste => measured.waste,
            Quantity::Idle => measured.idle,
            Quantity::Switches => measured.switches,
            Quantity::Delay => measured.delay,
            Quantity::Burst => measured.burst,
        }
    }

    fn more_is_better(self) -> bool {
        self == Quantity::Efficiency
    }

    /// Maps a value to the shade of its cell, from 0 (bad) to 1 (good).
    fn good(self, value: f64) -> f64 {
        match self {
            Quantity::Efficiency => (value - 0.4) / 0.6,
            Quantity::Unfairness => 1.0 - value / 2.0,
            Quantity::Waste | Quantity::Idle => 1.0 - value / 0.5,
            // These quantities have a logarithmic scale, in powers of ten.
            Quantity::Switches => 1.0 - ((value + 1.0).log10() - 1.0) / 4.0,
            Quantity::Delay => 1.0 - ((value + 1.0).log10() - 1.0) / 3.0,
            Quantity::Burst => 1.0 - (value - 1.0) / 3.0,
        }
    }

    fn told(self, value: f64) -> String {
        match self {
            _ if value.is_nan() => String::new(),
            Quantity::Switches | Quantity::Delay => format!("{value:.0}"),
            _ => format!("{value:.2}"),
        }
    }

    /// Returns the line below a picture's title.
    fn note(self) -> &'static str {
        match self {
            Quantity::Efficiency => "weighted speedup / its bound: 1 is ideal. A frame marks the best cell of a row",
            Quantity::Unfairness => {
                "largest slowdown - smallest slowdown: 0 is fair. A frame marks the best cell of a row"
            }
            Quantity::Waste => "part of the used time spent searching for work. A frame marks the best cell of a row",
            Quantity::Idle => {
                "part of the time in which cores idled while work waited. A frame marks the best cell of a row"
            }
            Quantity::Switches => "switches per core and second. A frame marks the best cell of a row",
            Quantity::Delay => "µs until a program that arrives has a core. A frame marks the best cell of a row",
            Quantity::Burst => "time of a burst / its time alone. A frame marks the best cell of a row",
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'a str,
    comity: &'a str,
    setting: &'a str,
    cells: &'a [MeasuredCell],
}

/// A request for the comparison.
struct Comparison {
    setting: Setting,
    name: String,
    mixes: Vec<Mix>,
    grounds: Vec<Ground>,
    cores: Vec<u32>,
    measure: Vec<Quantity>,
}

fn ask<R: Runner>(matches: &ArgMatches, seed: u64) -> Result<Box<dyn Asked<R>>, Failure> {
    let arguments = Arguments::from_arg_matches(matches).expect("clap has parsed it");
    let Arguments { mixes, on, mut cores, runs, mut measure, vary } = arguments;
    let mixes: Vec<Mix> = Mix::ALL.into_iter().filter(|mix| mixes.is_empty() || mixes.contains(mix)).collect();
    let grounds: Vec<Ground> = [(GroundName::Bare, Ground::Bare), (GroundName::Virtual, Ground::Virtual)]
        .into_iter()
        .filter(|(name, _)| on.is_empty() || on.contains(name))
        .map(|(_, ground)| ground)
        .collect();
    if cores.is_empty() {
        cores = CORES.to_vec();
    }
    if measure.is_empty() {
        measure = vec![Quantity::Efficiency, Quantity::Unfairness];
    }
    let mut setting = Setting { runs: runs.into(), ..Setting::new(seed) };
    let names: Vec<&str> = mixes.iter().map(|mix| mix.name()).collect();
    let mut name = format!("all-five, seed {seed}, {runs} runs, cores {cores:?}, on {grounds:?}, {}", names.join(" "));
    driver::vary(&vary, &mut name, |varied| setting.vary(varied))?;
    Ok(Box::new(Comparison { setting, name, mixes, grounds, cores, measure }))
}

impl<R: Runner> Asked<R> for Comparison {
    fn setting(&self) -> &str {
        &self.name
    }

    fn run(&self, runner: &R) -> Result<Option<Report>, Failure> {
        let Comparison { setting, name, mixes, grounds, cores, measure } = self;
        let Some(found) = here(run_cells(setting, mixes, grounds, cores, runner))? else { return Ok(None) };
        if found.is_empty() {
            return Err(Failure::Usage(
                "there is nothing to run: vms is a mix of virtual machines and cannot run --on bare".into(),
            ));
        }
        let json = Json { schema: SCHEMA, comity: env!("CARGO_PKG_VERSION"), setting: name, cells: &found };
        let json = output::to_json(&json);
        let mut text = String::new();
        for (ground, cores) in shown(&found) {
            for quantity in measure {
                table(&mut text, &found, (ground, cores), *quantity);
            }
        }
        Ok(Some(Report { text, json, pictures: Pictures::Tables(heats(&found)), failure: None }))
    }
}

/// Returns the kinds and sizes of machines that have cells.
fn shown(found: &[MeasuredCell]) -> Vec<(Ground, u32)> {
    let mut all = Vec::new();
    for one in found {
        let place = (one.cell.ground, one.cell.cores);
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all
}

fn told(ground: Ground) -> &'static str {
    match ground {
        Ground::Bare => "on a host",
        Ground::Virtual => "in virtual machines",
    }
}

/// A mix with its results under each policy. A result is `None` if the mix was not run under this policy.
type Row<'a> = (Mix, Vec<Option<&'a MeasuredCell>>);

/// Returns the mixes that were run on this kind and size of machine, each with its results under all policies.
fn rows(found: &[MeasuredCell], (ground, cores): (Ground, u32)) -> Vec<Row<'_>> {
    let of = |mix: Mix, policy: &str| {
        found.iter().find(|MeasuredCell { cell, .. }| {
            (cell.mix, cell.ground, cell.cores, cell.policy) == (mix, ground, cores, policy)
        })
    };
    let row = |mix: Mix| (mix, POLICIES.iter().map(|policy| of(mix, policy)).collect::<Vec<_>>());
    Mix::ALL.into_iter().map(row).filter(|(_, cells)| cells.iter().any(Option::is_some)).collect()
}

fn table(text: &mut String, found: &[MeasuredCell], place: (Ground, u32), quantity: Quantity) {
    let mut table = Table::new();
    let header = [quantity.name()].into_iter().chain(POLICIES.map(str::to_owned));
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    let rows = rows(found, place);
    let says = |cell: &MeasuredCell| !quantity.of(&cell.median).is_nan();
    for (mix, cells) in rows.iter().filter(|(_, cells)| cells.iter().flatten().any(|cell| says(cell))) {
        let cell = |found: &Option<&MeasuredCell>| match found {
            Some(found) => spread(found, quantity),
            None => "–".to_owned(),
        };
        table.add_row([mix.name().to_owned()].into_iter().chain(cells.iter().map(cell)));
    }
    if !table.is_empty() {
        let _ = writeln!(
            text,
            "{} {}, {} cores; –: not applicable; *: a program has no counted execution\n{table}",
            quantity.name(),
            told(place.0),
            place.1
        );
    }
}

/// Formats the median, and the range of the runs if they differ.
fn spread(found: &MeasuredCell, quantity: Quantity) -> String {
    let of = found.runs.iter().map(|run| quantity.of(run));
    let (least, most) =
        of.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| (least.min(one), most.max(one)));
    let [least, most] = [least, most].map(|end| quantity.told(end));
    let median = quantity.told(quantity.of(&found.median));
    let mark = if found.median.unfinished { "*" } else { "" };
    if least == most { format!("{median}{mark}") } else { format!("{median}{mark} ({least}–{most})") }
}

/// Returns a table for each quantity and kind of machine, with the name of its file.
fn heats(found: &[MeasuredCell]) -> Vec<(String, Heat)> {
    let mut heats = Vec::new();
    for ground in [Ground::Bare, Ground::Virtual] {
        let places: Vec<(Ground, u32)> = shown(found).into_iter().filter(|place| place.0 == ground).collect();
        for quantity in Quantity::value_variants() {
            let heat = heat(found, &places, *quantity);
            if !heat.rows.is_empty() {
                let ground = if ground == Ground::Bare { "bare" } else { "virtual" };
                heats.push((format!("{}-{ground}", quantity.name()), heat));
            }
        }
    }
    heats
}

/// Returns the table of a quantity: for each mix and policy, the median over the sizes of machines.
fn heat(found: &[MeasuredCell], places: &[(Ground, u32)], quantity: Quantity) -> Heat {
    let each: Vec<Vec<Row<'_>>> = places.iter().map(|place| rows(found, *place)).collect();
    let mut table = Vec::new();
    let mut some_is_unfinished = false;
    for mix in Mix::ALL {
        let values: Vec<f64> = (0..POLICIES.len())
            .map(|nth| {
                let row = |rows: &Vec<Row<'_>>| {
                    let (_, cells) = rows.iter().find(|(other, _)| *other == mix)?;
                    Some(quantity.of(&cells[nth]?.median))
                };
                median(each.iter().filter_map(row))
            })
            .collect();
        let is_unfinished = |nth: usize| {
            let mut all = each.iter().flatten().filter(|(other, _)| *other == mix).filter_map(|(_, cells)| cells[nth]);
            all.any(|found| found.median.unfinished)
        };
        let best = if quantity.more_is_better() {
            values.iter().copied().fold(f64::NAN, f64::max)
        } else {
            values.iter().copied().fold(f64::NAN, f64::min)
        };
        if best.is_nan() {
            continue;
        }
        let cell = |(nth, value): (usize, &f64)| Cell {
            text: quantity.told(*value) + if is_unfinished(nth) { "*" } else { "" },
            good: quantity.good(*value),
            // A frame marks each value that is printed like the best value.
            framed: quantity.told(*value) == quantity.told(best),
        };
        some_is_unfinished |= (0..values.len()).any(is_unfinished);
        table.push((mix.name().to_owned(), values.iter().enumerate().map(cell).collect()));
    }
    let sizes: Vec<String> = places.iter().map(|(_, cores)| cores.to_string()).collect();
    let place = places.first().map_or("", |(ground, _)| told(*ground));
    Heat {
        title: format!("{} {place}: median over machines of {} cores", quantity.name(), sizes.join(", ")),
        note: quantity.note().to_owned()
            + if some_is_unfinished { "; *: a program has no counted execution" } else { "" },
        columns: POLICIES.map(str::to_owned).to_vec(),
        rows: table,
    }
}
