//! The costs of operations on the simulated machine.

use comity_sim::threads;
use serde::Serialize;
use serde_json::{Map, Value};

/// The costs of a prediction, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// The costs of operations on the host.
    #[serde(flatten)]
    pub host: threads::Costs,
    /// The cost of a join whose right half is not stolen, for the worker that forks.
    pub join: f64,
}

/// The measured cost of a join whose right half is not stolen (`docs/results/fork-join.md`).
const JOIN_NS: f64 = 3.0;

/// The largest accepted cost, one second. A larger number is a typing error.
const MOST_NS: u64 = 1_000_000_000;

impl Default for Costs {
    fn default() -> Costs {
        Costs { host: threads::Costs::default(), join: JOIN_NS }
    }
}

impl Costs {
    /// Returns the default costs, changed by the text `NAME=NS,…`.
    ///
    /// # Errors
    /// If a piece of the text is invalid. The error is a sentence about the fault.
    pub fn parse(text: &str) -> Result<Costs, String> {
        let mut costs = Costs::default();
        let mut host = Map::new();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let (name, number) =
                piece.split_once('=').ok_or_else(|| format!("'{piece}' is not of the form NAME=NS"))?;
            if name == "join" {
                let join = number.parse().ok().filter(|join| (0.0..=1e6).contains(join));
                costs.join = join.ok_or_else(|| format!("join={number} is not a number from 0 to 1000000"))?;
                continue;
            }
            let ns = number.parse::<u64>().ok().filter(|ns| *ns <= MOST_NS);
            let ns = ns.ok_or_else(|| format!("{name}={number} is not a whole number from 0 to {MOST_NS}"))?;
            host.insert(name.to_owned(), ns.into());
        }
        costs.host = serde_json::from_value(Value::Object(host)).map_err(|error| error.to_string())?;
        Ok(costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_it_was() {
        let costs = Costs::parse("refill=9000,join=2.5").unwrap();
        let host = threads::Costs { refill: 9_000, ..threads::Costs::default() };
        assert_eq!(costs, Costs { host, join: 2.5 });
        assert_eq!(Costs::parse("").unwrap(), Costs::default());
    }

    #[test]
    fn a_wrong_cost_is_said() {
        for (text, part) in [
            ("refill", "'refill' is not of the form NAME=NS"),
            ("refill=much", "refill=much is not a whole number"),
            ("join=-1", "join=-1 is not a number from 0"),
            ("coffee=3", "unknown field `coffee`, expected one of `steal`"),
        ] {
            let said = Costs::parse(text).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
