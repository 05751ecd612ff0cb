//! How much a program counts beside others.

use clap::builder::RangedI64ValueParser;
use comity_console::{Failure, choices};
use comity_os::environment;

/// The weight of a program that says nothing, and the largest, as pools have it.
const USUAL: u32 = 100;
pub const MOST: u32 = 10_000;

/// The parser of every `--weight`.
pub fn range() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(MOST))
}

/// What chose it.
pub fn chosen_by(said: Option<u32>) -> String {
    match said {
        Some(_) => "the command line".to_owned(),
        None => choices::variable(&["COMITY_WEIGHT"], "usual"),
    }
}

/// What the command line says, or else `COMITY_WEIGHT`, or else what is usual.
pub fn chosen(said: Option<u32>) -> Result<u32, Failure> {
    if let Some(weight) = said {
        return Ok(weight);
    }
    let Some(text) = environment::variable("COMITY_WEIGHT") else { return Ok(USUAL) };
    let weight = text.to_str().and_then(|text| text.parse().ok()).filter(|weight| (1..=MOST).contains(weight));
    weight.ok_or_else(|| {
        let text = text.display();
        Failure::Usage(format!("COMITY_WEIGHT={text} is not a whole number from 1 to {MOST}; {USUAL} is usual"))
    })
}
