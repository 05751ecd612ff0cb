//! The claims of a paper, and the free parameters of the model: values that the model needs and the paper omits. Each
//! paper has a file `PAPER/claims.toml`, which is read at compile time. `lab/papers/README.md` describes its fields.

mod verdict;

pub use verdict::{At, CHOSEN, Judged, News, Verdict, judge};

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table};

use crate::measure::Measure;

/// The names that a file of claims may refer to.
pub struct Source<'a> {
    /// The name of the paper at the command line.
    pub paper: &'static str,
    /// The path of the file, for messages.
    pub file: &'static str,
    /// The experiments of the paper.
    pub experiments: Vec<&'static str>,
    /// Checks a `key=value`. Returns an error sentence if the model does not accept it.
    pub takes: &'a dyn Fn(&str) -> Result<(), String>,
}

/// The strength of a claim as evidence for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The model was fitted to the claim.
    Calibrated,
    /// The simulated number had been printed or drawn before the claim was stated.
    Known,
    /// The experiment had never been run at the commit that states the claim.
    HeldOut,
}

impl Kind {
    /// All kinds, from the weakest evidence for the model to the strongest.
    pub const ALL: [Kind; 3] = [Kind::Calibrated, Kind::Known, Kind::HeldOut];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Calibrated => "calibrated",
            Kind::Known => "known",
            Kind::HeldOut => "held out",
        })
    }
}

/// The interval, from least to most, of the values that agree with the paper.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Interval(pub f64, pub f64);

impl Interval {
    /// True if the interval contains this value. No interval contains NaN.
    pub fn has(self, value: f64) -> bool {
        (self.0..=self.1).contains(&value)
    }

    /// True if the interval contains the whole interval `other`.
    fn covers(self, other: Interval) -> bool {
        self.0 <= other.0 && other.1 <= self.1
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Interval(least, most) if least == most => write!(f, "{least}"),
            Interval(least, most) if most.is_infinite() => write!(f, "{least} or more"),
            Interval(least, most) => write!(f, "{least} to {most}"),
        }
    }
}

/// A claim of a paper, and the measure that is compared with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Claim {
    /// The name of the claim.
    pub id: String,
    /// The section of the paper.
    pub section: String,
    /// The figure of the paper that shows the claim, if there is one.
    pub figure: Option<u32>,
    /// The name of the experiment that measures the claim.
    pub experiment: String,
    /// The name of the measure.
    pub measure: String,
    /// The paper's words and number.
    pub paper: String,
    /// The number alone, if the paper's text has a number.
    pub number: Option<f64>,
    /// The value of the measure that means no effect: 1 for a ratio, a half for the part of the cases in which
    /// something is so, and otherwise 0.
    #[serde(default)]
    pub neutral: f64,
    /// The strength of the claim as evidence for the model.
    pub kind: Kind,
    /// True if the claim is in the paper's abstract, its list of results in the introduction, or its conclusions.
    #[serde(default)]
    pub headline: bool,
    /// The values that agreed with the paper when the claim was first stated.
    pub stated: Interval,
    /// The values that are accepted now, if they differ from `stated`.
    pub accepted: Option<Interval>,
    /// The reason for the interval: the paper's words, or its own interval.
    pub tolerance: String,
    /// The reason why the claim holds whatever the policies do, if it does. Such a claim is no evidence.
    pub cannot_fail: Option<String>,
    /// True if the claim held when it was last filed.
    #[serde(default)]
    pub holds: bool,
    /// The reason why the claim did not hold, if it did not.
    pub differs: Option<String>,
    /// The values of the swept parameters with which the claim did not hold: `key=value`, or [`CHOSEN`].
    #[serde(default)]
    pub differs_at: Vec<String>,
}

impl Claim {
    /// Returns the interval that counts as agreement with the paper: `accepted`, or else `stated`.
    pub fn accepted(&self) -> Interval {
        self.accepted.unwrap_or(self.stated)
    }

    /// True if the accepted interval has values outside the stated interval.
    pub fn is_widened(&self) -> bool {
        self.accepted.is_some_and(|accepted| !self.stated.covers(accepted))
    }

