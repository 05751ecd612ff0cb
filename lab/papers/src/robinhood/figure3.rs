//! The scenario of figures 2 and 3 (§2.2.1, §3.1), which the paper's text describes: virtual CPUs run alternately in
//! equal slices, without any overhead.

use comity_sim::turns::{SLICE, Turns, Vcpu};

use crate::measure::Measure;

/// The two virtual CPUs of VM0. The virtual CPUs of the other VMs are (1, _) and (2, _).
const V0: Vcpu = (0, 0);
const V1: Vcpu = (0, 1);

/// The behaviour of the hypervisor and of VM0's thieves in the scenario of figure 2.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    FairShare,
    CoScheduling,
    Bws,
    Robinhood,
}

/// The outcome of the scenario.
struct Outcome {
    machine: Turns,
    /// The number of slices that the thief has wasted.
    wasted: u64,
    /// The time T, in slices, at which the poor worker had run for two slices.
    #[cfg_attr(not(test), expect(dead_code, reason = "the measures look at the slices"))]
    rich: Option<usize>,
    /// The time T, in slices, at which the thief found tasks.
    stole: Option<usize>,
}

/// Plays figures 2 and 3 (§2.2.1, §3.1). From T0 to T5, two threads of VM0, each on a virtual CPU, share two CPUs
/// with two other VMs. The thread on v0 is a thief. The thread on v1 is a poor worker, which has tasks to steal after
/// it has run for two slices.
fn play(method: Method) -> Outcome {
    // The virtual CPU v1 is second in its queue. With co-scheduling, v0 and v1 are both second.
    let first: [Vcpu; 3] = if method == Method::CoScheduling { [(1, 0), V0, (2, 0)] } else { [V0, (1, 0), (2, 0)] };
    let mut machine = Turns::new(2, &[&first, &[(1, 1), V1, (2, 1)]]);
    machine.next(0, 0);
    machine.next(1, 0);
    let (mut wasted, mut rich, mut stole) = (0, None, None);
    for t in 0..5 {
        let is_rich = machine.ran(V1) >= 2 * SLICE;
        if machine.is_on_cpu(V0) {
            if is_rich {
                stole.get_or_insert(t);
            } else if method == Method::Robinhood {
                if machine.accelerate(V0, V1) {
                    machine.next(0, 0);
                }
            } else {
                wasted += 1;
                // BWS's thief has failed often enough to sleep, from the end of its slice.
                machine.set_blocked(V0, method == Method::Bws);
            }
        }
        machine.pass_slice();
        if machine.ran(V1) >= 2 * SLICE {
            rich.get_or_insert(t + 1);
        }
    }
    Outcome { machine, wasted, rich, stole }
}

/// Computes the measures. Their unit is slices, except for the last, which is in per cent.
pub(super) fn measures() -> Vec<Measure> {
    let [fair, co, bws, robinhood] =
        [Method::FairShare, Method::CoScheduling, Method::Bws, Method::Robinhood].map(play);
    let slices = |of: &Outcome, until: usize, is_so: &dyn Fn(usize, usize, Option<Vcpu>) -> bool| {
        let cells = (0..2)
            .flat_map(|cpu| of.machine.history[cpu][..until].iter().enumerate().map(move |(t, had)| (cpu, t, *had)));
        cells.filter(|(cpu, t, had)| is_so(*cpu, *t, *had)).count() as f64
    };
    // The thread on v1 works. The thread on v0 works after it has stolen.
    let useful = |of: &Outcome| {
        slices(of, 5, &|_, t, had| had == Some(V1) || had == Some(V0) && of.stole.is_some_and(|stole| t >= stole))
    };
    let relinquished = |of: &Outcome| {
        let had = |t: usize| fair.machine.history[0][t] == Some(V0);
        slices(of, 5, &|cpu, t, other| cpu == 0 && had(t) && other.is_some_and(|(vm, _)| vm != 0))
    };
    let others = |had: Option<Vcpu>| had.is_some_and(|(vm, _)| vm != 0);
    let theirs = slices(&fair, 5, &|_, _, had| others(had));
    let unmoved = slices(&fair, 5, &|cpu, t, had| others(had) && robinhood.machine.history[cpu][t] == had);
    vec![
        Measure::new("figure3-wasted-fair-share", fair.wasted as f64),
        Measure::new("figure3-wasted-co-scheduling", co.wasted as f64),
        Measure::new("figure3-wasted-bws", bws.wasted as f64),
        Measure::new("figure3-wasted-robinhood", robinhood.wasted as f64),
        Measure::new("figure3-useful-fair-share", useful(&fair)),
        Measure::new("figure3-useful-co-scheduling", useful(&co)),
        Measure::new("figure3-useful-bws", useful(&bws)),
        Measure::new("figure3-relinquished-bws", relinquished(&bws)),
        Measure::new("figure3-relinquished-robinhood", relinquished(&robinhood)),
        Measure::new("figure3-poor-by-t2", slices(&robinhood, 2, &|_, _, had| had == Some(V1))),
        Measure::new("figure3-steal-at", robinhood.stole.map_or(f64::NAN, |t| t as f64)),
        Measure::new("figure3-giver-pays", robinhood.machine.paid(V0) as f64 / SLICE as f64),
        Measure::new("figure3-others-unmoved", 100.0 * unmoved / theirs),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slices of a CPU that went to the other VMs.
    fn others(machine: &Turns, cpu: usize) -> Vec<Option<Vcpu>> {
        let of = machine.history[cpu].iter().copied();
        of.map(|slice| slice.filter(|(vm, _)| *vm != 0)).collect()
    }

    #[test]
    fn fair_share_and_co_scheduling_waste_two_slices_and_bws_one() {
        for (method, wasted) in [(Method::FairShare, 2), (Method::CoScheduling, 2), (Method::Bws, 1)] {
            let outcome = play(method);
            assert_eq!((outcome.wasted, outcome.rich, outcome.stole), (wasted, Some(5), None));
        }
        // Another VM gets the slice that the sleeping thief does not take.
        let (fair, bws) = (play(Method::FairShare).machine, play(Method::Bws).machine);
        assert_eq!(fair.history[0][3], Some(V0));
        assert_eq!(bws.history[0][3], Some((1, 0)));
    }

    #[test]
    fn under_robinhood_the_poor_worker_has_two_slices_by_t2_and_the_thief_steals_at_t3() {
        let (outcome, fair) = (play(Method::Robinhood), play(Method::FairShare));
        assert_eq!((outcome.wasted, outcome.rich, outcome.stole), (0, Some(2), Some(3)));
        assert_eq!(outcome.machine.history[0][0], Some(V1));
        // "Robinhood does not impact the original scheduling path of other vCPUs", nor the path of v1 on its own CPU.
        for cpu in 0..2 {
            assert_eq!(others(&outcome.machine, cpu), others(&fair.machine, cpu));
        }
        assert_eq!(outcome.machine.history[1], fair.machine.history[1]);
        // v0 has paid for the slice that v0 gave to v1.
        let [v0, v1] = [V0, V1].map(|vcpu| (outcome.machine.paid(vcpu), outcome.machine.ran(vcpu)));
        assert_eq!([v0, v1], [(2 * SLICE, SLICE), (2 * SLICE, 3 * SLICE)]);
    }
}
