//! The Standard Workload Format of the Parallel Workloads Archive, version 2.2.
//!
//! A log has one line per job with 18 fields; a line that begins with a semicolon is a comment. The reader uses the
//! second to fifth field: submission, wait, run time and processors. A value of −1 means unknown.

use std::fmt;
use std::io::{self, BufRead};

use super::Rigid;

/// The reason why a log cannot be read.
#[derive(Debug)]
pub struct SwfError {
    /// The line's number, from 1. 0 stands for the log as a whole.
    line: usize,
    what: String,
}

impl fmt::Display for SwfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for SwfError {}

/// Returns the jobs of a log. Jobs are left out if their submission time is unknown, or if their run time or number
/// of processors is unknown or zero.
///
/// # Errors
/// Names the first line with fewer than five fields, or with a field that is not a number. A log without jobs is an
/// error too.
pub fn read(log: impl BufRead) -> Result<Vec<Rigid>, SwfError> {
    let mut jobs = Vec::new();
    for (nth, line) in log.lines().enumerate() {
        let error = |what: String| SwfError { line: nth + 1, what };
        let line = line.map_err(|cause: io::Error| error(format!("cannot be read: {cause}")))?;
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let field = |nth: usize, name: &str| {
            let text = fields.get(nth).ok_or_else(|| {
                error(format!("has {} fields; a job has 18 fields, and the first five are required", fields.len()))
            })?;
            // Some logs have fractions of seconds.
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| error(format!("its {name}, '{text}', is not a number")))
        };
        let (submitted, waited) = (field(1, "submit time")?, field(2, "wait time")?);
        let (ran, processors) = (field(3, "run time")?, field(4, "number of processors")?);
        if submitted >= 0.0 && ran > 0.0 && processors > 0.0 {
            jobs.push(Rigid {
                submitted: submitted as u64,
                waited: waited.max(0.0) as u64,
                ran: ran.ceil() as u64,
                processors: processors as u32,
            });
        }
    }
    if jobs.is_empty() {
        return Err(SwfError { line: 0, what: "it has no job".into() });
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_and_comments_are_not() {
        let log = "; Version: 2.2\n\n  1 0 -1 1451 128 -1 -1 -1 -1 -1 -1 1 1 -1 -1 -1 -1 -1\n 2 1460 7 3.5 4 -1\n 3 5 0 -1 4\n";
        let jobs = read(log.as_bytes()).unwrap();
        let job = |submitted, waited, ran, processors| Rigid { submitted, waited, ran, processors };
        assert_eq!(jobs, [job(0, 0, 1451, 128), job(1460, 7, 4, 4)]);
        assert_eq!(jobs[1].started(), 1467);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = |log: &str| read(log.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error("1 0 -1 5 8\n2 1 2\n"),
            "line 2: has 3 fields; a job has 18 fields, and the first five are required"
        );
        assert_eq!(error(";\n1 0 -1 long 8"), "line 2: its run time, 'long', is not a number");
        assert_eq!(error("; nothing\n"), "it has no job");
    }
}
