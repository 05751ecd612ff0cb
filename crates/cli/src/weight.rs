//! The weight of a program relative to other programs.

use comity_console::{Failure, choices, parse};
use comity_os::census::Stat;
use comity_os::{environment, priority, task_group};

/// The default weight and the maximum weight. Pools have the same values.
pub const USUAL: u32 = 100;
pub const MOST: u32 = 10_000;

/// Returns the parser of every `--weight`.
pub fn range() -> impl Fn(&str) -> Result<u32, String> + Clone {
    parse::whole(1..=u64::from(MOST))
}

/// Returns the setting that chose the weight, in words.
pub fn chosen_by(said: Option<u32>) -> String {
    match said {
        Some(_) => "command line".to_owned(),
        None => choices::variable(&["COMITY_WEIGHT"], "from the nice value"),
    }
}

/// True if the user has set the weight, on the command line or by `COMITY_WEIGHT`.
pub fn is_chosen(said: Option<u32>) -> bool {
    said.is_some() || environment::variable("COMITY_WEIGHT").is_some()
}

/// Returns the default weight of a process, according to its nice value, its scheduling class and the weight of its
/// task group. `group_milli` is the group's weight in thousandths of the default.
pub fn of_nice(stat: &Stat, group_milli: u32) -> u32 {
    priority::weight_of(USUAL, stat, group_milli).min(MOST)
}

/// Returns the weight of the task group of a process, in thousandths of the default weight of a group.
pub fn group_milli(process: u32) -> u32 {
    task_group::of_process(process).map_or(1000, |group| group.milli.into())
}

/// Returns the nice value that corresponds to a weight below the default. Returns 0 for other weights.
pub fn nice_for(weight: u32) -> i32 {
    if weight < USUAL { priority::nice_for(weight * 1000 / USUAL) } else { 0 }
}

/// Returns the weight from the command line, else from `COMITY_WEIGHT`, else from the nice value of this process.
pub fn chosen(said: Option<u32>) -> Result<u32, Failure> {
    if let Some(weight) = said {
        return Ok(weight);
    }
    let Some(text) = environment::variable("COMITY_WEIGHT") else {
        let process = std::process::id();
        return Ok(Stat::of_process(process).map_or(USUAL, |stat| of_nice(&stat, group_milli(process))));
    };
    let weight = text.to_str().and_then(|text| text.parse().ok()).filter(|weight| (1..=MOST).contains(weight));
    weight.ok_or_else(|| {
        let text = text.display();
        Failure::Usage(format!("COMITY_WEIGHT={text} is not a whole number from 1 to {MOST} (default {USUAL})"))
    })
}
