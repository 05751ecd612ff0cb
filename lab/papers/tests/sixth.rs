//! Tests that a sixth paper needs only a module and a definition of the catalog, because the driver does the rest.

use clap::Command;
use comity_papers::Serial;
use comity_papers::catalog::papers;
use comity_papers::driver::Definition;
use comity_papers::report::{Pictures, Report};
use comity_papers::ws_last::NoThreads;

/// A paper that claims that a square is larger than its root, and that a cube is twice a square.
mod toy {
    use comity_papers::claims::{Claim, number};
    use comity_papers::figure::{Axis, Figure, Marks, Named, Series};
    use comity_papers::measure::Measure;
    use comity_papers::paper::{Experiment, NoOptions, Paper, Text};
    use comity_papers::vary::Vary;
    use comity_papers::{Runner, Stop};
    use serde::Serialize;

    /// The number whose powers are computed.
    #[derive(Clone, Debug)]
    pub struct Setting {
        root: u64,
    }

    pub struct Toy {
        setting: Setting,
        powers: Vec<u64>,
    }

    #[derive(Serialize)]
    pub struct Extra {
        powers: Vec<u64>,
    }

    const CLAIMS: &str = r#"
        paper = "toy"
        title = "On powers"

        [[parameter]]
        name = "root"
        chosen = "2"
        sweep = ["3"]
        moves = ["cubes"]
        because = "any number will do"

        [[claim]]
        id = "square"
        section = "§1"
        figure = 1
        experiment = "squares"
        measure = "square"
        paper = "about 4"
        number = 4.0
        kind = "known"
        stated = [3.0, 5.0]
        tolerance = "rounding"
        holds = true

        [[claim]]
        id = "cube"
        section = "§2"
        experiment = "cubes"
        measure = "cube"
        paper = "twice the square"
        kind = "held-out"
        stated = [2.0, 2.0]
        tolerance = "it is exact"
        holds = true
    "#;

    impl Paper for Toy {
        const TEXT: Text = Text {
            name: "toy",
            title: "Toy: powers of a number",
            about: "Nothing is simulated.",
            examples: "",
            default: "all",
            vary: ("root=N", "Take another root"),
            one_in: None,
            file: "toy.toml",
            claims: CLAIMS,
        };

        type Options = NoOptions;
        type Setting = Setting;
        /// A name, and exponents.
        type Part = (&'static str, [u32; 2]);
        type Extra = Extra;

        fn with(setting: &Setting) -> Toy {
            Toy { setting: setting.clone(), powers: Vec::new() }
        }

        fn experiments() -> Vec<Experiment<Toy>> {
            let (squares, cubes) = (("squares", [1, 2]), ("cubes", [2, 3]));
            vec![
                Experiment::new("squares", "Squares", [squares], |toy| toy.measure("square", 1.0), draw),
                Experiment::undrawn("cubes", "Cubes over squares", [cubes], |toy| toy.measure("cube", toy.square())),
            ]
        }

        fn run<R: Runner<Stop = Stop>>(&mut self, (name, exponents): &Self::Part, runner: &R) -> Result<(), Stop> {
            let root = self.setting.root;
            self.powers.extend(runner.run(name, 2, |nth| root.pow(exponents[nth]))?);
            Ok(())
        }

        fn extra(self) -> Extra {
            Extra { powers: self.powers }
        }

        fn table(extra: &Extra) -> String {
            format!("{} powers\n", extra.powers.len())
        }
    }

    impl Vary for Setting {
        fn usual(_: u64) -> Result<Setting, String> {
            Ok(Setting { root: 2 })
        }

        fn vary(&mut self, text: &str) -> Result<(), String> {
            let root = text.strip_prefix("root=").and_then(|root| root.parse().ok());
            self.root = root.ok_or_else(|| format!("'{text}' is not root=N"))?;
            Ok(())
        }
    }

    impl Toy {
        fn square(&self) -> f64 {
            self.setting.root.pow(2) as f64
        }

        /// Returns the measure: the last power / `over`.
        fn measure(&self, name: &'static str, over: f64) -> Vec<Measure> {
            vec![Measure::new(name, self.powers[self.powers.len() - 1] as f64 / over)]
        }
    }

