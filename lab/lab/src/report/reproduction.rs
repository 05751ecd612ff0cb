//! The section of a file that `comity-lab reproduce … --json` printed: a paper's numbers, compared with Comity's.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::chart::{Measured, Scale, dot, percent};
use super::page::{Cell, Entry, Section, clean, facts, heading, table, warning};

/// The fields of `comity-reproduce/1` that the page shows.
#[derive(Debug, Deserialize)]
pub struct ReproduceReport {
    comity: String,
    setting: String,
    claims: Vec<Claim>,
    /// The other results of the experiments, by name.
    #[serde(flatten)]
    extra: BTreeMap<String, Value>,
}

/// A number of the paper, compared with Comity's number. A number that is `null` does not exist.
#[derive(Debug, Deserialize)]
struct Claim {
    what: String,
    paper: String,
    here: Option<f64>,
    half_width: Option<f64>,
    accepted: (Option<f64>, Option<f64>),
    #[serde(default)]
    because: String,
    /// The kind of the claim, if the file has it.
    kind: Option<String>,
    /// The result in one word, if the file says more than true or false.
    #[serde(alias = "verdict")]
    result: Option<String>,
    holds: Option<bool>,
}

impl Claim {
    /// True if the claim holds: at least one of `holds` and `result` exists, and each that exists is positive.
    fn is_ok(&self) -> bool {
        let result =
            self.result.as_deref().map(|result| ["ok", "holds"].iter().any(|word| result.eq_ignore_ascii_case(word)));
        self.here.is_some() && self.holds.or(result).unwrap_or(false) && result.unwrap_or(true)
    }

    fn verdict(&self) -> String {
        let is_ok = self.is_ok();
        let sign = if is_ok { '✓' } else { '✗' };
        match self.result.as_deref() {
            Some(result) if is_ok || !["ok", "holds"].contains(&result) => format!("{sign} {}", clean(result)),
            _ => format!("{sign} {}", if is_ok { "ok" } else { "differs" }),
        }
    }

    fn here(&self) -> Option<Measured> {
        let value = self.here?;
        Some(Measured { value, interval: self.half_width.map(|half| (value - half, value + half)) })
    }

    /// Draws Comity's number and the accepted range. Each claim has its own scale.
    fn strip(&self) -> Markup {
        let (Some(here), (Some(least), Some(most))) = (self.here(), self.accepted) else { return html! { "-" } };
        let ends = || here.ends().chain([least, most]).filter(|end| end.is_finite());
        let (low, high) = (ends().fold(f64::INFINITY, f64::min), ends().fold(f64::NEG_INFINITY, f64::max));
        let room = if high > low { (high - low) * 0.12 } else { 1.0 };
        let scale = Scale::between(low - room, high + room, "");
        let (left, right) = (scale.place(least), scale.place(most));
        let class = if self.is_ok() { "good" } else { "bad" };
        let label = format!("{}; accepted: {} to {}", short(here.value), short(least), short(most));
        html! {
            svg width="100%" height="16" role="img" aria-label=(label) {
                rect.accepted x=(percent(left)) width=(percent((right - left).max(0.5))) y="1" height="14" {}
                (dot(&scale, here, 8, class, &clean(&self.what)))
            }
        }
    }
}

/// Returns the reproduction's section of the page.
pub fn section(id: &str, file: &str, report: &ReproduceReport) -> Section {
    let claims = &report.claims;
    let ok = claims.iter().filter(|claim| claim.is_ok()).count();
    let gist = match claims.len() {
        0 => "experiments for which the paper has no number".to_owned(),
        all => format!("{ok} of {all} claims hold"),
    };
    let body = html! {
        (heading(id, "comity-lab reproduce", file))
        (facts(&[
            ("setting", html! { (clean(&report.setting)) }),
            ("simulated by", html! { "comity-lab " (clean(&report.comity)) }),
        ]))
        @if ok < claims.len() { (warning(&format!("{} of {} numbers differ from the paper's.", claims.len() - ok, claims.len()))) }
        @if !claims.is_empty() { (beside(claims)) }
        @for (name, value) in &report.extra { (more(name, value)) }
    };
    Section { entries: vec![Entry { id: id.to_owned(), title: file.to_owned(), gist, is_part: false }], body }
}

