//! Robinhood's acceleration: an entity gives the rest of its time slice to another, which is pushed back afterwards
//! to where it was.
//!
//! Peng, Wu and Jin, *Robinhood: Towards Efficient Work-stealing in Virtualized Environments*, Algorithms 2 and 3.
//! An entity is a thread under the kernel of a guest, or a virtual CPU under a hypervisor. What follows is the same
//! for both. A scheduler keeps a [`Part`] with each of its entities, and asks [`accelerate`] when one wants to give
//! its slice away. It calls [`switch`] whenever a CPU is free for the next.

use std::fmt::Debug;

#[cfg(test)]
mod tests;

/// What an entity has to do with accelerations (`acct_initiator`, `acct_candidate` and the CPU that Algorithm 3
/// saves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<E> {
    /// The entity on the time of which it runs, from the decision until it is off the CPU again: it is accelerated.
    pub initiator: Option<E>,
    /// The entity that gets its slice at the next switch.
    pub candidate: Option<E>,
    /// The CPU that has its place in a queue, while it runs on another.
    pub home: Option<usize>,
}

impl<E> Default for Part<E> {
    fn default() -> Part<E> {
        Part { initiator: None, candidate: None, home: None }
    }
}

/// A scheduler with a run queue for each CPU and proportional shares, as far as accelerations touch it.
pub(crate) trait Scheduler {
    /// What it schedules.
    type Entity: Copy + Eq + Debug;

    /// What an entity has to do with accelerations.
    fn part(&self, entity: Self::Entity) -> &Part<Self::Entity>;

    /// The same, to be changed.
    fn part_mut(&mut self, entity: Self::Entity) -> &mut Part<Self::Entity>;

    /// The CPU on which it runs, or that has it in its queue, or on which it ran last.
    fn cpu(&self, entity: Self::Entity) -> usize;

    /// Its CPU is another from now on. Its place in a queue stays.
    fn set_cpu(&mut self, entity: Self::Entity, cpu: usize);

    /// The NUMA node of a CPU.
    fn node(&self, cpu: usize) -> usize;

    /// It is on a CPU.
    fn is_running(&self, entity: Self::Entity) -> bool;

    /// It has its place in a queue: it neither runs nor is blocked.
    fn waits(&self, entity: Self::Entity) -> bool;

    /// How much is left of the time slice of one that runs, in nanoseconds.
    fn slice_left(&self, entity: Self::Entity) -> u64;

    /// The entity pays for so many nanoseconds on a CPU.
    fn burn(&mut self, entity: Self::Entity, time: u64);

    /// It wants to run on: it is not blocked, and has not ended.
    fn can_go_on(&self, entity: Self::Entity) -> bool;

    /// It goes into the queue of its CPU.
    fn insert(&mut self, entity: Self::Entity);

    /// It loses its place in the queue of its CPU.
    fn remove(&mut self, entity: Self::Entity);

    /// Takes from the queue of a CPU the entity nearest to its head that is not accelerated.
    fn take_first(&mut self, cpu: usize) -> Option<Self::Entity>;
}

/// Why an entity does not get another's slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is on another NUMA node (Algorithm 2, line 1).
    Node,
    /// Another accelerates it already (line 3).
    Accelerated,
    /// It runs, or waits for something else than a CPU (line 3; of the blocked the paper says nothing).
    NotPreempted,
    /// There is nothing left of the slice (line 7).
    NoTime,
}

/// Algorithm 2: whether `initiator`, which runs, gives the rest of its slice to `candidate`. If so its CPU is to
/// [`switch`] at once.
///
/// With `across_nodes` the rule about NUMA nodes does not hold (Robinhood-u of §6.7).
///
/// # Errors
/// Why not; then nothing has changed.
pub(crate) fn accelerate<S: Scheduler>(
    scheduler: &mut S,
    initiator: S::Entity,
    candidate: S::Entity,
    across_nodes: bool,
) -> Result<(), Refusal> {
    let node = |entity| scheduler.node(scheduler.cpu(entity));
    if !across_nodes && node(initiator) != node(candidate) {
        return Err(Refusal::Node);
    }
    if scheduler.part(candidate).initiator.is_some() {
        return Err(Refusal::Accelerated);
    }
    if scheduler.is_running(candidate) || !scheduler.waits(candidate) {
        return Err(Refusal::NotPreempted);
    }
    if scheduler.slice_left(initiator) == 0 {
        return Err(Refusal::NoTime);
    }
    scheduler.part_mut(initiator).candidate = Some(candidate);
    // Inheritance: a slice that was given is given on, and the first giver pays.
    let payer = scheduler.part(initiator).initiator.unwrap_or(initiator);
    scheduler.part_mut(candidate).initiator = Some(payer);
    Ok(())
}

/// What a CPU runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    /// An entity, for a slice of its own.
    Regular(E),
    /// One that is accelerated, for what is left of the giver's slice, in nanoseconds.
    Accelerated(E, u64),
    /// None is there.
    Idle,
}

/// Algorithm 3: `current` leaves its CPU after it ran for so many nanoseconds that are not paid for yet.
pub(crate) fn switch<S: Scheduler>(scheduler: &mut S, current: S::Entity, ran: u64) -> Next<S::Entity> {
    let cpu = scheduler.cpu(current);
    let Part { initiator, candidate, .. } = *scheduler.part(current);
    let left = scheduler.slice_left(current);
    pay(scheduler, current, ran);
    // The one that got the slice has its place in its own queue still (lines 1–7).
    if initiator.is_none() && scheduler.can_go_on(current) {
        scheduler.insert(current);
    }
    scheduler.part_mut(current).candidate = None;
    // Unless it has ended or slept meanwhile, and perhaps been chosen by another.
    let is_ours = |other: &S::Entity| scheduler.part(*other).initiator == Some(initiator.unwrap_or(current));
    let candidate =
        candidate.filter(|other| is_ours(other) && scheduler.waits(*other) && !scheduler.is_running(*other));
    let next = match candidate {
        // First migrate (lines 13–17),
        Some(candidate) if left > 0 => {
            let from = scheduler.cpu(candidate);
            scheduler.part_mut(candidate).home = Some(from);
            scheduler.set_cpu(candidate, cpu);
            Next::Accelerated(candidate, left)
        }
        _ => {
            // but not after the slice is over (lines 18–20).
            candidate.into_iter().for_each(|candidate| scheduler.part_mut(candidate).initiator = None);
            scheduler.take_first(cpu).map_or(Next::Idle, Next::Regular)
        }
    };
    push_back(scheduler, current);
    next
}

/// Lines 1 to 5: the giver of the slice on which `current` ran for so many nanoseconds pays for it.
pub(crate) fn pay<S: Scheduler>(scheduler: &mut S, current: S::Entity, ran: u64) {
    let payer = scheduler.part(current).initiator.unwrap_or(current);
    scheduler.burn(payer, ran);
}

/// Lines 31 to 35: `current` is where it was. Of one that has blocked meanwhile the paper says nothing: it has no
/// place any more.
pub(crate) fn push_back<S: Scheduler>(scheduler: &mut S, current: S::Entity) {
    if let Some(home) = scheduler.part(current).home {
        scheduler.set_cpu(current, home);
        if !scheduler.can_go_on(current) {
            scheduler.remove(current);
        }
    }
    let part = scheduler.part_mut(current);
    (part.initiator, part.home) = (None, None);
}