    fn draw(paper: &Toy, claims: &[Claim]) -> Vec<Named> {
        let points = |y: f64| vec![(2.0, y)];
        let mut series = vec![Series::new("here", Marks::Points, points(paper.powers[1] as f64))];
        series.extend(number(claims, "square").map(|number| Series::of_paper("the paper's", 0, points(number))));
        let title = "Toy figure 1: squares".to_owned();
        vec![("figure-1", Figure { title, x: Axis::linear("root"), y: Axis::linear("square"), series })]
    }
}

/// Runs the catalog definition of this name with these arguments. Returns its report, or an error sentence.
fn reproduce(name: &str, words: &[&str]) -> Result<Report, String> {
    let definitions: Vec<Definition<Serial>> =
        papers::<Serial, NoThreads>().into_iter().chain([Definition::of::<toy::Toy>()]).collect();
    assert_eq!(definitions.len(), 7);
    let definition = definitions.iter().find(|definition| definition.name == name).expect("it is one of the rows");
    // The real command also has an option for shards, which conflicts with some arguments.
    let command = (definition.arguments)(Command::new(definition.name)).arg(clap::Arg::new("shard").long("shard"));
    let matches =
        command.try_get_matches_from([&[definition.name], words].concat()).map_err(|error| error.to_string())?;
    let asked = (definition.ask)(&matches, 1).map_err(|failure| failure.into_sentence())?;
    let report = asked.run(&Serial).map_err(|failure| failure.into_sentence())?;
    Ok(report.expect("all runs are done here"))
}

#[test]
fn a_sixth_paper_is_a_module_and_a_row() {
    let report = reproduce("toy", &["--check", "--full"]).unwrap();
    for part in ["On powers", "square", "held out", "figure 1", "4 powers"] {
        assert!(report.text.contains(part), "{part} is not in\n{}", report.text);
    }
    let last = "check: 1 of 2 claims could have failed and did not, 1 failed.";
    assert!(report.text.lines().last().is_some_and(|line| line.starts_with(last)), "{}", report.text);
    // A cube is three times a square if the root is three.
    assert!(report.text.contains("cube: at root=3: it held when it was filed"), "{}", report.text);
    let failure = report.failure.expect("the check fails").into_sentence();
    assert_eq!(failure, "1 of 2 claims are recorded as holding and do not hold: cube");
    assert!(report.json.contains("\"setting\": \"toy, seed 1\"") && report.json.contains("\"powers\""));
    let Pictures::Figures(figures) = report.pictures else { panic!("it has no tables") };
    let [("figure-1", figure)] = &figures[..] else { panic!("{} figures", figures.len()) };
    assert_eq!(figure.series.len(), 2);
}

#[test]
fn a_sixth_paper_has_the_arguments_of_all_papers() {
    let report = reproduce("toy", &["cubes", "--vary", "root=3"]).unwrap();
    assert!(report.text.contains("differs") && report.text.contains("2 powers"), "{}", report.text);
    assert!(report.json.contains("\"setting\": \"toy, seed 1, root=3\"") && report.failure.is_none());
    let report = reproduce("toy", &["--figure", "1"]).unwrap();
    assert!(!report.text.contains("cube"), "{}", report.text);
    for (words, part) in [
        (&["--figure", "2"][..], "--figure 2: toy has no claims about this figure. Choose one of 1"),
        (&["--vary", "root=x"], "--vary: 'root=x' is not root=N"),
        (&["roots"], "invalid value 'roots' for '[EXPERIMENT]...'"),
        (&["--one-in", "2"], "unexpected argument '--one-in'"),
    ] {
        let wrong = reproduce("toy", words).err().expect("it is refused");
        assert!(wrong.contains(part), "{part} is not in\n{wrong}");
    }
}

/// Tests the cheapest experiment of a catalog paper with the same driver.
#[test]
fn a_paper_of_the_catalog_goes_the_same_way() {
    let report = reproduce("robinhood", &["figure3", "--check"]).unwrap();
    assert!(
        report.failure.is_none() && report.text.contains("check: 6 of 13 claims could have failed"),
        "{}",
        report.text
    );
}
