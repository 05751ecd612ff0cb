//! The scenario of figures 2 and 3 (§2.2.1, §3.1), which the text has in words: CPUs that take turns in equal
//! slices, with nothing between.

use std::collections::VecDeque;

use crate::acceleration::{Next, Part, Scheduler, accelerate, switch};
use crate::experiments::measure::Measure;

/// A virtual CPU: the VM, and which of it.
pub(crate) type Vcpu = (u32, usize);

/// What one of them does.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) part: Part<Vcpu>,
    pub(crate) cpu: usize,
    pub(crate) is_blocked: bool,
    /// Slices that it has paid for, and in which it ran, in nanoseconds.
    pub(crate) paid: u64,
    pub(crate) ran: u64,
}

/// CPUs that take turns in equal slices, in the order of their queues.
pub(crate) struct Turns {
    per_node: usize,
    pub(crate) queues: Vec<VecDeque<Vcpu>>,
    /// Which runs, and how much of the slice is left.
    pub(crate) running: Vec<Option<(Vcpu, u64)>>,
    pub(crate) states: Vec<(Vcpu, State)>,
    /// Which had each CPU, slice by slice.
    pub(crate) history: Vec<Vec<Option<Vcpu>>>,
}

pub(crate) const SLICE: u64 = 30_000_000;

impl Turns {
    pub(crate) fn new(per_node: usize, queues: &[&[Vcpu]]) -> Turns {
        let of = |(cpu, queue): (usize, &&[Vcpu])| {
            queue.iter().map(|entity| (*entity, State { cpu, ..State::default() })).collect::<Vec<_>>()
        };
        Turns {
            per_node,
            queues: queues.iter().map(|queue| queue.iter().copied().collect()).collect(),
            running: vec![None; queues.len()],
            states: queues.iter().enumerate().flat_map(of).collect(),
            history: vec![Vec::new(); queues.len()],
        }
    }

    pub(crate) fn state(&self, entity: Vcpu) -> &State {
        &self.states.iter().find(|(known, _)| *known == entity).expect("it is there").1
    }

    pub(crate) fn state_mut(&mut self, entity: Vcpu) -> &mut State {
        &mut self.states.iter_mut().find(|(known, _)| *known == entity).expect("it is there").1
    }

    /// The CPU is free, or the one that ran there leaves it after so long.
    pub(crate) fn next(&mut self, cpu: usize, ran: u64) {
        let next = match self.running[cpu] {
            Some((current, left)) => {
                self.running[cpu] = Some((current, left - ran));
                self.state_mut(current).ran += ran;
                switch(self, current, ran)
            }
            None => self.take_first(cpu).map_or(Next::Idle, Next::Regular),
        };
        self.running[cpu] = match next {
            Next::Regular(entity) => Some((entity, SLICE)),
            Next::Accelerated(entity, left) => Some((entity, left)),
            Next::Idle => None,
        };
    }

    /// All CPUs run until their slices are over.
    fn pass_slice(&mut self) {
        for cpu in 0..self.queues.len() {
            let running = self.running[cpu];
            self.history[cpu].push(running.map(|(entity, _)| entity));
        }
        for cpu in 0..self.queues.len() {
            self.next(cpu, self.running[cpu].map_or(0, |(_, left)| left));
        }
        self.check();
    }

    /// What holds at any time.
    pub(crate) fn check(&self) {
        for (entity, State { part, cpu, is_blocked, .. }) in &self.states {
            let places = self.queues.iter().flatten().filter(|other| *other == entity).count();
            let runs = self.running.iter().flatten().filter(|(other, _)| other == entity).count();
            assert!(runs <= 1 && places <= 1, "{entity:?} runs on {runs} and has {places} places");
            // It has its place while it is accelerated, in the queue of its home.
            let home = part.home.unwrap_or(*cpu);
            let has_place = self.queues[home].contains(entity);
            assert_eq!(has_place, !is_blocked && (runs == 0 || part.initiator.is_some()), "{entity:?}");
        }
    }
}

impl Scheduler for Turns {
    type Entity = Vcpu;

    fn part(&self, entity: Vcpu) -> &Part<Vcpu> {
        &self.state(entity).part
    }

    fn part_mut(&mut self, entity: Vcpu) -> &mut Part<Vcpu> {
        &mut self.state_mut(entity).part
    }

    fn cpu(&self, entity: Vcpu) -> usize {
        self.state(entity).cpu
    }

    fn set_cpu(&mut self, entity: Vcpu, cpu: usize) {
        self.state_mut(entity).cpu = cpu;
    }

    fn node(&self, cpu: usize) -> usize {
        cpu / self.per_node
    }

    fn is_running(&self, entity: Vcpu) -> bool {
        self.running.iter().flatten().any(|(other, _)| *other == entity)
    }

    fn waits(&self, entity: Vcpu) -> bool {
        self.queues.iter().flatten().any(|other| *other == entity)
    }

    fn slice_left(&self, entity: Vcpu) -> u64 {
        self.running.iter().flatten().find(|(other, _)| *other == entity).map_or(0, |(_, left)| *left)
    }

    fn burn(&mut self, entity: Vcpu, time: u64) {
        self.state_mut(entity).paid += time;
    }

