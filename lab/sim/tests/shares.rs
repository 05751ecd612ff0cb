//! Tests of the parts of a simulated host that computing programs get by weight, on machines with 2 to 128 cores. The
//! code of the coordinators and of the core table is the code of real programs. `cargo test --release -p comity-sim
//! --test shares -- --ignored --nocapture` runs the tests with the largest machines, and with ten thousand deaths.

use comity_policy::Policy;
use comity_protocol::TURN;
use comity_protocol::orders::Request;
use comity_protocol::table::PROBES_EVERY;
use comity_sim::network::Network;
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::random::stream;
use comity_sim::threads::{Costs, Host};
use rand::RngExt;

const MS: u64 = 1_000_000;

/// The time from which on shares are measured, in nanoseconds.
const BEGINS: u64 = 1_500 * MS;

/// The time between two looks at the processor time, in nanoseconds.
const SAMPLE: u64 = 5 * MS;

/// The processor time that some programs got.
#[derive(Debug)]
struct Got {
    /// The part of the machine that each program got.
    parts: Vec<f64>,
    /// The longest time in which a program had no processor time, in nanoseconds.
    longest_wait: u64,
    /// The number of cores that were taken back, per second.
    taken_back: f64,
}

impl Got {
    /// Returns the largest difference between a program's part and its due: weight / sum of weights.
    fn error(&self, weights: &[u32]) -> f64 {
        let all: u32 = weights.iter().sum();
        let due = weights.iter().map(|weight| f64::from(*weight) / f64::from(all));
        self.parts.iter().zip(due).map(|(part, due)| (part - due).abs()).fold(0.0, f64::max)
    }
}

/// Creates a program that computes for ever, in phases of 200 tasks of 50 µs for each core.
fn endless(cores: usize) -> Box<ForkJoin> {
    Box::new(ForkJoin::new(1_000, 50_000, 200 * cores as u32, u32::MAX, Fork::AtOnce))
}

/// Creates programs of these weights, each with a worker for each core. The first `late` programs begin after half a
/// second.
fn beside(cores: usize, weights: &[u32], late: usize, seed: u64) -> (Host, Vec<u32>) {
    let mut host = Host::new(cores, Costs::default(), seed);
    let programs = weights.iter().enumerate().map(|(nth, weight)| {
        let at = if nth < late { 500 * MS } else { 0 };
        let program = host.submit(at, endless(cores), Policy::default(), cores as u32, seed + nth as u64);
        host.order(at + 50 * MS, program, Request::Weight(Some(*weight)));
        program
    });
    let programs = programs.collect();
    (host, programs)
}

/// Measures the programs for `lasts` nanoseconds.
fn measure(host: &mut Host, cores: usize, programs: &[u32], lasts: u64) -> Got {
    let had = |host: &Host| -> Vec<u64> { programs.iter().map(|id| host.fate(*id).spent.total()).collect() };
    let lost = |host: &Host| programs.iter().map(|id| host.fate(*id).counts.lost).sum::<u64>();
    host.run(BEGINS, 10_000).unwrap();
    let (before, lost_before) = (had(host), lost(host));
    let (mut last, mut since, mut longest_wait) = (before.clone(), vec![BEGINS; programs.len()], 0);
    for at in (BEGINS + SAMPLE..=BEGINS + lasts).step_by(SAMPLE as usize) {
        host.run(at, 10_000).unwrap();
        for (nth, now) in had(host).into_iter().enumerate() {
            if now > last[nth] {
                (last[nth], since[nth]) = (now, at);
            }
            longest_wait = longest_wait.max(at - since[nth]);
        }
    }
    let machine = lasts as f64 * cores as f64;
    let parts = had(host).iter().zip(before).map(|(now, before)| (now - before) as f64 / machine).collect();
    Got { parts, longest_wait, taken_back: (lost(host) - lost_before) as f64 * 1e9 / lasts as f64 }
}

