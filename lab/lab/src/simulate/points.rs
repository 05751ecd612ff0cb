//! The points of a sweep: the scenarios that result from one file by `--set` and `--policy`. Each point is checked
//! like a scenario from a separate file.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use comity_graph::Graph;
use comity_sim::scenario::{Scenario, Written};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::backend::PolicyList;

/// The largest number of runs of a sweep, which is the same as for one scenario.
const MOST_RUNS: u64 = 1_000_000;

/// The key that `--policy` varies for all programs.
const POLICY: &str = "policy";

/// A key that is varied, and its values.
#[derive(Serialize)]
pub struct Axis {
    /// The key, as on the command line.
    pub key: String,
    /// The path to the key in the scenario; `None` for the policy of every program.
    #[serde(skip)]
    path: Option<Vec<String>>,
    /// The values, in the order of the command line.
    pub values: Vec<Scalar>,
}

impl Axis {
    /// True if the axis is the policy of every program.
    pub fn is_policy(&self) -> bool {
        self.path.is_none()
    }
}

/// A value of a varied key.
#[derive(Clone, PartialEq)]
pub struct Scalar(Value);

impl Scalar {
    /// Returns the value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        self.0.as_f64()
    }

    /// Parses a value as in a scenario file. A string of one word needs no quotes here.
    fn read(text: &str) -> Result<Scalar, String> {
        use toml_edit::Value as Toml;
        let text = text.trim();
        let value = match text.parse::<Toml>() {
            Ok(Toml::Integer(number)) => (*number.value()).into(),
            Ok(Toml::Float(number)) if !number.value().is_finite() => {
                return Err(format!("{text} is not a finite number"));
            }
            Ok(Toml::Float(number)) => (*number.value()).into(),
            Ok(Toml::Boolean(holds)) => (*holds.value()).into(),
            Ok(Toml::String(text)) => text.value().as_str().into(),
            _ if text.is_empty() => return Err("a value is empty".into()),
            _ => text.into(),
        };
        Ok(Scalar(value))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => f.write_str(text),
            value => value.fmt(f),
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A scenario with the values that distinguish it from the others.
pub struct Point {
    /// The value on each axis.
    pub values: Vec<Scalar>,
    /// The scenario.
    pub scenario: Scenario,
}

/// All scenarios of a command: all combinations of the varied values. From point to point, the value of the last axis
/// changes first.
pub struct Points {
    /// The varied keys. `--policy` for all programs is the last.
    pub axes: Vec<Axis>,
    /// The points. If no key is varied, there is one point.
    pub all: Vec<Point>,
    /// The number of runs up to and including each point.
    ends: Vec<u64>,
}

impl Points {
    /// Makes the points. `recording` reads recordings.
    ///
    /// # Errors
    /// If an option or a point is invalid. The error is a sentence that names the option or the point.
    pub fn new(
        written: &Written,
        sets: &[String],
        policies: &[String],
        recording: &mut dyn FnMut(&str) -> Result<Arc<Graph>, String>,
    ) -> Result<Points, String> {
        let names: Vec<&str> = written.programs.iter().map(|program| program.name.as_str()).collect();
        let base = serde_json::to_value(written).expect("it has string keys");
        let axes = axes(&base, &names, sets, policies)?;
        let count = axes.iter().fold(1u64, |count, axis| count.saturating_mul(axis.values.len() as u64));
        bounded(count, count)?;
        let mut all = Vec::new();
        for nth in 0..count as usize {
            let values = place(&axes, nth);
            let point = point(&base, &axes, &values, recording);
            let scenario = point.map_err(|why| match axes.is_empty() {
                true => why,
                false => format!("with {}: {why}", label(&axes, &values)),
            })?;
            all.push(Point { values, scenario });
        }
        let mut runs = 0u64;
        let add = |point: &Point| {
            runs = runs.saturating_add(point.scenario.runs());
            runs
        };
        let ends = all.iter().map(add).collect();
        bounded(count, runs)?;
        Ok(Points { axes, all, ends })
    }

    /// Returns the number of all runs. The runs of the first point come first.
    pub fn runs(&self) -> usize {
        self.all.iter().map(|point| point.scenario.runs() as usize).sum()
    }

    /// Returns the point of a run, and the index of the run within the point.
    pub fn of_run(&self, run: usize) -> (&Point, u64) {
        let run = run as u64;
        let nth = self.ends.partition_point(|end| *end <= run);
        let before = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
        (&self.all[nth], run - before)
    }

    /// Describes the varied keys and their values, for the header of a file of runs. The scenario and this text
    /// determine each run. Empty if no key is varied.
    pub fn told(&self) -> String {
        let axis = |Axis { key, values, .. }: &Axis| {
            let values: Vec<String> = values.iter().map(Scalar::to_string).collect();
            format!(", {key}={}", values.join(","))
        };
        self.axes.iter().map(axis).collect()
    }

    /// Returns a point's values by their keys.
    pub fn settings(&self, point: &Point) -> Map<String, Value> {
        self.axes.iter().zip(&point.values).map(|(axis, value)| (axis.key.clone(), value.0.clone())).collect()
    }
}

fn bounded(points: u64, runs: u64) -> Result<(), String> {
    match runs {
        0..=MOST_RUNS => Ok(()),
        _ => Err(format!(
            "{points} settings need at least {runs} runs, and the maximum is {MOST_RUNS}. Vary less, or lower the \
             file's runs"
        )),
    }
}

/// Formats the values of a point for a sentence.
fn label(axes: &[Axis], values: &[Scalar]) -> String {
    let each = axes.iter().zip(values).map(|(axis, value)| format!("{}={value}", axis.key));
    each.collect::<Vec<_>>().join(", ")
}

/// Returns the values of the `nth` point.
fn place(axes: &[Axis], nth: usize) -> Vec<Scalar> {
    let mut left = nth;
    let mut values: Vec<Scalar> = Vec::new();
    for Axis { values: all, .. } in axes.iter().rev() {
        values.push(all[left % all.len()].clone());
        left /= all.len();
    }
    values.reverse();
    values
}

fn point(
    base: &Value,
    axes: &[Axis],
    values: &[Scalar],
    recording: &mut dyn FnMut(&str) -> Result<Arc<Graph>, String>,
) -> Result<Scenario, String> {
    let mut written = base.clone();
    // The axes are applied in reverse order, so that the policy of all programs is set first. The policy of a single
    // program then replaces it.
    for (axis, Scalar(value)) in axes.iter().zip(values).rev() {
        match &axis.path {
            Some(path) => set(&mut written, path, value)?,
            None => {
                let programs = written["programs"].as_array_mut().into_iter().flatten();
                programs.for_each(|program| program[POLICY] = value.clone());
            }
        }
    }
    let written: Written = serde_json::from_value(written).map_err(|error| error.to_string())?;
    Scenario::with_recordings(written, recording)
}

/// Sets the value of a key. If the scenario has no such key, reading the whole scenario fails later.
fn set(at: &mut Value, path: &[String], value: &Value) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else {
        *at = value.clone();
        return Ok(());
    };
    let place = match at {
        Value::Null => {
            *at = Value::Object(Map::new());
            &mut at[key]
        }
        Value::Object(_) => &mut at[key],
        Value::Array(list) => element(list, key)?,
        other => return Err(format!("'{key}' cannot exist: its parent has the value {other}")),
    };
    set(place, rest, value)
}

