//! What came out of a paper's experiments: numbers beside the paper's, figures, and whether all is as the paper says.

use std::fmt::Write;

use comfy_table::{Table, presets};
use comity_console::{Failure, output};
use comity_sim::experiments::claim::Claim;
use serde::Serialize;

use crate::figure::Figure;
use crate::sweep::{Stop, Sweep};

/// The claims and the figures of the experiments that were run.
#[derive(Default)]
pub struct Findings {
    /// The numbers, beside the paper's.
    pub claims: Vec<Claim>,
    /// By the name of the file.
    pub figures: Vec<(&'static str, Figure)>,
}

/// Everything that came out.
#[derive(Serialize)]
struct Report<E> {
    schema: &'static str,
    comity: &'static str,
    setting: String,
    /// The numbers, beside the paper's.
    claims: Vec<Row>,
    #[serde(flatten)]
    extra: E,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    claim: Claim,
    holds: bool,
}

/// Nothing, if the outcomes are not all here.
pub fn here<T>(outcomes: Result<T, Stop>) -> Result<Option<T>, Failure> {
    match outcomes {
        Ok(outcomes) => Ok(Some(outcomes)),
        Err(Stop::Elsewhere) => Ok(None),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// The paper's number for `what`, where its text has one.
pub fn said(claims: &[Claim], what: &str) -> Option<f64> {
    let claim = claims.iter().find(|claim| claim.what == what)?;
    claim.paper.trim_start_matches("about ").parse().ok()
}

/// A number and its interval, if it has one.
pub fn estimate(value: f64, half_width: Option<f64>) -> String {
    match half_width {
        Some(half_width) => format!("{value:.3} ± {half_width:.3}"),
        None => format!("{value:.3}"),
    }
}

/// One of so many.
pub fn one_in(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|one_in| (1..=100).contains(one_in)).ok_or("write a whole number from 1 to 100")
}

impl Findings {
    /// Prints and files it all, with the experiments' own `table` below the claims and `extra` in JSON. With `check`, a number that is not
    /// the paper's is a failure.
    pub fn present<E: Serialize>(
        &self,
        setting: String,
        sweep: &Sweep,
        json: bool,
        check: bool,
        table: &str,
        extra: E,
    ) -> Result<(), Failure> {
        if check && self.claims.is_empty() {
            return Err(Failure::Usage("--check: the paper has no number for these experiments".to_owned()));
        }
        let report = Report {
            schema: "comity-reproduce/1",
            comity: env!("CARGO_PKG_VERSION"),
            setting,
            claims: self.claims.iter().map(|claim| Row { claim: claim.clone(), holds: claim.holds() }).collect(),
            extra,
        };
        let mut text = if json { output::to_json(&report) } else { format!("{}{table}", self.table()) };
        if let Some(out) = sweep.out() {
            let write = |name: &str, text: &str| {
                let path = out.join(name);
                output::replace(&path, text.as_bytes())
                    .map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))
            };
            write("result.json", &output::to_json(&report))?;
            for (name, figure) in &self.figures {
                write(&format!("{name}.svg"), &figure.svg())?;
            }
            if !json {
                let _ = writeln!(text, "result.json and {} figures are in '{}'.", self.figures.len(), out.display());
            }
        }
        output::print(&text)?;
        match self.claims.iter().filter(|claim| !claim.holds()).count() {
            wrong if check && wrong > 0 => {
                Err(Failure::Run(format!("{wrong} of {} numbers are not the paper's", self.claims.len())))
            }
            _ => Ok(()),
        }
    }

    fn table(&self) -> String {
        if self.claims.is_empty() {
            return String::new();
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["", "what", "paper", "here", "accepted"]);
        for claim in &self.claims {
            let here = estimate(claim.here, claim.half_width);
            let verdict = if claim.holds() { "ok" } else { "NO" };
            let accepted = format!("{} to {}", claim.accepted.0, claim.accepted.1);
            table.add_row([verdict, &claim.what, claim.paper, &here, &accepted]);
        }
        format!("{table}\n")
    }
}