/// Checks that programs get their due, and that no program waits longer than a frame (a turn of every program) for its
/// turn.
fn holds(cores: usize, weights: &[u32], late: usize, seconds: u64) {
    let (mut host, programs) = beside(cores, weights, late, 1);
    let got = measure(&mut host, cores, &programs, seconds * 1_000 * MS);
    let error = got.error(weights);
    let (wait, taken) = (got.longest_wait / MS, got.taken_back);
    println!("{cores} cores, {weights:?}: error {error:.3}, longest wait {wait} ms, {taken:.0} taken back a second");
    assert!(error <= 0.03, "{weights:?} on {cores} cores: {got:?}");
    let frame = TURN.as_nanos() as u64 * weights.len() as u64;
    assert!(got.longest_wait <= frame + 30 * MS, "{weights:?} on {cores} cores: {wait} ms");
}

#[test]
fn two_cores_are_shared_by_weight() {
    for weights in [
        [100, 100].as_slice(),
        &[100, 200],
        &[100, 300],
        &[10, 190],
        &[10, 1000],
        &[100, 100, 100],
        &[100, 200, 300],
        &[100, 100, 100, 100, 400],
    ] {
        holds(2, weights, 0, 5);
    }
}

#[test]
fn larger_machines_are_shared_by_weight() {
    let mut random = stream(1, 7);
    for (cores, programs) in [(4, 3), (8, 5), (16, 7)] {
        let weights: Vec<u32> = (0..programs).map(|_| random.random_range(1..=30) * 10).collect();
        holds(cores, &weights, 0, 2);
    }
}

/// Checks many programs of random weights.
fn many(cores: usize, programs: usize) {
    let mut random = stream(programs as u64, 7);
    let weights: Vec<u32> = (0..programs).map(|_| random.random_range(1..=30) * 10).collect();
    holds(cores, &weights, 0, 10);
}

#[test]
#[ignore = "it takes minutes, in release"]
fn machines_of_64_cores_are_shared_by_weight() {
    [(32, 7), (64, 2), (64, 33)].into_iter().for_each(|(cores, programs)| many(cores, programs));
}

#[test]
#[ignore = "it takes minutes, in release"]
fn a_machine_of_128_cores_is_shared_by_weight() {
    many(128, 16);
}

#[test]
#[ignore = "it takes minutes, in release"]
fn a_crowd_is_served_by_weight() {
    many(16, 64);
}

#[test]
#[ignore = "it takes a quarter of an hour, in release"]
fn a_crowd_is_served_by_weight_on_128_cores() {
    many(128, 64);
}

#[test]
fn one_that_publishes_a_false_number_has_no_more_than_twice_its_part_and_leaves_no_less_than_half() {
    for (cores, programs) in [(2, 2), (2, 3), (8, 3), (16, 5)] {
        for lie in [0, 1, 2_000, u32::MAX] {
            let weights = vec![100; programs];
            let (mut host, ids) = beside(cores, &weights, 0, 1);
            host.run(400 * MS, 10_000).unwrap();
            host.lie(ids[0], lie);
            let got = measure(&mut host, cores, &ids, 3_000 * MS).parts;
            println!("{cores} cores, {programs} programs, of which one says {lie}: {got:.3?}");
            let part = 1.0 / programs as f64;
            assert!(got.iter().all(|got| (part / 2.0 - 0.03..=part * 2.0 + 0.03).contains(got)), "{got:?}");
        }
    }
}

