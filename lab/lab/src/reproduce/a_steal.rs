//! `comity-lab reproduce a-steal`.

use std::fmt::Write;
use std::fs::File;
use std::io::BufReader;
use std::mem;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use comity_console::Failure;
use comity_console::parse::whole;
use comity_papers::a_steal::beyond::{self, Point};
use comity_papers::a_steal::time_waste::{self, HeadToHead, MACHINES};
use comity_papers::a_steal::utilization::{self, Set};
use comity_papers::a_steal::{Family, Jobs, Outcome, PAPER, Practical, SECONDS_PER_QUANTUM, Setting, time, waste};
use comity_papers::fit::Estimate;
use comity_papers::measure::Measure;
use comity_sim::workload::swf;
use serde::Serialize;

use super::findings::{Findings, estimate, here};
use super::options::{Options, one_in};
use super::settings::{Swept, choose, settings};
use crate::figure::{Axis, Figure, Marks, Series};
use crate::sweep::Sweep;

const EXAMPLES: &str = "Examples:
  comity-lab reproduce a-steal --check
  comity-lab reproduce a-steal --check --full --out results    # stopped, the
                                                   # same command goes on
  comity-lab reproduce a-steal --figure 8 --plot .
  comity-lab reproduce a-steal time --vary fork=tree --vary iterations=1-8
  comity-lab reproduce a-steal --out shard-3 --shard 3/8       # on each of
                                                               eight machines,
                                                               and then
  comity-lab reproduce a-steal --merge shard-1 --merge shard-2 … --out all

Agrawal, He and Leiserson, An Empirical Evaluation of Work Stealing with
Parallelism Feedback, ICDCS 2006. docs/papers/a-steal.md says what the paper
leaves unsaid, what was chosen, and where numbers differ; lab/papers/ has each
claim, its kind and its tolerance.";

/// A-STEAL: the time, waste, time-waste and utilization experiments of §4 to §7
///
/// The machine is simulated; its thieves, desires and allotments are the code that runs on threads. With --out,
/// each figure is drawn as an SVG file, and the numbers are in result.json.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which experiments [default: the paper's four]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,
    /// Take practical profiles from this log in the Standard Workload Format, and not from the workload model
    #[arg(long, value_name = "FILE.swf", requires = "log_processors", conflicts_with = "full")]
    log: Option<PathBuf>,
    /// The processors of the machine of the log
    #[arg(long, value_name = "P", requires = "log", value_parser = whole::<u32>(1..=u64::from(u32::MAX)))]
    log_processors: Option<u32>,
    /// Seconds of the log, or of the workload model, that count as one quantum, 1 to 1000000
    #[arg(long, value_name = "SECS", default_value_t = SECONDS_PER_QUANTUM, value_parser = whole::<u64>(1..=1_000_000))]
    seconds_per_quantum: u64,
    /// Choose otherwise what the paper leaves unsaid; can be repeated. With fork=tree the strands of a phase come
    /// into being by a tree, not at once; trimmed=C makes R = C·(T∞ + L·lg P). Others take a range, as in
    /// iterations=1-8: critical-path (steps), parallelism (over the mean availability), serial (part of the
    /// critical path), iterations (the two phases follow each other so often). The last, alternating, is iterations
    /// in the time-waste experiments
    #[arg(long, value_name = "KEY=VALUE")]
    vary: Vec<String>,
    /// Do one run of so many only, for a quick look, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = one_in, conflicts_with = "full")]
    one_in: u32,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// §4: 2331 jobs, and which constants the bounds have in practice
    Time,
    /// §5: waste for δ from 0.5 to 1, and over the parallelism
    Waste,
    /// §6: A-STEAL and ABP, job by job
    TimeWaste,
    /// §7: jobs that come and go on a machine of 1000 processors
    Utilization,
    /// What the authors could not run: quanta up to 10⁵ steps, sampled usage, 10⁵ processors
    Beyond,
}

/// What the paper has no number for.
#[derive(Serialize)]
struct Extra {
    beyond: Vec<Beyond>,
}

