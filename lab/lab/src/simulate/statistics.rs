//! Statistics of runs: the means and percentiles of programs' numbers. Programs of different runs with the same name
//! are taken together.

use comity_papers::fit::{Estimate, mean};
use comity_sim::scenario::{Outcome, ProgramOutcome};
use comity_sim::threads::Counts;
use serde::Serialize;

use crate::bench::quartiles::percentile;

/// The statistics of some runs, as a table.
pub struct Statistics {
    /// The columns: the program's name, and numbers.
    pub header: Vec<&'static str>,
    /// A row for each name.
    pub rows: Vec<Vec<String>>,
    /// Sentences on all programs together.
    pub sentences: Vec<String>,
}

/// A number that each ended program has, with its name and unit.
struct Quantity {
    name: &'static str,
    unit: Unit,
    of: fn(&ProgramOutcome) -> f64,
}

/// The unit of a number.
#[derive(Clone, Copy)]
enum Unit {
    /// Steps of the machine; on a host they are nanoseconds.
    Steps,
    /// A ratio, without unit.
    Ratio,
    /// A count of events.
    Times,
}

const TIME: Quantity = Quantity { name: "time", unit: Unit::Steps, of: time };
const WASTE: Quantity = Quantity { name: "waste / T₁", unit: Unit::Ratio, of: waste };
/// The number of ended executions of a repeated program.
const EXECUTIONS: Quantity =
    Quantity { name: "executions", unit: Unit::Times, of: |program| program.executions.len() as f64 };
/// The numbers that only programs on a host have.
const OF_HOST: [Quantity; 4] = [
    Quantity { name: "waited", unit: Unit::Steps, of: |program| program.waited.unwrap_or(0) as f64 },
    Quantity { name: "sleeps", unit: Unit::Times, of: |program| counts(program).sleeps as f64 },
    Quantity { name: "preemptions", unit: Unit::Times, of: |program| counts(program).preemptions as f64 },
    Quantity { name: "cores lost", unit: Unit::Times, of: |program| counts(program).lost as f64 },
];

fn counts(program: &ProgramOutcome) -> Counts {
    program.counts.unwrap_or_default()
}

/// Returns the time from the beginning of a program to its end. Returns the mean time of an execution for a repeated
/// program.
pub fn time(program: &ProgramOutcome) -> f64 {
    program.time().unwrap_or(0.0)
}

/// Returns the waste of a program (cycles of stealing and mugging) divided by its work.
pub fn waste(program: &ProgramOutcome) -> f64 {
    // A repeated program has done its work several times, and the last time perhaps only in part, so its work is
    // counted in cycles.
    let work = if program.executions.is_empty() { program.work } else { program.cycles.work };
    program.cycles.waste() as f64 / work as f64
}

/// Returns the names of the programs, in the order in which they first appear.
pub fn names(runs: &[Outcome]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for program in runs.iter().flat_map(|run| &run.programs) {
        if !names.contains(&program.name.as_str()) {
            names.push(&program.name);
        }
    }
    names
}

/// Returns the programs with a name that ended at least once.
fn ended<'a>(run: &'a Outcome, name: &'a str) -> impl Iterator<Item = &'a ProgramOutcome> {
    run.programs.iter().filter(move |program| program.name == name && program.time().is_some())
}

/// Returns the mean of a number over the ended programs with a name. Its confidence interval is over the runs:
/// programs of one run share a machine, so only runs are independent.
pub fn mean_of(runs: &[Outcome], name: &str, number: impl Fn(&ProgramOutcome) -> f64) -> Estimate {
    let of_run = |run: &Outcome| {
        let numbers: Vec<f64> = ended(run, name).map(&number).collect();
        (!numbers.is_empty()).then(|| mean(&numbers).value)
    };
    mean(&runs.iter().filter_map(of_run).collect::<Vec<_>>())
}

/// Returns the mean number of cores that all programs with a name used together in a run.
fn cores_used(run: &Outcome, name: &str) -> f64 {
    let used = run.programs.iter().filter(|program| program.name == name).map(|program| program.cycles.total());
    used.sum::<u64>() as f64 / run.steps.max(1) as f64
}

