//! The child process of a bench, which answers [`Children`](crate::children::Children). The child reads one order per
//! line and answers in JSON.

use std::io::{self, BufRead, Write};

use comity_console::Failure;
use serde::Serialize;

/// Writes an answer as one line of JSON on standard output.
pub fn tell(answer: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(answer).expect("numbers and names");
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::Run(error.to_string()))
}

/// Returns the next line of the input. `None` at the end of the input is the order to end.
pub fn order() -> Option<String> {
    io::stdin().lock().lines().next()?.ok()
}
