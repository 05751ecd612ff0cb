//! What `comity-lab reproduce` takes for every paper.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comity_console::Failure;
use comity_console::parse::whole;
use comity_papers::claims::{Claims, Paper};

use crate::sweep;

/// For every paper.
#[derive(Args)]
#[group(skip)]
pub struct Options {
    /// Fail if a claim that held when it was filed in lab/papers does not hold
    #[arg(long, conflicts_with = "shard")]
    pub check: bool,
    /// Run with each value of the parameters that no datum fixes, too: a claim holds only if it holds with all of them
    #[arg(long, conflicts_with = "vary")]
    pub full: bool,
    /// Only what this figure of the paper shows; can be repeated
    #[arg(long, value_name = "N", conflicts_with = "experiments")]
    pub figure: Vec<u32>,
    /// Print JSON (schema comity-reproduce/1)
    #[arg(long)]
    pub json: bool,
    /// Draw each figure into this folder, as SVG; --out draws them too
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// The seed of all that is drawn
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    #[command(flatten)]
    pub sweep: sweep::Options,
}

impl Options {
    /// The claims of the paper, and which experiments are run: those that the chosen figures ask for, else those that
    /// are `named`, else the paper's own.
    pub fn claims<E: ValueEnum>(&self, paper: &Paper, named: &[E]) -> Result<(Claims, Asked), Failure> {
        let has = |experiment: &str| E::value_variants().iter().any(|one| name(one) == experiment);
        debug_assert!(paper.experiments.iter().all(|(experiment, _)| has(experiment)), "{}: names differ", paper.name);
        let mut claims = paper.claims().map_err(Failure::Run)?;
        if self.figure.is_empty() {
            let own = || paper.experiments.iter().map(|(name, _)| (*name).to_owned()).collect();
            return Ok((claims, Asked(if named.is_empty() { own() } else { named.iter().map(name).collect() })));
        }
        let mut figures: Vec<u32> = claims.claims.iter().filter_map(|claim| claim.figure).collect();
        figures.sort_unstable();
        figures.dedup();
        if let Some(wrong) = self.figure.iter().find(|figure| !figures.contains(figure)) {
            let figures: Vec<String> = figures.iter().map(u32::to_string).collect();
            let which = figures.join(", ");
            return Err(Failure::Usage(format!(
                "--figure {wrong}: the claims of {} are of figures {which}",
                paper.name
            )));
        }
        claims.claims.retain(|claim| claim.figure.is_some_and(|figure| self.figure.contains(&figure)));
        let experiments = claims.claims.iter().filter_map(|claim| paper.experiment_of(&claim.measure));
        let asked = Asked(experiments.map(str::to_owned).collect());
        Ok((claims, asked))
    }

    /// Whether this figure is drawn, by the name of its file.
    pub fn draws(&self, name: &str) -> bool {
        let is_of = |figure: &u32| {
            name.strip_prefix(&format!("figure-{figure}")).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.figure.is_empty() || self.figure.iter().any(is_of)
    }
}

/// Which experiments of a paper are run, by their names.
pub struct Asked(Vec<String>);

impl Asked {
    /// Whether this one is.
    pub fn has(&self, experiment: &impl ValueEnum) -> bool {
        self.0.contains(&name(experiment))
    }
}

/// The name of an experiment, at the command line and among the claims.
pub fn name(experiment: &impl ValueEnum) -> String {
    experiment.to_possible_value().expect("no experiment is skipped").get_name().to_owned()
}

/// One of so many.
pub fn one_in(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|one_in| (1..=100).contains(one_in)).ok_or("write a whole number from 1 to 100")
}
