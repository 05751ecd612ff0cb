//! Two programs of one process that take turns.

use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::linux::{Groups, Linux, Version};
use comity_sim::threads::{Costs, Host};

const MILLISECOND: u64 = 1_000_000;

/// Runs two alternating programs on two cores: a program of ten tasks, and a serial program. Returns the ends of the
/// executions of the two programs, and the host. With `beside`, a third program runs too.
fn host(policy: &str, groups: Groups, beside: bool) -> (Vec<u64>, Vec<u64>, Host) {
    let mut host = Host::new(2, Costs::default(), 1);
    host.use_linux(Linux { groups, ..Linux::new(Version::V6_18) });
    let policy = policy.parse().unwrap();
    let parallel = || Box::new(ForkJoin::new(1_000, MILLISECOND, 10, 1, Fork::Tree));
    let first = host.submit(0, parallel(), policy, 2, 1);
    let check = Box::new(ForkJoin::new(3 * MILLISECOND, 1, 1, 1, Fork::AtOnce));
    let second = host.submit(0, check, "plain".parse().unwrap(), 1, 2);
    host.alternate(first, second);
    if beside {
        let third = host.submit(0, parallel(), policy, 2, 3);
        host.repeat(third);
    }
    host.run(500 * MILLISECOND, 1).unwrap();
    (host.executions(first).to_vec(), host.executions(second).to_vec(), host)
}

#[test]
fn each_execution_follows_one_of_the_other() {
    for policy in ["abp", "bws", "dws", "comity", "plain", "a-steal"] {
        for (groups, beside) in
            [(Groups::Same, false), (Groups::Separate, false), (Groups::Same, true), (Groups::Separate, true)]
        {
            let (first, second, _) = host(policy, groups, beside);
            assert!(first.len() > 10 && first.len() - second.len() <= 1, "{policy}: {} {}", first.len(), second.len());
            for (nth, ended) in second.iter().enumerate() {
                assert!(ended - first[nth] >= 3 * MILLISECOND, "{policy}, execution {nth}");
                assert!(first.get(nth + 1).is_none_or(|next| next - ended >= 5 * MILLISECOND), "{policy}, {nth}");
            }
        }
    }
}

/// Checks that the workers of a pool without work sleep while the other program runs, instead of looking for work.
#[test]
fn the_pool_rests_while_the_other_runs() {
    let (first, second, host) = host("abp", Groups::Same, false);
    let checks: u64 = second.iter().zip(&first).map(|(second, first)| second - first).sum();
    let looked = host.fate(0).spent.steal;
    assert!(host.fate(0).counts.sleeps >= second.len() as u64, "{:?}", host.fate(0).counts);
    assert!(looked < checks / 4, "thieves looked for {looked} ns, and checks took {checks}");
}

/// Checks that the two programs are in one task group: together they get at most half of the machine while a third
/// program runs.
#[test]
fn both_are_one_task_group() {
    let (first, second, host) = host("abp", Groups::Separate, true);
    let used = host.fate(0).spent.work + host.fate(1).spent.work;
    let other = host.fate(2).spent.work;
    // While the pair has only one core's worth of threads, the third program has the other core.
    assert!(other > used && used > 250 * MILLISECOND, "{used} {other}, {} {}", first.len(), second.len());
}
