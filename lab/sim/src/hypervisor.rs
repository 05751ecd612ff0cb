//! A hypervisor: physical CPUs on which the virtual ones of several virtual machines take turns. Time is in
//! nanoseconds.
//!
//! It knows nothing of what runs in its guests but whether a virtual CPU has something to do, which [`crate::vms`]
//! tells it. To the guests that module tells which of their CPUs have a physical one. Robinhood's vCPU Accelerator
//! is `acceleration.rs` with virtual CPUs as entities.
//!
//! ```text
//! hypervisor.rs        virtual and physical CPUs, the clock, which runs where
//! hypervisor/vmm.rs    how it is to be, and what things cost
//! hypervisor/credit.rs the Credit scheduler of Xen 4.2; with siblings spread, balance scheduling
//! hypervisor/dom0.rs   Domain 0, which wakes now and then
//! hypervisor/gang.rs   co-scheduling: all virtual CPUs of a machine run at once
//! hypervisor/check.rs  what must hold after every event
//! ```

mod check;
mod credit;
mod dom0;
mod gang;
#[cfg(test)]
mod tests;
mod vmm;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::acceleration::{self, Next, Part, Refusal, Scheduler};
use crate::random::stream;
use credit::{Accounts, Priority};
use gang::Gang;
pub use vmm::{Scheduling, Vmm, WeightOf};

/// The part of a machine that is a virtual machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Virtual CPUs.
    pub vcpus: usize,
    /// How much it counts: Xen's default is 256.
    pub weight: u32,
    /// The most of its time that each virtual CPU may have a physical one, in hundredths, even where others idle.
    pub cap: Option<u32>,
}

/// A virtual CPU.
#[derive(Debug)]
struct Vcpu {
    vm: usize,
    /// Its guest has a thread for it.
    wants: bool,
    /// Its machine has used what it may.
    parked: bool,
    /// The physical CPU that it has.
    on: Option<usize>,
    /// The physical CPU that has its place in a queue. One that is accelerated has both.
    queued: Option<usize>,
    /// Where it runs, or waits, or was last.
    cpu: usize,
    /// Where it ran last.
    ran_on: Option<usize>,
    part: Part<usize>,
    priority: Priority,
    /// Nanoseconds of a physical CPU.
    credit: i64,
    /// Whether it gets credits.
    active: bool,
    /// Since when it has wanted a physical CPU in vain,
    waits_since: Option<u64>,
    /// and for how long it did before.
    waited: u64,
    /// How long it has had one.
    ran: u64,
}

/// A physical CPU.
#[derive(Debug, Default)]
struct Pcpu {
    offline: bool,
    running: Option<usize>,
    queue: VecDeque<usize>,
    /// The virtual CPU that ran last.
    last: Option<usize>,
    /// When the slice began, and when it is over.
    began: u64,
    slice_end: u64,
    /// Until when its time is paid for.
    charged: u64,
    /// Its timer has been set once.
    has_begun: bool,
    plan: u32,
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A slice is over, unless it was planned anew since.
    Slice { pcpu: usize, plan: u32 },
    /// A physical CPU's tick.
    Tick(usize),
    /// Credits are handed out.
    Account,
    /// The turn of a machine is over under co-scheduling, unless it was planned anew since.
    Turn(u32),
    /// A virtual CPU of Domain 0 has something to do, or has done it.
    Dom0 { vcpu: usize, wakes: bool },
    /// So many physical CPUs are there from now on.
    Online(usize),
}

/// A guest's CPU has a physical one from now on, after so many nanoseconds, or has none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) vm: usize,
    pub(crate) core: usize,
    pub(crate) runs_after: Option<u64>,
}

/// How often physical CPUs went from one virtual CPU to another, and how these were accelerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Switches from one virtual CPU to another.
    pub switches: u64,
    /// Virtual CPUs that came to another physical one of their node,
    pub moves_within: u64,
    /// and of another.
    pub moves_across: u64,
    /// Decisions which virtual CPU runs next on a physical one,
    pub decisions: u64,
    /// and virtual CPUs that were passed over then, for they were accelerated elsewhere.
    pub passed_over: u64,
    /// Requests to accelerate one that were granted,
    pub accelerations: u64,
    /// and that were not.
    pub refusals: u64,
}