/// Several jobs, of which one thing was varied.
#[derive(Clone, Serialize)]
struct Beyond {
    varied: &'static str,
    value: String,
    jobs: usize,
    /// T/(T₁/P̄ + T∞).
    time: Estimate,
    /// Over the work.
    waste: Estimate,
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let (practical, source) = practical(&arguments)?;
    let Arguments { experiments, one_in, vary, mut options, .. } = arguments;
    let (claims, asked) = options.claims(&PAPER, &experiments)?;
    let seed = options.seed;
    let mut chosen = Setting { one_in: one_in as usize, ..Setting::new(seed, practical) };
    let mut name = format!("a-steal, seed {seed}, {source}");
    choose(&vary, &mut name, |varied| chosen.vary(varied))?;
    if one_in > 1 {
        let _ = write!(name, ", one run in {one_in}");
    }
    let sweep = Sweep::new(mem::take(&mut options.sweep), name.clone())?;
    let mut results = Results::default();
    for swept in settings(&claims, options.full, &sweep, &chosen, Setting::vary)? {
        let runs = |experiment: Experiment| asked.has(&experiment) && swept.moves(&experiment);
        results.begin(&swept.name);
        results.measure(&swept, &runs)?;
    }
    if asked.has(&Experiment::Beyond) {
        let quanta = here(beyond::long_quanta(&chosen, &sweep))?;
        let samples = here(beyond::sampling(&chosen, &sweep))?;
        let machines = here(beyond::machines(&chosen, &sweep))?;
        if let (Some(quanta), Some(samples), Some(machines)) = (quanta, samples, machines) {
            results.beyond(&quanta, &samples, &machines);
        }
    }
    results.note_jobs(&chosen);
    let (table, extra) = (results.table(), Extra { beyond: results.beyond });
    results.findings.present((&PAPER, &claims), name, &sweep, &options, &table, extra)
}

/// Where practical profiles come from, and in words.
fn practical(arguments: &Arguments) -> Result<(Practical, String), Failure> {
    let Arguments { log, log_processors, seconds_per_quantum: seconds, options: Options { seed, .. }, .. } = arguments;
    let (Some(path), Some(processors)) = (log, *log_processors) else {
        let source = format!("Lublin-Feitelson workload, {seconds} s per quantum");
        let practical = Practical::synthetic(*seed, *seconds);
        let refuse =
            |why| Failure::Usage(format!("cannot use the workload with --seconds-per-quantum {seconds}: {why}"));
        return Ok((practical.map_err(refuse)?, source));
    };
    let refuse =
        |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot use the log '{}': {why}", path.display()));
    let file = File::open(path).map_err(|error| refuse(&error))?;
    let jobs = swf::read(BufReader::new(file)).map_err(|error| refuse(&error))?;
    let file = path.file_name().unwrap_or_default().display();
    let used: u128 = jobs.iter().map(|job| u128::from(job.processors) * u128::from(job.ran)).sum();
    let source = format!(
        "log {file} of {processors} processors, {} jobs, {used} processor-seconds, {seconds} s per quantum",
        jobs.len()
    );
    let practical = Practical::new(&jobs, processors, *seconds).map_err(|why| refuse(&why))?;
    Ok((practical, source))
}

/// A line of estimates with their confidence intervals.
fn estimates(name: &str, all: impl Iterator<Item = (f64, Estimate)> + Clone) -> Series {
    let points = all.clone().map(|(x, Estimate { value, .. })| (x, value));
    let intervals = all.map(|(x, Estimate { value, half_width })| (x, value - half_width, value + half_width));
    Series::new(name, Marks::Line, points.collect()).with_intervals(intervals)
}

/// The measures and the figures of the experiments that were run.
#[derive(Default)]
struct Results {
    findings: Findings,
    beyond: Vec<Beyond>,
}

impl Results {
    /// What is measured from here on is of this setting. Figures are of the first.
    fn begin(&mut self, setting: &str) {
        self.findings.measured.push((setting.to_owned(), Vec::new()));
    }

    fn extend(&mut self, measures: Vec<Measure>) {
        self.findings.measured.last_mut().expect("a setting has begun").1.extend(measures);
    }

    fn is_chosen(&self) -> bool {
        self.findings.measured.len() == 1
    }