/// Kills programs at random times, and begins other programs. The host checks that no core is lost, and that no core is
/// held by two programs. Ten quanta after a death, all programs must get their new due. An exception is a program that
/// is repaid time that it lost before the death. Returns the number of parts that differ from the due by more than a
/// twentieth of the machine.
fn die(deaths: u32, seed: u64) -> u32 {
    const QUANTA: u64 = 100 * MS;
    let mut random = stream(seed, 8);
    let (mut worst, mut off): (f64, u32) = (0.0, 0);
    for nth in 0..deaths.div_ceil(8) {
        let cores = random.random_range(2..=4);
        let mut draw = || random.random_range(1..=12) * 25;
        let mut weights: Vec<u32> = (0..3).map(|_| draw()).collect();
        let (mut host, mut ids) = beside(cores, &weights, 0, u64::from(nth) + seed);
        let mut now = 400 * MS;
        for _ in 0..8 {
            // The moment is anywhere in a frame of three programs.
            now += random.random_range(0..300 * MS);
            let dies = random.random_range(0..3);
            host.run(now, 10_000).unwrap();
            host.kill(now, ids.remove(dies));
            weights.remove(dies);
            // After ten quanta, the parts are measured for two frames of two programs: 400 ms.
            host.run(now + QUANTA, 10_000).unwrap();
            let had = |host: &Host| -> Vec<u64> { ids.iter().map(|id| host.fate(*id).spent.total()).collect() };
            let before = had(&host);
            host.run(now + QUANTA + 400 * MS, 10_000).unwrap();
            let all = f64::from(weights.iter().sum::<u32>());
            for ((now, before), weight) in had(&host).into_iter().zip(before).zip(&weights) {
                let part = (now - before) as f64 / (400 * MS * cores as u64) as f64;
                let error = (part - f64::from(*weight) / all).abs();
                (worst, off) = (worst.max(error), off + u32::from(error > 0.05));
            }
            now += QUANTA + 400 * MS;
            let weight = random.random_range(1..=12) * 25;
            let workers = cores as u32;
            let id = host.submit(now, endless(cores), Policy::default(), workers, u64::from(weight));
            host.order(now + 20 * MS, id, Request::Weight(Some(weight)));
            ids.push(id);
            weights.push(weight);
            now += QUANTA;
        }
    }
    println!("{deaths} deaths: the parts are off by {worst:.3} at most, {off} times by more than a twentieth");
    off
}

#[test]
fn shares_are_right_ten_quanta_after_a_death() {
    // Of 160 parts, about one in a hundred may be off, as in the test with ten thousand deaths.
    assert!(die(80, 1) <= 2);
}

#[test]
#[ignore = "it takes minutes, in release"]
fn shares_are_right_ten_quanta_after_each_of_ten_thousand_deaths() {
    assert!(die(10_000, 2) <= 200);
}

#[test]
fn programs_that_come_later_are_given_their_due_and_one_that_dies_leaves_its() {
    holds(2, &[300, 100, 100], 1, 5);
    holds(8, &[100, 100, 700], 2, 2);
    let weights = [100, 300, 500];
    let (mut host, programs) = beside(2, &weights, 0, 1);
    host.kill(700 * MS, programs[2]);
    let got = measure(&mut host, 2, &programs[..2], 5_000 * MS);
    assert!(got.error(&weights[..2]) <= 0.03, "{got:?}");
}

/// Returns the slowdown factor of a program of phases while a program that computes for ever runs too, on `cores`
/// cores. Each phase has a serial part of `gap` ns, and then four tasks of `task` ns for each core.
fn slowdown(cores: usize, gap: u64, task: u64) -> f64 {
    const BESIDE: u64 = 100 * MS;
    let workers = cores as u32;
    let phases = (400 * MS / (gap + 4 * task)) as u32;
    let program = || Box::new(ForkJoin::new(gap, task, 4 * workers, phases, Fork::Tree));
    let mut alone = Host::new(cores, Costs::default(), 1);
    let id = alone.submit(0, program(), Policy::default(), workers, 1);
    alone.run(u64::MAX, u64::MAX).unwrap();
    let mut host = Host::new(cores, Costs::default(), 2);
    host.submit(0, endless(cores), Policy::default(), workers, 3);
    let beside = host.submit(BESIDE, program(), Policy::default(), workers, 1);
    while host.fate(beside).ended.is_none() {
        host.run(host.now() + 20 * MS, 10_000).unwrap();
    }
    (host.fate(beside).ended.unwrap() - BESIDE) as f64 / alone.fate(id).ended.unwrap() as f64
}

#[test]
fn phases_have_their_share_on_many_cores_however_short_the_gaps() {
    for (cores, gap_us, task_us) in [(8, 5, 40), (8, 60, 10), (8, 60, 40), (8, 200, 40), (8, 600, 10), (16, 60, 40)] {
        let slowdown = slowdown(cores, gap_us * 1_000, task_us * 1_000);
        // With half of the cores, the parallel part of each phase takes twice as long.
        let due = (gap_us + 8 * task_us) as f64 / (gap_us + 4 * task_us) as f64;
        println!("{cores} cores, gaps of {gap_us} µs, phases of {}: {slowdown:.2}, due {due:.2}", 4 * task_us);
        assert!(slowdown <= 1.2 * due, "{slowdown:.2}");
    }
}

