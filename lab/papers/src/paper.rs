//! The interface of a paper to the driver: its texts, its setting, its claims and its experiments.

use clap::Args;
use comity_console::Failure;
use serde::Serialize;

use crate::claims::{CHOSEN, Claim, Claims, Source};
use crate::figure::Named;
use crate::measure::Measure;
use crate::vary::Vary;
use crate::{Renamed, Runner, Stop, here};

/// The paper's texts for the command line, and its file of claims.
pub struct Text {
    /// The name of the paper at the command line.
    pub name: &'static str,
    /// The first line of the help.
    pub title: &'static str,
    /// The paragraph below the title in the help.
    pub about: &'static str,
    /// Examples and sources, at the end of the help.
    pub examples: &'static str,
    /// The experiments that are run by default, in words, for the help.
    pub default: &'static str,
    /// The form of the argument of `--vary`, and the help of this option.
    pub vary: (&'static str, &'static str),
    /// The word for a run in the help of `--one-in`, for example "round". `None` if the paper does not have this
    /// option.
    pub one_in: Option<&'static str>,
    /// The path of the file of claims.
    pub file: &'static str,
    /// The text of the file of claims.
    pub claims: &'static str,
}

/// An experiment of a paper.
pub struct Experiment<P: Paper> {
    /// The name of the experiment, at the command line and in the file of claims.
    pub name: &'static str,
    /// The subject of the experiment, for the help.
    pub about: &'static str,
    /// True if the paper contains the experiment. Other experiments are run only if the user names them.
    pub is_the_papers: bool,
    /// The parts that the experiment needs, in the order in which they are run. See [`Paper::Part`].
    pub needs: Vec<P::Part>,
    /// Computes the measures from the outcomes of the parts in `needs`.
    pub measures: fn(&P) -> Vec<Measure>,
    /// Draws the outcomes of the parts in `needs`, together with the paper's numbers, which the claims contain.
    pub figures: fn(&P, &[Claim]) -> Vec<Named>,
}

impl<P: Paper> Experiment<P> {
    /// Returns an experiment that the paper contains.
    pub fn new(
        name: &'static str,
        about: &'static str,
        needs: impl Into<Vec<P::Part>>,
        measures: fn(&P) -> Vec<Measure>,
        figures: fn(&P, &[Claim]) -> Vec<Named>,
    ) -> Experiment<P> {
        Experiment { name, about, is_the_papers: true, needs: needs.into(), measures, figures }
    }

    /// Returns an experiment that the paper contains, without figures.
    pub fn undrawn(
        name: &'static str,
        about: &'static str,
        needs: impl Into<Vec<P::Part>>,
        measures: fn(&P) -> Vec<Measure>,
    ) -> Experiment<P> {
        Experiment::new(name, about, needs, measures, |_, _| Vec::new())
    }

    /// Returns an experiment that the paper does not have. It has no measures, because no claim is about it.
    pub fn beyond(
        name: &'static str,
        about: &'static str,
        needs: impl Into<Vec<P::Part>>,
        figures: fn(&P, &[Claim]) -> Vec<Named>,
    ) -> Experiment<P> {
        Experiment { is_the_papers: false, ..Experiment::new(name, about, needs, |_| Vec::new(), figures) }
    }
}

/// The options of a paper that adds no options to the command line.
#[derive(Args)]
#[group(skip)]
pub struct NoOptions {}

/// A paper. A value of the type holds the outcomes of the runs with one setting.
pub trait Paper: Sized + 'static {
    /// The paper's texts for the command line, and its file of claims.
    const TEXT: Text;

    /// The options that only this paper has.
    type Options: Args;

    /// The parameters that all simulations of the paper share.
    type Setting: Vary;

    /// A part: a set of independent runs. Experiments can share a part, so it is run only once.
    type Part: Clone + PartialEq;

    /// The numbers behind the measures, which become fields of the JSON report.
    type Extra: Serialize;

    /// Returns the setting that the options choose, and the name of the runs with this setting. Only one of every
    /// `one_in` runs is done.
    ///
    /// # Errors
    /// If an option cannot be used.
    fn setting(_: &Self::Options, seed: u64, _one_in: u32) -> Result<(Self::Setting, String), Failure> {
        let setting = Self::Setting::usual(seed).map_err(Failure::Usage)?;
        Ok((setting, format!("{}, seed {seed}", Self::TEXT.name)))
    }

    /// Returns the paper with this setting, before any run.
    fn with(setting: &Self::Setting) -> Self;

    /// Returns the experiments, in the order in which they are run.
    fn experiments() -> Vec<Experiment<Self>>;

    /// Does the runs of a part, and keeps their outcomes.
    ///
    /// # Errors
    /// If not all of the runs are done.
    fn run<R: Runner<Stop = Stop>>(&mut self, part: &Self::Part, runner: &R) -> Result<(), Stop>;

    /// Returns what a reader must know about the numbers, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the numbers behind the measures.
    fn extra(self) -> Self::Extra;

    /// Formats the numbers of [`Paper::extra`] as tables, to be printed below the claims.
    fn table(extra: &Self::Extra) -> String;

    /// Reads the claims of the paper.
    ///
    /// # Errors
    /// A sentence with the name of the invalid claim and the reason.
    fn claims() -> Result<Claims, String> {
        let takes = |text: &str| Self::Setting::usual(1)?.vary(text);
        let Text { name, file, claims, .. } = Self::TEXT;
        let experiments = Self::experiments();
        let experiments = experiments.iter().filter(|one| one.is_the_papers).map(|one| one.name).collect();
        Claims::read(&Source { paper: name, file, experiments, takes: &takes }, claims)
    }
}

/// The outcomes of similar runs, each with its key (for example a policy), in the order in which they were done.
pub(crate) struct Kept<K, V>(pub Vec<(K, V)>);

impl<K: Copy + PartialEq, V> Kept<K, V> {
    /// Returns an empty list.
    pub fn new() -> Kept<K, V> {
        Kept(Vec::new())
    }

    /// Adds the outcome of a run.
    pub fn keep(&mut self, key: K, value: V) {
        self.0.push((key, value));
    }

    /// True if the run with this key has been done.
    pub fn has(&self, key: K) -> bool {
        self.0.iter().any(|(known, _)| *known == key)
    }

    /// Returns the outcome of the run with this key.
    ///
    /// # Panics
    /// If the run has not been done.
    pub fn of(&self, key: K) -> &V {
        &self.0.iter().find(|(known, _)| *known == key).expect("the experiment needs it, so it was run").1
    }
}

/// A paper with one setting, and the parts whose runs have been started.
pub struct Repetition<'a, P: Paper> {
    /// The outcomes of the runs.
    pub paper: P,
    /// The name of the setting: `key=value` of a swept parameter, or [`CHOSEN`].
    name: &'a str,
    /// The parts whose runs have been started. The boolean is false if another shard does some runs of the part.
    parts: Vec<(P::Part, bool)>,
}

impl<'a, P: Paper> Repetition<'a, P> {
    /// Returns a repetition with the setting of this name, before any run.
    pub fn with(name: &'a str, setting: &P::Setting) -> Repetition<'a, P> {
        Repetition { paper: P::with(setting), name, parts: Vec::new() }
    }

    /// Runs the parts that the experiment needs, except those that have been run before, and returns the measures.
    /// The runs are filed under the name of the setting. Returns `None` if another shard does some of the runs; the
    /// runs of this shard are then done.
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
