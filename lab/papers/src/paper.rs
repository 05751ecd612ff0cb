//! What a paper is: its texts, its setting, its claims and its experiments. The driver does the rest.

use clap::{ArgMatches, Args, Command};
use comity_console::Failure;
use serde::Serialize;

use crate::Runner;
use crate::claims::{Claim, Claims, Source};
use crate::driver;
use crate::figure::Figure;
use crate::measure::Measure;
use crate::report::Report;

/// What the command line says of a paper, and its file of claims.
pub struct Text {
    /// The name of the paper at the command line.
    pub name: &'static str,
    /// The first line of the help.
    pub title: &'static str,
    /// The paragraph below it.
    pub about: &'static str,
    /// The end of the help.
    pub examples: &'static str,
    /// Which experiments are run if none is named, in words.
    pub default: &'static str,
    /// The form of what `--vary` takes, and its help.
    pub vary: (&'static str, &'static str),
    /// What `--one-in` leaves out, in a word. Without a word there is no such option.
    pub one_in: Option<&'static str>,
    /// The path of the file of claims.
    pub file: &'static str,
    /// The text of the file of claims.
    pub claims: &'static str,
}

/// A figure, by the name of its file.
pub type Named = (&'static str, Figure);

/// What an experiment measured. `None` if some of its runs are done elsewhere.
pub type Measures = Result<Option<Vec<Measure>>, Failure>;

/// Reads what is asked of a paper from these arguments, with a seed.
pub type Ask<R> = fn(&ArgMatches, u64) -> Result<Box<dyn Asked<R>>, Failure>;

/// An experiment of a paper: a row of its list.
pub struct Experiment<P, R> {
    /// The name of the experiment, at the command line and in the file of claims.
    pub name: &'static str,
    /// What the experiment is about, for the help.
    pub about: &'static str,
    /// False if the paper has no such experiment, so that only a user who names it runs it.
    pub is_the_papers: bool,
    /// Does the runs of the experiment that have not been done, and measures what came of them. Returns `None` if
    /// some of the runs are done elsewhere: the others are done here even so.
    pub run: fn(&mut P, &R) -> Measures,
    /// Draws what came of the runs, with the numbers of these claims.
    pub figures: fn(&P, &[Claim]) -> Vec<Named>,
}

impl<P, R> Experiment<P, R> {
    /// One of the paper's experiments.
    pub fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&mut P, &R) -> Measures,
        figures: fn(&P, &[Claim]) -> Vec<Named>,
    ) -> Experiment<P, R> {
        Experiment { name, about, is_the_papers: true, run, figures }
    }

    /// An experiment that the paper does not have.
    pub fn beyond(
        name: &'static str,
        about: &'static str,
        run: fn(&mut P, &R) -> Measures,
        figures: fn(&P, &[Claim]) -> Vec<Named>,
    ) -> Experiment<P, R> {
        Experiment { is_the_papers: false, ..Experiment::new(name, about, run, figures) }
    }
}

/// An experiment without figures.
pub fn undrawn<P>(_: &P, _: &[Claim]) -> Vec<Named> {
    Vec::new()
}

/// The options of a paper that has none of its own.
#[derive(Args)]
#[group(skip)]
pub struct NoOptions {}

/// A paper. A value is what came of the runs with one setting: experiments share runs, so each is done once.
pub trait Paper: Sized + 'static {
    /// What the command line says of the paper, and its file of claims.
    const TEXT: Text;

    /// Options of the paper's own.
    type Options: Args;

    /// What everything is simulated with.
    type Setting: Clone;

    /// The numbers behind the measures: fields of the report.
    type Extra: Serialize;

    /// The setting with the chosen values.
    ///
    /// # Errors
    /// Says in a sentence why there is none with this seed.
    fn usual(seed: u64) -> Result<Self::Setting, String>;

    /// The setting that the options ask for, and the name of its runs. One of `one_in` runs is done.
    ///
    /// # Errors
    /// If an option cannot be used.
    fn setting(_: &Self::Options, seed: u64, _one_in: u32) -> Result<(Self::Setting, String), Failure> {
        let setting = Self::usual(seed).map_err(Failure::Usage)?;
        Ok((setting, format!("{}, seed {seed}", Self::TEXT.name)))
    }

    /// Chooses another value for what the paper leaves unsaid: `key=value`.
    ///
    /// # Errors
    /// Says in a sentence what can be written instead.
    fn vary(setting: &mut Self::Setting, text: &str) -> Result<(), String>;

    /// A value of which no run has been done.
    fn with(setting: &Self::Setting) -> Self;

    /// The experiments, in the order in which they are run.
    fn experiments<R: Runner>() -> Vec<Experiment<Self, R>>;

    /// What a reader must know of the numbers, a sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The numbers behind the measures.
    fn extra(self) -> Self::Extra;

    /// Those of the numbers that the paper draws and has no number for, as a table.
    fn table(extra: &Self::Extra) -> String;

    /// The claims of the paper.
    ///
    /// # Errors
    /// Says in a sentence which claim is wrong, and how.
    fn claims() -> Result<Claims, String> {
        let takes = |text: &str| Self::vary(&mut Self::usual(1)?, text);
        let Text { name, file, claims, .. } = Self::TEXT;
        let experiments = Self::experiments::<crate::Serial>();
        let experiments = experiments.iter().filter(|one| one.is_the_papers).map(|one| one.name).collect();
        Claims::read(&Source { paper: name, file, experiments, takes: &takes }, claims)
    }
}

/// A paper as the command line has it: a row of the catalog.
pub struct Row<R> {
    /// The name of the paper at the command line.
    pub name: &'static str,
    /// The first line of the help.
    pub title: &'static str,
    /// The paragraph below it.
    pub about: &'static str,
    /// The end of the help.
    pub examples: &'static str,
    /// The schema of the JSON.
    pub schema: &'static str,
    /// What is drawn of the paper, in a word.
    pub draws: &'static str,
    /// Adds the arguments of the paper to its command.
    pub arguments: fn(Command) -> Command,
    /// What is asked of the paper by these arguments, with a seed.
    pub ask: Ask<R>,
}

impl<R: Runner + 'static> Row<R> {
    /// The row of a paper.
    pub const fn of<P: Paper>() -> Row<R> {
        Row {
            name: P::TEXT.name,
            title: P::TEXT.title,
            about: P::TEXT.about,
            examples: P::TEXT.examples,
            schema: "comity-reproduce/1",
            draws: "figure",
            arguments: driver::arguments::<P>,
            ask: driver::ask::<P, R>,
        }
    }
}

/// What is asked of a paper.
pub trait Asked<R> {
    /// The name of the runs: what they depend on.
    fn setting(&self) -> &str;

    /// Does the runs. Returns `None` if some of the runs are done elsewhere.
    ///
    /// # Errors
    /// If a run fails, or if nothing is to be run.
    fn run(&self, runner: &R) -> Result<Option<Report>, Failure>;
}