/// A hypervisor, with its physical CPUs and the virtual ones of its machines.
pub struct Hypervisor {
    vmm: Vmm,
    now: u64,
    planned: u64,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    shares: Vec<Share>,
    /// Which of the machines is Domain 0.
    dom0: Option<usize>,
    /// The first virtual CPU of each machine.
    firsts: Vec<usize>,
    vcpus: Vec<Vcpu>,
    pcpus: Vec<Pcpu>,
    accounts: Accounts,
    gang: Gang,
    changes: Vec<Change>,
    counts: Counts,
    /// Time that physical CPUs had a virtual one, and that they had none while one waited, summed over them.
    used: u64,
    idle_beside_work: u64,
    /// Whether an acceleration may cross nodes has been asked with yes (Robinhood-u).
    crosses_nodes: bool,
    random: ChaCha8Rng,
}

impl Hypervisor {
    pub(crate) fn new(vmm: Vmm, pcpus: usize, shares: &[Share], seed: u64) -> Hypervisor {
        let mut shares = shares.to_vec();
        let has_dom0 = vmm.dom0_every > 0 && vmm.scheduler != Scheduling::CoScheduling;
        let dom0 = has_dom0.then_some(shares.len());
        shares.extend(dom0.map(|_| Hypervisor::dom0_share(pcpus)));
        let firsts = shares.iter().scan(0, |sum, share| Some(std::mem::replace(sum, *sum + share.vcpus))).collect();
        let of = |(vm, share): (usize, &Share)| (0..share.vcpus).map(move |nth| Vcpu::new(vm, nth % pcpus));
        let mut hypervisor = Hypervisor {
            vmm,
            now: 0,
            planned: 0,
            due: BinaryHeap::new(),
            firsts,
            vcpus: shares.iter().enumerate().flat_map(of).collect(),
            shares,
            dom0,
            pcpus: (0..pcpus).map(|_| Pcpu::default()).collect(),
            accounts: Accounts::default(),
            gang: Gang::default(),
            changes: Vec::new(),
            counts: Counts::default(),
            used: 0,
            idle_beside_work: 0,
            crosses_nodes: false,
            random: stream(seed, u64::MAX - 1),
        };
        // Each physical CPU was started at a time of its own.
        if vmm.scheduler != Scheduling::CoScheduling {
            for pcpu in 0..pcpus {
                let at = hypervisor.random.random_range(0..hypervisor.tick());
                hypervisor.plan(at, Due::Tick(pcpu));
            }
            let at = hypervisor.random.random_range(0..vmm.slice);
            hypervisor.plan(at, Due::Account);
        }
        hypervisor.start_dom0();
        hypervisor
    }

    fn tick(&self) -> u64 {
        self.vmm.slice / 3
    }

    fn plan(&mut self, at: u64, due: Due) {
        self.planned += 1;
        self.due.push(Reverse((at, self.planned, due)));
    }

    /// When the next event is.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Handles it.
    pub(crate) fn step(&mut self) {
        let Some(Reverse((at, _, due))) = self.due.pop() else { return };
        self.pass(at);
        match due {
            Due::Slice { pcpu, plan } if self.pcpus[pcpu].plan == plan => self.schedule(pcpu),
            Due::Slice { .. } => {}
            Due::Tick(pcpu) => self.ticks(pcpu),
            Due::Account => self.account(),
            Due::Turn(plan) => self.turn_is_over(plan),
            Due::Dom0 { vcpu, wakes } => self.dom0(vcpu, wakes),
            Due::Online(pcpus) => self.go_online(pcpus),
        }
    }

