//! A hypervisor: physical CPUs on which the virtual CPUs of several virtual machines take turns. Time is in
//! nanoseconds.
//!
//! The only fact that the hypervisor knows about its guests is which virtual CPUs have something to do. The module
//! [`crate::vms`] reports this fact to the hypervisor, and tells the guests which of their virtual CPUs have a physical
//! CPU. Robinhood's vCPU Accelerator is `acceleration.rs` with virtual CPUs as entities.
//!
//! ```text
//! hypervisor.rs        virtual and physical CPUs, the clock, switches between virtual CPUs
//! hypervisor/vmm.rs    the parameters: scheduler and costs
//! hypervisor/credit.rs the Credit scheduler of Xen 4.2; if siblings are spread, balance scheduling
//! hypervisor/dom0.rs   Domain 0, whose virtual CPUs wake now and then
//! hypervisor/gang.rs   co-scheduling: all virtual CPUs of a machine run at once
//! hypervisor/check.rs  the invariants, checked after events
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

/// A virtual machine's share of the physical machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of virtual CPUs.
    pub vcpus: usize,
    /// The weight relative to other machines. Xen's default is 256.
    pub weight: u32,
    /// The maximum part of its time for which each virtual CPU may have a physical CPU, in hundredths. The cap applies
    /// even while physical CPUs idle.
    pub cap: Option<u32>,
}

/// A virtual CPU.
#[derive(Debug)]
struct Vcpu {
    vm: usize,
    /// True if the guest has a thread for the virtual CPU.
    wants: bool,
    /// True if the virtual CPU has used more time than its machine's cap allows. It may not run then.
    parked: bool,
    /// The physical CPU on which the virtual CPU runs.
    on: Option<usize>,
    /// The physical CPU in whose queue the virtual CPU has its place. An accelerated virtual CPU that runs has a
    /// place, too.
    queued: Option<usize>,
    /// The physical CPU on which the virtual CPU runs, waits, or was last.
    cpu: usize,
    /// The physical CPU on which the virtual CPU ran last.
    ran_on: Option<usize>,
    part: Part<usize>,
    priority: Priority,
    /// The credit, in nanoseconds of a physical CPU.
    credit: i64,
    /// True if the virtual CPU gets credits: a tick has found it running.
    active: bool,
    /// The time since which the virtual CPU has wanted a physical CPU without having one.
    waits_since: Option<u64>,
    /// Nanoseconds that the virtual CPU has waited for a physical CPU, without a wait that is not over.
    waited: u64,
    /// Nanoseconds that the virtual CPU has had a physical CPU.
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
    /// The times at which the slice began (`began`) and at which it is over (`slice_end`).
    began: u64,
    slice_end: u64,
    /// The time until which the virtual CPU's run time is accounted for.
    charged: u64,
    /// True once the timer of the physical CPU has been set.
    has_begun: bool,
    plan: u32,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The slice of a physical CPU is over. Ignored if `plan` is not the newest plan of the physical CPU.
    Slice { pcpu: usize, plan: u32 },
    /// The tick of a physical CPU.
    Tick(usize),
    /// Credits are handed out.
    Account,
    /// The turn of a machine is over under co-scheduling. Ignored if this is not the newest plan of a turn.
    Turn(u32),
    /// A virtual CPU of Domain 0 has something to do (`wakes`), or its work is due to end.
    Dom0 { vcpu: usize, wakes: bool },
    /// The number of online physical CPUs changes to this number.
    Online(usize),
}

/// A change that a guest must learn: its virtual CPU `core` gets a physical CPU or loses it. `runs_after` is the number
/// of nanoseconds after which the thread of `core` continues, or `None` for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) vm: usize,
    pub(crate) core: usize,
    pub(crate) runs_after: Option<u64>,
}

/// Counts of switches of physical CPUs between virtual CPUs, and of accelerations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Switches from one virtual CPU to another.
    pub switches: u64,
    /// Moves of virtual CPUs to another physical CPU of their node.
    pub moves_within: u64,
    /// Moves of virtual CPUs to a physical CPU of another node.
    pub moves_across: u64,
    /// Decisions about the virtual CPU that runs next on a physical CPU.
    pub decisions: u64,
    /// Virtual CPUs that these decisions passed over because the virtual CPUs were accelerated elsewhere.
    pub passed_over: u64,
    /// Requests for an acceleration that were granted.
    pub accelerations: u64,
    /// Requests for an acceleration that were refused.
    pub refusals: u64,
}

