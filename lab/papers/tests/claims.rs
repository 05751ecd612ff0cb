//! Tests that errors in a file of claims are found, and that a claim is judged with all values of the swept
//! parameters.

use std::fmt::Debug;

use comity_papers::a_steal::ASteal;
use comity_papers::bws::Bws;
use comity_papers::claims::{CHOSEN, Claim, Claims, Interval, Kind, News, Source, Verdict, judge};
use comity_papers::dws::Dws;
use comity_papers::measure::Measure;
use comity_papers::paper::Paper;
use comity_papers::robinhood::Robinhood;
use comity_papers::vary::Vary;
use comity_papers::ws_last::{NoThreads, WsLast};

/// Reads the file of claims of a paper that has two experiments and a parameter `far`, which takes numbers.
fn read(text: &str) -> Result<Claims, String> {
    let takes = |text: &str| match text.strip_prefix("far=").map(str::parse::<u32>) {
        Some(Ok(_)) => Ok(()),
        _ => Err(format!("'{text}' is not far=NUMBER")),
    };
    let experiments = vec!["one", "two"];
    Claims::read(&Source { paper: "made-up", file: "made-up.toml", experiments, takes: &takes }, text)
}

const FILE: &str = r#"
paper = "made-up"
title = "A paper"

[[parameter]]
name = "far"
chosen = "1"
sweep = ["2"]
moves = ["one"]
because = "no datum"

[[claim]]
id = "fast"
section = "§1"
experiment = "one"
measure = "speed"
paper = "about 4"
kind = "known"
stated = [3.5, 4.5]
tolerance = "rounding"
holds = true

[[claim]]
id = "hot"
section = "§1"
experiment = "two"
measure = "heat"
paper = "hot"
kind = "calibrated"
stated = [1.0, inf]
tolerance = "as it is said"
differs = "it is cold"
differs-at = ["chosen"]
"#;

fn claims(from: &str, to: &str) -> Result<Claims, String> {
    assert!(FILE.contains(from), "{from}");
    read(&FILE.replacen(from, to, 1))
}

/// Returns the verdict on the first claim, its news and its reasons. The measure `speed` has the value `chosen` with
/// the chosen setting, and `swept` with the setting `far=2`.
fn judged(claims: &Claims, chosen: f64, swept: Option<f64>) -> (Verdict, News, String) {
    let speed = |setting: &str, value: f64| (setting.to_owned(), vec![Measure::new("speed", value)]);
    let measured: Vec<_> =
        [speed(CHOSEN, chosen)].into_iter().chain(swept.map(|value| speed("far=2", value))).collect();
    let all = judge(claims, &measured);
    assert_eq!(all.len(), 1, "nothing was measured of the other");
    (all[0].verdict, all[0].news, all[0].why())
}

#[test]
fn a_value_has_the_order_of_the_papers_number() {
    // The paper says "four times as fast", and a ratio of 1 means no effect.
    let stated = "stated = [3.5, 4.5]";
    let ratio = &claims(stated, "number = 4.0\nneutral = 1\nstated = [3.5, 4.5]").unwrap().claims[0];
    for (value, has_order) in [(4.4, true), (2.0, true), (10.0, true), (1.9, false), (11.0, false), (0.5, false)] {
        assert_eq!(ratio.has_order(value), has_order, "{value}");
    }
    // A speed of 0 means no effect. Without a number, the nearest accepted value counts.
    let speed = &claims("", "").unwrap().claims[0];
    assert!(speed.has_order(1.2) && speed.has_order(13.0) && !speed.has_order(1.1) && !speed.has_order(-4.0));
    // The paper says "in all cases".
    let part = &claims(stated, "neutral = 0.5\nstated = [1.0, 1.0]").unwrap().claims[0];
    assert!(part.has_order(1.0) && part.has_order(0.7) && !part.has_order(0.6) && !part.has_order(f64::NAN));
    // The paper says "no effect".
    let none = &claims(stated, "number = 1.0\nneutral = 1\nstated = [0.9, 1.1]").unwrap().claims[0];
    let no_harm = &claims(stated, "neutral = 1\nstated = [0.0, 1.02]").unwrap().claims[0];
    assert!(no_harm.has_order(0.7) && !no_harm.has_order(1.03));
    assert!(none.has_order(1.05) && !none.has_order(1.2) && !none.has_order(0.8));
}