    /// It is `at` from now on.
    pub(crate) fn pass(&mut self, at: u64) {
        let lasted = at - self.now;
        if lasted > 0 {
            let there = self.pcpus.iter().filter(|pcpu| !pcpu.offline);
            let running = there.clone().filter(|pcpu| pcpu.running.is_some()).count() as u64;
            let idle = there.count() as u64 - running;
            let waiting = self.vcpus.iter().filter(|vcpu| vcpu.waits_since.is_some() && !vcpu.parked).count() as u64;
            self.used += lasted * running;
            self.idle_beside_work += lasted * idle.min(waiting);
            self.now = at;
        }
    }

    /// From then on so many physical CPUs are there, at least one: those with the lowest numbers.
    pub(crate) fn resize(&mut self, at: u64, pcpus: usize) {
        self.plan(at, Due::Online(pcpus.clamp(1, self.pcpus.len())));
    }

    /// What guests are to be told, in its order.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// A hypercall of a guest takes so long.
    pub(crate) fn hypercall(&self) -> u64 {
        self.vmm.hypercall
    }

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Nanoseconds that physical CPUs idled while a virtual one waited, summed over them.
    pub fn idle_beside_work(&self) -> u64 {
        self.idle_beside_work
    }

    /// Nanoseconds that they had one.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How long the virtual CPUs of a machine have had physical ones, and have wanted one in vain, in nanoseconds,
    /// summed over them. A guest is told this as its run time and its steal time.
    pub fn run_and_steal_time(&self, vm: usize) -> (u64, u64) {
        let first = self.firsts[vm];
        let own = &self.vcpus[first..first + self.shares[vm].vcpus];
        let unpaid = |vcpu: &Vcpu| vcpu.on.map_or(0, |pcpu| self.now - self.pcpus[pcpu].charged);
        let ran = own.iter().map(|vcpu| vcpu.ran + unpaid(vcpu)).sum();
        let waits = |vcpu: &Vcpu| vcpu.waits_since.map_or(0, |since| self.now - since);
        (ran, own.iter().map(|vcpu| vcpu.waited + waits(vcpu)).sum())
    }

    /// Whether a guest's CPU has something to do, by what was heard of it, and whether it has a physical one.
    pub(crate) fn is(&self, vm: usize, core: usize) -> (bool, bool) {
        let vcpu = &self.vcpus[self.firsts[vm] + core];
        (vcpu.wants, vcpu.on.is_some())
    }

    fn node_of(&self, pcpu: usize) -> usize {
        pcpu / (self.pcpus.len() / self.vmm.nodes as usize)
    }

    /// Whether a guest's CPU has something to do has changed.
    pub(crate) fn set_wants(&mut self, vm: usize, core: usize, wants: bool) {
        let vcpu = self.firsts[vm] + core;
        if self.vcpus[vcpu].wants == wants {
            return;
        }
        self.vcpus[vcpu].wants = wants;
        if wants { self.wakes(vcpu) } else { self.halts(vcpu) }
    }

    fn wakes(&mut self, vcpu: usize) {
        self.vcpus[vcpu].waits_since = Some(self.now);
        if self.vcpus[vcpu].parked {
            return;
        }
        self.insert_woken(vcpu);
        match self.vmm.scheduler {
            Scheduling::CoScheduling => self.gang_wakes(vcpu),
            _ => self.tickle(vcpu),
        }
    }

    fn halts(&mut self, vcpu: usize) {
        self.end_wait(vcpu);
        match self.vcpus[vcpu].on {
            Some(pcpu) => self.schedule(pcpu),
            None => self.leave_queue(vcpu),
        }
        if self.vmm.scheduler == Scheduling::CoScheduling {
            self.gang_halts(vcpu);
        }
    }

    fn end_wait(&mut self, vcpu: usize) {
        let now = self.now;
        let one = &mut self.vcpus[vcpu];
        one.waited += one.waits_since.take().map_or(0, |since| now - since);
    }

    /// One that waits does so no longer. A decision to accelerate it comes to nothing.
    fn leave_queue(&mut self, vcpu: usize) {
        if let Some(pcpu) = self.vcpus[vcpu].queued.take() {
            self.pcpus[pcpu].queue.retain(|other| *other != vcpu);
        }
        self.vcpus[vcpu].part.initiator = None;
    }

