//! Lines that `-v` prints: each choice of a command, and the setting that caused the choice.

use comity_os::{cores, environment};
use comity_table::Location;

/// Returns a line about the core table that a program uses if this process starts it.
pub fn table() -> String {
    let Some(location) = Location::to_look_at() else { return "core table: none (COMITY_TABLE=off)".to_owned() };
    let chosen_by = match location {
        _ if Location::around().is_some() => "from the `comity run` around this process",
        Location::At(_) => "COMITY_TABLE",
        Location::Own => "the user's own table; COMITY_TABLE is not set",
    };
    format!("core table: {} ({chosen_by})", location.path().display())
}

/// Returns a line about the cores that this process may use.
pub fn cores() -> String {
    let may_use: Vec<String> = cores::allowed().iter().map(|core| core.id.to_string()).collect();
    format!("allowed cores: {}; usable at a time: {}", may_use.join(","), cores::usable_of(may_use.len()))
}

/// Returns `NAME=value` for the first environment variable of `names` that is set. `names` is in order of precedence.
/// Returns `unset` if no variable is set.
pub fn variable(names: &[&str], unset: &str) -> String {
    let of = |name: &&str| Some(format!("{name}={}", environment::variable(name)?.display()));
    names.iter().find_map(of).unwrap_or_else(|| unset.to_owned())
}
