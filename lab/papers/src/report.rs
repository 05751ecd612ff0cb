//! The report on a paper's experiments: its claims next to the measured values, its figures, and notes on the claims
//! and figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::{Table, presets};
use comity_console::{Failure, output};
use serde::Serialize;

use crate::claims::{At, Claims, Interval, Judged, Kind, News, Verdict, judge};
use crate::figure::{Heat, Named};
use crate::measure::Measure;

/// The output of a command: text, JSON and pictures.
pub struct Report {
    /// The text to print.
    pub text: String,
    /// The report as JSON, with all numbers.
    pub json: String,
    /// The pictures to draw.
    pub pictures: Pictures,
    /// The error of a check that fails, to be reported after the other output.
    pub failure: Option<Failure>,
}

/// Pictures, with the names of their files.
pub enum Pictures {
    /// Figures with two axes.
    Figures(Vec<Named>),
    /// Tables.
    Tables(Vec<(String, Heat)>),
}

/// The results of the experiments that were run.
pub(crate) struct Findings<'a> {
    /// The name of the setting, which lists the values that the runs depend on.
    pub setting: &'a str,
    /// The claims of the paper. A claim has no measured value if its experiment was not run.
    pub claims: &'a Claims,
    /// The measures of each setting of the swept parameters. The chosen setting is first.
    pub measured: Vec<(String, Vec<Measure>)>,
    /// Sentences that a reader must know about the numbers.
    pub notes: Vec<String>,
    /// The tables of the paper, which are printed below the claims. See [`Paper::table`](crate::paper::Paper::table).
    pub table: String,
}

/// The JSON report.
#[derive(Serialize)]
struct Json<'a, E> {
    schema: &'static str,
    comity: &'static str,
    setting: &'a str,
    /// The paper's claims, each with the value measured here.
    claims: Vec<ClaimReport<'a>>,
    /// The counts of claims: for each figure, for each kind, for the headlines, and for all.
    shares: Vec<Share>,
    notes: &'a [String],
    #[serde(flatten)]
    extra: E,
}

/// A claim with its measured value.
#[derive(Serialize)]
struct ClaimReport<'a> {
    what: &'a str,
    paper: &'a str,
    section: &'a str,
    figure: Option<u32>,
    measure: &'a str,
    /// The number in the paper's text, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<f64>,
    neutral: f64,
    kind: Kind,
    headline: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_fail: Option<&'a str>,
    here: f64,
    half_width: Option<f64>,
    accepted: Interval,
    stated: Interval,
    because: &'a str,
    result: Verdict,
    holds: bool,
    is_within: bool,
    has_order: bool,
    why: String,
    news: News,
    at: &'a [At],
}

/// The counts of the claims in a group.
#[derive(Serialize)]
struct Share {
    of: String,
    claims: usize,
    /// The claims that hold with all values of the swept parameters.
    hold: usize,
    /// The claims whose measured value with the chosen values is accepted.
    within: usize,
    /// The claims whose measured value with the chosen values has the paper's sign and order of magnitude.
    order: usize,
    /// The claims that hold whatever the policies do.
    cannot_fail: usize,
}

/// Formats a table with these rows and a final newline. Empty if there are no rows.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header).add_rows(rows);
    if table.is_empty() { String::new() } else { format!("{table}\n") }
}

/// Formats a number, with the half-width of its interval if there is one.
pub(crate) fn estimate(value: f64, half_width: Option<f64>) -> String {
    match half_width {
        Some(half_width) => format!("{value:.3} ± {half_width:.3}"),
        None => format!("{value:.3}"),
    }
}

fn half_width(judged: &Judged) -> Option<f64> {
    Some(judged.here().half_width).filter(|half_width| *half_width > 0.0)
}

fn holds(judged: &&Judged) -> bool {
    judged.verdict == Verdict::Holds
}