    fn measure(&mut self, runner: &Swept<'_, Setting>, runs: &impl Fn(Experiment) -> bool) -> Result<(), Failure> {
        let setting = &runner.setting;
        // The waste experiments look at the jobs of the time experiments too.
        if runs(Experiment::Time) || runs(Experiment::Waste) {
            let outcomes = here(time::run(setting, runner))?;
            if let Some(outcomes) = outcomes.as_ref().filter(|_| runs(Experiment::Time)) {
                self.extend(time::measures(outcomes));
                if self.is_chosen() {
                    self.time(outcomes);
                }
            }
            if runs(Experiment::Waste) {
                let by_delta = here(waste::run(setting, runner))?;
                if let (Some(by_delta), Some(outcomes)) = (by_delta, outcomes) {
                    self.extend(waste::measures(&by_delta, &outcomes, setting.quantum));
                    if self.is_chosen() {
                        self.waste(setting, &by_delta, &outcomes);
                    }
                }
            }
        }
        if runs(Experiment::TimeWaste) {
            let [large, small] = MACHINES.map(|machine| here(time_waste::run(setting, machine, runner)));
            if let (Some(large), Some(small)) = (large?, small?) {
                self.extend(time_waste::measures(&large, &small));
                if self.is_chosen() {
                    self.time_waste(&large, &small);
                }
            }
        }
        if runs(Experiment::Utilization)
            && let Some(sets) = here(utilization::run(setting, runner))?
        {
            self.extend(utilization::measures(&sets));
            if self.is_chosen() {
                self.utilization(&sets);
            }
        }
        Ok(())
    }

    /// The jobs are ours, and not the same in all experiments.
    fn note_jobs(&mut self, setting: &Setting) {
        let note = |experiments: &str, jobs: &Jobs| {
            let Jobs { critical_path, parallelism, serial, iterations } = jobs;
            format!(
                "Jobs of {experiments}: critical path {} to {} steps, parallelism {} to {} times P̄, serial part {} to {}, both phases \
                 {} to {} times.",
                critical_path.0,
                critical_path.1,
                parallelism.0,
                parallelism.1,
                serial.0,
                serial.1,
                iterations.0,
                iterations.1
            )
        };
        let Jobs { serial, iterations, .. } = &setting.jobs;
        let many = format!(
            "Jobs of utilization: critical path and parallelism of U, HT1 and HT2, serial part {} to {}, both phases {} to {} times.",
            serial.0, serial.1, iterations.0, iterations.1
        );
        let differ =
            "The jobs of time-waste change more often than the others: with the others' ABP is as fast as A-STEAL.";
        let names =
            [note("time and waste", &setting.jobs), note("time-waste", &setting.alternating), many, differ.to_owned()];
        self.findings.notes.splice(0..0, names);
    }

    fn time(&mut self, outcomes: &[Outcome]) {
        let by_family = |point: fn(&Outcome) -> (f64, f64)| {
            let own = |family: Family| outcomes.iter().filter(move |outcome| outcome.family == family);
            Family::ALL.map(|family| Series::new(family.name(), Marks::Points, own(family).map(point).collect()))
        };
        let mut series = Vec::from(by_family(|outcome| {
            let parallelism = outcome.parallelism();
            (outcome.mean_availability / parallelism, outcome.trimmed_availability / parallelism)
        }));
        let ends = series.iter().flat_map(|series| &series.points).map(|point| point.0);
        let (least, most) = ends.fold((f64::INFINITY, 0.0f64), |(least, most), x| (least.min(x), most.max(x)));
        series.push(Series::new("both the same", Marks::Curve, vec![(least, least), (most, most)]));
        self.findings.figures.push((
            "figure-3",
            Figure {
                title: "A-STEAL figure 3: mean and trimmed availability".into(),
                x: Axis::log("mean availability / parallelism"),
                y: Axis::log("trimmed availability / parallelism"),
                series,
            },
        ));
        let fits = time::fit(outcomes);
        let predicted = |outcome: &Outcome| {
            let work = outcome.work as f64 / outcome.trimmed_availability;
            fits.trimmed.predict(work, outcome.critical_path as f64)
        };
        let point = |outcome: &Outcome| {
            (outcome.parallelism() / outcome.mean_availability, outcome.time() / predicted(outcome))
        };
        let own = |family: Family| outcomes.iter().filter(move |outcome| outcome.family == family);
        let series =
            Family::ALL.map(|family| Series::new(family.name(), Marks::Points, own(family).map(point).collect()));
        self.findings.figures.push((
            "time-fit",
            Figure {
                title: "A-STEAL §4: time over the fit of equation 4".into(),
                x: Axis::log("parallelism / mean availability"),
                y: Axis::linear("measured / fitted"),
                series: series.into(),
            },
        ));
    }

