//! A bench's own process on the other end of [`Children`](crate::children::Children): it is told a line at a time,
//! and answers in JSON.

use std::io::{self, BufRead, Write};

use comity_console::Failure;
use serde::Serialize;

/// Answers what it was told.
pub fn tell(answer: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(answer).expect("numbers and names");
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::Run(error.to_string()))
}

/// The next line of the input; `None` at its end, which is the order to end.
pub fn order() -> Option<String> {
    io::stdin().lock().lines().next()?.ok()
}
