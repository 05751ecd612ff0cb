//! What programs get from the kernels of Linux that a host can have.

use comity_sim::program::{Fork, ForkJoin};
use comity_sim::threads::linux::{Groups, Linux, Version};
use comity_sim::threads::{Costs, Host};

const SECOND: u64 = 1_000_000_000;
const VERSIONS: [Version; 4] = [Version::V2_6_32, Version::V2_6_36, Version::V3_9, Version::V6_18];

/// One thread that computes.
fn hog(host: &mut Host, workers: u32, policy: &str) -> u32 {
    let program = ForkJoin::new(100 * SECOND, 1, 1, 1, Fork::AtOnce);
    host.submit(0, Box::new(program), policy.parse().unwrap(), workers, 1)
}

fn host(cores: usize, linux: Linux) -> Host {
    let mut host = Host::new(cores, Costs::default(), 1);
    host.use_linux(linux);
    host.without_table();
    host
}

fn shares(host: &Host, programs: &[u32]) -> Vec<(f64, f64)> {
    let of = |program: &u32| {
        let spent = host.fate(*program).spent;
        (spent.work as f64 / host.now() as f64, spent.steal as f64 / host.now() as f64)
    };
    programs.iter().map(of).collect()
}

#[test]
fn threads_that_compute_have_equal_parts() {
    for version in VERSIONS {
        for count in [2, 3, 5] {
            let mut host = host(1, Linux::new(version));
            let programs: Vec<u32> = (0..count).map(|_| hog(&mut host, 1, "plain")).collect();
            host.run(10 * SECOND, 100).unwrap();
            for (work, _) in shares(&host, &programs) {
                assert!((work * f64::from(count) - 1.0).abs() < 0.02, "{version:?}, {count}: {work}");
            }
            println!("{version:?} {count}: slices of {} ms", 10_000.0 / host.switches().all as f64);
        }
    }
}

#[test]
fn a_nice_thread_has_a_part_by_its_weight() {
    for version in VERSIONS {
        let mut host = host(1, Linux::new(version));
        let programs = [hog(&mut host, 1, "plain"), hog(&mut host, 1, "plain")];
        host.set_nice(programs[1], 5);
        host.run(20 * SECOND, 1_000).unwrap();
        // 1024 : 335.
        let ratio = shares(&host, &programs)[0].0 / shares(&host, &programs)[1].0;
        assert!((2.8..3.3).contains(&ratio), "{version:?}: {ratio}");
    }
}

#[test]
fn yields() {
    for version in VERSIONS {
        for compat_yield in [false, true] {
            for groups in [Groups::Same, Groups::Separate] {
                let linux = Linux { compat_yield, groups, ..Linux::new(version) };
                if linux.check(1).is_err() {
                    continue;
                }
                let mut host = host(1, linux);
                let programs = [hog(&mut host, 2, "abp"), hog(&mut host, 1, "plain")];
                host.run(3 * SECOND, 1000).unwrap();
                println!(
                    "{version:?} compat {compat_yield} {groups:?} {:.3?} {:?}",
                    shares(&host, &programs),
                    host.switches()
                );
            }
        }
    }
}