    /// The hypercall of Algorithm 1, line 7: whether what is left of one virtual CPU's slice goes to another of its
    /// machine. If so its physical CPU switches at once.
    pub(crate) fn accelerate(&mut self, vm: usize, from: usize, to: usize, across_nodes: bool) -> bool {
        let first = self.firsts[vm];
        let done = self.decide(first + from, first + to, across_nodes);
        let counts = &mut self.counts;
        let count = if done.is_ok() { &mut counts.accelerations } else { &mut counts.refusals };
        *count += 1;
        done.is_ok()
    }

    fn decide(&mut self, initiator: usize, candidate: usize, across_nodes: bool) -> Result<(), Refusal> {
        if self.vmm.scheduler == Scheduling::CoScheduling || self.vcpus[initiator].on.is_none() {
            return Err(Refusal::NotPreempted);
        }
        acceleration::accelerate(self, initiator, candidate, across_nodes)?;
        self.crosses_nodes |= across_nodes;
        let pcpu = self.cpu(initiator);
        self.schedule(pcpu);
        Ok(())
    }

    /// The virtual CPU that runs there pays until now, or the giver of its slice.
    fn charge(&mut self, pcpu: usize) {
        if let Some(vcpu) = self.pcpus[pcpu].running {
            let time = self.unpaid(pcpu);
            acceleration::pay(self, vcpu, time);
        }
    }

    /// For how long the one that runs there has not paid. It is from now on taken to have.
    fn unpaid(&mut self, pcpu: usize) -> u64 {
        let now = self.now;
        let one = &mut self.pcpus[pcpu];
        let time = now - std::mem::replace(&mut one.charged, now);
        if let Some(vcpu) = one.running {
            self.vcpus[vcpu].ran += time;
        }
        time
    }

    /// The physical CPU's virtual one has had its turn, or there is none: the next runs.
    fn schedule(&mut self, pcpu: usize) {
        self.counts.decisions += 1;
        let time = self.unpaid(pcpu);
        let before = self.pcpus[pcpu].running.take();
        let home = before.and_then(|before| self.vcpus[before].part.home);
        let next = match before {
            Some(current) => {
                let next = acceleration::switch(self, current, time);
                self.vcpus[current].on = None;
                next
            }
            None => self.take_first(pcpu).map_or(Next::Idle, Next::Regular),
        };
        let (next, slice) = match next {
            Next::Regular(vcpu) => (Some(vcpu), self.new_slice(pcpu)),
            Next::Accelerated(vcpu, left) => (Some(vcpu), left),
            Next::Idle => (None, 0),
        };
        if before != next
            && let Some(before) = before
        {
            self.tell(before, None);
            if self.vcpus[before].wants {
                self.vcpus[before].waits_since = Some(self.now);
            }
        }
        match next {
            Some(next) => self.run(pcpu, next, slice, before),
            None => self.pcpus[pcpu].plan += 1,
        }
        // One that was pushed back, or has had its turn, may find a physical CPU idle.
        self.attend(home);
        if let Some(before) = before {
            self.offer(before);
        }
    }

    /// An idle physical CPU takes one that waits, if it may.
    fn offer(&mut self, vcpu: usize) {
        let Some(pcpu) = self.vcpus[vcpu].queued.filter(|_| self.vcpus[vcpu].part.initiator.is_none()) else { return };
        let is_idle = |other: &usize| self.pcpus[*other].running.is_none() && !self.pcpus[*other].offline;
        let others = (0..self.pcpus.len()).filter(is_idle);
        let may_come = |other: &usize| *other == pcpu || self.may_come(vcpu, *other);
        if let Some(idle) = [pcpu].into_iter().filter(is_idle).chain(others).find(may_come) {
            self.schedule(idle);
        }
    }

