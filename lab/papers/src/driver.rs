//! The driver of `comity-lab reproduce`, for every paper with claims. It reads the arguments, runs the chosen
//! experiments with each setting, and reports which claims hold.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use comity_console::Failure;

use crate::Runner;
use crate::claims::{CHOSEN, Claims};
use crate::measure::Measure;
use crate::paper::{Experiment, Paper, Repetition, Text};
use crate::report::{Findings, Report};
use crate::vary::Vary;

/// Reads a request for a paper from these arguments, with a seed.
pub type Ask<R> = fn(&ArgMatches, u64) -> Result<Box<dyn Asked<R>>, Failure>;

/// An entry of the catalog: a paper with its texts and functions for the command line.
pub struct Definition<R> {
    /// The name of the paper at the command line.
    pub name: &'static str,
    /// The first line of the help.
    pub title: &'static str,
    /// The paragraph below the title in the help.
    pub about: &'static str,
    /// Examples and sources, at the end of the help.
    pub examples: &'static str,
    /// The schema of the JSON report.
    pub schema: &'static str,
    /// The word for the pictures of the paper, for example "figure".
    pub draws: &'static str,
    /// Adds the arguments of the paper to its command.
    pub arguments: fn(Command) -> Command,
    /// Reads a request for the paper from these arguments, with a seed.
    pub ask: Ask<R>,
}

impl<R: Runner + 'static> Definition<R> {
    /// Returns the definition of a paper.
    pub const fn of<P: Paper>() -> Definition<R> {
        Definition {
            name: P::TEXT.name,
            title: P::TEXT.title,
            about: P::TEXT.about,
            examples: P::TEXT.examples,
            schema: "comity-reproduce/1",
            draws: "figure",
            arguments: arguments::<P>,
            ask: ask::<P, R>,
        }
    }
}

/// A request for the runs of a paper.
pub trait Asked<R> {
    /// Returns the name of the runs, which lists all values that their outcomes depend on.
    fn setting(&self) -> &str;

    /// Does the runs. Returns `None` if another shard does some of the runs.
    ///
    /// # Errors
    /// If a run fails, or if there is nothing to run.
    fn run(&self, runner: &R) -> Result<Option<Report>, Failure>;
}

/// Options that every paper takes.
#[derive(Args)]
#[group(skip)]
struct Options {
    /// Fail if a claim that is recorded as true in lab/papers does not hold
    #[arg(long, conflicts_with = "shard")]
    check: bool,
    /// Repeat the runs with other values of the parameters that the paper does not determine. A claim then holds only
    /// if it holds with all values
    #[arg(long, conflicts_with = "vary")]
    full: bool,
    /// Run only the experiments that this figure of the paper shows; can be repeated
    #[arg(long, value_name = "N", conflicts_with = "experiments")]
    figure: Vec<u32>,
}

/// Adds the arguments of a paper to its command.
fn arguments<P: Paper>(command: Command) -> Command {
    let Text { default, vary: (value, vary), one_in, .. } = P::TEXT;
    let experiments = P::experiments();
    let experiments = experiments.iter().map(|one| PossibleValue::new(one.name).help(one.about));
    let command = command.arg(
        Arg::new("experiments")
            .value_name("EXPERIMENT")
            .help(format!("Experiments to run [default: {default}]"))
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
            .help(format!("For a quick look: do only one of every N {what}s, 1 to 100"))
            .default_value("1")
            .value_parser(read_one_in)
            .conflicts_with("full")
    });
    Options::augment_args(command.args(one_in))
}

fn read_one_in(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|one_in| (1..=100).contains(one_in)).ok_or("write a whole number from 1 to 100")
}

