//! Tests that headlines of the papers hold for the policies that ship, with one test for each headline.
//!
//! For each test except `bws_switches_less`, `crates/policy/mutations/` has a policy that is broken on purpose.
//! `checks/mutations.sh` expects the test to fail with the broken policy. `checks/mutations.sh --reproduce` expects
//! `comity-lab reproduce --check` to fail with it.
//!
//! Each test computes the measures of its claims with fewer runs than the paper, and compares them with the intervals
//! of the claims files.

use std::sync::LazyLock;

use comity_papers::Serial;
use comity_papers::a_steal::{self, ASteal, Practical, SECONDS_PER_QUANTUM, time, time_waste, utilization, waste};
use comity_papers::bws::{self, Bws};
use comity_papers::claims::{CHOSEN, judge};
use comity_papers::dws::{self, Dws};
use comity_papers::measure::{Measure, part};
use comity_papers::paper::{Paper, Repetition};
use comity_papers::robinhood::{self, Benchmark, Robinhood, Strategy, rates};
use comity_papers::ws_last::{self, NoThreads, Point, divisions, messages, sawtooth};

type WsLast = ws_last::WsLast<NoThreads>;

/// # Panics
/// If one of the claims was not measured, or if its measure does not agree with the paper.
fn hold<P: Paper>(ids: &[&str], measures: Vec<Measure>) {
    let claims = P::claims().unwrap_or_else(|why| panic!("{why}"));
    let judged = judge(&claims, &[(CHOSEN.to_owned(), measures)]);
    for id in ids {
        let one = judged.iter().find(|one| one.claim.id == *id).unwrap_or_else(|| panic!("'{id}' was not measured"));
        let at = &one.at[0];
        assert!(at.is_within, "{id}: {:.3}, and {} counts as {}", at.here.value, one.claim.accepted(), one.claim.paper);
    }
}

/// Returns the measures of these experiments.
fn measured<P: Paper>(setting: &P::Setting, experiments: &[&str]) -> Vec<Measure> {
    let mut repetition = Repetition::<P>::with(CHOSEN, setting);
    let mut measures = Vec::new();
    for experiment in P::experiments().into_iter().filter(|one| experiments.contains(&one.name)) {
        let own = repetition.measure(experiment, &Serial).map_err(|failure| failure.into_sentence());
        measures.extend(own.unwrap().expect("all runs are done here"));
    }
    measures
}

/// Returns a setting that does one of every `one_in` of the paper's runs.
fn a_steal(one_in: usize) -> a_steal::Setting {
    let practical = Practical::synthetic(1, SECONDS_PER_QUANTUM).expect("it has room");
    a_steal::Setting { one_in, ..a_steal::Setting::new(1, practical) }
}

fn times() -> Vec<a_steal::Outcome> {
    let Ok(outcomes) = time::run(&a_steal(20), &Serial);
    outcomes
}

#[test]
fn a_steal_speeds_up_linearly() {
    hold::<ASteal>(&["linear-speedup"], time::measures(&times()));
}

#[test]
fn a_steal_takes_at_most_twice_the_optimal_time() {
    hold::<ASteal>(&["twice-optimal"], time::measures(&times()));
}

fn wastes() -> Vec<Measure> {
    let Ok(by_delta) = waste::run(&a_steal(50), &Serial);
    waste::measures(&by_delta, &times(), 200)
}

#[test]
fn a_steal_typically_wastes_little() {
    hold::<ASteal>(&["waste-typical"], wastes());
}

#[test]
fn a_steal_wastes_a_tiny_fraction_where_parallelism_is_high() {
    hold::<ASteal>(&["waste-parallel"], wastes());
}

/// A tenth of the time-waste experiments, run once for all tests.
static HEAD_TO_HEAD: LazyLock<Vec<Measure>> = LazyLock::new(|| {
    let setting = a_steal(10);
    let [Ok(large), Ok(small)] = time_waste::MACHINES.map(|machine| time_waste::run(&setting, machine, &Serial));
    time_waste::measures(&large, &small)
});

#[test]
fn a_steal_is_twice_as_fast_as_abp_on_large_machines() {
    hold::<ASteal>(&["time-512"], HEAD_TO_HEAD.clone());
}

#[test]
fn a_steal_wastes_a_tenth_of_what_abp_wastes_on_large_machines() {
    hold::<ASteal>(&["waste-512"], HEAD_TO_HEAD.clone());
}

#[test]
fn abp_is_slightly_faster_on_smaller_machines() {
    hold::<ASteal>(&["time-128"], HEAD_TO_HEAD.clone());
}

#[test]
fn abp_still_wastes_many_more_cycles_on_smaller_machines() {
    hold::<ASteal>(&["waste-128-introduction"], HEAD_TO_HEAD.clone());
}

#[test]
fn a_steal_overtakes_with_many_jobs() {
    // A-STEAL overtakes after about 20,000 steps, which must be less than a tenth of the time.
    let Ok(sets) = utilization::run(&a_steal(4), &Serial);
    hold::<ASteal>(&["overtaken-u-u", "overtaken-ht1-ht1"], utilization::measures(&sets));
}

/// Simulates each point once, with a sixth of the rounds.
fn ws_last(points: &[Point]) -> Vec<ws_last::Outcome> {
    let setting = ws_last::Setting { one_in: 6, measurements: 1, ..ws_last::Setting::new(1) };
    let Ok(outcomes) = setting.simulate("points", points, &Serial);
    outcomes
}

/// Experiment 1, run once for all tests.
static DIVISIONS: LazyLock<Vec<Measure>> = LazyLock::new(|| divisions::measures(&ws_last(&divisions::points())));