    fn waste(&mut self, setting: &Setting, by_delta: &[(u32, Vec<Outcome>)], time: &[Outcome]) {
        let part = |delta: u32| f64::from(delta) / 100.0;
        let bound = |name: &str, of: &dyn Fn(f64) -> f64| {
            let points = by_delta.iter().map(|(delta, _)| (part(*delta), of(part(*delta))));
            Series::new(name, Marks::Curve, points.collect())
        };
        let mean = by_delta.iter().map(|(delta, outcomes)| (part(*delta), waste::mean_waste(outcomes)));
        let length = setting.quantum as f64;
        self.findings.figures.push((
            "figure-4",
            Figure {
                title: "A-STEAL figure 4: waste and its bounds, by δ".into(),
                x: Axis::linear("δ").without_zero(),
                y: Axis::linear("waste / T₁"),
                series: vec![
                    estimates("measured, mean", mean),
                    bound("bound in efficient quanta", &waste::efficient_bound),
                    bound("bound (inequality 3)", &|delta| waste::bound(delta, length)),
                ],
            },
        ));
        let point = |outcome: &Outcome| (outcome.parallelism() / outcome.mean_availability, outcome.waste());
        let own = |family: Family| time.iter().filter(move |outcome| outcome.family == family);
        let series =
            Family::ALL.map(|family| Series::new(family.name(), Marks::Points, own(family).map(point).collect()));
        self.findings.figures.push((
            "figure-5",
            Figure {
                title: "A-STEAL figure 5: waste and parallelism".into(),
                x: Axis::log("parallelism / mean availability"),
                y: Axis::linear("waste / T₁"),
                series: series.into(),
            },
        ));
    }

    fn time_waste(&mut self, large: &[HeadToHead], small: &[HeadToHead]) {
        for (runs, processors, names) in
            [(large, 512, ["figure-6-time", "figure-6-waste"]), (small, 128, ["figure-7-time", "figure-7-waste"])]
        {
            let series = |name: &str, ratio: &dyn Fn(&HeadToHead) -> f64| {
                let points = runs.iter().map(|run| (run.normalized_availability(), ratio(run)));
                Series::new(name, Marks::Points, points.collect())
            };
            // The text has one number for all runs of the larger machine; the drawings' points are not in it.
            let ends = runs.iter().map(HeadToHead::normalized_availability);
            let ends = [ends.clone().fold(f64::INFINITY, f64::min), ends.fold(0.0, f64::max)];
            let level = |said: f64| {
                let name = format!("ABP, the paper's: about {said}");
                Series::new(name, Marks::PaperLevel { of: 0 }, ends.map(|x| (x, said)).into())
            };
            let levels = |said: f64| (processors == 512).then(|| level(said));
            let title = |what: &str| {
                let number = if processors == 512 { 6 } else { 7 };
                format!("A-STEAL figure {number}: {what} under ABP over A-STEAL, P = {processors}")
            };
            let x = || Axis::log("mean availability / parallelism");
            let time = |of: fn(&HeadToHead) -> &Outcome| move |run: &HeadToHead| of(run).time() / run.a_steal.time();
            let wasted = |of: fn(&HeadToHead) -> &Outcome| {
                move |run: &HeadToHead| of(run).cycles.waste() as f64 / (run.a_steal.cycles.waste() as f64).max(1.0)
            };
            let figures = [
                Figure {
                    title: title("time"),
                    x: x(),
                    y: Axis::linear("time over A-STEAL's"),
                    series: [
                        series("ABP", &time(|run| &run.abp)),
                        series("ABP with mugging (§9)", &time(|run| &run.abp_mug)),
                    ]
                    .into_iter()
                    .chain(levels(2.0))
                    .collect(),
                },
                Figure {
                    title: title("waste"),
                    x: x(),
                    y: Axis::log("waste over A-STEAL's"),
                    series: [
                        series("ABP", &wasted(|run| &run.abp)),
                        series("ABP with mugging (§9)", &wasted(|run| &run.abp_mug)),
                    ]
                    .into_iter()
                    .chain(levels(10.0))
                    .collect(),
                },
            ];
            self.findings.figures.extend(names.into_iter().zip(figures));
        }
    }

