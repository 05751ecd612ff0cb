//! The Credit scheduler of Xen 4.2 (`xen/common/sched_credit.c`), written from memory of its rules. A credit is a
//! nanosecond here.
//!
//! - **Credits.** Once per slice, the time of all physical CPUs is divided among the machines as credits. A machine's
//!   part is in proportion to its weight, or to its weight times the number of its *active* virtual CPUs
//!   ([`WeightOf`]). A virtual CPU is active if a tick has found it running. The active virtual CPUs of a machine get
//!   equal parts of the machine's credits.
//! - **Priorities.** A virtual CPU with credits is *under*, and a virtual CPU without credits is *over*. A virtual CPU
//!   that wakes while it is under is *boosted* until a tick finds it running.
//! - **Choice.** A physical CPU runs the first virtual CPU of the highest priority in its queue, for a slice. If this
//!   virtual CPU is over, or the queue is empty, it looks for a higher priority in the queues of the other physical
//!   CPUs.
//! - **Caps.** A virtual CPU with a cap is *parked* (it may not run) while it has used more than the cap allows.
//!
//! Left out: `vcpu_migration_delay` and the search for a better physical CPU at a tick (no physical CPU idles while a
//! virtual CPU waits), yields, affinity.

use super::{Due, Hypervisor, Scheduling, Vcpu, WeightOf};
use crate::acceleration::Scheduler;

/// The priority of a virtual CPU, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// The virtual CPU has used more credits than it has received.
    Over,
    /// The virtual CPU has credits.
    Under,
    /// The virtual CPU had credits when it woke, and no tick has found it running since.
    Boost,
}

/// The account of all credits.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// Credits that were handed out, paid for processor time, and lost because an account has bounds.
    granted: i128,
    burnt: i128,
    forfeited: i128,
    /// The sum of all active accounts after credits were last handed out.
    balance: i64,
    /// Machines with active virtual CPUs, in the order in which they are served.
    active: Vec<usize>,
}

impl Accounts {
    pub(super) fn has_burnt(&mut self, time: u64) {
        self.burnt += i128::from(time);
    }

    /// Sets the account of a virtual CPU to `credit`, and keeps the sum of all accounts right.
    #[cfg(test)]
    pub(super) fn give(&mut self, vcpu: &mut Vcpu, credit: i64) {
        self.granted += i128::from(credit - vcpu.credit);
        vcpu.credit = credit;
        vcpu.priority = if credit < 0 { Priority::Over } else { Priority::Under };
    }

    /// The sum that the accounts of all virtual CPUs must have.
    pub(super) fn sum(&self) -> i128 {
        self.granted - self.burnt - self.forfeited
    }
}

impl Hypervisor {
    /// Returns the virtual CPU that a physical CPU runs next. The virtual CPU stays in its queue.
    pub(super) fn first_by_credit(&self, pcpu: usize) -> Option<usize> {
        if self.pcpus[pcpu].offline {
            return None;
        }
        let is_free = |vcpu: &&usize| self.vcpus[**vcpu].part.initiator.is_none();
        let own = self.pcpus[pcpu].queue.iter().find(is_free).copied();
        let priority = own.map(|vcpu| self.vcpus[vcpu].priority);
        if priority > Some(Priority::Over) {
            return own;
        }
        let count = self.pcpus.len();
        let others = (1..count).map(|away| &self.pcpus[(pcpu + away) % count].queue);
        let better = |vcpu: &&usize| Some(self.vcpus[**vcpu].priority) > priority;
        let mut found = others.flat_map(|queue| queue.iter().filter(is_free).take_while(better));
        found.find(|vcpu| self.may_come(**vcpu, pcpu)).copied().or(own)
    }

    /// True if a virtual CPU may move to `pcpu` from another queue.
    pub(super) fn may_come(&self, vcpu: usize, pcpu: usize) -> bool {
        self.vmm.scheduler != Scheduling::Balance || !self.has_sibling(vcpu, pcpu)
    }

    /// Puts a virtual CPU that wakes into its queue.
    pub(super) fn insert_woken(&mut self, vcpu: usize) {
        let one = &mut self.vcpus[vcpu];
        if one.priority == Priority::Under {
            one.priority = Priority::Boost;
        }
        self.insert(vcpu);
    }

    /// Called when a virtual CPU was put into a queue. An idle physical CPU takes it. If no physical CPU is idle, the
    /// virtual CPU preempts the running virtual CPU of the queue's physical CPU, if it has the higher priority.
    pub(super) fn tickle(&mut self, vcpu: usize) {
        let Some(pcpu) = self.vcpus[vcpu].queued else { return };
        self.offer(vcpu);
        if self.vcpus[vcpu].on.is_some() {
            return;
        }
        let running = self.pcpus[pcpu].running.map(|running| self.priority_of(running));
        if Some(self.vcpus[vcpu].priority) > running {
            let at = self.pcpus[pcpu].began + self.vmm.ratelimit;
            if at <= self.now {
                self.schedule(pcpu);
            } else if at < self.pcpus[pcpu].slice_end {
                self.pcpus[pcpu].plan += 1;
                let plan = self.pcpus[pcpu].plan;
                self.plan(at, Due::Slice { pcpu, plan });
            }
        }
    }

    /// Returns the priority of a virtual CPU. An accelerated virtual CPU has the priority of the slice's giver.
    fn priority_of(&self, vcpu: usize) -> Priority {
        self.vcpus[self.vcpus[vcpu].part.initiator.unwrap_or(vcpu)].priority
    }