    /// True if the value has the sign and the order of magnitude of the paper's number. It then lies on the same side
    /// of the neutral value, at a third to three times the distance. If the paper has no number, the nearest accepted
    /// value takes its place. If the paper says that there is no effect, only accepted values have the order.
    pub fn has_order(&self, value: f64) -> bool {
        let (accepted, neutral) = (self.accepted(), self.neutral);
        let expected = self.number.unwrap_or_else(|| value.clamp(accepted.0, accepted.1));
        let says_no_effect = self.number.map_or(accepted.has(neutral), |number| number == neutral);
        let distance = (value - neutral) / (expected - neutral);
        accepted.has(value) || !says_no_effect && (1.0 / 3.0..=3.0).contains(&distance)
    }

    /// True if the file records that the claim does not hold with this setting: `key=value`, or [`CHOSEN`].
    pub fn is_to_differ_at(&self, setting: &str) -> bool {
        self.differs.is_some() && self.differs_at.iter().any(|at| at == setting)
    }
}

/// A parameter that the model needs and that the paper does not give.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Parameter {
    /// The name of the parameter, which is also its key in `--vary`.
    pub name: String,
    /// The value that was chosen.
    pub chosen: String,
    /// The id of the calibrated claim whose number fixes the parameter.
    pub fixed_by: Option<String>,
    /// The other values to run, if no datum fixes the parameter.
    #[serde(default)]
    pub sweep: Vec<String>,
    /// The experiments that depend on the parameter.
    #[serde(default)]
    pub moves: Vec<String>,
    /// The reason for the chosen value, or the reason why no datum fixes it.
    pub because: String,
}

/// The content of a paper's file of claims.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Authors, title and place of publication.
    pub title: String,
    /// The free parameters.
    pub parameters: Vec<Parameter>,
    /// The claims, in the file's order.
    pub claims: Vec<Claim>,
}