#[test]
fn what_a_gap_has_lent_is_back_for_the_next_phase() {
    // The gap is so long that other programs claim the unused cores.
    let slowdown = slowdown(8, 2_000_000, 200_000);
    let due = (2_000.0 + 8.0 * 200.0) / (2_000.0 + 4.0 * 200.0);
    println!("{slowdown:.2}, due {due:.2}");
    assert!(slowdown <= 1.1 * due);
}

/// The time at which the second of two programs begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// The second program begins after the first program has been alone for a while.
    Later,
    /// Both programs begin at the same time, so neither program is ever alone.
    AtOnce,
}

/// Returns the slowdown factors of two programs under one policy. One has phases, with a serial part of `gap` ns and
/// four tasks of `task` ns for each core; the other computes for ever.
fn slowdowns(begins: Begins, cores: usize, policy: &str, gap: u64, task: u64) -> [f64; 2] {
    let (policy, workers): (Policy, _) = (policy.parse().unwrap(), cores as u32);
    let phases = || Box::new(ForkJoin::new(gap, task, 4 * workers, u32::MAX, Fork::Tree));
    let rates = |host: &mut Host, programs: &[u32], lasts: u64| -> Vec<f64> {
        let had = |host: &Host| -> Vec<u64> { programs.iter().map(|id| host.fate(*id).spent.work).collect() };
        let before = had(host);
        let until = host.now() + lasts;
        host.run(until, 10_000).unwrap();
        had(host).iter().zip(before).map(|(now, before)| (now - before) as f64 / lasts as f64).collect()
    };
    let mut host = Host::new(cores, Costs::default(), 1);
    let one = host.submit(0, phases(), policy, workers, 1);
    host.run(100 * MS, 10_000).unwrap();
    let alone = rates(&mut host, &[one], 700 * MS)[0];
    // The time from one probe of two programs to the next.
    const PERIOD: u64 = PROBES_EVERY * 2 * TURN.as_nanos() as u64;
    let (one, at, wait, lasts) = match begins {
        Begins::Later => (one, host.now(), 1_000 * MS, 2_000 * MS),
        Begins::AtOnce => {
            host = Host::new(cores, Costs::default(), 1);
            // The programs begin after the first probe, which begins at time 0.
            let at = 400 * MS;
            (host.submit(at, phases(), policy, workers, 1), at, PERIOD, PERIOD)
        }
    };
    let other = host.submit(at, endless(cores), policy, workers, 3);
    host.run(at + wait, 10_000).unwrap();
    let beside = rates(&mut host, &[one, other], lasts);
    [alone / beside[0], cores as f64 / beside[1]]
}

/// Checks that the slowdowns of two programs differ less under equal slowdown than under equal shares.
fn apart(machines: &[(usize, u64, u64)]) {
    for (cores, gap_us, task_us) in machines.iter().copied() {
        let [equal, slowdown, time] = ["equal", "slowdown", "time"].map(|share| {
            slowdowns(Begins::Later, cores, &format!("comity:share={share}"), gap_us * 1_000, task_us * 1_000)
        });
        println!(
            "{cores} cores, gaps of {gap_us} µs, tasks of {task_us}: equal {equal:.2?}, slowdown {slowdown:.2?}, time {time:.2?}"
        );
        let apart = |[one, other]: [f64; 2]| (one - other).abs();
        assert!(apart(slowdown) <= apart(equal) / 2.0, "{cores} cores");
        // In longer gaps, the first program lends its cores. With many cores, handing them over takes a larger part
        // of a turn.
        let is_gang = apart(time) <= 0.2 || gap_us > 500 || cores > 16;
        assert!(is_gang, "{cores} cores: a gang has all cores, for as long as any other");
        // The weighted speedup must not suffer.
        let speedup = |[one, other]: [f64; 2]| 1.0 / one + 1.0 / other;
        assert!(speedup(slowdown) >= 0.97 * speedup(equal), "{cores} cores");
    }
}