#[test]
fn ws_cur_loses_speed_at_100_us() {
    hold::<WsLast>(&["cur-100"], DIVISIONS.clone());
}

#[test]
fn ws_last_keeps_speed_at_100_us() {
    hold::<WsLast>(&["last-100"], DIVISIONS.clone());
}

/// The speedups of the two algorithms at d = 10⁵ are two headlines that differ from the paper. The claim that WS-LAST
/// is faster than WS-CUR holds.
#[test]
fn ws_cur_degrades_much_more_rapidly() {
    hold::<WsLast>(&["last-above-cur"], DIVISIONS.clone());
}

/// The ratio of the rates of WS-CUR and WS-LAST is a headline that differs from the paper. The claim on WS-CUR's rate
/// alone holds, but is not a headline.
#[test]
fn ws_cur_attempts_as_many_steals() {
    hold::<WsLast>(&["cur-rate"], DIVISIONS.clone());
}

#[test]
fn ws_last_hardly_grows_slower_than_linearly_at_250_workers() {
    hold::<WsLast>(&["last-almost-none-250"], messages::measures(&ws_last(&messages::points())));
}

#[test]
fn speedup_is_a_sawtooth() {
    let ids = ["minima", "maxima", "none-elsewhere"];
    hold::<WsLast>(&ids, sawtooth::measures(&ws_last(&sawtooth::points())));
}

/// The measures of all pairs of BWS with at least two executions of each program, run once for all tests.
static PAIRS: LazyLock<Vec<Measure>> =
    LazyLock::new(|| measured::<Bws>(&bws::Setting { executions: 2, ..bws::Setting::new(1) }, &["fig2", "fig3"]));

#[test]
fn bws_is_fair() {
    hold::<Bws>(&["unfair-all-bws"], PAIRS.clone());
}

#[test]
fn bws_gains_throughput() {
    hold::<Bws>(&["throughput-gain-mixed"], PAIRS.clone());
}

#[test]
fn bws_switches_less() {
    hold::<Bws>(&["switches-clip-mm", "switches-mi-ep"], PAIRS.clone());
}

/// The measures of DWS's mixes of compute-intensive programs with at least three executions of each, run once.
static COMPUTE: LazyLock<Vec<Measure>> =
    LazyLock::new(|| measured::<Dws>(&dws::Setting { executions: 3, ..dws::Setting::new(1) }, &["fig5"]));

#[test]
fn dws_is_faster_than_equal_parts_for_programs_that_compute() {
    hold::<Dws>(&["time-c-ep"], COMPUTE.clone());
}

#[test]
fn dws_is_as_fair_as_the_paper_says() {
    hold::<Dws>(&["d-1-2-dws"], COMPUTE.clone());
}

#[test]
fn robinhood_gives_a_slice_and_takes_it_back() {
    let ids = ["figure3-poor-by-t2", "figure3-steal-at", "figure3-wasted-robinhood", "figure3-others-unmoved"];
    hold::<Robinhood>(&ids, measured::<Robinhood>(&robinhood::Setting::new(1), &["figure3"]));
}

#[test]
fn robinhood_s_giver_pays() {
    let measures = measured::<Robinhood>(&robinhood::Setting::new(1), &["figure3"]);
    hold::<Robinhood>(&["figure3-giver-pays"], measures);
}

/// Tests only two of the three rates, and only CG.
#[test]
fn robinhood_is_faster_within_nodes() {
    let programs = robinhood::Setting::new(1).programs();
    let time = |machines, strategy| programs.at_rate(&rates::alone(Benchmark::Cg, machines, strategy)).mean();
    let is_worse = |machines| time(machines, Strategy::RobinhoodU) > time(machines, Strategy::Robinhood);
    hold::<Robinhood>(&["fig13-u-worse"], vec![Measure::new("fig13-u-worse", 100.0 * part([2, 4], is_worse))]);
}

/// Tests only two of the four rates.
#[test]
fn robinhood_does_the_most_useful_work() {
    let programs = robinhood::Setting::new(1).programs();
    let useful = |machines, strategy| {
        let point = rates::alone(Benchmark::Cg, machines, strategy);
        rates::Outcomes(vec![(point, programs.at_rate(&point))]).useful(point)
    };
    let is_highest = |machines| {
        let others = [Strategy::Baseline, Strategy::Bws].map(|other| useful(machines, other));
        others.into_iter().all(|other| other <= useful(machines, Strategy::Robinhood) + 1.0)
    };
    hold::<Robinhood>(&["fig8-highest"], vec![Measure::new("fig8-highest", 100.0 * part([2, 4], is_highest))]);
}

/// Tests only the program and the number of loops for which Robinhood saves most.
#[test]
fn robinhood_saves_time_beside_loops() {
    let programs = robinhood::Setting::new(1).programs();
    let saves = |benchmark, loops, other| {
        let time = |strategy| programs.at_rate(&rates::Point { loops, ..rates::alone(benchmark, 4, strategy) }).mean();
        100.0 * (1.0 - time(Strategy::Robinhood) / time(other))
    };
    let measures = vec![
        Measure::new("fig14-saves-baseline", saves(Benchmark::Mi, 4, Strategy::Baseline)),
        Measure::new("fig14-saves-bws", saves(Benchmark::Clip, 1, Strategy::Bws)),
    ];
    hold::<Robinhood>(&["fig14-saves-baseline", "fig14-saves-bws"], measures);
}

#[test]
fn robinhood_costs_others_little() {
    let setting = robinhood::Setting { executions: 1, ..robinhood::Setting::new(1) };
    hold::<Robinhood>(&["fig11-slight"], measured::<Robinhood>(&setting, &["fig11"]));
}
