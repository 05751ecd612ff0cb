//! The values of the swept parameters that experiments are run with.

use comity_console::Failure;
use comity_sim::experiments::Runner;
use comity_sim::experiments::claims::{CHOSEN, Claims};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sweep::{Stop, Sweep};

/// One value of one parameter, or the chosen values of all.
pub struct Setting<'a> {
    /// `key=value`, or [`CHOSEN`].
    pub name: String,
    /// The experiments that it moves.
    moves: Option<&'a [String]>,
}

impl Setting<'_> {
    /// Whether an experiment is run with it.
    pub fn moves(&self, experiment: &str) -> bool {
        self.moves.is_none_or(|moves| moves.iter().any(|one| one == experiment))
    }

    /// What to vary, if it is not that of the chosen values.
    pub fn varied(&self) -> Option<&str> {
        (self.name != CHOSEN).then_some(self.name.as_str())
    }
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

/// The chosen values, and with `full` every other value of a swept parameter, one at a time.
pub fn settings(claims: &Claims, full: bool) -> Vec<Setting<'_>> {
    let chosen = Setting { name: CHOSEN.to_owned(), moves: None };
    let swept = claims.parameters.iter().filter(|_| full).flat_map(|parameter| {
        let one =
            |value: &String| Setting { name: format!("{}={value}", parameter.name), moves: Some(&parameter.moves) };
        parameter.sweep.iter().map(one)
    });
    [chosen].into_iter().chain(swept).collect()
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

/// Runs with one setting, whose runs are filed by its name.
pub struct With<'a> {
    /// Who runs.
    pub sweep: &'a Sweep,
    /// With what.
    pub setting: &'a Setting<'a>,
}

impl Runner for With<'_> {
    type Stop = Stop;

    fn run<R, W>(&self, name: &str, runs: usize, work: W) -> Result<Vec<R>, Stop>
    where
        R: Serialize + DeserializeOwned + Send + Sync,
        W: Fn(usize) -> R + Sync,
    {
        match self.setting.varied() {
            None => self.sweep.run(name, runs, work),
            Some(varied) => self.sweep.run(&format!("{name}.{varied}"), runs, work),
        }
    }
}
