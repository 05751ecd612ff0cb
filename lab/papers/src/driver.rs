//! What `comity-lab reproduce` does for every paper with claims: it reads the arguments, runs the experiments that are
//! asked for with each setting, and says which claims hold.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use comity_console::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::claims::{CHOSEN, Claims};
use crate::measure::Measure;
use crate::paper::{Asked, Experiment, Paper, Text};
use crate::report::{Findings, Report};
use crate::{Runner, Serial};

/// What is judged, for every paper.
#[derive(Args)]
#[group(skip)]
struct Options {
    /// Fail if a claim that held when it was filed in lab/papers does not hold
    #[arg(long, conflicts_with = "shard")]
    check: bool,
    /// Run with each value of the parameters that no datum fixes, too: a claim holds only if it holds with all of them
    #[arg(long, conflicts_with = "vary")]
    full: bool,
    /// Only what this figure of the paper shows; can be repeated
    #[arg(long, value_name = "N", conflicts_with = "experiments")]
    figure: Vec<u32>,
}

/// Adds the arguments of a paper to its command.
pub fn arguments<P: Paper>(command: Command) -> Command {
    let Text { default, vary: (value, vary), one_in, .. } = P::TEXT;
    let experiments = P::experiments::<Serial>();
    let experiments = experiments.iter().map(|one| PossibleValue::new(one.name).help(one.about));
    let command = command.arg(
        Arg::new("experiments")
            .value_name("EXPERIMENT")
            .help(format!("Which experiments [default: {default}]"))
            .num_args(1..)
            .action(ArgAction::Append)
            .value_parser(PossibleValuesParser::new(experiments)),
    );
    let command = P::Options::augment_args(command);
    let command = command.arg(Arg::new("vary").long("vary").value_name(value).help(vary).action(ArgAction::Append));
    let one_in = one_in.map(|what| {
        Arg::new("one_in")
            .long("one-in")
            .value_name("N")
            .help(format!("Do one {what} of so many only, for a quick look, 1 to 100"))
            .default_value("1")
            .value_parser(read_one_in)
            .conflicts_with("full")
    });
    Options::augment_args(command.args(one_in))
}

fn read_one_in(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|one_in| (1..=100).contains(one_in)).ok_or("write a whole number from 1 to 100")
}

/// What `--vary` chooses otherwise of what a paper leaves unsaid. The name of the runs says so.
pub fn vary(
    all: &[String],
    name: &mut String,
    mut vary: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), Failure> {
    for varied in all {
        vary(varied).map_err(|why| Failure::Usage(format!("--vary: {why}")))?;
        name.push_str(", ");
        name.push_str(varied);
    }
    Ok(())
}

/// What is asked of a paper by these arguments.
pub fn ask<P: Paper, R: Runner>(matches: &ArgMatches, seed: u64) -> Result<Box<dyn Asked<R>>, Failure> {
    const PARSED: &str = "clap has parsed it";
    let strings = |id: &str| matches.get_many::<String>(id).into_iter().flatten().cloned().collect::<Vec<_>>();
    let options = Options::from_arg_matches(matches).expect(PARSED);
    let own = P::Options::from_arg_matches(matches).expect(PARSED);
    let one_in = P::TEXT.one_in.map(|what| (what, *matches.get_one::<u32>("one_in").expect(PARSED)));
    let (mut setting, mut name) = P::setting(&own, seed, one_in.map_or(1, |(_, one_in)| one_in))?;
    let mut claims = P::claims().map_err(Failure::Run)?;
    let experiments = options.experiments::<P>(&mut claims, strings("experiments"))?;
    vary(&strings("vary"), &mut name, |varied| P::vary(&mut setting, varied))?;
    if let Some((what, one_in @ 2..)) = one_in {
        name.push_str(&format!(", one {what} in {one_in}"));
    }
    Ok(Box::new(Reproduction::<P> { options, claims, experiments, setting, name }))
}

