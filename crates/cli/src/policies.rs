//! `comity policies`: the policies, where they come from and what can be set.

use std::fmt::Write;

use clap::Args;
use comity_console::{Failure, output};
use comity_policy::Place;
use comity_policy::catalog::{Parameter, ROWS, Row};

use crate::json::{PolicyCatalog, PolicyParameter, PolicyRow};

/// List the policies with their sources and parameters
#[derive(Args)]
#[command(after_help = "A policy is given as NAME or NAME:key=value,… as in bws:sleep_threshold=128.")]
pub struct Arguments {
    /// Print JSON (schema comity-policies/1)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json {
        let policies = ROWS.iter().map(row).collect();
        return output::print(&output::to_json(&PolicyCatalog { schema: "comity-policies/1", policies }));
    }
    let mut text = String::new();
    for (nth, row) in ROWS.iter().enumerate() {
        let default = if nth == 0 { " (default)" } else { "" };
        let _ = writeln!(text, "{}{default}\n    {}\n    source: {}", row.name, row.summary, row.source);
        let _ = writeln!(
            text,
            "    place={}: where an unblocked task goes ({})",
            row.place,
            Place::ALL.map(Place::name).join(", ")
        );
        for Parameter { key, default, least, most, help } in row.parameters {
            let _ = writeln!(text, "    {key}={default}: {help} ({least} to {most})");
        }
    }
    output::print(&text)
}

fn row(row: &Row) -> PolicyRow {
    let parameter = |parameter: &Parameter| PolicyParameter {
        key: parameter.key,
        default: parameter.default,
        least: parameter.least,
        most: parameter.most,
        help: parameter.help,
    };
    PolicyRow {
        name: row.name,
        summary: row.summary,
        source: row.source,
        place: row.place.name(),
        parameters: row.parameters.iter().map(parameter).collect(),
    }
}