#[test]
fn what_is_wrong_with_a_file_is_a_sentence_with_its_claim() {
    assert!(claims("", "").is_ok());
    let fast = [
        ("kind = \"known\"", "kind = \"guessed\"", "unknown variant `guessed`, expected one of `calibrated`"),
        ("tolerance = \"rounding\"\n", "", "missing field `tolerance`"),
        ("tolerance = \"rounding\"", "tolerance = \"\"", "its tolerance is empty"),
        ("stated = [3.5, 4.5]", "stated = [4.5, 3.5]", "4.5 to 3.5 is not an interval"),
        ("stated = [3.5, 4.5]\n", "", "missing field `stated`"),
        ("experiment = \"one\"", "experiment = \"on\"", "no experiment is called 'on'"),
        ("holds = true", "hold = true", "unknown field `hold`"),
        ("holds = true", "holds = true\ncannot-fail = \"\"", "its cannot-fail is empty"),
        ("holds = true", "holds = true\ndiffers = \"x\"", "it has both holds and differs"),
        ("holds = true", "differs = \"x\"", "it differs: write the reason in differs"),
    ];
    let hot = [
        ("id = \"fast\"", "id = \"hot\"", "the id is used twice"),
        ("differs-at = [\"chosen\"]", "differs-at = [\"far=2\"]", "differs-at has 'far=2', but no parameter"),
    ];
    let far = [
        ("sweep = [\"2\"]", "sweep = [\"b\"]", "'far=b' is not far=NUMBER"),
        ("sweep = [\"2\"]", "sweep = []", "it has neither fixed-by nor sweep"),
        ("sweep = [\"2\"]", "fixed-by = \"fast\"", "it is fixed by 'fast', but no calibrated claim"),
        ("chosen = \"1\"", "chosen = \"1\"\nfixed-by = \"hot\"", "it has both fixed-by and sweep"),
        ("moves = [\"one\"]", "moves = [\"three\"]", "it moves 'three', but no experiment"),
        ("moves = [\"one\"]\n", "", "it is swept, but moves lists no experiment"),
    ];
    let file = [
        ("id = \"fast\"\n", "", "claim number 1: missing field `id`"),
        ("name = \"far\"", "name = \"near\"", "parameter 'near': 'near=2' is not far=NUMBER"),
        ("paper = \"made-up\"", "paper = \"other\"", "its paper is 'other' instead of 'made-up'"),
        ("title = \"A paper\"\n", "", "it has no title"),
        ("title = \"A paper\"", "title = \"A", "line 3: "),
        ("[[parameter]]", "[[parameters]]", "'parameters' is not one of paper, title"),
    ];
    let of = |place: &'static str, faults: &[(&'static str, &'static str, &str)]| {
        faults.iter().map(|(from, to, what)| (*from, *to, format!("{place}{what}"))).collect::<Vec<_>>()
    };
    let all = [of("claim 'fast': ", &fast), of("claim 'hot': ", &hot), of("parameter 'far': ", &far), of("", &file)];
    for (from, to, part) in all.concat() {
        let wrong = claims(from, to).expect_err(to);
        assert!(wrong.starts_with("made-up.toml: ") && wrong.contains(&part) && !wrong.contains('\n'), "{wrong}");
    }
}

#[test]
fn a_claim_holds_only_if_it_holds_across_the_sweep() {
    let file = claims("", "").unwrap();
    assert_eq!(judged(&file, 4.0, None), (Verdict::Holds, News::None, String::new()));
    assert_eq!(judged(&file, 4.0, Some(4.1)), (Verdict::Holds, News::None, String::new()));
    let (verdict, news, why) = judged(&file, 4.0, Some(5.0));
    assert_eq!((verdict, news), (Verdict::Differs, News::Fails));
    assert_eq!(why, "at far=2: it held when it was filed");
    // A value that is NaN never agrees with the paper.
    assert_eq!(judged(&file, f64::NAN, None).1, News::Fails);
}