/// Returns the element of a list with this name, or with this number counted from 1.
fn element<'a>(list: &'a mut [Value], key: &str) -> Result<&'a mut Value, String> {
    let name = |one: &Value| one.get("name").and_then(Value::as_str).map(str::to_owned);
    let named = list.iter().position(|one| name(one).as_deref() == Some(key));
    let number = key.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).filter(|nth| *nth < list.len());
    match named.or(number) {
        Some(nth) => Ok(&mut list[nth]),
        None => {
            let names: Option<Vec<String>> = list.iter().map(name).collect();
            let there = match names {
                Some(names) if !names.is_empty() => format!("Choose one of {}", names.join(", ")),
                _ => format!("Choose a number from 1 to {}", list.len()),
            };
            Err(format!("'{key}' is not in the list. {there}"))
        }
    }
}

fn axes(base: &Value, names: &[&str], sets: &[String], policies: &[String]) -> Result<Vec<Axis>, String> {
    let mut axes: Vec<Axis> = Vec::new();
    for text in sets {
        axes.push(of_set(base, names, text).map_err(|why| format!("--set {text}: {why}"))?);
    }
    let mut of_all = Vec::new();
    for text in policies {
        let refuse = |why| format!("--policy {text}: {why}");
        match of_program(names, text).map_err(refuse)? {
            Some((name, policies)) => {
                let path = ["programs", name, POLICY].map(str::to_owned).to_vec();
                let values = listed(policies).map_err(refuse)?;
                axes.push(Axis { key: path.join("."), path: Some(path), values });
            }
            None => of_all.extend(listed(text).map_err(refuse)?),
        }
    }
    if !of_all.is_empty() {
        axes.push(Axis { key: POLICY.to_owned(), path: None, values: of_all });
    }
    for (nth, axis) in axes.iter().enumerate() {
        if axes[..nth].iter().any(|other| other.path == axis.path) {
            return Err(format!("{} is varied twice. List all its values in one place", axis.key));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = axis.values.iter().find(|value| !seen.insert(value.0.to_string())) {
            return Err(format!("{}: {twice} is listed twice", axis.key));
        }
    }
    Ok(axes)
}

/// Parses `KEY=VALUE,…`.
fn of_set(base: &Value, names: &[&str], text: &str) -> Result<Axis, String> {
    let no_form = || "it is not of the form KEY=VALUE,…".to_owned();
    // A name may contain a dot or any other character.
    let of_program = text.strip_prefix("programs.").and_then(|rest| {
        let (name, rest) = named(names, rest, '.')?;
        Some((vec!["programs", name], rest))
    });
    let (mut path, rest) = of_program.unwrap_or((Vec::new(), text));
    let (keys, values) = rest.split_once('=').ok_or_else(no_form)?;
    path.extend(keys.split('.').map(str::trim));
    if path.iter().any(|key| key.is_empty()) {
        return Err(no_form());
    }
    let key = path.join(".");
    if let ["machine", cores, ..] = &mut path[..]
        && *cores == "cores"
    {
        *cores = "processors";
    }
    let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
    let is_policy = path.len() == 3 && path[0] == "programs" && path[2] == POLICY;
    let values = match is_policy {
        true => listed(values)?,
        false => values.split(',').map(|text| fitting(base, &path, text)).collect::<Result<_, _>>()?,
    };
    Ok(Axis { key, path: Some(path), values })
}

/// Parses a value as the type that its key needs. For example, the version of a kernel is a string of digits, which
/// needs no quotes.
fn fitting(base: &Value, path: &[String], text: &str) -> Result<Scalar, String> {
    let fits = |Scalar(value): &Scalar| {
        let mut written = base.clone();
        set(&mut written, path, value).is_ok() && serde_json::from_value::<Written>(written).is_ok()
    };
    let (value, string) = (Scalar::read(text)?, Scalar(text.trim().into()));
    Ok(if !fits(&value) && fits(&string) { string } else { value })
}

/// Returns the program that `NAME=POLICY,…` names, and its policies; `None` if the policies are for all programs.
fn of_program<'a>(names: &[&'a str], text: &'a str) -> Result<Option<(&'a str, &'a str)>, String> {
    if let Some(found) = named(names, text, '=') {
        return Ok(Some(found));
    }
    match text.split_once('=') {
        Some((name, _)) if !name.contains([':', ',']) => {
            Err(format!("no program is called '{name}'; the programs are {}", names.join(", ")))
        }
        _ => Ok(None),
    }
}