impl Claims {
    /// Reads a file of claims.
    ///
    /// # Errors
    /// A sentence with the file, the invalid claim and the reason.
    pub fn read(source: &Source, text: &str) -> Result<Claims, String> {
        let at = |what: String| format!("{}: {what}", source.file);
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
            at(format!("line {line}: {}", error.message().replace('\n', "; ")))
        })?;
        let word = |key: &str| {
            let value = document.get(key).and_then(Item::as_str);
            value.map(str::to_owned).ok_or_else(|| at(format!("it has no {key} = \"…\"")))
        };
        if word("paper")? != source.paper {
            return Err(at(format!("its paper is '{}' instead of '{}'", word("paper")?, source.paper)));
        }
        let known = ["paper", "title", "parameter", "claim"];
        if let Some((other, _)) = document.iter().find(|(key, _)| !known.contains(key)) {
            return Err(at(format!("'{other}' is not one of {}", known.join(", "))));
        }
        let claims = Claims {
            title: word("title")?,
            parameters: tables(&document, "parameter", "name").map_err(at)?,
            claims: tables(&document, "claim", "id").map_err(at)?,
        };
        claims.are_sound(source).map_err(at)?;
        Ok(claims)
    }

    /// Checks that the fields are consistent, and that the names of experiments and parameters exist.
    fn are_sound(&self, source: &Source) -> Result<(), String> {
        let is_experiment = |name: &String| source.experiments.iter().any(|experiment| experiment == name);
        let mut names = BTreeSet::new();
        for parameter in &self.parameters {
            let wrong = |what: String| Err(format!("parameter '{}': {what}", parameter.name));
            if !names.insert(&parameter.name) {
                return wrong("the name is used twice".into());
            }
            for value in parameter.sweep.iter().chain([&parameter.chosen]) {
                if let Err(why) = (source.takes)(&format!("{}={value}", parameter.name)) {
                    return wrong(why);
                }
            }
            if let Some(other) = parameter.moves.iter().find(|name| !is_experiment(name)) {
                return wrong(format!("it moves '{other}', but no experiment has that name"));
            }
            match &parameter.fixed_by {
                Some(_) if !parameter.sweep.is_empty() => {
                    return wrong("it has both fixed-by and sweep: write one of the two".into());
                }
                Some(id) if !self.claims.iter().any(|claim| claim.id == *id && claim.kind == Kind::Calibrated) => {
                    return wrong(format!("it is fixed by '{id}', but no calibrated claim has that id"));
                }
                None if parameter.sweep.is_empty() => {
                    return wrong("it has neither fixed-by nor sweep: write one of the two".into());
                }
                None if parameter.moves.is_empty() => {
                    return wrong("it is swept, but moves lists no experiment that depends on it".into());
                }
                _ => {}
            }
        }
        let mut ids = BTreeSet::new();
        for claim in &self.claims {
            let wrong = |what: String| Err(format!("claim '{}': {what}", claim.id));
            if !ids.insert(&claim.id) {
                return wrong("the id is used twice".into());
            }
            if !is_experiment(&claim.experiment) {
                return wrong(format!("no experiment is called '{}'", claim.experiment));
            }
            for Interval(least, most) in [Some(claim.stated), claim.accepted].into_iter().flatten() {
                if least.is_nan() || most.is_nan() || least > most {
                    return wrong(format!("{least} to {most} is not an interval: write the minimum and the maximum"));
                }
            }
            if claim.tolerance.is_empty() {
                return wrong("its tolerance is empty: write the reason for the interval".into());
            }
            if claim.cannot_fail.as_ref().is_some_and(String::is_empty) {
                return wrong("its cannot-fail is empty: write the reason".into());
            }
            match &claim.differs {
                Some(_) if claim.holds => return wrong("it has both holds and differs: write one of the two".into()),
                Some(why) if why.is_empty() || claim.differs_at.is_empty() => {
                    return wrong("it differs: write the reason in differs, and the settings in differs-at".into());
                }
                None if !claim.differs_at.is_empty() => return wrong("it has differs-at, but not differs".into()),
                _ => {}
            }
            let swept = |at: &&String| *at != CHOSEN && !self.sweep(&claim.experiment).any(|setting| setting == **at);
            if let Some(at) = claim.differs_at.iter().find(swept) {
                return wrong(format!(
                    "differs-at has '{at}', but no parameter that moves {} is swept with this value",
                    claim.experiment
                ));
            }
        }
        Ok(())
    }

    /// Checks that an experiment has every measure that its claims refer to. An experiment without any measures
    /// passes, because its runs are done by other shards or on real threads.
    ///
    /// # Errors
    /// A sentence with the claim and its missing measure.
    pub fn check_measures(&self, experiment: &str, measures: &[Measure]) -> Result<(), String> {
        if measures.is_empty() {
            return Ok(());
        }
        let is_measured = |claim: &&Claim| measures.iter().any(|measure| measure.name == claim.measure);
        match self.claims.iter().filter(|claim| claim.experiment == experiment).find(|claim| !is_measured(claim)) {
            Some(claim) => Err(format!("claim '{}': {experiment} does not measure '{}'", claim.id, claim.measure)),
            None => Ok(()),
        }
    }

    /// Returns the swept values on which an experiment depends, as `key=value`. `--full` runs the experiment with
    /// each of them, in addition to the chosen values.
    pub fn sweep<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = String> + 'a {
        let moved = self.parameters.iter().filter(move |parameter| parameter.moves.iter().any(|to| to == experiment));
        moved.flat_map(|parameter| parameter.sweep.iter().map(move |value| format!("{}={value}", parameter.name)))
    }
}

/// Returns the paper's number in the claim with this id, if its text has one.
pub fn number(claims: &[Claim], id: &str) -> Option<f64> {
    claims.iter().find(|claim| claim.id == id)?.number
}

/// Reads the tables of an array. Error messages name a table by its `name` field.
fn tables<T: for<'de> Deserialize<'de>>(document: &DocumentMut, array: &str, name: &str) -> Result<Vec<T>, String> {
    let Some(item) = document.get(array) else { return Err(format!("it has no [[{array}]]")) };
    let Some(all) = item.as_array_of_tables() else {
        return Err(format!("'{array}' is not a list of tables: write [[{array}]]"));
    };
    let read = |(nth, table): (usize, &Table)| {
        let told = match table.get(name).and_then(Item::as_str) {
            Some(name) => format!("{array} '{name}'"),
            None => format!("{array} number {}", nth + 1),
        };
        let one = toml_edit::de::from_document(DocumentMut::from(table.clone()));
        one.map_err(|error| format!("{told}: {}", error.message().replace('\n', "; ")))
    };
    all.iter().enumerate().map(read).collect()
}
