//! A minimal machine on which a virtual CPU can give its slice to another virtual CPU. The virtual CPUs in the queue of
//! a physical CPU take turns in the order of the queue. All slices are equally long, and switches take no time.

use std::collections::VecDeque;

use crate::acceleration::{Next, Part, Scheduler, accelerate, switch};

/// A virtual CPU: the number of its virtual machine, and its number in that machine.
pub type Vcpu = (u32, usize);

/// The state of one virtual CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) part: Part<Vcpu>,
    pub(crate) cpu: usize,
    pub(crate) is_blocked: bool,
    /// Nanoseconds of slices that the virtual CPU has paid for (`paid`) and nanoseconds that it has run (`ran`).
    pub(crate) paid: u64,
    pub(crate) ran: u64,
}

/// A machine with virtual CPUs on physical ones.
#[derive(Clone, Debug)]
pub struct Turns {
    per_node: usize,
    pub(crate) queues: Vec<VecDeque<Vcpu>>,
    /// The virtual CPU that runs on each physical CPU, and the nanoseconds that are left of its slice.
    pub(crate) running: Vec<Option<(Vcpu, u64)>>,
    pub(crate) states: Vec<(Vcpu, State)>,
    /// The virtual CPU that ran in each slice, for each physical CPU.
    pub history: Vec<Vec<Option<Vcpu>>>,
}

/// The length of a slice, in nanoseconds.
pub const SLICE: u64 = 30_000_000;

impl Turns {
    /// Creates a machine in which a queue of virtual CPUs waits for each physical CPU. Each NUMA node has `per_node`
    /// physical CPUs.
    pub fn new(per_node: usize, queues: &[&[Vcpu]]) -> Turns {
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
        &self.states.iter().find(|(known, _)| *known == entity).expect("the virtual CPU exists").1
    }

    pub(crate) fn state_mut(&mut self, entity: Vcpu) -> &mut State {
        &mut self.states.iter_mut().find(|(known, _)| *known == entity).expect("the virtual CPU exists").1
    }

    /// True if the virtual CPU has a physical CPU.
    pub fn is_on_cpu(&self, entity: Vcpu) -> bool {
        self.is_running(entity)
    }

    /// The time that the virtual CPU has run, in nanoseconds.
    pub fn ran(&self, entity: Vcpu) -> u64 {
        self.state(entity).ran
    }

    /// The time that the virtual CPU has paid for, in nanoseconds.
    pub fn paid(&self, entity: Vcpu) -> u64 {
        self.state(entity).paid
    }

    /// Sets whether the virtual CPU blocks at the end of its slice.
    pub fn set_blocked(&mut self, entity: Vcpu, is_blocked: bool) {
        self.state_mut(entity).is_blocked = is_blocked;
    }

    /// Lets the running virtual CPU `from` give the rest of its slice to `to` at the next switch. Returns false and
    /// changes nothing if the machine refuses, for example because `to` is in another NUMA node.
    pub fn accelerate(&mut self, from: Vcpu, to: Vcpu) -> bool {
        accelerate(self, from, to, false).is_ok()
    }

    /// Gives a physical CPU to the next virtual CPU. Either the physical CPU is free, or its virtual CPU leaves it
    /// after running for `ran` nanoseconds.
    pub fn next(&mut self, cpu: usize, ran: u64) {
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

    /// Runs all CPUs until their current slices are over.
    pub fn pass_slice(&mut self) {
        for cpu in 0..self.queues.len() {
            let running = self.running[cpu];
            self.history[cpu].push(running.map(|(entity, _)| entity));
        }
        for cpu in 0..self.queues.len() {
            self.next(cpu, self.running[cpu].map_or(0, |(_, left)| left));
        }
        self.check();
    }

    /// Asserts the invariants of the machine.
    pub(crate) fn check(&self) {
        for (entity, State { part, cpu, is_blocked, .. }) in &self.states {
            let places = self.queues.iter().flatten().filter(|other| *other == entity).count();
            let runs = self.running.iter().flatten().filter(|(other, _)| other == entity).count();
            assert!(runs <= 1 && places <= 1, "{entity:?} runs on {runs} cores and has {places} places in queues");
            // An accelerated virtual CPU keeps its place in the queue of its home, the CPU to which it returns.
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