/// Applies the values of `--vary` to a setting, and adds them to the name of the runs.
pub(crate) fn vary(
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

/// Reads the request for a paper from these arguments.
fn ask<P: Paper, R: Runner>(matches: &ArgMatches, seed: u64) -> Result<Box<dyn Asked<R>>, Failure> {
    const PARSED: &str = "clap has parsed it";
    let strings = |id: &str| matches.get_many::<String>(id).into_iter().flatten().cloned().collect::<Vec<_>>();
    let options = Options::from_arg_matches(matches).expect(PARSED);
    let own = P::Options::from_arg_matches(matches).expect(PARSED);
    let one_in = P::TEXT.one_in.map(|what| (what, *matches.get_one::<u32>("one_in").expect(PARSED)));
    let (mut setting, mut name) = P::setting(&own, seed, one_in.map_or(1, |(_, one_in)| one_in))?;
    let mut claims = P::claims().map_err(Failure::Run)?;
    let experiments = options.experiments::<P>(&mut claims, strings("experiments"))?;
    vary(&strings("vary"), &mut name, |varied| setting.vary(varied))?;
    if let Some((what, one_in @ 2..)) = one_in {
        name.push_str(&format!(", one {what} in {one_in}"));
    }
    Ok(Box::new(Reproduction::<P> { options, claims, experiments, setting, name }))
}

impl Options {
    /// Returns the names of the experiments to run: the experiments of the chosen figures, else the `named`
    /// experiments, else all experiments of the paper. Removes the claims that do not belong to the chosen figures.
    fn experiments<P: Paper>(&self, claims: &mut Claims, named: Vec<String>) -> Result<Vec<String>, Failure> {
        if self.figure.is_empty() {
            let all = P::experiments();
            let own = || all.iter().filter(|one| one.is_the_papers).map(|one| one.name.to_owned()).collect();
            return Ok(if named.is_empty() { own() } else { named });
        }
        let mut figures: Vec<u32> = claims.claims.iter().filter_map(|claim| claim.figure).collect();
        figures.sort_unstable();
        figures.dedup();
        if let Some(wrong) = self.figure.iter().find(|figure| !figures.contains(figure)) {
            let figures: Vec<String> = figures.iter().map(u32::to_string).collect();
            let (name, which) = (P::TEXT.name, figures.join(", "));
            return Err(Failure::Usage(format!(
                "--figure {wrong}: {name} has no claims about this figure. Choose one of {which}"
            )));
        }
        claims.claims.retain(|claim| claim.figure.is_some_and(|figure| self.figure.contains(&figure)));
        Ok(claims.claims.iter().map(|claim| claim.experiment.clone()).collect())
    }

    /// True if the file of this name belongs to a figure that is drawn.
    fn draws(&self, name: &str) -> bool {
        let is_of = |figure: &u32| {
            name.strip_prefix(&format!("figure-{figure}")).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.figure.is_empty() || self.figure.iter().any(is_of)
    }
}

/// A request for the runs of a paper with claims.
struct Reproduction<P: Paper> {
    options: Options,
    claims: Claims,
    /// The names of the experiments to run.
    experiments: Vec<String>,
    setting: P::Setting,
    name: String,
}

/// A paper after the runs with one setting, and its measures.
type Done<P> = (P, Vec<Measure>);

impl<P: Paper> Reproduction<P> {
    /// Returns the experiments to run.
    fn experiments(&self) -> impl Iterator<Item = Experiment<P>> {
        P::experiments().into_iter().filter(|one| self.experiments.iter().any(|name| name == one.name))
    }

    /// Runs the experiments for which `moves` is true, with one setting, and returns their measures.
    fn measure(
        &self,
        (name, setting): (&str, &P::Setting),
        runner: &impl Runner,
        moves: impl Fn(&str) -> bool,
    ) -> Result<Done<P>, Failure> {
        let (mut repetition, mut measures) = (Repetition::<P>::with(name, setting), Vec::new());
        for experiment in self.experiments().filter(|one| moves(one.name)) {
            let name = experiment.name;
            let own = repetition.measure(experiment, runner)?.unwrap_or_default();
            self.claims.check_measures(name, &own).map_err(|why| Failure::Run(format!("{}: {why}", P::TEXT.file)))?;
            measures.extend(own);
        }
        Ok((repetition.paper, measures))
    }
}

impl<P: Paper, R: Runner> Asked<R> for Reproduction<P> {
    fn setting(&self) -> &str {
        &self.name
    }

    fn run(&self, runner: &R) -> Result<Option<Report>, Failure> {
        let (paper, measures) = self.measure((CHOSEN, &self.setting), runner, |_| true)?;
        let mut measured = vec![(CHOSEN.to_owned(), measures)];
        for parameter in self.claims.parameters.iter().filter(|_| self.options.full) {
            for value in &parameter.sweep {
                let (name, mut setting) = (format!("{}={value}", parameter.name), self.setting.clone());
                setting.vary(&name).map_err(Failure::Run)?;
                let moves = |experiment: &str| parameter.moves.iter().any(|one| one == experiment);
                let (_, measures) = self.measure((&name, &setting), runner, moves)?;
                measured.push((name, measures));
            }
        }
        // The runs of one shard are not enough to judge a claim.
        if runner.is_part() {
            return Ok(None);
        }
        let mut figures = Vec::new();
        for (name, figure) in self.experiments().flat_map(|one| (one.figures)(&paper, &self.claims.claims)) {
            // Two experiments may draw the same figure from the parts that they share.
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
