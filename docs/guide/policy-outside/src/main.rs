//! Runs the policy on threads, then on four simulated cores together with a program under `plain`.

use std::error::Error;

use comity::{Policy, ThreadPoolBuilder, WorkerCounters};
use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::{Costs, Host};
use policy_outside::DEFINITION;

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (left, right) = comity::join(|| fib(n - 1), || fib(n - 2));
    left + right
}

fn main() -> Result<(), Box<dyn Error>> {
    let ours = Policy::of(&DEFINITION);

    let pool = ThreadPoolBuilder::new().num_threads(4).policy(ours).build()?;
    let value = pool.install(|| fib(24));
    if value != 46_368 {
        return Err(format!("fib(24) is 46368, not {value}").into());
    }
    let counters = WorkerCounters::total(&pool.counters());
    println!("on threads, under {}: {} steals, {} sleeps", pool.policy(), counters.steals, counters.sleeps);

    // A step is a nanosecond: 1 ms serial, then 64 strands of 100 µs each, five times.
    let program = ForkJoin::new(1_000_000, 100_000, 64, 5, Fork::Tree);
    let mut host = Host::new(4, Costs::default(), 1);
    let submitted = [ours, Policy::plain()].map(|policy| {
        let number = host.submit(0, Box::new(program.clone()), policy, 4, 1);
        (policy, number)
    });
    host.run(u64::MAX, u64::MAX)?;
    for (policy, number) in submitted {
        let fate = host.fate(number);
        let ended = fate.ended.ok_or("a program has not ended")?;
        let counts = fate.counts;
        println!(
            "simulated, under {policy}: {} µs, {} attempts, {} sleeps",
            ended / 1000,
            counts.attempts,
            counts.sleeps
        );
    }
    Ok(())
}
