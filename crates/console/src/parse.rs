//! Parsing of command lines, with better messages than clap alone gives.

use std::ops::RangeInclusive;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Parser};

/// Parses the command line of this process. If the command line is invalid, prints the error and ends the process. If
/// it requests the help, prints the help and ends the process.
pub fn or_exit<A: Parser>(mut command: Command) -> A {
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matches.and_then(|mut matches| A::from_arg_matches_mut(&mut matches));
    parsed.unwrap_or_else(|error| with_a_tip(error, &command).exit())
}

/// Lets each option accept a negative number as its value, so that the option's own parser can refuse it. Without this,
/// clap takes the number for an option and suggests `--`.
pub fn with_negative_numbers(command: Command) -> Command {
    let takes = |argument: Arg| {
        if argument.get_action().takes_values() { argument.allow_negative_numbers(true) } else { argument }
    };
    command.mut_args(takes).mut_subcommands(with_negative_numbers)
}

/// Adds a similar verb to an error about an unknown verb. Clap itself suggests no verb if two letters are swapped.
fn with_a_tip(mut error: clap::Error, command: &Command) -> clap::Error {
    let word = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => word.clone(),
        _ => return error,
    };
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
    let similar = verbs.filter(|verb| strsim::damerau_levenshtein(verb, &word) == 1).map(str::to_owned);
    let similar: Vec<String> = similar.collect();
    if !similar.is_empty() && error.get(ContextKind::SuggestedSubcommand).is_none() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
    }
    error
}

/// Returns a parser of whole numbers within bounds. The parser's error names the bounds.
pub fn whole<N: TryFrom<u64>>(bounds: RangeInclusive<u64>) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let number = number.and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| format!("give a whole number from {} to {}", bounds.start(), bounds.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_suggested_for_one_letter_that_is_wrong_missing_or_misplaced() {
        let command = Command::new("comity").subcommands(["run", "set", "table"].map(Command::new));
        let said = |word| {
            let error = command.clone().try_get_matches_from(["comity", word]).unwrap_err();
            with_a_tip(error, &command).to_string()
        };
        for (word, verb) in [("rnu", "run"), ("rn", "run"), ("ru", "run"), ("est", "set"), ("tabel", "table")] {
            assert!(said(word).contains(&format!("a similar subcommand exists: '{verb}'")), "{}", said(word));
        }
        assert!(!said("nothing").contains("similar"), "{}", said("nothing"));
    }

    #[test]
    fn a_number_is_whole_and_within_its_bounds() {
        let parse = whole::<u16>(1..=10_000);
        assert_eq!((parse("1"), parse("10000")), (Ok(1), Ok(10_000)));
        for text in ["0", "10001", "1.5", "-1", "", "ten", "99999999999999999999"] {
            assert_eq!(parse(text), Err("give a whole number from 1 to 10000".to_owned()), "{text}");
        }
    }
}
