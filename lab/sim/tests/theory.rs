//! Tests against proved bounds of work stealing: lower bounds of the time that hold for every schedule, and an upper
//! bound that holds for good schedules.

use comity_sim::availability::Profile;
use comity_sim::program::{Fork, ForkJoin, Program};
use comity_sim::quanta::job::Cycles;
use comity_sim::quanta::{ThreadScheduler, run_alone};
use comity_sim::random::stream;
use proptest::prelude::*;

fn programs() -> impl Strategy<Value = ForkJoin> {
    let fork = prop_oneof![Just(Fork::AtOnce), Just(Fork::Tree)];
    (1..400u64, 1..400u64, 1..200u32, 1..6u32, fork).prop_map(|(serial, parallel, width, iterations, fork)| {
        ForkJoin::new(serial, parallel, width, iterations, fork)
    })
}

fn schedulers() -> impl Strategy<Value = ThreadScheduler> {
    prop_oneof![
        Just(ThreadScheduler::a_steal(80, 150)),
        Just(ThreadScheduler::abp()),
        Just(ThreadScheduler::abp_per_process()),
        Just(ThreadScheduler::abp_mug()),
    ]
}

proptest! {
    /// Checks max(T₁/P̄, T∞) ≤ T for any availability and any thread scheduler. No cycle is lost or counted twice.
    #[test]
    fn no_schedule_is_shorter_than_the_work_or_the_critical_path(
        program in programs(),
        scheduler in schedulers(),
        (processors, availabilities) in (1..100u32)
            .prop_flat_map(|processors| (Just(processors), prop::collection::vec(1..=processors, 1..30))),
        length in 1..300u64,
        seed: u64,
    ) {
        let (work, critical_path) = (program.work(), program.critical_path());
        let profile = Profile::new(availabilities);
        let mut client = scheduler.submit(Box::new(program), processors, stream(seed, 0));
        let mut cycles = Cycles::default();
        let time = run_alone(&mut client, processors, &profile, length, u64::MAX, |quantum| cycles += quantum.cycles);
        let time = time.unwrap();
        prop_assert!(time >= critical_path);
        prop_assert!(profile.mean(length, time) * time as f64 >= work as f64);
        prop_assert_eq!(cycles.work, work);
        prop_assert!(cycles.total() as f64 <= profile.mean(length, time) * time as f64 + 0.5);
    }
}

/// Checks T ≤ T₁/P + c·T∞ in expectation on P processors (Blumofe and Leiserson 1999). The constant c of the proof is
/// between 10 and 100.
#[test]
fn on_a_fixed_number_of_processors_time_is_work_over_them_and_a_few_critical_paths() {
    let mut worst = (0.0, String::new());
    for processors in [2, 7, 32, 128, 512] {
        let mut sum = 0.0;
        let mut count = 0;
        for (nth, (serial, parallel, width, iterations)) in [
            (1, 1, 1_000, 20),
            (5, 50, 64, 20),
            (100, 10, 3, 50),
            (1, 2_000, 128, 3),
            (10, 10, 4_000, 10),
            (1, 1, 2, 500),
        ]
        .into_iter()
        .enumerate()
        {
            for seed in 0..10 {
                let program = ForkJoin::new(serial, parallel, width, iterations, Fork::Tree);
                let (work, critical_path) = (program.work() as f64, program.critical_path() as f64);
                let mut client = ThreadScheduler::abp().submit(Box::new(program), processors, stream(seed, nth as u64));
                let time = run_alone(&mut client, processors, &Profile::constant(processors), 200, u64::MAX, |_| ());
                let constant = (time.unwrap() as f64 - work / f64::from(processors)) / critical_path;
                sum += constant;
                count += 1;
                if constant > worst.0 {
                    worst = (constant, format!("P = {processors}, job {nth}, seed {seed}"));
                }
            }
        }
        println!("P = {processors}: c = {:.2} in the mean of {count} jobs", sum / f64::from(count));
    }
    println!("c = {:.2} at most ({})", worst.0, worst.1);
    assert!(worst.0 < 10.0, "{worst:?}");
}