    fn can_go_on(&self, entity: Vcpu) -> bool {
        !self.state(entity).is_blocked
    }

    fn insert(&mut self, entity: Vcpu) {
        let cpu = self.cpu(entity);
        self.queues[cpu].push_back(entity);
    }

    fn remove(&mut self, entity: Vcpu) {
        let cpu = self.cpu(entity);
        self.queues[cpu].retain(|other| *other != entity);
    }

    fn take_first(&mut self, cpu: usize) -> Option<Vcpu> {
        let found = self.queues[cpu].iter().position(|entity| self.part(*entity).initiator.is_none())?;
        self.queues[cpu].remove(found)
    }
}

/// The two of VM0; those of the others are (1, _) and (2, _).
pub(crate) const V0: Vcpu = (0, 0);
pub(crate) const V1: Vcpu = (0, 1);

/// What a hypervisor and the thieves of VM0 do in the scenario of figure 2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    FairShare,
    CoScheduling,
    Bws,
    Robinhood,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) machine: Turns,
    /// Slices that the thief has wasted.
    pub(crate) wasted: u64,
    /// By which T the worker that was poor had run for two slices, and at which one the thief found tasks.
    #[cfg_attr(not(test), expect(dead_code, reason = "the measures look at the slices"))]
    pub(crate) rich: Option<usize>,
    pub(crate) stole: Option<usize>,
}

/// Figures 2 and 3 (§2.2.1, §3.1): from T0 to T5 two threads of VM0, one a virtual CPU, share two CPUs with two
/// other VMs. The thread on v0 is a thief, the one on v1 a poor worker, which has tasks to steal once it has run
/// for two slices.
pub(crate) fn run(method: Method) -> Outcome {
    // v1 comes second, or both come second with co-scheduling.
    let first: [Vcpu; 3] = if method == Method::CoScheduling { [(1, 0), V0, (2, 0)] } else { [V0, (1, 0), (2, 0)] };
    let mut machine = Turns::new(2, &[&first, &[(1, 1), V1, (2, 1)]]);
    machine.next(0, 0);
    machine.next(1, 0);
    let (mut wasted, mut rich, mut stole) = (0, None, None);
    for t in 0..5 {
        let is_rich = machine.state(V1).ran >= 2 * SLICE;
        if machine.is_running(V0) {
            if is_rich {
                stole.get_or_insert(t);
            } else if method == Method::Robinhood {
                if accelerate(&mut machine, V0, V1, false).is_ok() {
                    machine.next(0, 0);
                }
            } else {
                wasted += 1;
                // The thief has failed often enough, and sleeps from the end of its slice on.
                machine.state_mut(V0).is_blocked = method == Method::Bws;
            }
        }
        machine.pass_slice();
        if machine.state(V1).ran >= 2 * SLICE {
            rich.get_or_insert(t + 1);
        }
    }
    Outcome { machine, wasted, rich, stole }
}

/// What is measured.
pub const MEASURES: &[&str] = &[
    "figure3-wasted-fair-share",
    "figure3-wasted-co-scheduling",
    "figure3-wasted-bws",
    "figure3-wasted-robinhood",
    "figure3-useful-fair-share",
    "figure3-useful-co-scheduling",
    "figure3-useful-bws",
    "figure3-relinquished-bws",
    "figure3-relinquished-robinhood",
    "figure3-poor-by-t2",
    "figure3-steal-at",
    "figure3-giver-pays",
    "figure3-others-unmoved",
];

/// The measures: slices, but for the last, a part in per cent.
pub fn measures() -> Vec<Measure> {
    let [fair, co, bws, robinhood] = [Method::FairShare, Method::CoScheduling, Method::Bws, Method::Robinhood].map(run);
    let slices = |of: &Outcome, until: usize, is_so: &dyn Fn(usize, usize, Option<Vcpu>) -> bool| {
        let cells = (0..2)
            .flat_map(|cpu| of.machine.history[cpu][..until].iter().enumerate().map(move |(t, had)| (cpu, t, *had)));
        cells.filter(|(cpu, t, had)| is_so(*cpu, *t, *had)).count() as f64
    };
    // v1 works, and v0 once it has stolen.
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
        Measure::new(MEASURES[0], fair.wasted as f64),
        Measure::new(MEASURES[1], co.wasted as f64),
        Measure::new(MEASURES[2], bws.wasted as f64),
        Measure::new(MEASURES[3], robinhood.wasted as f64),
        Measure::new(MEASURES[4], useful(&fair)),
        Measure::new(MEASURES[5], useful(&co)),
        Measure::new(MEASURES[6], useful(&bws)),
        Measure::new(MEASURES[7], relinquished(&bws)),
        Measure::new(MEASURES[8], relinquished(&robinhood)),
        Measure::new(MEASURES[9], slices(&robinhood, 2, &|_, _, had| had == Some(V1))),
        Measure::new(MEASURES[10], robinhood.stole.map_or(f64::NAN, |t| t as f64)),
        Measure::new(MEASURES[11], robinhood.machine.state(V0).paid as f64 / SLICE as f64),
        Measure::new(MEASURES[12], 100.0 * unmoved / theirs),
    ]
}
