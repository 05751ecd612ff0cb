//! The verb `comity policies`: the policies with their sources and parameters.

use std::fmt::Write;

use clap::Args;
use comity_console::{Failure, output};
use comity_policy::catalog::DEFINITIONS;
use comity_policy::definition::Definition;
use comity_policy::{Domain, Parameter};
use serde::Serialize;

/// List the policies with their sources and parameters
#[derive(Args)]
#[command(after_help = "Write a policy as NAME or NAME:key=value,…, for example bws:sleep_threshold=128.")]
pub struct Arguments {
    /// Print JSON (schema comity-policies/1)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json {
        let policies = DEFINITIONS.iter().map(row).collect();
        return output::print(&output::to_json(&PolicyCatalog { schema: "comity-policies/1", policies }));
    }
    let mut text = String::new();
    for (nth, definition) in DEFINITIONS.iter().enumerate() {
        let default = if nth == 0 { " (default)" } else { "" };
        let _ = writeln!(
            text,
            "{}{default}\n    {}\n    source: {}",
            definition.name, definition.summary, definition.source
        );
        for parameter in definition.all_parameters() {
            let Parameter { key, default, domain, help } = parameter;
            let _ = writeln!(text, "    {key}={}: {help} ({domain})", parameter.shown(default));
        }
    }
    output::print(&text)
}

fn row(definition: &Definition) -> PolicyRow {
    PolicyRow {
        name: definition.name,
        summary: definition.summary,
        source: definition.source,
        place: definition.place.name(),
        parameters: definition.parameters.iter().map(PolicyParameter::from).collect(),
    }
}

impl From<&Parameter> for PolicyParameter {
    fn from(parameter: &Parameter) -> PolicyParameter {
        let Parameter { key, default, domain, help } = *parameter;
        let (default, least, most, choices) = match domain {
            Domain::Number { least, most } => (default.into(), Some(least), Some(most), None),
            Domain::Choice(names) => (parameter.shown(default).into(), None, None, Some(names)),
        };
        PolicyParameter { key, default, least, most, choices, help }
    }
}

/// `comity-policies/1`: the catalog of policies.
#[derive(Debug, Serialize)]
struct PolicyCatalog {
    /// `comity-policies/1`.
    schema: &'static str,
    /// The policies. The first is the default.
    policies: Vec<PolicyRow>,
}

/// A policy.
#[derive(Debug, Serialize)]
struct PolicyRow {
    /// The name, as in `--policy`.
    name: &'static str,
    /// A description of the policy.
    summary: &'static str,
    /// The paper and its section.
    source: &'static str,
    /// The place of an unblocked task, if `place=` is not given.
    place: &'static str,
    /// The parameters of the policy.
    parameters: Vec<PolicyParameter>,
}

/// A parameter of a policy: a number or a named choice.
#[derive(Debug, Serialize)]
struct PolicyParameter {
    /// The key, as in `NAME:key=value`.
    key: &'static str,
    /// The value if the user gives none: a number, or the name of a choice.
    default: serde_json::Value,
    /// The smallest number.
    least: Option<u32>,
    /// The largest number.
    most: Option<u32>,
    /// The names to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    choices: Option<&'static [&'static str]>,
    /// The meaning of the parameter.
    help: &'static str,
}