/// Counts the claims: for each figure, for the claims without a figure, for each kind, for the headlines, and for all.
fn shares(judged: &[Judged]) -> Vec<Share> {
    let mut by_figure: BTreeMap<Option<u32>, Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        by_figure.entry(one.claim.figure).or_default().push(one);
    }
    let share = |of: String, all: &[&Judged]| {
        let count = |is_so: fn(&Judged) -> bool| all.iter().filter(|one| is_so(one)).count();
        Share {
            of,
            claims: all.len(),
            hold: count(|one| holds(&one)),
            within: count(|one| one.is_within()),
            order: count(|one| one.has_order()),
            cannot_fail: count(|one| one.claim.cannot_fail.is_some()),
        }
    };
    let figures = by_figure.iter().map(|(figure, all)| {
        let name = figure.map_or_else(|| "no figure".to_owned(), |figure| format!("figure {figure}"));
        share(name, all)
    });
    let kinds = Kind::ALL.map(|kind| {
        let own: Vec<&Judged> = judged.iter().filter(|one| one.claim.kind == kind).collect();
        share(kind.to_string(), &own)
    });
    let headlines: Vec<&Judged> = judged.iter().filter(|one| one.claim.headline).collect();
    let all: Vec<&Judged> = judged.iter().collect();
    let last = [share("headlines".to_owned(), &headlines), share("all".to_owned(), &all)];
    figures.chain(kinds).chain(last).filter(|share| share.claims > 0).collect()
}

impl Findings<'_> {
    /// Judges the claims, and reports the results as text and as JSON. `extra` is added to the JSON. With `check`,
    /// the report has a failure if a claim that held when it was filed does not hold now.
    pub fn report<E: Serialize>(
        &self,
        extra: E,
        figures: Vec<Named>,
        check: bool,
        full: bool,
    ) -> Result<Report, Failure> {
        let judged = judge(self.claims, &self.measured);
        if check && judged.is_empty() {
            return Err(Failure::Usage("--check: the paper has no claims about these experiments".to_owned()));
        }
        let json = Json {
            schema: "comity-reproduce/1",
            comity: env!("CARGO_PKG_VERSION"),
            setting: self.setting,
            claims: judged.iter().map(ClaimReport::new).collect(),
            shares: shares(&judged),
            notes: &self.notes,
            extra,
        };
        let failed: Vec<&str> =
            judged.iter().filter(|one| one.news == News::Fails).map(|one| one.claim.id.as_str()).collect();
        let failure = (check && !failed.is_empty()).then(|| {
            let (count, of, which) = (failed.len(), judged.len(), failed.join(", "));
            Failure::Run(format!("{count} of {of} claims are recorded as holding and do not hold: {which}"))
        });
        let (mut text, json) = (self.text(&judged, full), output::to_json(&json));
        if check {
            let _ = writeln!(text, "{}", checked(&judged));
        }
        Ok(Report { text, json, pictures: Pictures::Figures(figures), failure })
    }

    fn text(&self, judged: &[Judged], full: bool) -> String {
        let claims = self.claims;
        let mut text = String::new();
        if !judged.is_empty() {
            let header = ["", "kind", "claim", "the paper", "here", "accepted"];
            let claims_table = table(header, judged.iter().map(row));
            let _ = writeln!(text, "{}\n{claims_table}* a headline of the paper", claims.title);
            differences(&mut text, judged);
            news(&mut text, judged);
            let _ = writeln!(text);
            let header = ["", "claims", "hold", "accepted with the chosen values", "order of magnitude", "cannot fail"];
            let counts = |Share { of, claims, hold, within, order, cannot_fail }: Share| {
                let [claims, hold, within, order, cannot_fail] =
                    [claims, hold, within, order, cannot_fail].map(|count| count.to_string());
                [of, claims, hold, within, order, cannot_fail]
            };
            text += &table(header, shares(judged).into_iter().map(counts));
            if !full && !left_out(claims).is_empty() {
                let _ = writeln!(text, "{}", left_out(claims));
            }
        }
        text += &self.table;
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }
}