/// A hypervisor, with its physical CPUs and the virtual CPUs of its machines.
pub struct Hypervisor {
    vmm: Vmm,
    now: u64,
    planned: u64,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    shares: Vec<Share>,
    /// The index of Domain 0 among the machines, if there is a Domain 0.
    dom0: Option<usize>,
    /// The first virtual CPU of each machine.
    firsts: Vec<usize>,
    vcpus: Vec<Vcpu>,
    pcpus: Vec<Pcpu>,
    accounts: Accounts,
    gang: Gang,
    changes: Vec<Change>,
    counts: Counts,
    /// The time in which physical CPUs had a virtual CPU (`used`), and in which they idled while a virtual CPU waited
    /// (`idle_beside_work`). Both times are sums over the physical CPUs.
    used: u64,
    idle_beside_work: u64,
    /// True once an acceleration across nodes was allowed (Robinhood-u).
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
        // The ticks of the physical CPUs begin at random times, because real CPUs do not start simultaneously.
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

    /// The time of the next event.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Handles the next event.
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

    /// Advances the clock to `at`, and accounts for the time that has passed.
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

    /// Sets the number of online physical CPUs from the time `at` on. At least one physical CPU stays online. The
    /// physical CPUs with the lowest numbers are online.
    pub(crate) fn resize(&mut self, at: u64, pcpus: usize) {
        self.plan(at, Due::Online(pcpus.clamp(1, self.pcpus.len())));
    }

    /// Takes the changes that guests must learn, in the order in which they happened.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The nanoseconds that a hypercall of a guest takes.
    pub(crate) fn hypercall(&self) -> u64 {
        self.vmm.hypercall
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Nanoseconds that physical CPUs idled while a virtual CPU waited, summed over the physical CPUs.
    pub fn idle_beside_work(&self) -> u64 {
        self.idle_beside_work
    }

    /// Nanoseconds that physical CPUs had a virtual CPU, summed over the physical CPUs.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns a machine's run time and steal time in nanoseconds, summed over its virtual CPUs. The run time of a
    /// virtual CPU is the time in which it had a physical CPU. Its steal time is the time in which it wanted a physical
    /// CPU and had none.
    pub fn run_and_steal_time(&self, vm: usize) -> (u64, u64) {
        let first = self.firsts[vm];
        let own = &self.vcpus[first..first + self.shares[vm].vcpus];
        let unpaid = |vcpu: &Vcpu| vcpu.on.map_or(0, |pcpu| self.now - self.pcpus[pcpu].charged);
        let ran = own.iter().map(|vcpu| vcpu.ran + unpaid(vcpu)).sum();
        let waits = |vcpu: &Vcpu| vcpu.waits_since.map_or(0, |since| self.now - since);
        (ran, own.iter().map(|vcpu| vcpu.waited + waits(vcpu)).sum())
    }

    /// Returns two facts about a guest's virtual CPU as the hypervisor knows them: whether it has something to do, and
    /// whether it has a physical CPU.
    pub(crate) fn is(&self, vm: usize, core: usize) -> (bool, bool) {
        let vcpu = &self.vcpus[self.firsts[vm] + core];
        (vcpu.wants, vcpu.on.is_some())
    }

    fn node_of(&self, pcpu: usize) -> usize {
        pcpu / (self.pcpus.len() / self.vmm.nodes as usize)
    }

    /// Notes whether a guest's virtual CPU has something to do.
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

    /// Removes a waiting virtual CPU from its queue, and cancels a decided acceleration of this virtual CPU.
    fn leave_queue(&mut self, vcpu: usize) {
        if let Some(pcpu) = self.vcpus[vcpu].queued.take() {
            self.pcpus[pcpu].queue.retain(|other| *other != vcpu);
        }
        self.vcpus[vcpu].part.initiator = None;
    }

    /// The hypercall of Algorithm 1, line 7: gives the rest of one virtual CPU's slice to another virtual CPU of its
    /// machine. Returns true if the request is granted. Then the physical CPU switches at once.
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

    /// Charges the run time until now to the virtual CPU that runs on `pcpu`, or to the giver of its slice.
    fn charge(&mut self, pcpu: usize) {
        if let Some(vcpu) = self.pcpus[pcpu].running {
            let time = self.unpaid(pcpu);
            acceleration::pay(self, vcpu, time);
        }
    }

    /// Returns the run time that the virtual CPU on `pcpu` has not paid for, and marks it as paid.
    fn unpaid(&mut self, pcpu: usize) -> u64 {
        let now = self.now;
        let one = &mut self.pcpus[pcpu];
        let time = now - std::mem::replace(&mut one.charged, now);
        if let Some(vcpu) = one.running {
            self.vcpus[vcpu].ran += time;
        }
        time
    }

    /// Takes the virtual CPU off `pcpu`, if there is one, and runs the next virtual CPU there.
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
        // If `before` was pushed back to `home`, that physical CPU may be idle. Another idle physical CPU may also take
        // `before`.
        self.attend(home);
        if let Some(before) = before {
            self.offer(before);
        }
    }

