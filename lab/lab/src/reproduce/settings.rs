//! The values of the swept parameters that experiments are run with.

use clap::ValueEnum;
use comity_console::Failure;
use comity_papers::Runner;
use comity_papers::claims::{CHOSEN, Claims};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::options::name;
use crate::sweep::{Stop, Sweep};

/// One of the settings that experiments are run with. It does their runs, which are filed by its name.
pub struct Swept<'a, S> {
    /// `key=value` of a swept parameter, or [`CHOSEN`].
    pub name: String,
    /// The chosen values, with that one in its place.
    pub setting: S,
    /// The experiments that it moves.
    moves: Option<&'a [String]>,
    sweep: &'a Sweep,
}

impl<S> Swept<'_, S> {
    /// Whether an experiment is run with it.
    pub fn moves(&self, experiment: &impl ValueEnum) -> bool {
        self.moves.is_none_or(|moves| moves.contains(&name(experiment)))
    }

    /// Whether it has the chosen values.
    pub fn is_chosen(&self) -> bool {
        self.name == CHOSEN
    }
}

impl<S> Runner for Swept<'_, S> {
    type Stop = Stop;

    fn run<R, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<R>, Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync,
    {
        match self.is_chosen() {
            true => self.sweep.run(name, runs, work),
            false => self.sweep.run(&format!("{name}.{}", self.name), runs, work),
        }
    }
}

/// The settings of a paper's experiments: the `chosen` one and, with `full`, that with every other value of a swept
/// parameter, one at a time.
pub fn settings<'a, S: Clone>(
    claims: &'a Claims,
    full: bool,
    sweep: &'a Sweep,
    chosen: &S,
    vary: fn(&mut S, &str) -> Result<(), String>,
) -> Result<Vec<Swept<'a, S>>, Failure> {
    let mut settings = vec![Swept { name: CHOSEN.to_owned(), setting: chosen.clone(), moves: None, sweep }];
    for parameter in claims.parameters.iter().filter(|_| full) {
        for value in &parameter.sweep {
            let (name, mut setting) = (format!("{}={value}", parameter.name), chosen.clone());
            vary(&mut setting, &name).map_err(Failure::Run)?;
            settings.push(Swept { name, setting, moves: Some(&parameter.moves), sweep });
        }
    }
    Ok(settings)
}

/// What `--vary` chooses otherwise of what a paper leaves unsaid. The name of the runs says so.
pub fn choose(
    vary: &[String],
    name: &mut String,
    mut choose: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), Failure> {
    for varied in vary {
        choose(varied).map_err(|why| Failure::Usage(format!("--vary: {why}")))?;
        name.push_str(", ");
        name.push_str(varied);
    }
    Ok(())
}

/// What a run without `full` leaves out, in a sentence; empty, if nothing is swept.
pub fn left_out(claims: &Claims) -> String {
    let swept = claims.parameters.iter().filter(|parameter| !parameter.sweep.is_empty());
    let each: Vec<String> = swept.map(|one| format!("{} ({})", one.name, one.sweep.join(", "))).collect();
    match each.len() {
        0 => String::new(),
        _ => format!(
            "A subset: only the chosen values. With --full these are swept too, for no datum fixes them: {}.",
            each.join(", ")
        ),
    }
}