#[test]
fn programs_that_gain_less_from_all_cores_are_slowed_as_much_under_equal_slowdown() {
    apart(&[(2, 300, 100), (4, 200, 100)]);
}

#[test]
fn programs_that_are_never_alone_learn_in_turn_what_they_gain_from_all_cores() {
    for (cores, gap_us, task_us) in [(2, 300, 100), (4, 200, 100)] {
        let [equal, slowdown] = ["comity", "comity:share=slowdown"]
            .map(|policy| slowdowns(Begins::AtOnce, cores, policy, gap_us * 1_000, task_us * 1_000));
        println!("{cores} cores, gaps of {gap_us} µs, tasks of {task_us}: equal {equal:.2?}, slowdown {slowdown:.2?}");
        let apart = |[one, other]: [f64; 2]| (one - other).abs();
        assert!(apart(slowdown) <= apart(equal) / 2.0, "{cores} cores");
        let speedup = |[one, other]: [f64; 2]| 1.0 / one + 1.0 / other;
        assert!(speedup(slowdown) >= 0.97 * speedup(equal), "{cores} cores, of which a probe costs a part");
    }
}

#[test]
#[ignore = "it takes minutes, in release"]
fn programs_that_gain_less_from_many_cores_are_slowed_as_much_under_equal_slowdown() {
    apart(&[(8, 300, 100), (16, 60, 40), (16, 2_000, 400), (32, 100, 50)]);
}

#[test]
fn tasks_that_block_hold_no_cores_that_others_could_use() {
    const CORES: usize = 16;
    for (work_us, sleep_us) in [(10, 1_000), (100, 1_000), (300, 1_000), (100, 200), (1_000, 3_000)] {
        let mut host = Host::new(CORES, Costs::default(), 2);
        let sleepers = ForkJoin::new(10_000, work_us * 1_000, 200, u32::MAX, Fork::Tree).sleeping(sleep_us * 1_000);
        host.submit(0, endless(CORES), Policy::default(), CORES as u32, 3);
        host.submit(0, Box::new(sleepers), Policy::default(), CORES as u32, 1);
        host.submit(0, endless(CORES), Policy::default(), CORES as u32, 4);
        host.run(300 * MS, 10_000).unwrap();
        let before = host.idle_beside_work();
        host.run(1_300 * MS, 10_000).unwrap();
        let idle = (host.idle_beside_work() - before) as f64 / 1e9;
        println!("{work_us} µs of work after {sleep_us}: {idle:.2} of {CORES} cores idle beside work");
        assert!(idle <= 0.05 * CORES as f64, "{idle:.2}");
    }
}

/// Returns the time of tasks that wait for each other while another program computes on the same two cores. The time is
/// relative to the tasks' time alone on one core.
fn waits_beside(tasks: &Network, workers: u32, seed: u64) -> f64 {
    let time = |cores: usize, beside: bool| {
        let mut host = Host::new(cores, Costs::default(), seed);
        let program = host.submit_network(0, tasks.clone(), Policy::default(), workers, 1);
        if beside {
            host.submit(0, endless(cores), Policy::default(), cores as u32, 3);
        }
        host.run(60_000 * MS, 100_000).unwrap();
        host.fate(program).ended.expect("it ends") as f64
    };
    time(2, true) / time(1, false)
}

#[test]
fn tasks_that_wait_for_each_other_beside_another_program_take_no_longer_than_on_a_core_of_their_own() {
    for tasks in [2, 4, 8, 16] {
        // A run takes 1 s or 0.1 s. The short run is over before a coordinator detects that a task makes no progress.
        for strips in [10_000 / tasks as u32, 1_000 / tasks as u32] {
            let ring = Network::ring(tasks, strips, 100_000, 100);
            let wave = Network::wavefront(tasks, strips, 100_000, 1_000);
            let [asleep, looking] = [ring, wave].map(|network| waits_beside(&network, tasks as u32, 1));
            println!("{tasks} tasks, {strips} strips: asleep {asleep:.2}, looking {looking:.2}");
            assert!(asleep <= 1.5 && looking <= 3.0, "{tasks} tasks, {strips} strips: {asleep:.2} and {looking:.2}");
        }
    }
}