    /// Its queue may have one to run.
    fn attend(&mut self, pcpu: Option<usize>) {
        if let Some(pcpu) = pcpu.filter(|pcpu| self.pcpus[*pcpu].running.is_none() && !self.pcpus[*pcpu].offline) {
            self.schedule(pcpu);
        }
    }

    /// A slice of its own. The first of a physical CPU is shorter: its timer has begun before.
    fn new_slice(&mut self, pcpu: usize) -> u64 {
        if std::mem::replace(&mut self.pcpus[pcpu].has_begun, true) {
            return self.vmm.slice;
        }
        self.random.random_range(1..=self.vmm.slice)
    }

    fn run(&mut self, pcpu: usize, vcpu: usize, slice: u64, before: Option<usize>) {
        self.end_wait(vcpu);
        let mut cost = 0;
        if self.pcpus[pcpu].last.replace(vcpu) != Some(vcpu) {
            cost += self.vmm.switch;
            self.counts.switches += 1;
        }
        if let Some(ran_on) = self.vcpus[vcpu].ran_on.replace(pcpu).filter(|ran_on| *ran_on != pcpu) {
            let is_near = self.node_of(ran_on) == self.node_of(pcpu);
            cost += if is_near { self.vmm.near } else { self.vmm.far };
            let count = if is_near { &mut self.counts.moves_within } else { &mut self.counts.moves_across };
            *count += 1;
        }
        let one = &mut self.vcpus[vcpu];
        (one.on, one.cpu) = (Some(pcpu), pcpu);
        let now = self.now;
        let one = &mut self.pcpus[pcpu];
        (one.running, one.began, one.slice_end, one.charged) = (Some(vcpu), now, now + slice, now);
        one.plan += 1;
        let plan = one.plan;
        if self.vmm.scheduler != Scheduling::CoScheduling {
            self.plan(now + slice, Due::Slice { pcpu, plan });
        }
        if before != Some(vcpu) {
            self.tell(vcpu, Some(cost));
            self.runs_in_dom0(vcpu);
        }
    }

    fn tell(&mut self, vcpu: usize, runs_after: Option<u64>) {
        let vm = self.vcpus[vcpu].vm;
        if Some(vm) == self.dom0 {
            return;
        }
        self.changes.push(Change { vm, core: vcpu - self.firsts[vm], runs_after });
    }

    /// So many physical CPUs are there from now on.
    fn go_online(&mut self, pcpus: usize) {
        for pcpu in 0..self.pcpus.len() {
            self.pcpus[pcpu].offline = pcpu >= pcpus;
        }
        for pcpu in pcpus..self.pcpus.len() {
            if self.pcpus[pcpu].running.is_some() {
                self.schedule(pcpu);
            }
            // One that is accelerated elsewhere goes on there, and has its place in another queue.
            for vcpu in std::mem::take(&mut self.pcpus[pcpu].queue) {
                self.vcpus[vcpu].queued = None;
                let home = self.fallback_pcpu(vcpu, pcpus);
                let at = std::mem::replace(&mut self.vcpus[vcpu].cpu, home);
                self.insert(vcpu);
                if self.vcpus[vcpu].on.is_some() {
                    (self.vcpus[vcpu].part.home, self.vcpus[vcpu].cpu) = (Some(home), at);
                }
            }
        }
        // A slice is over if the giver's node is gone.
        for pcpu in 0..pcpus {
            let home = self.pcpus[pcpu].running.and_then(|vcpu| self.vcpus[vcpu].part.home);
            if home.is_some_and(|home| self.node_of(home) != self.node_of(pcpu)) && !self.crosses_nodes {
                self.schedule(pcpu);
            }
            self.attend(Some(pcpu));
        }
    }

    /// Where a virtual CPU goes if its physical one is gone: to one of its node, if one is left. Of those, to one
    /// without a sibling, if there is one, and where the fewest wait.
    fn fallback_pcpu(&self, vcpu: usize, pcpus: usize) -> usize {
        let node = self.node_of(self.vcpus[vcpu].part.home.unwrap_or(self.vcpus[vcpu].cpu));
        let worse = |pcpu: &usize| {
            let one = &self.pcpus[*pcpu];
            let has_sibling = self.has_sibling(vcpu, *pcpu);
            (self.node_of(*pcpu) != node, has_sibling, one.queue.len() + usize::from(one.running.is_some()))
        };
        (0..pcpus).min_by_key(worse).expect("one is left")
    }