    /// Lets an idle physical CPU take a waiting virtual CPU, if the virtual CPU may run there.
    fn offer(&mut self, vcpu: usize) {
        let Some(pcpu) = self.vcpus[vcpu].queued.filter(|_| self.vcpus[vcpu].part.initiator.is_none()) else { return };
        let is_idle = |other: &usize| self.pcpus[*other].running.is_none() && !self.pcpus[*other].offline;
        let others = (0..self.pcpus.len()).filter(is_idle);
        let may_come = |other: &usize| *other == pcpu || self.may_come(vcpu, *other);
        if let Some(idle) = [pcpu].into_iter().filter(is_idle).chain(others).find(may_come) {
            self.schedule(idle);
        }
    }

    /// Lets an idle physical CPU run a virtual CPU of its queue, if there is one.
    fn attend(&mut self, pcpu: Option<usize>) {
        if let Some(pcpu) = pcpu.filter(|pcpu| self.pcpus[*pcpu].running.is_none() && !self.pcpus[*pcpu].offline) {
            self.schedule(pcpu);
        }
    }

    /// Returns the length of a slice. The first slice of a physical CPU has a random, shorter length, because its timer
    /// is assumed to have started earlier.
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

    /// Sets the number of online physical CPUs.
    fn go_online(&mut self, pcpus: usize) {
        for pcpu in 0..self.pcpus.len() {
            self.pcpus[pcpu].offline = pcpu >= pcpus;
        }
        for pcpu in pcpus..self.pcpus.len() {
            if self.pcpus[pcpu].running.is_some() {
                self.schedule(pcpu);
            }
            // A virtual CPU that is accelerated elsewhere continues to run there, and its place moves to another queue.
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
        // The new home of an accelerated virtual CPU may be on another node than the physical CPU on which it runs. The
        // slice then ends, unless accelerations across nodes are allowed.
        for pcpu in 0..pcpus {
            let home = self.pcpus[pcpu].running.and_then(|vcpu| self.vcpus[vcpu].part.home);
            if home.is_some_and(|home| self.node_of(home) != self.node_of(pcpu)) && !self.crosses_nodes {
                self.schedule(pcpu);
            }
            self.attend(Some(pcpu));
        }
    }

    /// Returns the physical CPU to which a virtual CPU moves when its physical CPU goes offline. Prefers, in this
    /// order, a physical CPU of the same node, without a virtual CPU of the same machine, and with few virtual CPUs.
    fn fallback_pcpu(&self, vcpu: usize, pcpus: usize) -> usize {
        let node = self.node_of(self.vcpus[vcpu].part.home.unwrap_or(self.vcpus[vcpu].cpu));
        let worse = |pcpu: &usize| {
            let one = &self.pcpus[*pcpu];
            let has_sibling = self.has_sibling(vcpu, *pcpu);
            (self.node_of(*pcpu) != node, has_sibling, one.queue.len() + usize::from(one.running.is_some()))
        };
        (0..pcpus).min_by_key(worse).expect("one is left")
    }

    /// True if another virtual CPU of the same machine runs on `pcpu` or has its place there.
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