fn is_on_a_host(runs: &[Outcome]) -> bool {
    runs.iter().flat_map(|run| &run.programs).any(|program| program.counts.is_some())
}

/// Returns the statistics of the programs with the same name, over all runs.
pub fn of(runs: &[Outcome]) -> Statistics {
    let all = || runs.iter().flat_map(|run| &run.programs);
    let is_on_a_host = is_on_a_host(runs);
    let clock = Clock::of(runs);
    let mut header = vec!["program", "came", "ended", "died", TIME.name, "T₁", "T∞", WASTE.name];
    if is_on_a_host {
        header.extend(OF_HOST.iter().map(|quantity| quantity.name).chain(["cores used"]));
    }
    let repeats = all().any(|program| !program.executions.is_empty());
    header.extend(repeats.then_some(EXECUTIONS.name));
    let mut rows = Vec::new();
    for name in names(runs) {
        let of = || all().filter(|program| program.name == name);
        let told = |Quantity { unit, of, .. }: &Quantity| clock.tell_in(*unit, mean_of(runs, name, of));
        let (work, critical_path) = of().next().map_or((0, 0), |program| (program.work, program.critical_path));
        let [ended, died] =
            [|program: &&ProgramOutcome| program.ended.is_some(), |program: &&ProgramOutcome| program.died.is_some()]
                .map(|is| of().filter(is).count().to_string());
        let [work, critical_path] = [work, critical_path].map(|time| clock.tell(Estimate::from(time as f64)));
        let mut row = vec![name.to_owned(), of().count().to_string(), ended, died, told(&TIME), work, critical_path];
        row.push(told(&WASTE));
        if is_on_a_host {
            row.extend(OF_HOST.iter().map(told));
            row.push(part(over(runs, |run| cores_used(run, name))));
        }
        row.extend(repeats.then(|| told(&EXECUTIONS)));
        rows.push(row);
    }
    let unshared: u64 = all().map(|program| counts(program).unshared).sum();
    let mut sentences = Vec::new();
    if unshared > 0 {
        sentences.push(format!("{unshared} programs found the core table full, and ran without it."));
    }
    if is_on_a_host {
        let idle = clock.tell(over(runs, idle_beside_work));
        sentences.push(format!("Cores idled for {idle} while a thread or a task waited for a core."));
        let [all, to_thieves, between] = SWITCHES.map(|number| with_interval(over(runs, number), 0));
        sentences.push(format!(
            "Cores switched threads {all} times: {to_thieves} times to a thread without a task, {between} times from a \
             thread of another program."
        ));
    }
    if runs.iter().any(|run| run.vmm.is_some()) {
        let counts: [fn(&Outcome) -> f64; 3] = [
            |run| run.vmm.unwrap_or_default().switches as f64,
            |run| run.vmm.unwrap_or_default().accelerations as f64,
            |run| run.vmm.unwrap_or_default().refusals as f64,
        ];
        let [switches, granted, refused] = counts.map(|number| with_interval(over(runs, number), 0));
        sentences.push(format!(
            "Physical CPUs switched virtual CPUs {switches} times. Accelerations of virtual CPUs: {granted} granted, \
             {refused} refused."
        ));
    }
    let plural = if runs.len() == 1 { "" } else { "s" };
    sentences.push(format!(
        "{} run{plural} of {}; utilization {}. Times and waste are means over the runs, of the programs that ended.",
        runs.len(),
        clock.tell(over(runs, length)),
        part(over(runs, utilization))
    ));
    Statistics { header, rows, sentences }
}

/// Returns the statistics of the runs as a whole: the columns, and the numbers.
pub fn told_of_runs(runs: &[Outcome]) -> (Vec<&'static str>, Vec<String>) {
    let clock = Clock::of(runs);
    let mut header = vec!["runs", "length", "utilization"];
    let mut row = vec![runs.len().to_string(), clock.tell(over(runs, length)), part(over(runs, utilization))];
    if is_on_a_host(runs) {
        header.extend(["idle while work waits", "switches", "to thieves", "between programs"]);
        row.push(clock.tell(over(runs, idle_beside_work)));
        row.extend(SWITCHES.map(|number| with_interval(over(runs, number), 0)));
    }
    (header, row)
}

