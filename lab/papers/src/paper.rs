//! What a paper is: its texts, its setting, its claims and its experiments. The driver does the rest.

use clap::Args;
use comity_console::Failure;
use serde::Serialize;

use crate::claims::{CHOSEN, Claim, Claims, Source};
use crate::figure::Named;
use crate::measure::Measure;
use crate::vary::Vary;
use crate::{Renamed, Runner, Stop, here};

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

/// An experiment of a paper: a row of its list.
pub struct Experiment<P: Paper> {
    /// The name of the experiment, at the command line and in the file of claims.
    pub name: &'static str,
    /// What the experiment is about, for the help.
    pub about: &'static str,
    /// False if the paper has no such experiment, so that only a user who names it runs it.
    pub is_the_papers: bool,
    /// The parts of the runs that the experiment needs, in the order in which they are done.
    pub needs: Vec<P::Part>,
    /// Measures what came of these parts.
    pub measures: fn(&P) -> Vec<Measure>,
    /// Draws what came of them, with the numbers of these claims.
    pub figures: fn(&P, &[Claim]) -> Vec<Named>,
}

impl<P: Paper> Experiment<P> {
    /// One of the paper's experiments.
    pub fn new(
        name: &'static str,
        about: &'static str,
        needs: impl Into<Vec<P::Part>>,
        measures: fn(&P) -> Vec<Measure>,
        figures: fn(&P, &[Claim]) -> Vec<Named>,
    ) -> Experiment<P> {
        Experiment { name, about, is_the_papers: true, needs: needs.into(), measures, figures }
    }

    /// One of the paper's experiments, without figures.
    pub fn undrawn(
        name: &'static str,
        about: &'static str,
        needs: impl Into<Vec<P::Part>>,
        measures: fn(&P) -> Vec<Measure>,
    ) -> Experiment<P> {
        Experiment::new(name, about, needs, measures, |_, _| Vec::new())
    }

    /// An experiment that the paper does not have, so that nothing is measured for its claims.
    pub fn beyond(
        name: &'static str,
        about: &'static str,
        needs: impl Into<Vec<P::Part>>,
        figures: fn(&P, &[Claim]) -> Vec<Named>,
    ) -> Experiment<P> {
        Experiment { is_the_papers: false, ..Experiment::new(name, about, needs, |_| Vec::new(), figures) }
    }
}

/// The options of a paper that has none of its own.
#[derive(Args)]
#[group(skip)]
pub struct NoOptions {}

/// A paper. A value is what came of the runs with one setting.
pub trait Paper: Sized + 'static {
    /// What the command line says of the paper, and its file of claims.
    const TEXT: Text;

    /// Options of the paper's own.
    type Options: Args;

    /// What everything is simulated with.
    type Setting: Vary;

    /// A part of the runs. Experiments share parts, so each is done once.
    type Part: Clone + PartialEq;

    /// The numbers behind the measures: fields of the report.
    type Extra: Serialize;

    /// The setting that the options ask for, and the name of its runs. One of `one_in` runs is done.
    ///
    /// # Errors
    /// If an option cannot be used.
    fn setting(_: &Self::Options, seed: u64, _one_in: u32) -> Result<(Self::Setting, String), Failure> {
        let setting = Self::Setting::usual(seed).map_err(Failure::Usage)?;
        Ok((setting, format!("{}, seed {seed}", Self::TEXT.name)))
    }

    /// A value of which no run has been done.
    fn with(setting: &Self::Setting) -> Self;

    /// The experiments, in the order in which they are run.
    fn experiments() -> Vec<Experiment<Self>>;

    /// Does the runs of a part, and keeps what came of them.
    ///
    /// # Errors
    /// If not all of the runs are done.
    fn run<R: Runner<Stop = Stop>>(&mut self, part: &Self::Part, runner: &R) -> Result<(), Stop>;

    /// What a reader must know of the numbers, a sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The numbers behind the measures.
    fn extra(self) -> Self::Extra;

    /// Those of the numbers that the paper draws and has no number for, as tables.
    fn table(extra: &Self::Extra) -> String;

    /// The claims of the paper.
    ///
    /// # Errors
    /// Says in a sentence which claim is wrong, and how.
    fn claims() -> Result<Claims, String> {
        let takes = |text: &str| Self::Setting::usual(1)?.vary(text);
        let Text { name, file, claims, .. } = Self::TEXT;
        let experiments = Self::experiments();
        let experiments = experiments.iter().filter(|one| one.is_the_papers).map(|one| one.name).collect();
        Claims::read(&Source { paper: name, file, experiments, takes: &takes }, claims)
    }
}

/// What came of runs that are alike, each with its key (a policy, say), in the order in which they were done.
pub(crate) struct Kept<K, V>(pub Vec<(K, V)>);

impl<K: Copy + PartialEq, V> Kept<K, V> {
    /// Nothing has been run.
    pub fn new() -> Kept<K, V> {
        Kept(Vec::new())
    }

    /// Adds what came of a run.
    pub fn keep(&mut self, key: K, value: V) {
        self.0.push((key, value));
    }

    /// True if it was run.
    pub fn has(&self, key: K) -> bool {
        self.0.iter().any(|(known, _)| *known == key)
    }

    /// What came of a run.
    ///
    /// # Panics
    /// If it was not run.
    pub fn of(&self, key: K) -> &V {
        &self.0.iter().find(|(known, _)| *known == key).expect("the experiment needs it, so it was run").1
    }
}

/// A paper with one setting, and which parts of its runs have been begun.
pub struct Repetition<'a, P: Paper> {
    /// What came of the runs.
    pub paper: P,
    /// The name of the setting: `key=value` of a swept parameter, or [`CHOSEN`].
    name: &'a str,
    /// The parts, and whether all runs of each are done here.
    parts: Vec<(P::Part, bool)>,
}

impl<'a, P: Paper> Repetition<'a, P> {
    /// A repetition with the setting of this name, of which no run has been done.
    pub fn with(name: &'a str, setting: &P::Setting) -> Repetition<'a, P> {
        Repetition { paper: P::with(setting), name, parts: Vec::new() }
    }

    /// Does the runs that an experiment needs and that have not been done, and measures. The runs are filed by the
    /// name of the setting. Returns `None` if some of them are done elsewhere: the others are done here even so.
    ///
    /// # Errors
    /// If a run fails.
    pub fn measure(
        &mut self,
        experiment: Experiment<P>,
        runner: &impl Runner,
    ) -> Result<Option<Vec<Measure>>, Failure> {
        let name = self.name;
        let rename = |part: &str| if name == CHOSEN { part.to_owned() } else { format!("{part}.{name}") };
        let runner = Renamed { runner, rename };
        for part in &experiment.needs {
            if self.parts.iter().all(|(begun, _)| begun != part) {
                let is_here = here(self.paper.run(part, &runner))?.is_some();
                self.parts.push((part.clone(), is_here));
            }
        }
        let is_here = |part: &P::Part| self.parts.iter().any(|(begun, is_here)| begun == part && *is_here);
        Ok(experiment.needs.iter().all(is_here).then(|| (experiment.measures)(&self.paper)))
    }
}