#[test]
fn a_difference_that_is_filed_is_no_failure_and_no_agreement() {
    let filed = "differs = \"too far\"\ndiffers-at = [\"far=2\"]";
    let file = claims("holds = true", filed).unwrap();
    let why = "at far=2: too far".to_owned();
    assert_eq!(judged(&file, 4.0, Some(5.0)), (Verdict::Differs, News::None, why));
    let why = "at far=2 (not run here): too far".to_owned();
    assert_eq!(judged(&file, 4.0, None), (Verdict::Differs, News::None, why));
    // The claim holds with a setting with which the file records that it differs: this is news. With the other
    // setting, the claim fails.
    assert_eq!(judged(&file, 4.0, Some(4.0)), (Verdict::Holds, News::Holds, String::new()));
    assert_eq!(judged(&file, 5.0, Some(5.0)).1, News::Fails);
    let new = claims("holds = true\n", "").unwrap();
    assert_eq!(judged(&new, 5.0, None), (Verdict::Differs, News::First, String::new()));
}

#[test]
fn a_widened_tolerance_makes_a_claim_differ() {
    let file = claims("holds = true", "holds = true\naccepted = [3.5, 6.0]").unwrap();
    let why = "3.5 to 4.5 was stated, and 3.5 to 6 is accepted since".to_owned();
    assert_eq!(judged(&file, 5.0, None), (Verdict::Differs, News::None, why.clone()));
    // A widened claim differs even if its value is within the stated interval.
    assert_eq!(judged(&file, 4.0, None), (Verdict::Differs, News::None, why));
    let narrower = claims("holds = true", "holds = true\naccepted = [3.9, 4.1]").unwrap();
    assert_eq!(judged(&narrower, 4.0, None).0, Verdict::Holds);
    assert_eq!(judged(&narrower, 4.4, None).1, News::Fails);
}

/// The stated interval of each claim, with its kind. A line is never changed or removed: another interval goes into
/// `accepted`. A line with a weaker kind is added below if the model is later fitted to a held-out claim, or if
/// parameters are chosen after a look at its result.
const STATED: &str = include_str!("stated.txt");

#[test]
fn an_experiment_measures_what_its_claims_speak_of() {
    let file = claims("", "").unwrap();
    let measures = |name: &'static str| [Measure::new(name, 4.0)];
    assert_eq!(file.check_measures("one", &measures("speed")), Ok(()));
    let missing = "claim 'fast': one does not measure 'speed'".to_owned();
    assert_eq!(file.check_measures("one", &measures("heat")), Err(missing));
    assert_eq!(file.check_measures("one", &[]), Ok(()), "its runs are elsewhere");
}

/// Returns the claims of a paper as lines of `stated.txt`. Checks that each claim has a recorded result, and that the
/// chosen values of the parameters are the defaults of the model.
fn stated<P: Paper>() -> Vec<String>
where
    P::Setting: Debug,
{
    let claims = P::claims().unwrap_or_else(|why| panic!("{why}"));
    let usual = || P::Setting::usual(1).unwrap();
    let mut setting = usual();
    for parameter in claims.parameters {
        setting.vary(&format!("{}={}", parameter.name, parameter.chosen)).unwrap();
    }
    assert_eq!(format!("{setting:?}"), format!("{:?}", usual()));
    let line = |claim: Claim| {
        let is_filed = claim.holds || claim.differs.is_some();
        assert!(is_filed, "{}: file what came out of '{}': holds or differs", P::TEXT.file, claim.id);
        let Interval(least, most) = claim.stated;
        format!("{} {} {} {least} {most}", P::TEXT.name, claim.id, claim.kind)
    };
    claims.claims.into_iter().map(line).collect()
}

#[test]
fn what_was_stated_stays() {
    let filed: Vec<&str> = STATED.lines().collect();
    let papers =
        [stated::<ASteal>(), stated::<Bws>(), stated::<Dws>(), stated::<Robinhood>(), stated::<WsLast<NoThreads>>()];
    let now = papers.concat();
    for (nth, line) in filed.iter().enumerate() {
        let weaker = [Kind::Calibrated, Kind::Known].map(|kind| line.replace(" held out ", &format!(" {kind} ")));
        let since = weaker.iter().find(|weaker| *weaker != line && filed[nth..].contains(&weaker.as_str()));
        let is_said = |line: &str| now.iter().any(|claim| claim == line);
        assert!(is_said(since.map_or(line, |since| since)), "'{line}' was stated, and its claims.toml says otherwise");
    }
    for claim in &now {
        assert!(filed.contains(&claim.as_str()), "add '{claim}' to stated.txt, before it is run");
    }
}
