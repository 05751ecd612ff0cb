//! Records the conversations of thieves with their policies, and replays recorded conversations.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use comity_console::{Failure, output};
use comity_sim::conversation::{Line, replay};
use comity_sim::scenario::Recorder;

use super::lines::Lines;

/// Returns a recorder that writes each line of a conversation as a JSON object.
pub fn recorder(file: &Lines) -> Recorder {
    let file = file.clone();
    Box::new(move |line| {
        file.write(|file| {
            serde_json::to_writer(&mut *file, &line).map_err(Into::into).and_then(|()| file.write_all(b"\n"))
        });
    })
}

/// Replays the conversations of a record, and fails if a policy gives another answer than the recorded one.
pub fn hold_again(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::Usage(format!("record '{}': {why}", path.display()));
    let file = BufReader::new(File::open(path).map_err(|error| refuse(&error))?);
    let mut wrong = None;
    let lines = file.lines().enumerate().map_while(|(nth, line)| {
        let line = line.map_err(|error| error.to_string());
        let line = line.and_then(|line| serde_json::from_str::<Line>(&line).map_err(|error| error.to_string()));
        line.map_err(|why| wrong = Some(format!("line {}: {why}", nth + 1))).ok()
    });
    let held = replay(lines);
    match wrong {
        Some(why) => Err(refuse(&why)),
        None => {
            let turns = held.map_err(|why| Failure::Run(format!("record '{}': {why}", path.display())))?;
            output::print(&format!("{turns} turns; all answers are as recorded\n"))
        }
    }
}