    fn utilization(&mut self, sets: &[Set]) {
        const NAMES: [&str; 6] = [
            "figure-8-u-u",
            "utilization-u-ht1",
            "utilization-ht1-u",
            "figure-8-ht1-ht1",
            "utilization-ht2-u",
            "utilization-ht2-ht2",
        ];
        for set in sets.iter().filter(|set| utilization::FIGURE_8.contains(&set.name.as_str())) {
            let ended = |outcome: &utilization::Outcome| outcome.completions.iter().flatten().count();
            let (all, a_steal, abp) = (set.a_steal.completions.len(), ended(&set.a_steal), ended(&set.abp));
            let note = format!("{}: of {all} jobs {a_steal} ended under A-STEAL+DEQ, {abp} under ABP+EQ.", set.name);
            self.findings.notes.push(note);
        }
        for (name, set) in NAMES.into_iter().zip(sets) {
            let line = |name: &str, outcome: &utilization::Outcome| {
                let steps = (1..).map(|nth| (nth * utilization::INTERVAL) as f64);
                Series::new(name, Marks::Line, steps.zip(outcome.utilization.clone()).collect())
            };
            self.findings.figures.push((
                name,
                Figure {
                    title: format!("A-STEAL §7: utilization over time, {} (parallelism/critical path)", set.name),
                    x: Axis::log("time steps"),
                    y: Axis::linear("part of the cycles spent working"),
                    series: vec![
                        line("A-STEAL + DEQ", &set.a_steal),
                        line("ABP + EQ", &set.abp),
                        line("ABP with mugging (§9) + EQ", &set.abp_mug),
                    ],
                },
            ));
        }
    }

    fn beyond(&mut self, quanta: &[Point], samples: &[Point], machines: &[Point]) {
        for (name, varied, points) in [
            ("quanta", "steps in a quantum, L", quanta),
            ("sampling", "cycles sampled in a quantum", samples),
            ("processors", "processors, P", machines),
        ] {
            self.beyond.extend(points.iter().map(|point| Beyond {
                varied,
                value: if point.varied == u64::MAX { "all".to_owned() } else { point.varied.to_string() },
                jobs: point.outcomes.len(),
                time: point.time(),
                waste: point.waste(),
            }));
            let line = |name: &str, of: fn(&Point) -> Estimate| {
                let numbered = points.iter().filter(|point| point.varied != u64::MAX);
                estimates(name, numbered.map(|point| (point.varied as f64, of(point))))
            };
            self.findings.figures.push((
                name,
                Figure {
                    title: format!("Beyond the paper: A-STEAL over {varied}"),
                    x: Axis::log(varied),
                    y: Axis::linear("means"),
                    series: vec![
                        line("time / (work / mean availability + critical path)", Point::time),
                        line("waste / work", Point::waste),
                    ],
                },
            ));
        }
    }

    /// What the paper has no number for.
    fn table(&self) -> String {
        let mut text = String::new();
        if !self.beyond.is_empty() {
            let mut table = Table::new();
            let header = ["varied", "", "jobs", "T / (T₁/P̄ + T∞)", "waste / T₁"];
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
            for Beyond { varied, value, jobs, time, waste } in &self.beyond {
                let [time, waste] =
                    [time, waste].map(|of| estimate(of.value, (of.half_width > 0.0).then_some(of.half_width)));
                table.add_row([*varied, value, &jobs.to_string(), &time, &waste]);
            }
            let _ = writeln!(text, "{table}");
        }
        text
    }
}
