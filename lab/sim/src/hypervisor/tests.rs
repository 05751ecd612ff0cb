use super::*;

const MILLISECOND: u64 = 1_000_000;

fn share(vcpus: usize, weight: u32) -> Share {
    Share { vcpus, weight, cap: None }
}

/// Creates a machine in which all virtual CPUs want to run from the start.
fn machine(vmm: Vmm, pcpus: usize, shares: &[Share]) -> Hypervisor {
    let mut hypervisor = Hypervisor::new(vmm, pcpus, shares, 1);
    for (vm, share) in shares.iter().enumerate() {
        (0..share.vcpus).for_each(|core| hypervisor.set_wants(vm, core, true));
    }
    hypervisor
}

fn run(hypervisor: &mut Hypervisor, end: u64) {
    while hypervisor.next_at().is_some_and(|at| at <= end) {
        hypervisor.step();
        assert_eq!(hypervisor.check(), Ok(()), "at {}", hypervisor.now);
    }
    hypervisor.pass(end);
}

/// Returns, for each machine, its part of the time in which physical CPUs were used.
fn parts(hypervisor: &Hypervisor) -> Vec<f64> {
    let ran = |vm| hypervisor.run_and_steal_time(vm).0 as f64;
    (0..hypervisor.shares.len()).map(|vm| ran(vm) / hypervisor.used() as f64).collect()
}

#[test]
fn machines_get_time_by_their_weight_and_a_cap_holds_where_others_idle() {
    for scheduler in [Scheduling::Credit, Scheduling::Balance, Scheduling::CoScheduling] {
        let mut hypervisor = machine(Vmm { scheduler, ..Vmm::default() }, 4, &[share(4, 256), share(4, 768)]);
        run(&mut hypervisor, 20_000 * MILLISECOND);
        let part = parts(&hypervisor)[0];
        assert!((0.22..0.28).contains(&part), "{scheduler:?}: {part}");
        assert_eq!(hypervisor.used(), 4 * hypervisor.now, "{scheduler:?}");
        // The virtual CPUs of the machine waited whenever they did not run.
        let (ran, waited) = hypervisor.run_and_steal_time(0);
        assert_eq!(ran + waited, 4 * hypervisor.now);
    }
    let capped = Share { cap: Some(25), ..share(4, 256) };
    let mut hypervisor = machine(Vmm::default(), 4, &[capped]);
    run(&mut hypervisor, 20_000 * MILLISECOND);
    let part = hypervisor.used() as f64 / (4 * hypervisor.now) as f64;
    assert!((0.23..0.27).contains(&part), "{part}");
}

#[test]
fn a_slice_is_30_ms_and_the_first_of_a_physical_cpu_is_shorter() {
    let mut hypervisor = machine(Vmm::default(), 1, &[share(1, 256), share(1, 256)]);
    let mut switches = vec![];
    let mut last = hypervisor.pcpus[0].running;
    while switches.len() < 20 {
        hypervisor.step();
        if std::mem::replace(&mut last, hypervisor.pcpus[0].running) != hypervisor.pcpus[0].running {
            switches.push(hypervisor.now);
        }
    }
    assert!(switches[0] <= 30 * MILLISECOND);
    // The time between switches is a multiple of a slice: a virtual CPU with credits may have two slices in a row.
    assert!(switches.windows(2).all(|two| (two[1] - two[0]).is_multiple_of(30 * MILLISECOND)), "{switches:?}");
}

#[test]
fn one_that_wakes_with_credits_is_boosted_and_one_without_waits() {
    // The third virtual CPU sleeps, and wakes in the middle of another virtual CPU's slice.
    let woken = |credit: i64| {
        let mut hypervisor = machine(Vmm::default(), 1, &[share(1, 256), share(1, 256), share(1, 256)]);
        hypervisor.set_wants(2, 0, false);
        run(&mut hypervisor, 200 * MILLISECOND);
        let began = hypervisor.pcpus[0].began;
        run(&mut hypervisor, began + 30 * MILLISECOND);
        let began = hypervisor.pcpus[0].began;
        run(&mut hypervisor, began + 200_000);
        hypervisor.accounts.give(&mut hypervisor.vcpus[2], credit);
        hypervisor.set_wants(2, 0, true);
        assert_eq!(hypervisor.vcpus[2].on, None, "the one that runs is left alone for a millisecond");
        run(&mut hypervisor, began + MILLISECOND);
        hypervisor.vcpus[2].on
    };
    assert_eq!(woken(10 * MILLISECOND as i64), Some(0));
    assert_eq!(woken(-10 * MILLISECOND as i64), None);
}

