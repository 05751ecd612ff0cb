//! `comity-lab reproduce dws`.

use std::fmt::Write;
use std::mem;

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use comity_console::Failure;
use comity_papers::claims::Claim;
use comity_papers::corun::Ran;
use comity_papers::dws::mixes::{self, Compared, Mix, NC, Set};
use comity_papers::dws::{ABP, EP, PAPER, PROGRAMS, Programs, Setting, T_SLEEPS};
use comity_papers::measure::Measure;
use serde::Serialize;

use super::findings::{Findings, here};
use super::options::Options;
use super::settings::{Swept, choose, settings};
use crate::figure::{Axis, Figure, Marks, Series};
use crate::sweep::Sweep;

const EXAMPLES: &str = "Examples:
  comity-lab reproduce dws --check
  comity-lab reproduce dws fig4 fig8 --plot .
  comity-lab reproduce dws --full --out results    # stopped, the same command
                                                   # goes on
  comity-lab reproduce dws fig6 --vary memory=900 --vary refill=100000

Chen, Zheng and Guo, Adaptive demand-aware work-stealing in multi-programmed
multi-core architectures, CCPE 2016. docs/results/dws.md has each of the paper's
numbers beside ours; lab/papers/src/dws/claims.toml has its tolerance, and what is
assumed.";

/// DWS: eight programs alone and in all 28 mixes, on 16 simulated processors with Linux 2.6.32
///
/// The programs are recorded kernels; the thieves, coordinators and the core table are the code that runs on
/// threads. With --out, each figure is drawn as an SVG file, and the numbers are in result.json.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Which experiments [default: all]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<Experiment>,
    /// Choose otherwise what the paper leaves unsaid; can be repeated. Of the machine: bandwidth, memory, smt
    /// (thousandths), first-touch, compat-yield (0 or 1), hz. Of the programs: slow (a factor of the recorded
    /// lengths), at-home (none, table or all). Costs in nanoseconds: steal, yield, refill
    #[arg(long, value_name = "KEY=VALUE")]
    vary: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Experiment {
    /// Mixes of both kinds
    Fig4,
    /// Mixes of compute-intensive programs
    Fig5,
    /// Mixes of data-intensive programs
    Fig6,
    /// DWS without a coordinator
    Fig7,
    /// Other values of T_SLEEP, for FFT and Mergesort
    Fig8,
    /// §3.5: each program alone
    Solo,
}

impl Experiment {
    /// Of the experiments that compare all three policies.
    fn set(self) -> Option<Set> {
        match self {
            Experiment::Fig4 => Some(Set::Mixed),
            Experiment::Fig5 => Some(Set::Compute),
            Experiment::Fig6 => Some(Set::Data),
            _ => None,
        }
    }
}

/// The numbers behind the measures, with the chosen values.
#[derive(Default, Serialize)]
struct Extra {
    alone: Vec<Alone>,
    mixes: Vec<Mixed>,
}

/// A program alone under ABP.
#[derive(Serialize)]
struct Alone {
    program: &'static str,
    seconds: f64,
}

/// A mix under a policy.
#[derive(Serialize)]
struct Mixed {
    policy: String,
    #[serde(flatten)]
    mix: Mix,
    difference: f64,
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { experiments, vary, mut options } = arguments;
    let (claims, asked) = options.claims(&PAPER, &experiments)?;
    let seed = options.seed;
    let mut chosen = Setting::new(seed);
    let mut name = format!("dws, seed {seed}");
    choose(&vary, &mut name, |varied| chosen.vary(varied))?;
    let sweep = Sweep::new(mem::take(&mut options.sweep), name.clone())?;
    let mut findings = Findings::default();
    let mut extra = Extra::default();
    for swept in settings(&claims, options.full, &sweep, &chosen, Setting::vary)? {
        let programs = swept.setting.programs();
        let runs = |experiment: Experiment| asked.has(&experiment) && swept.moves(&experiment);
        let mut found = Found::default();
        let measures = found.measure(&programs, &swept, &runs)?;
        if swept.is_chosen() {
            findings.figures = found.figures(&claims.claims);
            extra = found.extra(programs.dws());
        }
        findings.measured.push((swept.name.clone(), measures));
    }
    findings.notes.push(
        "The paper gives no time alone and one size: programs' sizes and the machine's costs are assumed, and most of them swept.".into(),
    );
    let table = extra.table();
    findings.present((&PAPER, &claims), name, &sweep, &options, &table, extra)
}

/// What came of one setting.
#[derive(Default)]
struct Found {
    alone: Vec<Ran>,
    sets: Vec<(Set, Compared)>,
    /// Without a coordinator, of the mixed set.
    no_coordinator: Vec<Mix>,
    thresholds: Vec<Mix>,
}