fn over(runs: &[Outcome], number: impl Fn(&Outcome) -> f64) -> Estimate {
    mean(&runs.iter().map(number).collect::<Vec<_>>())
}

fn length(run: &Outcome) -> f64 {
    run.steps as f64
}

fn utilization(run: &Outcome) -> f64 {
    run.utilization
}

fn idle_beside_work(run: &Outcome) -> f64 {
    run.idle_beside_work.unwrap_or(0) as f64
}

/// The numbers of switches of threads on cores: all switches, switches to a thread without a task, and switches
/// between programs.
const SWITCHES: [fn(&Outcome) -> f64; 3] = [
    |run| run.switches.unwrap_or_default().all as f64,
    |run| run.switches.unwrap_or_default().to_thieves as f64,
    |run| run.switches.unwrap_or_default().between_programs as f64,
];

/// The percentiles that are reported.
const PERCENTS: [usize; 3] = [50, 90, 99];

/// The distribution of a number over programs or runs.
#[derive(Clone, Copy, Serialize)]
pub struct Distribution {
    /// The number of values.
    pub of: usize,
    /// The mean of the runs' means. Its confidence interval is over the runs, because only runs are independent.
    pub mean: f64,
    /// The half-width of the 95 % confidence interval of `mean`. 0 if fewer than two runs have a value.
    pub half_width: f64,
    /// The median. Percentiles are interpolated between two values (Hyndman and Fan's definition 8).
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Distribution {
    /// Returns the distribution of `numbers`. `None` if there are no numbers.
    fn new(numbers: &[f64], Estimate { value, half_width }: Estimate) -> Option<Distribution> {
        if numbers.is_empty() {
            return None;
        }
        let [p50, p90, p99] = PERCENTS.map(|percent| percentile(numbers, percent));
        Some(Distribution { of: numbers.len(), mean: value, half_width, p50, p90, p99 })
    }

    fn of_programs(runs: &[Outcome], name: &str, number: impl Fn(&ProgramOutcome) -> f64) -> Option<Distribution> {
        let numbers: Vec<f64> = runs.iter().flat_map(|run| ended(run, name)).map(&number).collect();
        Distribution::new(&numbers, mean_of(runs, name, number))
    }

    fn of_runs(runs: &[Outcome], number: impl Fn(&Outcome) -> f64) -> Option<Distribution> {
        let numbers: Vec<f64> = runs.iter().map(number).collect();
        Distribution::new(&numbers, mean(&numbers))
    }
}

/// The statistics of the runs of a point. Times are in steps of the machine. On a host, a step is a nanosecond.
#[derive(Serialize)]
pub struct Summary {
    length: Option<Distribution>,
    utilization: Option<Distribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_beside_work: Option<Distribution>,
    /// The number of switches of threads in a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    switches: Option<Distribution>,
    programs: Vec<ProgramSummary>,
}

/// The statistics of the ended programs with a name, over all runs.
#[derive(Serialize)]
struct ProgramSummary {
    name: String,
    time: Option<Distribution>,
    /// The waste (cycles of stealing and mugging) divided by the work.
    waste: Option<Distribution>,
    #[serde(flatten)]
    on_a_host: Option<OnAHost>,
}

#[derive(Serialize)]
struct OnAHost {
    waited: Option<Distribution>,
    sleeps: Option<Distribution>,
    preemptions: Option<Distribution>,
    lost: Option<Distribution>,
    /// The number of cores that all programs with the name used together, per run.
    cores_used: Option<Distribution>,
}

impl Summary {
    /// Summarises some runs.
    pub fn new(runs: &[Outcome]) -> Summary {
        let is_on_a_host = is_on_a_host(runs);
        let program = |name: &str| {
            let [waited, sleeps, preemptions, lost] =
                OF_HOST.map(|quantity| Distribution::of_programs(runs, name, quantity.of));
            let cores_used = Distribution::of_runs(runs, |run| cores_used(run, name));
            ProgramSummary {
                name: name.to_owned(),
                time: Distribution::of_programs(runs, name, time),
                waste: Distribution::of_programs(runs, name, waste),
                on_a_host: is_on_a_host.then_some(OnAHost { waited, sleeps, preemptions, lost, cores_used }),
            }
        };
        Summary {
            length: Distribution::of_runs(runs, length),
            utilization: Distribution::of_runs(runs, utilization),
            idle_beside_work: Distribution::of_runs(runs, idle_beside_work).filter(|_| is_on_a_host),
            switches: Distribution::of_runs(runs, SWITCHES[0]).filter(|_| is_on_a_host),
            programs: names(runs).into_iter().map(program).collect(),
        }
    }
}

/// Returns the columns, and a row for each name with more than one ended program. A single program has no
/// distribution.
pub fn percentiles(runs: &[Outcome]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let clock = Clock::of(runs);
    let of_host = OF_HOST.into_iter().filter(|_| is_on_a_host(runs));
    let quantities: Vec<Quantity> = [TIME, WASTE].into_iter().chain(of_host).collect();
    let header = ["program", "of"].into_iter().chain(quantities.iter().map(|quantity| quantity.name)).collect();
    let row = |name: &str| {
        let each = quantities.iter().map(|quantity| (quantity, Distribution::of_programs(runs, name, quantity.of)));
        let each: Vec<(&Quantity, Distribution)> = each.filter_map(|(what, found)| Some((what, found?))).collect();
        let of = each.first().map_or(0, |(_, time)| time.of);
        let cells =
            each.iter().map(|(quantity, found)| clock.tell_all(quantity.unit, [found.p50, found.p90, found.p99]));
        (of > 1).then(|| [name.to_owned(), of.to_string()].into_iter().chain(cells).collect())
    };
    (header, names(runs).into_iter().filter_map(row).collect())
}

/// The unit in which a machine counts time.
#[derive(Clone, Copy)]
enum Clock {
    /// The steps of the machine of the A-STEAL paper. A step has no length in seconds.
    Steps,
    /// The nanoseconds of a host.
    Nanoseconds,
}

impl Clock {
    /// Returns the unit of the machine of these runs.
    fn of(runs: &[Outcome]) -> Clock {
        if is_on_a_host(runs) { Clock::Nanoseconds } else { Clock::Steps }
    }

