//! What came out of a paper's experiments: its claims beside what was measured, figures, and what is to be known of
//! both.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use comfy_table::{Table, presets};
use comity_console::{Failure, output};
use comity_papers::claims::{At, Claims, Interval, Judged, Kind, News, Paper, Verdict, judge};
use comity_papers::measure::Measure;
use serde::Serialize;

use super::options::Options;
use super::settings::left_out;
use crate::figure::Figure;
use crate::sweep::{Stop, Sweep};

/// The measures and the figures of the experiments that were run.
#[derive(Default)]
pub struct Findings {
    /// What was measured, by the values of the swept parameters; the chosen ones are first.
    pub measured: Vec<(String, Vec<Measure>)>,
    /// By the name of the file.
    pub figures: Vec<(&'static str, Figure)>,
    /// What is to be known of the numbers, a sentence each.
    pub notes: Vec<String>,
}

/// Everything that came out.
#[derive(Serialize)]
struct Report<'a, E> {
    schema: &'static str,
    comity: &'static str,
    setting: String,
    /// The paper's claims, and ours beside them.
    claims: Vec<Row<'a>>,
    /// Of how many claims of a figure, and of a kind, it holds.
    shares: Vec<Share>,
    notes: &'a [String],
    #[serde(flatten)]
    extra: E,
}

/// A claim, and what came out.
#[derive(Serialize)]
struct Row<'a> {
    what: &'a str,
    paper: &'a str,
    section: &'a str,
    figure: Option<u32>,
    measure: &'a str,
    /// The paper's number alone, if its text has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<f64>,
    kind: Kind,
    headline: bool,
    here: f64,
    half_width: Option<f64>,
    accepted: Interval,
    stated: Interval,
    because: &'a str,
    result: Verdict,
    holds: bool,
    why: String,
    news: News,
    at: &'a [At],
}

/// Of these claims, so many hold.
#[derive(Serialize)]
struct Share {
    of: String,
    claims: usize,
    hold: usize,
}