impl Found {
    fn measure(
        &mut self,
        programs: &Programs<'_>,
        runner: &Swept<'_, Setting>,
        runs: &impl Fn(Experiment) -> bool,
    ) -> Result<Vec<Measure>, Failure> {
        let mut measures = Vec::new();
        // Without these nothing can be said, but what can be run is.
        let alone = here(programs.alone(ABP, runner))?;
        let (has_alone, alone) = (alone.is_some(), alone.unwrap_or_else(|| vec![Ran::default(); PROGRAMS.len()]));
        for experiment in [Experiment::Fig4, Experiment::Fig5, Experiment::Fig6] {
            let Some(set) = experiment.set().filter(|_| runs(experiment) || runs(Experiment::Fig7)) else { continue };
            let Some(compared) = here(mixes::compare(programs, set, &alone, runner))?.filter(|_| has_alone) else {
                continue;
            };
            if runs(experiment) {
                measures.extend(match set {
                    Set::Mixed => compared.mixed(),
                    Set::Compute => compared.compute(),
                    Set::Data => compared.data(),
                });
            }
            self.sets.push((set, compared));
        }
        if runs(Experiment::Fig7) {
            let [mixed, compute, data] =
                [Set::Mixed, Set::Compute, Set::Data].map(|set| here(mixes::run(programs, set, NC, &alone, runner)));
            if let (Some(mixed), Some(compute), Some(data), [(_, with_mixed), (_, with_compute), (_, with_data)]) =
                (mixed?, compute?, data?, &self.sets[..])
            {
                measures.extend(mixes::no_coordinator([
                    (&mixed, &with_mixed.dws),
                    (&compute, &with_compute.dws),
                    (&data, &with_data.dws),
                ]));
                self.no_coordinator = mixed;
            }
        }
        if runs(Experiment::Fig8)
            && let Some(thresholds) = here(mixes::run_thresholds(programs, &alone, runner))?.filter(|_| has_alone)
        {
            measures.extend(mixes::thresholds(&thresholds));
            self.thresholds = thresholds;
        }
        if runs(Experiment::Solo)
            && let Some(dws) = here(programs.alone(programs.dws(), runner))?.filter(|_| has_alone)
        {
            measures.extend(mixes::solo(&dws, &alone));
        }
        self.alone = alone;
        Ok(measures)
    }

    fn extra(self, dws: &str) -> Extra {
        let alone = PROGRAMS.into_iter().zip(&self.alone);
        let mut extra = Extra {
            alone: alone.map(|(program, ran)| Alone { program, seconds: ran.mean() / 1e9 }).collect(),
            mixes: Vec::new(),
        };
        let mut add = |policy: &str, mixes: Vec<Mix>| {
            let told = |mix: Mix| Mixed { policy: policy.to_owned(), difference: mix.difference(), mix };
            extra.mixes.extend(mixes.into_iter().map(told));
        };
        for (_, Compared { dws: with_dws, abp, ep }) in self.sets {
            add(dws, with_dws);
            add(ABP, abp);
            add(EP, ep);
        }
        add(NC, self.no_coordinator);
        for (mix, threshold) in self.thresholds.into_iter().zip(T_SLEEPS) {
            add(&format!("dws:t_sleep={threshold}"), vec![mix]);
        }
        extra
    }

    /// With the paper's points, of those `claims`.
    fn figures(&self, claims: &[Claim]) -> Vec<(&'static str, Figure)> {
        let mut figures = Vec::new();
        for (set, compared) in &self.sets {
            let (name, title, points) = match set {
                Set::Mixed => ("figure-4", "DWS figure 4: slow-down ratios of mixes of both kinds", FIGURE_4),
                Set::Compute => {
                    ("figure-5", "DWS figure 5: slow-down ratios of mixes of compute-intensive programs", FIGURE_5)
                }
                Set::Data => {
                    ("figure-6", "DWS figure 6: slow-down ratios of mixes of data-intensive programs", FIGURE_6)
                }
            };
            let policies = [("DWS", &compared.dws), ("ABP", &compared.abp), ("EP", &compared.ep)];
            figures.push((name, ratios(title, &policies, points, claims)));
        }
        if let Some((_, compared)) = self.sets.iter().find(|(set, _)| *set == Set::Mixed)
            && !self.no_coordinator.is_empty()
        {
            let policies = [("DWS", &compared.dws), ("DWS-NC", &self.no_coordinator)];
            let title = "DWS figure 7: slow-down ratios of mixes of both kinds without a coordinator";
            figures.push(("figure-7", ratios(title, &policies, &[], claims)));
        }
        if !self.thresholds.is_empty() {
            let series = |name: &str, nth: usize| {
                let each = T_SLEEPS.into_iter().zip(&self.thresholds);
                let points = each.map(|(threshold, mix)| (f64::from(threshold), mix.ratios[nth])).collect();
                Series::new(name, Marks::Line, points)
            };
            figures.push((
                "figure-8",
                Figure {
                    title: "DWS figure 8: slow-down ratios of FFT and Mergesort over T_SLEEP".into(),
                    x: Axis::log("T_SLEEP"),
                    y: Axis::linear("slow-down ratio"),
                    series: vec![series("p-1, FFT", 0), series("p-8, Mergesort", 1)],
                },
            ));
        }
        figures
    }
}