/// Splits `text` into the name of a program, `separator`, and the rest. Returns the name and the rest, or `None` if
/// no name fits.
fn named<'a>(names: &[&'a str], text: &'a str, separator: char) -> Option<(&'a str, &'a str)> {
    let found = names.iter().filter_map(|name| Some((*name, text.strip_prefix(name)?.strip_prefix(separator)?)));
    found.max_by_key(|(name, _)| name.len())
}

fn listed(policies: &str) -> Result<Vec<Scalar>, String> {
    let PolicyList(policies) = policies.parse()?;
    Ok(policies.into_iter().map(|policy| Scalar(policy.to_string().into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        [machine]
        model = "host"
        processors = 4
        steps = 1_000_000

        [[programs]]
        name = "a"
        policy = "abp"
        serial = 1
        parallel = 1
        width = 1

        [[programs]]
        name = "a.b = c"
        policy = "bws"
        serial = 1
        parallel = 1
        width = 1

        [[faults]]
        kind = "late-wake-ups"
        at = 1
        until = 2
        by = 3
    "#;

    fn points(sets: &[&str], policies: &[&str]) -> Result<Points, String> {
        let written = toml_edit::de::from_str(SCENARIO).unwrap();
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Points::new(&written, &owned(sets), &owned(policies), &mut |_| Err("there is none".into()))
    }

    #[test]
    fn points_are_the_product_and_each_has_its_runs() {
        let points = points(&["machine.cores=2,8", "runs=3"], &["dws,bws:sleep_threshold=9", "a=comity"]).unwrap();
        assert_eq!(
            points.told(),
            ", machine.cores=2,8, runs=3, programs.a.policy=comity, policy=dws,bws:sleep_threshold=9"
        );
        let seen: Vec<_> = points
            .all
            .iter()
            .map(|point| {
                let written = point.scenario.written();
                let policies: Vec<&str> = written.programs.iter().map(|program| program.policy.as_str()).collect();
                (written.machine.processors, policies.join(" "))
            })
            .collect();
        let expected = [
            (2, "comity dws"),
            (2, "comity bws:sleep_threshold=9"),
            (8, "comity dws"),
            (8, "comity bws:sleep_threshold=9"),
        ];
        assert_eq!(seen, expected.map(|(cores, policies)| (cores, policies.to_owned())));
        assert_eq!(points.runs(), 12);
        let place = |run| {
            let (point, nth) = points.of_run(run);
            (label(&points.axes, &point.values), nth)
        };
        assert_eq!(place(5).1, 2);
        assert_eq!(place(5).0, "machine.cores=2, runs=3, programs.a.policy=comity, policy=bws:sleep_threshold=9");
        assert_eq!(points.settings(&points.all[2])["machine.cores"], 8);
    }

    #[test]
    fn every_scalar_has_a_key() {
        for (set, pointer, value) in [
            ("machine.costs.steal=7", "/machine/costs/steal", Value::from(7)),
            ("machine.table=false", "/machine/table", false.into()),
            ("machine.linux.version=3.9", "/machine/linux/version", "3.9".into()),
            ("machine.linux.version=\"6.18\"", "/machine/linux/version", "6.18".into()),
            ("programs.a.b = c.quota=0.5", "/programs/1/quota", 0.5.into()),
            ("programs.2.width=1_000", "/programs/1/width", 1_000.into()),
            ("programs.a.fork=tree", "/programs/0/fork", "tree".into()),
            ("programs.a.policy=bws:sleep_threshold=9", "/programs/0/policy", "bws:sleep_threshold=9".into()),
            ("faults.1.by=9", "/faults/0/by", 9.into()),
        ] {
            let points = points(&[set], &[]).unwrap_or_else(|why| panic!("{set}: {why}"));
            let [point] = &points.all[..] else { panic!("{set} is one point") };
            let written = serde_json::to_value(point.scenario.written()).unwrap();
            assert_eq!(written.pointer(pointer), Some(&value), "{set}");
            let costs = point.scenario.written().machine.costs.unwrap_or_default();
            assert_eq!(costs.look, 500, "{set} leaves the rest as it is");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (sets, policies, part) in [
            (
                &["machine.procesors=2"][..],
                &[][..],
                "with machine.procesors=2: unknown field `procesors`, expected one of",
            ),
            (&["mashine.cores=2"], &[], "unknown field `mashine`"),
            (&["machine.cores=2,many"], &[], "with machine.cores=many: invalid type: string \"many\", expected u32"),
            (&["machine.cores=0"], &[], "with machine.cores=0: machine.processors is 0; it must be at least 1"),
            (&["machine.cores=-1"], &[], "invalid value: integer `-1`, expected u32"),
            (&["machine=3"], &[], "invalid type: integer `3`"),
            (&["machine.linux.version=3.8"], &[], "with machine.linux.version=3.8: "),
            (&["machine.cores"], &[], "--set machine.cores: it is not of the form KEY=VALUE,…"),
            (&["machine..cores=2"], &[], "it is not of the form KEY=VALUE,…"),
            (&["machine.cores=2,,4"], &[], "--set machine.cores=2,,4: a value is empty"),
            (&["machine.cores.x=2"], &[], "'x' cannot exist: its parent has the value 4"),
            (&["runs=2,nan"], &[], "--set runs=2,nan: nan is not a finite number"),
            (&["machine.cores=2,2"], &[], "machine.cores: 2 is listed twice"),
            (&["machine.cores=2", "machine.processors=4"], &[], "machine.processors is varied twice"),
            (&["programs.c.width=2"], &[], "'c' is not in the list. Choose one of a, a.b = c"),
            (&["faults.2.by=2"], &[], "'2' is not in the list. Choose a number from 1 to 1"),
            (&["programs.a.policy=cilk"], &[], "no policy is called 'cilk'"),
            (&["programs.a.policy=abp"], &["a=bws"], "programs.a.policy is varied twice"),
            (&[], &["abp,cilk"], "--policy abp,cilk: no policy is called 'cilk'"),
            (&[], &["b=abp"], "no program is called 'b'; the programs are a, a.b = c"),
            (&[], &["abp", "abp"], "policy: abp is listed twice"),
            (&["runs=1000000"], &["abp,bws"], "2 settings need at least 2000000 runs, and the maximum is 1000000"),
        ] {
            let why = points(sets, policies).err().unwrap_or_else(|| panic!("{sets:?} {policies:?} are right"));
            assert!(why.contains(part), "{sets:?} {policies:?}: {why}");
        }
        let many: Vec<String> = (1..=20_000).chain([7]).map(|nth| nth.to_string()).collect();
        let why = points(&[&format!("machine.cores={}", many.join(","))], &[]).err().unwrap();
        assert_eq!(why, "machine.cores: 7 is listed twice");
        let many: Vec<String> = (1..=11).map(|nth| nth.to_string()).collect();
        let many: Vec<String> = ["a.at", "a.every", "a.serial", "a.parallel", "a.width", "a.iterations"]
            .map(|key| format!("programs.{key}={}", many.join(",")))
            .to_vec();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(points(&many, &[]).err().unwrap().contains("1771561 settings need"));
    }
}
