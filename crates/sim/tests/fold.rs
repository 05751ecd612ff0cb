//! A guest with eight virtual CPUs, of which the host grants half: what `comity` makes of its steal time.

use comity_policy::Policy;
use comity_sim::hypervisor::{Share, Vmm, WeightOf};
use comity_sim::program::{Endless, Fork, ForkJoin};
use comity_sim::threads::linux::{Linux, Version};
use comity_sim::threads::{Costs, Host};
use comity_sim::vms::Vms;

const MS: u64 = 1_000_000;

/// What takes half of the host's time.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    /// There are four physical CPUs.
    Missing,
    /// Of eight, a machine of the same weight with seven busy virtual CPUs; weights are of that.
    Used(WeightOf),
}

/// When a program of phases of 32 tasks in the guest had ended, and how long virtual CPUs of the guest wanted a physical one in vain, in
/// milliseconds. The guest is told its steal time.
fn run(policy: &str, half: Half, told: bool) -> [u64; 2] {
    let guest = || {
        let mut guest = Host::new(8, Costs::default(), 1);
        guest.use_linux(Linux::new(Version::V6_18));
        (guest, Share { vcpus: 8, weight: 256, cap: None })
    };
    let mut guests = vec![guest()];
    let (weight_of, pcpus) = match half {
        Half::Missing => (WeightOf::default(), 4),
        Half::Used(weight_of) => (weight_of, 8),
    };
    if pcpus == 8 {
        guests.push(guest());
    }
    let mut vms = Vms::new(Vmm { weight_of, ..Vmm::default() }, pcpus, guests, 1);
    if pcpus == 8 {
        // Not at the same time: the machines would change places all at once for ever.
        vms.guest_mut(1).submit(17_300_000, Box::new(Endless::new(7)), "plain".parse().unwrap(), 8, 1);
    }
    let guest = vms.guest_mut(0);
    if told {
        guest.tell_steal_time();
    }
    let work = ForkJoin::new(10_000, 2 * MS, 32, 1500, Fork::Tree);
    let policy: Policy = policy.parse().unwrap();
    let program = guest.submit(5 * MS, Box::new(work), policy, 8, 1);
    vms.run(200_000 * MS, 1000).unwrap();
    let ended = vms.guest(0).fate(program).ended.expect("it ends");
    let (_, stolen) = vms.guest(0).run_and_steal_time().unwrap();
    [ended, stolen].map(|time| time / MS)
}

/// With and without folding.
fn both(half: Half) -> [[u64; 2]; 2] {
    let both = ["comity", "comity:fold=off"].map(|policy| run(policy, half, true));
    println!("{both:?}");
    both
}

#[test]
fn where_the_host_grants_the_machine_half_it_wants_less_in_vain_and_is_no_slower() {
    for half in [Half::Missing, Half::Used(WeightOf::Machine)] {
        let [[ended, stolen], [without, stolen_without]] = both(half);
        assert!(ended * 100 <= without * 101, "{ended} ms, {without} without");
        assert!(stolen * 4 <= stolen_without * 3, "{stolen} ms in vain, {stolen_without} without");
    }
}

#[test]
fn where_fewer_virtual_cpus_get_less_it_does_not_stay_folded() {
    let [[ended, _], [without, _]] = both(Half::Used(WeightOf::Vcpu));
    assert!(ended * 100 <= without * 105, "{ended} ms, {without} without");
}

#[test]
fn a_guest_that_is_told_nothing_does_as_one_that_heeds_nothing() {
    let half = Half::Used(WeightOf::Machine);
    assert_eq!(run("comity", half, false), run("comity:fold=off", half, true));
    assert_ne!(run("comity", half, true), run("comity", half, false));
}