#[test]
fn under_co_scheduling_all_of_a_machine_run_at_once() {
    let vmm = Vmm { scheduler: Scheduling::CoScheduling, ..Vmm::default() };
    let mut hypervisor = machine(vmm, 4, &[share(4, 256), share(3, 256), share(4, 512)]);
    for _ in 0..200 {
        hypervisor.step();
        let running: Vec<usize> = hypervisor.pcpus.iter().filter_map(|pcpu| pcpu.running).collect();
        let vm = hypervisor.vcpus[running[0]].vm;
        assert!(running.iter().all(|vcpu| hypervisor.vcpus[*vcpu].vm == vm), "{running:?}");
        assert_eq!(running.len(), hypervisor.shares[vm].vcpus);
    }
    // A turn ends early if no virtual CPU of the machine wants to run, but not if some of them do.
    (0..4).for_each(|core| hypervisor.set_wants(0, core, false));
    (1..4).for_each(|core| hypervisor.set_wants(2, core, false));
    let end = hypervisor.now + 1_000 * MILLISECOND;
    run(&mut hypervisor, end);
    assert_eq!(hypervisor.vcpus[..4].iter().filter(|vcpu| vcpu.on.is_some()).count(), 0);
    assert!(hypervisor.idle_beside_work() > 0, "a physical CPU idles if the virtual one of its turn has nothing to do");
}

#[test]
fn balance_scheduling_spreads_siblings_and_credit_stacks_them() {
    let stacked = |scheduler| {
        let vmm = Vmm { scheduler, dom0_every: 10 * MILLISECOND, ..Vmm::default() };
        let mut hypervisor = machine(vmm, 4, &[share(4, 256), share(4, 256)]);
        let mut stacked = 0;
        while hypervisor.now < 5_000 * MILLISECOND {
            hypervisor.step();
            hypervisor.check().unwrap();
            // Only the two machines are checked. The virtual CPUs of Domain 0 may be stacked.
            let is_stacked = |vcpu: usize| {
                let one = &hypervisor.vcpus[vcpu];
                let at = one.on.or(one.queued);
                one.vm < 2 && at.is_some_and(|at| hypervisor.has_sibling(vcpu, at))
            };
            stacked += (0..8).filter(|vcpu| is_stacked(*vcpu)).count();
        }
        stacked
    };
    assert_eq!(stacked(Scheduling::Balance), 0);
    assert!(stacked(Scheduling::Credit) > 0);
}

/// Creates two machines of four virtual CPUs on two nodes of two physical CPUs, in the middle of a slice. Only the
/// first virtual CPU of the first machine runs.
fn in_midst_of_a_slice() -> Hypervisor {
    let vmm = Vmm { nodes: 2, scheduler: Scheduling::Balance, near: 1_000, far: 9_000, ..Vmm::default() };
    let mut hypervisor = machine(vmm, 4, &[share(4, 256), share(4, 256)]);
    let is_so = |hypervisor: &Hypervisor| {
        let on = |core: usize| hypervisor.vcpus[core].on.is_some();
        let left = |pcpu: usize| hypervisor.pcpus[pcpu].slice_end > hypervisor.now + 5 * MILLISECOND;
        (0..4).all(|core| on(core) == (core == 0)) && left(0)
    };
    while !is_so(&hypervisor) {
        assert!(hypervisor.now < 60_000 * MILLISECOND, "it does not come to that");
        hypervisor.step();
    }
    let at = hypervisor.now + MILLISECOND;
    run(&mut hypervisor, at);
    hypervisor.take_changes();
    hypervisor
}

#[test]
fn a_virtual_cpu_runs_on_the_rest_of_another_s_slice_and_has_its_place_after_it() {
    let mut hypervisor = in_midst_of_a_slice();
    let (end, now) = (hypervisor.pcpus[0].slice_end, hypervisor.now);
    let before: Vec<usize> = hypervisor.pcpus[1].queue.iter().copied().collect();
    assert!(hypervisor.accelerate(0, 0, 1, false));
    assert_eq!(hypervisor.check(), Ok(()));
    assert_eq!((hypervisor.vcpus[1].on, hypervisor.vcpus[1].queued), (Some(0), Some(1)));
    assert_eq!(hypervisor.pcpus[0].slice_end, end, "it has the rest of the slice");
    assert_eq!(hypervisor.pcpus[1].queue.iter().copied().collect::<Vec<_>>(), before);
    assert!(hypervisor.pcpus[0].queue.contains(&0), "the giver waits");
    let change = |core, runs_after| Change { vm: 0, core, runs_after };
    let cost = hypervisor.vmm.switch + hypervisor.vmm.near;
    assert_eq!(hypervisor.take_changes(), [change(0, None), change(1, Some(cost))]);
    // An accelerated virtual CPU, like every running virtual CPU, gets no second slice.
    assert!(!hypervisor.accelerate(0, 1, 1, false));
    let credits = |hypervisor: &Hypervisor| [0, 1].map(|vcpu: usize| hypervisor.vcpus[vcpu].credit);
    let [giver, accelerated] = credits(&hypervisor);
    run(&mut hypervisor, now + 500_000);
    hypervisor.charge(0);
    assert_eq!(credits(&hypervisor), [giver - 500_000, accelerated], "the giver pays");
    run(&mut hypervisor, end);
    assert_ne!(hypervisor.vcpus[1].on, Some(0));
    assert_eq!(hypervisor.counts().accelerations, 1);
}