impl Options {
    /// Which experiments are run, by their names: those that the chosen figures ask for, else those that are `named`,
    /// else the paper's own. Of the claims those of the chosen figures stay.
    fn experiments<P: Paper>(&self, claims: &mut Claims, named: Vec<String>) -> Result<Vec<String>, Failure> {
        if self.figure.is_empty() {
            let all = P::experiments::<Serial>();
            let own = || all.iter().filter(|one| one.is_the_papers).map(|one| one.name.to_owned()).collect();
            return Ok(if named.is_empty() { own() } else { named });
        }
        let mut figures: Vec<u32> = claims.claims.iter().filter_map(|claim| claim.figure).collect();
        figures.sort_unstable();
        figures.dedup();
        if let Some(wrong) = self.figure.iter().find(|figure| !figures.contains(figure)) {
            let figures: Vec<String> = figures.iter().map(u32::to_string).collect();
            let (name, which) = (P::TEXT.name, figures.join(", "));
            return Err(Failure::Usage(format!("--figure {wrong}: the claims of {name} are of figures {which}")));
        }
        claims.claims.retain(|claim| claim.figure.is_some_and(|figure| self.figure.contains(&figure)));
        Ok(claims.claims.iter().map(|claim| claim.experiment.clone()).collect())
    }

    /// True if a figure is drawn, by the name of its file.
    fn draws(&self, name: &str) -> bool {
        let is_of = |figure: &u32| {
            name.strip_prefix(&format!("figure-{figure}")).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.figure.is_empty() || self.figure.iter().any(is_of)
    }
}

/// One of the settings that experiments are run with. It does their runs, which are filed by its name.
struct Swept<'a, R> {
    /// `key=value` of a swept parameter, or [`CHOSEN`].
    name: String,
    runner: &'a R,
}

impl<R: Runner> Runner for Swept<'_, R> {
    type Stop = R::Stop;

    fn run<T, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<T>, R::Stop>
    where
        T: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> T + Sync,
    {
        match self.name == CHOSEN {
            true => self.runner.run(name, runs, work),
            false => self.runner.run(&format!("{name}.{}", self.name), runs, work),
        }
    }
}

/// What is asked of a paper with claims.
struct Reproduction<P: Paper> {
    options: Options,
    claims: Claims,
    /// Which experiments are run, by their names.
    experiments: Vec<String>,
    setting: P::Setting,
    name: String,
}

/// A paper after the runs of one setting, the experiments that were done, and what they measured.
type Done<P, R> = (P, Vec<Experiment<P, R>>, Vec<Measure>);

impl<P: Paper> Reproduction<P> {
    /// Does the runs of one setting that some experiments need, and measures.
    fn measure<R: Runner>(
        &self,
        setting: &P::Setting,
        runner: &R,
        moves: impl Fn(&str) -> bool,
    ) -> Result<Done<P, R>, Failure> {
        let is_asked = |one: &Experiment<P, R>| self.experiments.iter().any(|name| name == one.name) && moves(one.name);
        let experiments: Vec<_> = P::experiments::<R>().into_iter().filter(is_asked).collect();
        let (mut paper, mut measures) = (P::with(setting), Vec::new());
        for experiment in &experiments {
            let own = (experiment.run)(&mut paper, runner)?.unwrap_or_default();
            self.claims
                .check_measures(experiment.name, &own)
                .map_err(|why| Failure::Run(format!("{}: {why}", P::TEXT.file)))?;
            measures.extend(own);
        }
        Ok((paper, experiments, measures))
    }
}

impl<P: Paper, R: Runner> Asked<R> for Reproduction<P> {
    fn setting(&self) -> &str {
        &self.name
    }

    fn run(&self, runner: &R) -> Result<Option<Report>, Failure> {
        let swept = Swept { name: CHOSEN.to_owned(), runner };
        let (paper, experiments, measures) = self.measure(&self.setting, &swept, |_| true)?;
        let mut measured = vec![(swept.name, measures)];
        for parameter in self.claims.parameters.iter().filter(|_| self.options.full) {
            for value in &parameter.sweep {
                let (name, mut setting) = (format!("{}={value}", parameter.name), self.setting.clone());
                P::vary(&mut setting, &name).map_err(Failure::Run)?;
                let swept = Swept { name, runner };
                let moves = |experiment: &str| parameter.moves.iter().any(|one| one == experiment);
                let (_, _, measures) = self.measure(&setting, &swept, moves)?;
                measured.push((swept.name, measures));
            }
        }
        // Nothing is judged of a part of the runs.
        if runner.is_part() {
            return Ok(None);
        }
        let mut figures = Vec::new();
        for (name, figure) in experiments.iter().flat_map(|one| (one.figures)(&paper, &self.claims.claims)) {
            // Two experiments may draw what both run.
            if self.options.draws(name) && figures.iter().all(|(other, _)| *other != name) {
                figures.push((name, figure));
            }
        }
        let (notes, extra) = (paper.notes(), paper.extra());
        let table = P::table(&extra);
        let findings = Findings { setting: &self.name, claims: &self.claims, measured, notes, table };
        findings.report(extra, figures, self.options.check, self.options.full).map(Some)
    }
}