    /// Handles a tick: the running virtual CPU pays, is no longer boosted, and gets credits from now on. If it is
    /// accelerated, this applies to the giver of its slice instead.
    pub(super) fn ticks(&mut self, pcpu: usize) {
        let tick = self.tick();
        self.plan(self.now + tick, Due::Tick(pcpu));
        self.charge(pcpu);
        let Some(running) = self.pcpus[pcpu].running else { return };
        let payer = self.vcpus[running].part.initiator.unwrap_or(running);
        let one = &mut self.vcpus[payer];
        if one.priority == Priority::Boost {
            one.priority = Priority::Under;
        }
        one.active = true;
        let vm = one.vm;
        if !self.accounts.active.contains(&vm) {
            self.accounts.active.push(vm);
        }
    }

    /// Hands out credits (`csched_acct`).
    pub(super) fn account(&mut self) {
        self.plan(self.now + self.vmm.slice, Due::Account);
        (0..self.pcpus.len()).for_each(|pcpu| self.charge(pcpu));
        let active = std::mem::take(&mut self.accounts.active);
        let weights: Vec<u64> = active.iter().map(|vm| self.weight(*vm)).collect();
        let all: u64 = weights.iter().sum();
        let online = self.pcpus.iter().filter(|pcpu| !pcpu.offline).count() as u64;
        let owed = self.accounts.balance.min(0).unsigned_abs();
        let (mut total, mut left) = (online * self.vmm.slice + owed, all);
        let (mut balance, mut order, mut has_less) = (0, Vec::new(), false);
        for (vm, weight) in active.into_iter().zip(weights) {
            left -= weight;
            let count = self.active_of(vm).count() as u64;
            let cap = self.shares[vm].cap.map(|cap| self.vmm.slice * u64::from(cap) / 100);
            let part = |of: u64| u64::try_from((u128::from(of) * u128::from(weight)).div_ceil(all.into()));
            let part = |of: u64| part(of).expect("a part is at most the whole");
            let most = (count * self.vmm.slice + part(owed)).min(cap.map_or(u64::MAX, |cap| cap * count));
            let mut fair = part(total);
            if fair < most {
                // This machine could use more than its share. Machines after it that get more than they can use move
                // to the head of the list. Next time, this machine then gets a part of what they cannot use.
                has_less = true;
                order.push(vm);
            } else {
                if left > 0 {
                    let more = u128::from(fair - most) * u128::from(all);
                    total += more.div_ceil(left.into()) as u64;
                }
                fair = most;
                if has_less { order.insert(0, vm) } else { order.push(vm) }
            }
            for vcpu in self.active_of(vm).collect::<Vec<_>>() {
                balance += self.pay_out(vcpu, fair.div_ceil(count), cap);
            }
        }
        order.retain(|vm| self.active_of(*vm).next().is_some());
        (self.accounts.active, self.accounts.balance) = (order, balance);
        for pcpu in 0..self.pcpus.len() {
            let Hypervisor { vcpus, pcpus, .. } = self;
            let priority = |vcpu: &usize| std::cmp::Reverse(vcpus[*vcpu].priority);
            pcpus[pcpu].queue.make_contiguous().sort_by_key(priority);
        }
        // A parked virtual CPU releases its physical CPU. A virtual CPU that is no longer parked has a place in a
        // queue again.
        (0..self.pcpus.len()).for_each(|pcpu| {
            let is_parked = |vcpu: usize| self.vcpus[vcpu].parked;
            if self.pcpus[pcpu].running.is_some_and(is_parked) {
                self.schedule(pcpu);
            }
        });
        (0..self.pcpus.len()).for_each(|pcpu| self.attend(Some(pcpu)));
    }

    fn weight(&self, vm: usize) -> u64 {
        let counted = match self.vmm.weight_of {
            WeightOf::Vcpu => self.active_of(vm).count() as u64,
            WeightOf::Machine => 1,
        };
        u64::from(self.shares[vm].weight) * counted
    }

    fn active_of(&self, vm: usize) -> impl Iterator<Item = usize> + use<'_> {
        let first = self.firsts[vm];
        (first..first + self.shares[vm].vcpus).filter(|vcpu| self.vcpus[*vcpu].active)
    }

    /// Gives a virtual CPU its credits. Returns the new balance of its account.
    fn pay_out(&mut self, vcpu: usize, credits: u64, cap: Option<u64>) -> i64 {
        let most = self.vmm.slice as i64;
        let one = &mut self.vcpus[vcpu];
        one.credit += credits as i64;
        self.accounts.granted += i128::from(credits);
        let before = one.credit;
        let mut unparked = false;
        if one.credit < 0 {
            one.priority = Priority::Over;
            one.parked |= cap.is_some_and(|cap| one.credit < -(cap as i64));
            one.credit = one.credit.max(-most);
        } else {
            if one.priority == Priority::Over {
                one.priority = Priority::Under;
            }
            unparked = std::mem::take(&mut one.parked);
            if one.credit > most {
                // The virtual CPU has not run for a long time. It gets no credits until a tick finds it running again.
                one.active = false;
                one.credit /= 2;
            }
        }
        let Vcpu { credit, parked, on, wants, .. } = *one;
        self.accounts.forfeited += i128::from(before - credit);
        if parked && on.is_none() {
            self.leave_queue(vcpu);
        }
        if unparked && wants && on.is_none() {
            self.insert(vcpu);
        }
        credit
    }
}