    /// Whether another virtual CPU of its machine runs there, or has its place there.
    fn has_sibling(&self, vcpu: usize, pcpu: usize) -> bool {
        let vm = self.vcpus[vcpu].vm;
        let is_sibling = |other: &usize| *other != vcpu && self.vcpus[*other].vm == vm;
        let one = &self.pcpus[pcpu];
        one.queue.iter().chain(&one.running).any(is_sibling)
    }
}

impl Vcpu {
    fn new(vm: usize, cpu: usize) -> Vcpu {
        Vcpu {
            vm,
            wants: false,
            parked: false,
            on: None,
            queued: None,
            cpu,
            ran_on: None,
            part: Part::default(),
            priority: Priority::Under,
            credit: 0,
            active: false,
            waits_since: None,
            waited: 0,
            ran: 0,
        }
    }
}

impl Scheduler for Hypervisor {
    type Entity = usize;

    fn part(&self, vcpu: usize) -> &Part<usize> {
        &self.vcpus[vcpu].part
    }

    fn part_mut(&mut self, vcpu: usize) -> &mut Part<usize> {
        &mut self.vcpus[vcpu].part
    }

    fn cpu(&self, vcpu: usize) -> usize {
        self.vcpus[vcpu].cpu
    }

    fn set_cpu(&mut self, vcpu: usize, pcpu: usize) {
        self.vcpus[vcpu].cpu = pcpu;
    }

    fn node(&self, pcpu: usize) -> usize {
        self.node_of(pcpu)
    }

    fn is_running(&self, vcpu: usize) -> bool {
        self.vcpus[vcpu].on.is_some()
    }

    fn waits(&self, vcpu: usize) -> bool {
        self.vcpus[vcpu].queued.is_some()
    }

    fn slice_left(&self, vcpu: usize) -> u64 {
        let end = self.vcpus[vcpu].on.map_or(0, |pcpu| self.pcpus[pcpu].slice_end);
        end.saturating_sub(self.now)
    }

    fn burn(&mut self, vcpu: usize, time: u64) {
        self.vcpus[vcpu].credit -= time as i64;
        self.accounts.has_burnt(time);
    }

    fn can_go_on(&self, vcpu: usize) -> bool {
        self.vcpus[vcpu].wants && !self.vcpus[vcpu].parked
    }

    fn insert(&mut self, vcpu: usize) {
        let mut pcpu = self.cpu(vcpu);
        if self.pcpus[pcpu].offline {
            let left = self.pcpus.iter().filter(|pcpu| !pcpu.offline).count();
            pcpu = self.fallback_pcpu(vcpu, left);
            self.vcpus[vcpu].cpu = pcpu;
        }
        let own = self.vcpus[vcpu].priority;
        let queue = &self.pcpus[pcpu].queue;
        let behind = queue.iter().position(|other| self.vcpus[*other].priority < own).unwrap_or(queue.len());
        self.pcpus[pcpu].queue.insert(behind, vcpu);
        self.vcpus[vcpu].queued = Some(pcpu);
    }

    fn remove(&mut self, vcpu: usize) {
        self.leave_queue(vcpu);
    }

    fn take_first(&mut self, pcpu: usize) -> Option<usize> {
        let found = match self.vmm.scheduler {
            Scheduling::CoScheduling => self.first_of_gang(pcpu),
            _ => self.first_by_credit(pcpu),
        }?;
        let from = self.vcpus[found].queued.take()?;
        let before = self.pcpus[from].queue.iter().take_while(|other| **other != found);
        self.counts.passed_over += before.filter(|other| self.vcpus[**other].part.initiator.is_some()).count() as u64;
        self.pcpus[from].queue.retain(|other| *other != found);
        Some(found)
    }
}