    /// Returns a suitable unit for a value, the number of steps in this unit, and the number of decimals.
    fn unit(self, value: f64) -> (&'static str, f64, usize) {
        match self {
            Clock::Steps => ("steps", 1.0, 0),
            Clock::Nanoseconds => match value.abs() {
                ..1e3 => ("ns", 1.0, 0),
                1e3..1e6 => ("µs", 1e3, 2),
                1e6..1e9 => ("ms", 1e6, 2),
                _ => ("s", 1e9, 3),
            },
        }
    }

    fn tell(self, estimate: Estimate) -> String {
        if !estimate.value.is_finite() {
            return "-".to_owned();
        }
        let (unit, scale, digits) = self.unit(estimate.value);
        let scaled = Estimate { value: estimate.value / scale, half_width: estimate.half_width / scale };
        format!("{} {unit}", with_interval(scaled, digits))
    }

    fn tell_in(self, unit: Unit, estimate: Estimate) -> String {
        match unit {
            Unit::Steps => self.tell(estimate),
            Unit::Ratio => part(estimate),
            Unit::Times => with_interval(estimate, 0),
        }
    }

    /// Formats ascending numbers, all in the same unit.
    fn tell_all(self, unit: Unit, numbers: [f64; 3]) -> String {
        let (name, scale, digits) = match unit {
            Unit::Steps => self.unit(numbers[2]),
            Unit::Ratio => ("", 1.0, 3),
            Unit::Times => ("", 1.0, 0),
        };
        let numbers = numbers.map(|number| format!("{:.digits$}", number / scale)).join(" / ");
        format!("{numbers} {name}").trim_end().to_owned()
    }
}

fn part(estimate: Estimate) -> String {
    with_interval(estimate, 3)
}

fn with_interval(Estimate { value, half_width }: Estimate, digits: usize) -> String {
    match (value.is_finite(), half_width > 0.0) {
        (false, _) => "-".to_owned(),
        (_, false) => format!("{value:.digits$}"),
        (_, true) => format!("{value:.digits$} ± {half_width:.digits$}"),
    }
}