/// Of a claim: the policy's place, the program's place in a mix, and the mix.
type OfPaper = &'static [(&'static str, usize, usize, [usize; 2])];

const FIGURE_4: OfPaper = &[
    ("mix-1-5-dws-1", 0, 0, [1, 5]),
    ("mix-1-5-dws-5", 0, 1, [1, 5]),
    ("mix-1-5-abp-1", 1, 0, [1, 5]),
    ("mix-1-5-abp-5", 1, 1, [1, 5]),
    ("mix-2-8-abp-8", 1, 1, [2, 8]),
    ("mix-1-5-ep-1", 2, 0, [1, 5]),
    ("mix-1-5-ep-5", 2, 1, [1, 5]),
    ("mix-2-8-ep-8", 2, 1, [2, 8]),
];

const FIGURE_5: OfPaper = &[
    ("mix-1-2-dws-1", 0, 0, [1, 2]),
    ("mix-1-2-dws-2", 0, 1, [1, 2]),
    ("mix-1-2-abp-1", 1, 0, [1, 2]),
    ("mix-1-2-abp-2", 1, 1, [1, 2]),
    ("mix-1-2-ep-1", 2, 0, [1, 2]),
    ("mix-1-2-ep-2", 2, 1, [1, 2]),
];

const FIGURE_6: OfPaper = &[
    ("mix-6-7-dws-6", 0, 0, [6, 7]),
    ("mix-6-7-dws-7", 0, 1, [6, 7]),
    ("mix-6-7-abp-6", 1, 0, [6, 7]),
    ("mix-6-7-abp-7", 1, 1, [6, 7]),
    ("mix-6-7-ep-6", 2, 0, [6, 7]),
    ("mix-6-7-ep-7", 2, 1, [6, 7]),
];

/// The ratios of both programs of each mix: the first program's a little to the left of the mix's place, the
/// second's to the right.
fn ratios(title: &str, policies: &[(&str, &Vec<Mix>)], of_paper: OfPaper, claims: &[Claim]) -> Figure {
    let first = policies[0].1;
    let x = |mix: [usize; 2], nth: usize| {
        let place = first.iter().position(|one| one.of == mix).expect("the set has that mix");
        place as f64 + 1.0 + if nth == 0 { -0.15 } else { 0.15 }
    };
    let mut series: Vec<Series> = policies
        .iter()
        .map(|(name, mixes)| {
            let points = mixes.iter().flat_map(|mix| [0, 1].map(|nth| (x(mix.of, nth), mix.ratios[nth]))).collect();
            Series::new(*name, Marks::Points, points)
        })
        .collect();
    for (of, (name, _)) in policies.iter().enumerate() {
        let number = |id: &str| claims.iter().find(|claim| claim.id == id)?.number;
        let own = of_paper.iter().filter(|(_, policy, ..)| *policy == of);
        let points: Vec<(f64, f64)> = own.filter_map(|(id, _, nth, mix)| Some((x(*mix, *nth), number(id)?))).collect();
        if !points.is_empty() {
            series.push(Series::of_paper(format!("{name}: the paper's"), of, points));
        }
    }
    let mixes: Vec<String> = first.iter().map(|mix| format!("({}, {})", mix.of[0], mix.of[1])).collect();
    Figure { title: title.into(), x: Axis::named("mix", mixes), y: Axis::linear("slow-down ratio, T / B"), series }
}

impl Extra {
    /// What the paper draws and has no number for.
    fn table(&self) -> String {
        let mut text = String::new();
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["alone under ABP", "s"]);
        for (Alone { program, seconds }, number) in self.alone.iter().zip(1..) {
            table.add_row([format!("p-{number}, {program}"), format!("{seconds:.3}")]);
        }
        let _ = writeln!(text, "{table}");
        let of = |policy: &'static str| self.mixes.iter().filter(move |one| one.policy == policy);
        if of(ABP).next().is_some() {
            let mut table = Table::new();
            let header = ["mix", "ratios under DWS; D", "under ABP", "under EP"];
            table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
            let told = |one: &Mixed| {
                let [first, second] = one.mix.ratios;
                format!("{first:.2}, {second:.2}; {:.2}", one.difference)
            };
            for ((dws, abp), ep) in of("dws").zip(of(ABP)).zip(of(EP)) {
                let mix = format!("({}, {})", dws.mix.of[0], dws.mix.of[1]);
                table.add_row([mix, told(dws), told(abp), told(ep)]);
            }
            let _ = writeln!(text, "{table}");
        }
        text
    }
}