/// Nothing, if the outcomes are not all here.
pub fn here<T>(outcomes: Result<T, Stop>) -> Result<Option<T>, Failure> {
    match outcomes {
        Ok(outcomes) => Ok(Some(outcomes)),
        Err(Stop::Elsewhere) => Ok(None),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

/// A number and its interval, if it has one.
pub fn estimate(value: f64, half_width: Option<f64>) -> String {
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

/// Of each figure's claims and of those of no figure, how many hold; and of each kind.
fn shares(judged: &[Judged]) -> Vec<Share> {
    let mut by_figure: BTreeMap<Option<u32>, Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        by_figure.entry(one.claim.figure).or_default().push(one);
    }
    let share = |of: String, all: &[&Judged]| Share {
        of,
        claims: all.len(),
        hold: all.iter().filter(|one| holds(one)).count(),
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
    figures.chain(kinds).chain([share("headlines".to_owned(), &headlines)]).filter(|share| share.claims > 0).collect()
}

impl Findings {
    /// Prints and files it all, with the experiments' own `table` below the claims and `extra` in JSON. With
    /// `--check`, a claim that held when it was filed and does not hold is a failure. Of a shard's runs nothing is
    /// judged, for the others are missing.
    pub fn present<E: Serialize>(
        &self,
        (paper, claims): (&Paper, &Claims),
        setting: String,
        sweep: &Sweep,
        options: &Options,
        table: &str,
        extra: E,
    ) -> Result<(), Failure> {
        if sweep.shard().is_some() {
            return output::print(&sweep.elsewhere());
        }
        let judged = judge(paper, claims, &self.measured);
        if options.check && judged.is_empty() {
            return Err(Failure::Usage("--check: the paper claims nothing of these experiments".to_owned()));
        }
        let report = Report {
            schema: "comity-reproduce/1",
            comity: env!("CARGO_PKG_VERSION"),
            setting,
            claims: judged.iter().map(Row::new).collect(),
            shares: shares(&judged),
            notes: &self.notes,
            extra,
        };
        let mut text =
            if options.json { output::to_json(&report) } else { self.text(claims, &judged, options.full, table) };
        if let Some(out) = sweep.out() {
            write(&out.join("result.json"), &output::to_json(&report))?;
        }
        for folder in [sweep.out(), options.plot.as_deref()].into_iter().flatten() {
            fs::create_dir_all(folder)
                .map_err(|error| Failure::Usage(format!("cannot make the folder '{}': {error}", folder.display())))?;
            let drawn: Vec<_> = self.figures.iter().filter(|(name, _)| options.draws(name)).collect();
            for (name, figure) in &drawn {
                write(&folder.join(format!("{name}.svg")), &figure.svg())?;
            }
            if !options.json {
                let numbers = if sweep.out() == Some(folder) { "result.json and " } else { "" };
                let _ = writeln!(text, "{numbers}{} figures are in '{}'.", drawn.len(), folder.display());
            }
        }
        output::print(&text)?;
        let failed: Vec<&str> =
            judged.iter().filter(|one| one.news == News::Fails).map(|one| one.claim.id.as_str()).collect();
        if options.check && !failed.is_empty() {
            let count = failed.len();
            let what = format!(
                "{count} of {} claims held when they were filed and do not: {}",
                judged.len(),
                failed.join(", ")
            );
            return Err(Failure::Run(what));
        }
        Ok(())
    }

    fn text(&self, claims: &Claims, judged: &[Judged], full: bool, own: &str) -> String {
        let mut text = String::new();
        if !judged.is_empty() {
            let mut table = Table::new();
            let header = ["", "kind", "claim", "the paper", "here", "accepted"];
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
            for one in judged {
                table.add_row(row(one));
            }
            let _ = writeln!(text, "{}\n{table}\n* a headline of the paper", claims.title);
            differences(&mut text, judged);
            news(&mut text, judged);
            let _ = writeln!(text);
            for Share { of, claims, hold } in shares(judged) {
                let _ = writeln!(text, "{of}: {hold} of {claims} hold, {} differ", claims - hold);
            }
            if !full && !left_out(claims).is_empty() {
                let _ = writeln!(text, "{}", left_out(claims));
            }
        }
        text += own;
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }
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
        let why = if why.is_empty() { "no reason is filed" } else { &why };
        let _ = writeln!(text, "- {}: {why}", one.claim.id);
    }
}

fn news(text: &mut String, judged: &[Judged]) {
    for (news, what) in [
        (News::Fails, "held when filed and do not now"),
        (News::Holds, "were filed as differing where they hold now: change lab/papers"),
        (News::First, "are run for the first time: file in lab/papers what came out"),
    ] {
        let own: Vec<&str> = judged.iter().filter(|one| one.news == news).map(|one| one.claim.id.as_str()).collect();
        if !own.is_empty() {
            let _ = writeln!(text, "{} claims {what}: {}", own.len(), own.join(", "));
        }
    }
}

impl<'a> Row<'a> {
    fn new(judged: &'a Judged<'a>) -> Row<'a> {
        let claim = judged.claim;
        Row {
            what: &claim.id,
            paper: &claim.paper,
            section: &claim.section,
            figure: claim.figure,
            measure: &claim.measure,
            number: claim.number,
            kind: claim.kind,
            headline: claim.headline,
            here: judged.here().value,
            half_width: half_width(judged),
            accepted: claim.accepted(),
            stated: claim.stated,
            because: &claim.tolerance,
            result: judged.verdict,
            holds: holds(&judged),
            why: judged.why(),
            news: judged.news,
            at: &judged.at,
        }
    }
}

/// Replaces a file.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::Run(format!("cannot write '{}': {error}", path.display()));
    output::replace(path, text.as_bytes()).map_err(failed)
}