fn beside(claims: &[Claim]) -> Markup {
    let kinds = claims.iter().any(|claim| claim.kind.is_some());
    let header = ["result", "kind", "what", "grey: accepted", "here", "paper", "accepted"];
    let header: Vec<&str> = header.into_iter().filter(|name| kinds || *name != "kind").collect();
    let rows: Vec<Vec<Cell>> = claims
        .iter()
        .map(|claim| {
            let here = match (claim.here, claim.half_width) {
                (None, _) => "no number".to_owned(),
                (Some(value), Some(half)) => format!("{} ± {}", short(value), short(half)),
                (Some(value), None) => short(value),
            };
            let end = |end: Option<f64>| end.map_or_else(|| "any".to_owned(), short);
            let is_wrong = !claim.is_ok();
            let mut row: Vec<Cell> = vec![Cell::from(claim.verdict()).wrong_if(is_wrong)];
            if kinds {
                row.push(claim.kind.as_deref().unwrap_or("-").into());
            }
            row.extend([
                claim.what.as_str().into(),
                Cell::drawn(claim.strip()),
                Cell::from(here).wrong_if(is_wrong),
                claim.paper.as_str().into(),
                format!("{} to {}", end(claim.accepted.0), end(claim.accepted.1)).into(),
            ]);
            row
        })
        .collect();
    let texts = if kinds { 4 } else { 3 };
    html! {
        figure {
            (table("The paper's numbers and the numbers of this run", &header, texts, &rows))
            figcaption {
                "Each row has its own scale, in the unit of its measure. The grey area is the interval that is \
                 accepted as the paper's number. The dot is the number of this run, with its 95 % confidence interval \
                 if there is one. A cross marks a number that differs."
            }
        }
        details {
            summary { "Why these intervals are accepted" }
            ul {
                @for claim in claims.iter().filter(|claim| !claim.because.is_empty()) {
                    li { (clean(&claim.what)) ": " (clean(&claim.because)) }
                }
            }
        }
    }
}

/// Shows another result of the experiments. A list of points becomes a table with a column for each field.
fn more(name: &str, value: &Value) -> Markup {
    let points: Vec<_> = value.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let mut header: Vec<&str> = Vec::new();
    for key in points.iter().flat_map(|point| point.keys()) {
        if !header.contains(&key.as_str()) {
            header.push(key);
        }
    }
    let is_number = |key: &&str| {
        points.iter().all(|point| point.get(*key).is_none_or(|value| value.is_number() || value.is_object()))
    };
    header.sort_by_key(is_number);
    let texts = header.iter().filter(|key| !is_number(key)).count();
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Number(number)) => short(number.as_f64().unwrap_or(f64::NAN)).into(),
        Some(Value::Object(estimate)) => {
            let number = |key: &str| estimate.get(key).and_then(Value::as_f64);
            match (number("value"), number("half_width")) {
                (Some(value), Some(half)) if half > 0.0 => Cell::from(format!("{} ± {}", short(value), short(half))),
                (Some(value), _) => short(value).into(),
                _ => Value::Object(estimate.clone()).to_string().into(),
            }
        }
        Some(other) => Cell::from(other.to_string()),
    };
    let rows: Vec<Vec<Cell>> =
        points.iter().map(|point| header.iter().map(|key| cell(point.get(*key))).collect()).collect();
    let title = format!("{}: {} points", clean(name), points.len());
    html! {
        @if !points.is_empty() {
            details { summary { (title) } (table(&title, &header, texts, &rows)) }
        }
    }
}

/// Formats a number with four significant digits; whole numbers are exact.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        _ if value.fract() == 0.0 && value.abs() < 1e12 => format!("{value}"),
        size if !(1e-4..1e6).contains(&size) => format!("{value:.3e}"),
        size => {
            let digits = (3.0 - size.log10().floor()).clamp(0.0, 8.0) as usize;
            let text = format!("{value:.digits$}");
            if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_holds_by_every_word_is_ok() {
        let claim = |rest: &str| -> Claim {
            serde_json::from_str(&format!(r#"{{"what":"w","paper":"1","accepted":[0,2],{rest}}}"#)).unwrap()
        };
        let shown = |claim: &Claim| (claim.is_ok(), claim.verdict());
        for (rest, word) in [
            (r#""here":1,"holds":true"#, "✓ ok"),
            (r#""here":1,"holds":true,"result":"ok""#, "✓ ok"),
            (r#""here":1,"result":"ok""#, "✓ ok"),
            (r#""here":1,"holds":true,"result":"holds""#, "✓ holds"),
            (r#""here":1,"holds":false,"result":"holds""#, "✗ differs"),
            (r#""here":3,"holds":false"#, "✗ differs"),
            (r#""here":3,"holds":false,"result":"ok""#, "✗ differs"),
            (r#""here":1,"holds":true,"result":"differs","kind":"stated""#, "✗ differs"),
            (r#""here":1,"result":"unknown""#, "✗ unknown"),
            (r#""here":null,"holds":true"#, "✗ differs"),
            (r#""here":1"#, "✗ differs"),
        ] {
            assert_eq!(shown(&claim(rest)), (word.starts_with('✓'), word.to_owned()), "{rest}");
        }
    }

    #[test]
    fn numbers_have_four_digits_that_say_something() {
        let shown = [0.0, 3.0, 2331.0, 0.96012, 5.13, 12.3456, 1234.56, 0.000012345, 1.5e9].map(short);
        assert_eq!(shown, ["0", "3", "2331", "0.9601", "5.13", "12.35", "1235", "1.234e-5", "1500000000"]);
    }
}
