//! Runs the programs that are named on standard input, and prints their measurements.

use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::program::{self, Program, Took};
use crate::{catalog, say};

/// The longest idle time that can be requested, in seconds.
const LONGEST_IDLENESS: f64 = 3600.0;

/// The answer to a line.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'line> {
    Took { program: &'line str, seconds: f64, cpu_seconds: f64 },
    Failed { program: &'line str, error: String },
    List { programs: Vec<String> },
}

/// The program that ran last, with its request line. Only one program is kept, because some have a large input.
#[derive(Default)]
struct Last(Option<(String, Box<dyn Program>)>);

/// Answers every line of standard input.
pub fn run() -> Result<(), String> {
    // Start the global pool here, so that the first measurement does not include it.
    rayon::broadcast(|_| ());
    let mut last = Last::default();
    for line in io::stdin().lines() {
        let line = line.map_err(|error| format!("cannot read from standard input: {error}"))?;
        let answer = match line.trim() {
            "list" => Answer::List { programs: catalog::all().map(|(name, _)| name).collect() },
            program => match last.measure(program) {
                Ok(Took { wall, cpu }) => {
                    Answer::Took { program, seconds: wall.as_secs_f64(), cpu_seconds: cpu.as_secs_f64() }
                }
                Err(error) => Answer::Failed { program, error },
            },
        };
        say(&serde_json::to_string(&answer).expect("an answer has string keys and no failing serializer"))?;
    }
    Ok(())
}

impl Last {
    fn measure(&mut self, line: &str) -> Result<Took, String> {
        if let Some(seconds) = line.strip_prefix("idle ") {
            return Ok(program::idle(parse_idleness(seconds)?));
        }
        if self.0.as_ref().is_none_or(|(name, _)| name != line) {
            // Drop the old program first, so that two inputs are never in memory at the same time.
            self.0 = None;
            self.0 = Some((line.to_owned(), catalog::prepare(line)?));
        }
        let (_, program) = self.0.as_mut().expect("a program has just been prepared");
        program.run(program::AFTERMATH)
    }
}

fn parse_idleness(seconds: &str) -> Result<Duration, String> {
    match seconds.parse() {
        Ok(number) if (0.0..=LONGEST_IDLENESS).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err(format!("'{seconds}' is not a number of seconds from 0 to {LONGEST_IDLENESS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_program_or_some_idleness() {
        let mut last = Last::default();
        assert!(last.measure("idle 0.01").unwrap().wall >= Duration::from_millis(10));
        assert!(last.measure("idle a while").unwrap_err().contains("'a while' is not a number of seconds"));
        assert!(last.measure("idle -1").is_err());
        last.measure("kernel fib:n=10").unwrap();
        last.measure("kernel fib:n=10").unwrap();
        assert!(last.measure("fibonacci").unwrap_err().contains("no program is called 'fibonacci'"));
    }

    #[test]
    fn answers_are_json_on_one_line() {
        let took = Answer::Took { program: "sort", seconds: 0.5, cpu_seconds: 1.0 };
        assert_eq!(serde_json::to_string(&took).unwrap(), r#"{"program":"sort","seconds":0.5,"cpu_seconds":1.0}"#);
        let failed = Answer::Failed { program: "x", error: "two\nlines".to_owned() };
        assert_eq!(serde_json::to_string(&failed).unwrap(), r#"{"program":"x","error":"two\nlines"}"#);
    }
}
