//! Robinhood's acceleration: an entity (the *initiator*) gives the rest of its time slice to another entity (the
//! *candidate*). After this slice, the candidate is pushed back to its former place.
//!
//! Peng, Wu and Jin, *Robinhood: Towards Efficient Work-stealing in Virtualized Environments*, Algorithms 2 and 3. An
//! entity is a thread under the kernel of a guest, or a virtual CPU under a hypervisor. Both schedulers use this
//! module. A scheduler keeps a [`Part`] for each of its entities. It calls [`accelerate`] when an entity wants to give
//! its slice away, and [`switch`] when the current entity of a CPU leaves the CPU.

use std::fmt::Debug;

#[cfg(test)]
mod tests;

/// The acceleration state of an entity (`acct_initiator`, `acct_candidate` and the CPU that Algorithm 3 saves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part<E> {
    /// The entity that pays for this entity's time, from the decision until this entity is off the CPU again. This
    /// entity is *accelerated* while the field is set.
    pub initiator: Option<E>,
    /// The entity that gets this entity's slice at the next switch.
    pub candidate: Option<E>,
    /// The CPU in whose queue the accelerated entity keeps its place while it runs on another CPU.
    pub home: Option<usize>,
}

impl<E> Default for Part<E> {
    fn default() -> Part<E> {
        Part { initiator: None, candidate: None, home: None }
    }
}

/// A scheduler with a run queue for each CPU and proportional shares, as accelerations see it.
pub(crate) trait Scheduler {
    /// An entity: a thread or a virtual CPU.
    type Entity: Copy + Eq + Debug;

    /// Returns the acceleration state of an entity.
    fn part(&self, entity: Self::Entity) -> &Part<Self::Entity>;

    /// Returns a mutable reference to the acceleration state of an entity.
    fn part_mut(&mut self, entity: Self::Entity) -> &mut Part<Self::Entity>;

    /// Returns the CPU on which the entity runs, or in whose queue it is, or on which it ran last.
    fn cpu(&self, entity: Self::Entity) -> usize;

    /// Sets the entity's CPU. The entity keeps its place in a queue.
    fn set_cpu(&mut self, entity: Self::Entity, cpu: usize);

    /// Returns the NUMA node of a CPU.
    fn node(&self, cpu: usize) -> usize;

    /// True if the entity is on a CPU.
    fn is_running(&self, entity: Self::Entity) -> bool;

    /// True if the entity has a place in a queue. A blocked entity has no place. An accelerated entity may have a
    /// place while it runs.
    fn waits(&self, entity: Self::Entity) -> bool;

    /// Returns the nanoseconds that are left of the slice of a running entity.
    fn slice_left(&self, entity: Self::Entity) -> u64;

    /// Charges the entity for `time` nanoseconds on a CPU.
    fn burn(&mut self, entity: Self::Entity, time: u64);

    /// True if the entity can continue: it is not blocked, and has not ended.
    fn can_go_on(&self, entity: Self::Entity) -> bool;

    /// Inserts the entity into the queue of its CPU.
    fn insert(&mut self, entity: Self::Entity);

    /// Removes the entity from the queue of its CPU.
    fn remove(&mut self, entity: Self::Entity);

    /// Removes and returns the first entity of a CPU's queue that is not accelerated.
    fn take_first(&mut self, cpu: usize) -> Option<Self::Entity>;
}

/// The reason why a candidate does not get the slice of the initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The candidate is on another NUMA node (Algorithm 2, line 1).
    Node,
    /// Another entity accelerates the candidate already (line 3).
    Accelerated,
    /// The candidate runs, or waits for something other than a CPU (line 3; the paper does not mention blocked
    /// entities).
    NotPreempted,
    /// Nothing is left of the initiator's slice (line 7).
    NoTime,
}

/// Algorithm 2: decides whether `initiator`, which runs, gives the rest of its slice to `candidate`. If so, the
/// caller must call [`switch`] for the initiator's CPU at once.
///
/// With `across_nodes` the rule about NUMA nodes does not apply (Robinhood-u of §6.7).
///
/// # Errors
/// Returns the reason of a refusal; then nothing has changed.
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
    // Inheritance: an accelerated entity can give the rest of the slice to a third entity. The first giver pays.
    let payer = scheduler.part(initiator).initiator.unwrap_or(initiator);
    scheduler.part_mut(candidate).initiator = Some(payer);
    Ok(())
}

/// The entity that a CPU runs next, and the slice for which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<E> {
    /// This entity, for a slice of its own.
    Regular(E),
    /// This accelerated entity, for this number of nanoseconds: the rest of the giver's slice.
    Accelerated(E, u64),
    /// Nothing: no entity can run.
    Idle,
}

/// Algorithm 3: takes `current` off its CPU and returns what runs next. `current` has run for `ran` nanoseconds that
/// are not paid for yet.
pub(crate) fn switch<S: Scheduler>(scheduler: &mut S, current: S::Entity, ran: u64) -> Next<S::Entity> {
    let cpu = scheduler.cpu(current);
    let Part { initiator, candidate, .. } = *scheduler.part(current);
    let left = scheduler.slice_left(current);
    pay(scheduler, current, ran);
    // An accelerated entity still has its place in its own queue, so only another entity is inserted (lines 1–7).
    if initiator.is_none() && scheduler.can_go_on(current) {
        scheduler.insert(current);
    }
    scheduler.part_mut(current).candidate = None;
    // Since the decision, the candidate may have ended or slept, or another entity may have chosen it.
    let is_ours = |other: &S::Entity| scheduler.part(*other).initiator == Some(initiator.unwrap_or(current));
    let candidate =
        candidate.filter(|other| is_ours(other) && scheduler.waits(*other) && !scheduler.is_running(*other));
    let next = match candidate {
        // First migrate the candidate (lines 13–17).
        Some(candidate) if left > 0 => {
            let from = scheduler.cpu(candidate);
            scheduler.part_mut(candidate).home = Some(from);
            scheduler.set_cpu(candidate, cpu);
            Next::Accelerated(candidate, left)
        }
        _ => {
            // The slice is over, so the candidate does not migrate (lines 18–20).
            candidate.into_iter().for_each(|candidate| scheduler.part_mut(candidate).initiator = None);
            scheduler.take_first(cpu).map_or(Next::Idle, Next::Regular)
        }
    };
    push_back(scheduler, current);
    next
}

/// Charges the `ran` nanoseconds for which `current` ran to the giver of its slice (Algorithm 3, lines 1 to 5).
pub(crate) fn pay<S: Scheduler>(scheduler: &mut S, current: S::Entity, ran: u64) {
    let payer = scheduler.part(current).initiator.unwrap_or(current);
    scheduler.burn(payer, ran);
}

/// Puts `current` back where it was before its acceleration (Algorithm 3, lines 31 to 35). The paper does not mention
/// an entity that has blocked meanwhile. Here such an entity loses its place in the queue.
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