/// Returns the last line of a check: how many claims could have failed it.
fn checked(judged: &[Judged]) -> String {
    let can_fail = judged.iter().filter(|one| one.can_fail());
    let (failed, passed): (Vec<&Judged>, Vec<&Judged>) = can_fail.partition(|one| one.news == News::Fails);
    let forced = judged.iter().filter(|one| one.claim.cannot_fail.is_some()).count();
    let others = judged.len() - failed.len() - passed.len() - forced;
    format!(
        "check: {} of {} claims could have failed and did not, {} failed. The check cannot fail by the others: {others} \
         are recorded as differing or have no record, {forced} hold whatever the policies do.",
        passed.len(),
        judged.len(),
        failed.len()
    )
}

fn row(one: &Judged) -> [String; 6] {
    let verdict = if holds(&one) { "holds" } else { "differs" };
    let mark = if one.claim.headline { " *" } else { "" };
    let mut here = estimate(one.here().value, half_width(one));
    let (least, most) = one.range();
    if one.at.len() > 1 {
        let _ = write!(here, " ({least:.3} to {most:.3})");
    }
    [
        verdict.to_owned(),
        one.claim.kind.to_string(),
        format!("{}{mark}", one.claim.id),
        format!("{}: {}", one.claim.section, one.claim.paper),
        here,
        one.claim.accepted().to_string(),
    ]
}

fn differences(text: &mut String, judged: &[Judged]) {
    let mut all = judged.iter().filter(|one| !holds(one)).peekable();
    if all.peek().is_some() {
        let _ = writeln!(text, "\nDifferences:");
    }
    for one in all {
        let why = one.why();
        let why = if why.is_empty() { "no reason is recorded" } else { &why };
        let _ = writeln!(text, "- {}: {why}", one.claim.id);
    }
}

fn news(text: &mut String, judged: &[Judged]) {
    for (news, what) in [
        (News::Fails, "are recorded as holding and do not hold"),
        (News::Holds, "are recorded as differing and hold; update lab/papers"),
        (News::First, "have no recorded result; add the result to lab/papers"),
    ] {
        let own: Vec<&str> = judged.iter().filter(|one| one.news == news).map(|one| one.claim.id.as_str()).collect();
        if !own.is_empty() {
            let _ = writeln!(text, "{} claims {what}: {}", own.len(), own.join(", "));
        }
    }
}

impl<'a> ClaimReport<'a> {
    fn new(judged: &'a Judged<'a>) -> ClaimReport<'a> {
        let claim = judged.claim;
        ClaimReport {
            what: &claim.id,
            paper: &claim.paper,
            section: &claim.section,
            figure: claim.figure,
            measure: &claim.measure,
            number: claim.number,
            neutral: claim.neutral,
            cannot_fail: claim.cannot_fail.as_deref(),
            kind: claim.kind,
            headline: claim.headline,
            here: judged.here().value,
            half_width: half_width(judged),
            accepted: claim.accepted(),
            stated: claim.stated,
            because: &claim.tolerance,
            result: judged.verdict,
            holds: holds(&judged),
            is_within: judged.is_within(),
            has_order: judged.has_order(),
            why: judged.why(),
            news: judged.news,
            at: &judged.at,
        }
    }
}

/// Returns a sentence with the values that only `--full` runs. Empty if no parameter is swept.
fn left_out(claims: &Claims) -> String {
    let swept = claims.parameters.iter().filter(|parameter| !parameter.sweep.is_empty());
    let each: Vec<String> = swept.map(|one| format!("{} ({})", one.name, one.sweep.join(", "))).collect();
    match each.len() {
        0 => String::new(),
        _ => format!(
            "Only the chosen values were run. --full also varies the parameters that no number of the paper fixes: {}.",
            each.join(", ")
        ),
    }
}