#[test]
fn no_slice_crosses_nodes_but_under_robinhood_u() {
    let mut hypervisor = in_midst_of_a_slice();
    assert!(!hypervisor.accelerate(0, 0, 2, false));
    assert_eq!(hypervisor.counts().refusals, 1);
    assert!(hypervisor.accelerate(0, 0, 2, true));
    assert_eq!((hypervisor.check(), hypervisor.counts().moves_across), (Ok(()), 1));
}

#[test]
fn one_that_halts_while_it_is_accelerated_has_no_place_and_frees_its_giver_s_cpu() {
    let mut hypervisor = in_midst_of_a_slice();
    assert!(hypervisor.accelerate(0, 0, 1, false));
    let at = hypervisor.now + MILLISECOND;
    run(&mut hypervisor, at);
    hypervisor.set_wants(0, 1, false);
    assert_eq!(hypervisor.check(), Ok(()));
    assert_eq!((hypervisor.vcpus[1].on, hypervisor.vcpus[1].queued), (None, None));
    assert!(hypervisor.pcpus[0].running.is_some());
}

#[test]
fn what_can_run_goes_elsewhere_when_physical_cpus_are_lost() {
    let mut hypervisor = in_midst_of_a_slice();
    assert!(hypervisor.accelerate(0, 0, 1, false));
    let now = hypervisor.now;
    hypervisor.resize(now, 1);
    hypervisor.resize(now + 100 * MILLISECOND, 4);
    run(&mut hypervisor, now + 50 * MILLISECOND);
    assert!(hypervisor.vcpus.iter().all(|vcpu| vcpu.on.or(vcpu.queued) == Some(0)));
    run(&mut hypervisor, now + 1_000 * MILLISECOND);
    assert!(hypervisor.pcpus.iter().all(|pcpu| pcpu.running.is_some()));
}

#[test]
fn what_is_not_as_it_should_be_is_noticed() {
    type Change = fn(&mut Hypervisor);
    for (change, part) in [
        ((|hypervisor| hypervisor.vcpus[2].queued = None) as Change, "it has a CPU or a queue although it cannot run"),
        (|hypervisor| hypervisor.vcpus[1].part.home = None, "its place in a queue is wrong"),
        (|hypervisor| hypervisor.vcpus[1].part.initiator = None, "its place in a queue is wrong"),
        (|hypervisor| hypervisor.vcpus[2].part.initiator = Some(0), "an acceleration that has ended"),
        (|hypervisor| hypervisor.vcpus[2].waits_since = None, "its wait is noted wrongly"),
        (|hypervisor| hypervisor.pcpus[2].queue.push_back(2), "it is in its queue more than once, or not at all"),
        (|hypervisor| hypervisor.pcpus[0].running = Some(0), "its physical CPU runs another virtual CPU"),
        (|hypervisor| hypervisor.vcpus[1].part.initiator = Some(4), "a virtual CPU of another machine accelerates it"),
        (|hypervisor| hypervisor.vcpus[0].credit += 1, "but the accounts are"),
        (|hypervisor| hypervisor.vcpus[0].ran += 1, "physical CPUs were in use for"),
        (|hypervisor| hypervisor.pcpus[3].offline = true, "is offline, but has"),
        (
            |hypervisor| {
                let running = hypervisor.pcpus[2].running.take().unwrap();
                let one = &mut hypervisor.vcpus[running];
                (one.on, one.wants) = (None, false);
            },
            "idles, but virtual CPU",
        ),
    ] {
        let mut hypervisor = in_midst_of_a_slice();
        assert!(hypervisor.accelerate(0, 0, 1, false));
        assert_eq!(hypervisor.check(), Ok(()));
        change(&mut hypervisor);
        let noticed = hypervisor.check().err().unwrap_or_default();
        assert!(noticed.contains(part), "{part:?} is not what is noticed: {noticed:?}");
    }
}

#[test]
fn domain_0_interrupts_for_a_short_while() {
    let vmm = Vmm { dom0_every: 10 * MILLISECOND, dom0_work: 50_000, ..Vmm::default() };
    let mut hypervisor = machine(vmm, 2, &[share(2, 256), share(2, 256)]);
    run(&mut hypervisor, 10_000 * MILLISECOND);
    let parts = parts(&hypervisor);
    // Domain 0 runs for 52 µs in about each 10 ms.
    assert!((0.002..0.008).contains(&parts[2]), "{parts:?}");
    assert!(hypervisor.take_changes().iter().all(|change| change.vm < 2), "its guest is not simulated");
}

#[test]
fn what_cannot_be_is_said() {
    let base = Vmm::default();
    for (vmm, what) in [
        (Vmm { nodes: 3, ..base }, "16 processors cannot be divided evenly among 3 nodes"),
        (Vmm { slice: 1, ..base }, "machine.vmm.slice is 1;"),
        (Vmm { ratelimit: 40_000_000, ..base }, "machine.vmm.ratelimit is 40000000;"),
        (Vmm { far: 2_000_000_000, ..base }, "a cost of machine.vmm is 2000000000;"),
        (Vmm { dom0_every: 10, ..base }, "machine.vmm.dom0_work is 50000 in each 10;"),
    ] {
        let said = vmm.check(16).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(base.check(16), Ok(()));
}
