//! The host's invariants, which must hold after every event.

use std::collections::{HashSet, VecDeque};

use comity_protocol::activation::State;
use comity_protocol::dialogue::{Effect, Step};
use comity_protocol::{CoreSet, TURN};

use comity_policy::{Sleeper, WorkerId};

use super::Thread;
use super::kernel::{Kernel, Place};
use super::pool::{Pool, Pools, Work};
use super::table::Table;
use super::worker::{Doing, Rest, Worker};
use crate::acceleration::Part;

/// A host after an event.
pub(super) struct Check<'a> {
    pub(super) now: u64,
    pub(super) kernel: &'a Kernel,
    pub(super) table: &'a Table,
    pub(super) pools: &'a Pools,
    /// The programs that the event concerned.
    pub(super) touched: &'a [u32],
    /// The number of tasks that wait because workers of their program have no core, as the host has noted it.
    pub(super) starved: u64,
    /// The time until now in which cores had a thread, summed over the cores.
    pub(super) used: u64,
}

impl Check<'_> {
    /// Checks the programs that the event concerned. With `whole`, checks all programs, and every worker and core.
    pub(super) fn look(&self, whole: bool) -> Result<(), String> {
        let all: Vec<u32>;
        let programs = if whole {
            self.check_cores()?;
            self.check_linux()?;
            self.check_starved()?;
            all = (0..self.pools.0.len() as u32).collect();
            &all
        } else {
            self.touched
        };
        for number in programs {
            let pool = self.pools.of(*number);
            if !pool.is_there() {
                continue;
            }
            let check = || {
                pool.ledger.balances(pool.waiting())?;
                is_alive(pool)?;
                self.check_orders(pool)?;
                if whole { self.check_workers(pool) } else { Ok(()) }
            };
            check().map_err(|what| format!("program {number}: {what}"))?;
        }
        Ok(())
    }

    /// Checks that the time of all busy cores is charged to threads, and that the queues serve each thread by the
    /// kernel's rules.
    fn check_linux(&self) -> Result<(), String> {
        let Some(linux) = &self.kernel.linux else { return Ok(()) };
        let served = self.kernel.served(self.now);
        if served != self.used {
            return Err(format!("the cores were in use for {} ns, but threads ran for {served} ns", self.used));
        }
        for core in 0..self.kernel.len() {
            linux.check_demand(core, self.kernel.demand(core, self.pools))?;
        }
        linux.check(&self.kernel.cores, self.pools, self.now)
    }

    /// Checks the noted number of tasks that wait because of missing cores. `Host::idle_beside_work` is computed from
    /// this number.
    fn check_starved(&self) -> Result<(), String> {
        let starved: u64 = self.pools.0.iter().map(|pool| pool.starved).sum();
        if starved != self.starved {
            return Err(format!("{starved} tasks wait because no core is free, but {} are noted", self.starved));
        }
        Ok(())
    }

    fn check_workers(&self, pool: &Pool) -> Result<(), String> {
        let mut found = Tally::default();
        for nth in 0..pool.workers.len() {
            self.check_worker(pool, nth)?;
            found.add(pool, nth);
        }
        let Tally { queued, running, in_hand, carried, leaving, .. } = found;
        let noted = (pool.queued, pool.ledger.running, pool.in_hand, pool.carried, pool.leaving);
        if (queued, running, in_hand, carried, leaving) != noted {
            let what = format!("{queued} strands are queued, {running} run, {in_hand} are in hand, {carried} carried");
            return Err(format!("{what}; the noted numbers differ: {}", pool.numbers()));
        }
        check_tasks(pool)?;
        let Tally { asleep, retired, rising, busy, .. } = found;
        if [asleep, retired, rising, busy] != [pool.asleep, pool.retired, pool.rising, pool.busy] {
            let what = format!("{asleep} sleep, {retired} have retired, {rising} rise, {busy} are busy");
            return Err(format!("{what}; the noted numbers differ: {}", pool.numbers()));
        }
        self.check_share(pool)
    }

    /// Checks that the worker's action agrees with its rest word and with the place of its thread.
    fn check_worker(&self, pool: &Pool, nth: usize) -> Result<(), String> {
        let (worker, own, sleep) = (&pool.workers[nth], WorkerId(nth as u32), pool.sleep());
        let Worker { doing, place, rest, .. } = worker;
        if *rest != pool.rest_of(own.0) || worker.is_busy() != sleep.is_busy(own) {
            return Err(format!("worker {nth} is {doing:?}, but noted as {rest:?}: {}", pool.numbers()));
        }
        let waits = match doing {
            Doing::Waiting => sleep.is_at_rest(own),
            Doing::Rising => !sleep.is_at_rest(own),
            _ => true,
        };
        if !waits {
            return Err(format!("worker {nth} is {doing:?}, but its sleep state differs: {}", pool.numbers()));
        }
        if matches!(rest, Rest::Asleep | Rest::Retired) && !worker.ready.is_empty() && !pool.is_closed() {
            return Err(format!("worker {nth} is {rest:?}, but its queue has tasks"));
        }
        let is_right = match place {
            Place::Nowhere => matches!(doing, Doing::Waiting | Doing::Rising),
            Place::Blocked => matches!(doing, Doing::Strand(_)),
            Place::Throttled => *doing != Doing::Waiting && pool.is_throttled(),
            Place::Queued(_) | Place::On(_) => *doing != Doing::Waiting && !pool.is_throttled(),
        };
        if !is_right {
            return Err(format!("worker {nth} is {place:?}, but {doing:?}"));
        }
        if worker.beyond > 4 * pool.workers.len() as u32 + 32 {
            return Err(format!(
                "worker {nth} continues as a thief although too many workers are awake: {}",
                pool.numbers()
            ));
        }
        if sleep.is_busy(own) && *rest != Rest::Awake {
            return Err(format!("worker {nth} has a task, but is {rest:?}"));
        }
        Ok(())
    }

    /// Checks that each core that was given to a worker belongs to the program, and was given to one worker only. The
    /// program must know all cores that it holds in the table. The books (the pool's record of each worker's state)
    /// must agree with the action of each worker.
    fn check_share(&self, pool: &Pool) -> Result<(), String> {
        let Some(share) = pool.share.as_ref().filter(|share| share.activation.member().is_some()) else {
            return Ok(());
        };
        let (activation, books) = (&share.activation, share.activation.books());
        let known = books.cores();
        if let Some(core) = self.table.held(share.slot).iter().find(|core| !known.contains(*core)) {
            return Err(format!("core {core} is held in the table, but the program does not know this"));
        }
        let state =
            |worker| [State::Awake, State::Asleep, State::Retired].into_iter().find(|state| books.is(worker, *state));
        let (mut given, mut twice) = (CoreSet::EMPTY, None);
        for (own, worker) in (0..).map(WorkerId).zip(&pool.workers) {
            // The books are updated after the rest word. If a worker was woken, they are updated when it is awake.
            let is_on_its_way = || {
                matches!(
                    worker.doing,
                    Doing::Acting(Effect::Wait { .. } | Effect::Step(Step::PassOn | Step::Rise(_))) | Doing::Rising
                )
            };
            let is_right = match (state(own), worker.rest) {
                (Some(State::Awake), Rest::Awake | Rest::Rising) => true,
                (Some(State::Asleep), Rest::Asleep) | (Some(State::Retired), Rest::Retired) => true,
                (Some(State::Asleep | State::Retired), Rest::Awake | Rest::Rising) => is_on_its_way(),
                _ => false,
            };
            if !is_right {
                return Err(format!(
                    "worker {} is {:?} in the books, but {:?} in fact",
                    own.0,
                    state(own),
                    worker.rest
                ));
            }
            if let Some(core) = books.core_of(own) {
                twice = twice.or(given.contains(core).then_some(core));
                given.insert(core);
            }
        }
        if activation.has_excess() != (books.awake() > activation.room(&books)) {
            return Err(format!("the note that too many workers are awake is wrong: {}", activation.has_excess()));
        }
        if let Some(core) = twice {
            return Err(format!("core {core} was given to two workers"));
        }
        if let Some(core) = given.iter().find(|core| !known.contains(*core)) {
            return Err(format!("core {core} was given to a worker, but the program does not hold it"));
        }
        let desire = self.table.desire(share.slot);
        if activation.is_by_time() && (desire > 0 || !known.is_empty()) {
            return Err(format!("the program shares time, but requests {desire} cores and holds {known:?}"));
        }
        let lends = activation.sharing.sleeper == Sleeper::LendsCore && !activation.is_free();
        let none_sleeps = books.retired() > 0 && books.awake() + books.retired() == activation.workers();
        // A program out of turn must wait for a core only if one of its workers rests in the middle of a task, or with
        // tasks in its queue.
        let waits = !pool.is_closed() || books.midway() > 0;
        if lends && none_sleeps && waits && books.held() < activation.most() && !self.table.waits(share.slot) {
            return Err(
                "workers have retired because there is no core, but the program does not wait for a core".into()
            );
        }
        if books.held() > activation.most() {
            return Err(format!("{} cores are held, but only {} can be used", books.held(), activation.most()));
        }
        Ok(())
    }

    /// Checks that a program follows its requests within two quanta after its bell, and that a pause ends in time.
    ///
    /// A program whose pool is closed without a pause is out of turn. It must hold no core, and must get its turn, or
    /// open its pool, within a frame (the time in which each program has a turn). That a closed pool begins no task is
    /// checked where a task begins.
    fn check_orders(&self, pool: &Pool) -> Result<(), String> {
        let Some(share) = &pool.share else { return Ok(()) };
        let (now, closed) = (self.now, pool.is_closed());
        let is_told = share.told.paused_until.is_some_and(|until| until >= now);
        if closed && !is_told && share.activation.books().held() > 0 {
            return Err(format!("the pool is closed, but holds cores; its orders are {:?}", share.told));
        }
        // When another program has left, frames become shorter, and the turn may come later than planned. Then the pool
        // opens at the coordinator's next look after a frame of the old length, at most four quanta after the frame.
        if let Some(since) = share.out_since.filter(|_| !is_told) {
            let frame = TURN.as_nanos() as u64 * share.among.max(self.table.population()) as u64;
            let most = if self.table.may_probe() { 2 * frame } else { frame };
            if now - since > most + 6 * share.quantum {
                return Err(format!("the pool has been out of turn for {} ns", now - since));
            }
        }
        if !share.obeys(now) {
            return Ok(());
        }
        let (asked, force) = (self.table.asked(share.slot), self.table.in_force(share.slot));
        if force.paused_until.is_some() && !closed {
            return Err(format!("the requests are {asked:?}, but is_closed is {closed}"));
        }
        if self.table.weight(share.slot) != force.weight {
            return Err(format!("the requests are {asked:?}, but the weight is {}", self.table.weight(share.slot)));
        }
        let Some(cores) = force.cores.filter(|_| !share.is_off()) else { return Ok(()) };
        let books = share.activation.books();
        if books.held() > cores.max(1) || share.activation.room(&books) > cores.max(1) + books.off_core {
            let room = share.activation.room(&books);
            return Err(format!(
                "the requests are {asked:?}, but {} cores are held and {room} workers may be awake",
                books.held()
            ));
        }
        Ok(())
    }

    /// Checks that a thread is on one core or in one queue, and that a busy core runs a thread of a running program.
    fn check_cores(&self) -> Result<(), String> {
        let queued: usize = self.kernel.cores.iter().map(|core| core.queue.len()).sum();
        if queued != self.kernel.queued {
            return Err(format!("{queued} threads wait for cores, but {} are noted", self.kernel.queued));
        }
        let mut found = 0;
        for (nth, core) in self.kernel.cores.iter().enumerate() {
            let on = core.running.iter().map(|thread| (thread, Place::On(nth)));
            let queued = core.queue.iter().map(|thread| (thread, Place::Queued(nth)));
            for (thread, place) in on.chain(queued) {
                let is_there = self.pools.of(thread.program).is_there() && self.pools.worker(*thread).place == place;
                if !is_there {
                    return Err(format!(
                        "core {nth} has {thread:?}, whose place is {:?}",
                        self.pools.worker(*thread).place
                    ));
                }
                if !self.kernel.is_online(nth) {
                    return Err(format!("core {nth} is offline, but has {thread:?}"));
                }
                found += 1;
            }
            // A thread has only one place, so a thread that is found twice is twice in the same queue.
            if let Some(thread) = twice_in(&core.queue) {
                return Err(format!("core {nth} has {thread:?} twice"));
            }
            // A thread that is about to be accelerated waits for the giver's core, not for this core.
            let waits = |thread: &Thread| self.pools.worker(*thread).part.initiator.is_none();
            if core.running.is_none() && core.queue.iter().any(waits) {
                return Err(format!("core {nth} is idle, but threads wait for it"));
            }
            self.check_accelerated(nth, &core.away, core.running)?;
            if self.kernel.is_idle(nth) != (core.running.is_none() && self.kernel.is_online(nth)) {
                return Err(format!("core {nth} has {:?}, but the noted state differs", core.running));
            }
            let word = self.table.word(nth);
            for slot in word.holder().into_iter().chain(word.owner()) {
                if self.table.program_of(slot).is_none() {
                    return Err(format!("core {nth} is {word:?}, but no program has that slot"));
                }
            }
        }
        let there = self.pools.0.iter().filter(|pool| pool.is_there()).flat_map(|pool| &pool.workers);
        let placed = there.filter(|worker| matches!(worker.place, Place::Queued(_) | Place::On(_))).count();
        if placed != found {
            return Err(format!("{placed} threads have a core or a queue, but the cores have {found} threads"));
        }
        Ok(())
    }

    /// Checks that an accelerated thread runs on another thread's turn, in its own node, and keeps its place in its
    /// queue. A thread that is not accelerated must have only one place.
    fn check_accelerated(&self, nth: usize, away: &[Thread], running: Option<Thread>) -> Result<(), String> {
        for thread in away {
            let worker = self.pools.worker(*thread);
            let Part { initiator, home, .. } = worker.part;
            let Place::On(core) = worker.place else {
                return Err(format!("{thread:?} is away from core {nth}, but its place is {:?}", worker.place));
            };
            if home != Some(nth) || initiator.is_none() || away.iter().filter(|other| *other == thread).count() > 1 {
                return Err(format!("{thread:?} runs on core {core}, but its place on core {nth} is noted wrongly"));
            }
            let node = |core| self.kernel.linux.as_ref().map_or(0, |linux| linux.socket_of(core));
            let accelerates = self.pools.of(thread.program).policy.accelerates();
            let across_nodes = accelerates.and_then(|what| what.threads).is_some_and(|pull| pull.across_nodes);
            if node(core) != node(nth) && !across_nodes {
                return Err(format!(
                    "{thread:?} is accelerated on core {core}, but comes from core {nth} of another node"
                ));
            }
        }
        let home = running.and_then(|thread| self.pools.worker(thread).part.home);
        match (home, running) {
            (Some(home), Some(thread)) if !self.kernel.cores[home].away.contains(&thread) => {
                Err(format!("{thread:?} is accelerated on core {nth}, but has no place on core {home}"))
            }
            _ => Ok(()),
        }
    }
}

fn twice_in(queue: &VecDeque<Thread>) -> Option<Thread> {
    if queue.len() < 2 {
        return None;
    }
    let mut threads: Vec<Thread> = queue.iter().copied().collect();
    threads.sort_unstable();
    threads.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Counts of what the workers of a pool do.
#[derive(Default)]
struct Tally {
    /// The numbers of strands that are in the workers' queues, run, are found and not begun, or are carried to a queue.
    queued: u64,
    running: u64,
    in_hand: u64,
    carried: u64,
    /// The numbers of workers that leave their spells as thieves, rest in each way, or are busy.
    leaving: u64,
    asleep: u32,
    retired: u32,
    rising: u32,
    busy: u32,
}

impl Tally {
    fn add(&mut self, pool: &Pool, nth: usize) {
        let worker = &pool.workers[nth];
        self.queued += worker.ready.len() as u64;
        match worker.doing {
            Doing::Strand(_) => self.running += 1,
            Doing::Placing { next, .. } => {
                self.carried += 1;
                self.running += u64::from(next.is_some());
            }
            _ => {}
        }
        self.in_hand += u64::from(worker.found.is_some());
        let is_leaving = worker.in_spell && worker.is_busy();
        self.leaving += u64::from(is_leaving || worker.doing == Doing::Taking { leaves: true });
        match worker.rest {
            Rest::Awake => {}
            Rest::Asleep => self.asleep += 1,
            Rest::Retired => self.retired += 1,
            Rest::Rising => self.rising += 1,
        }
        self.busy += u32::from(pool.sleep().is_busy(WorkerId(nth as u32)));
    }
}

/// Checks that each task that can block is in one place: in a queue, with a worker, or blocked. The channels of the
/// network must agree.
fn check_tasks(pool: &Pool) -> Result<(), String> {
    let Work::Network(network) = &pool.work else { return Ok(()) };
    network.check()?;
    let mut found = HashSet::new();
    let ready = pool.workers.iter().flat_map(|worker| &worker.ready).chain(&pool.injected);
    let with_workers = pool.workers.iter().flat_map(|worker| match worker.doing {
        Doing::Strand(task) => [Some(task), None],
        Doing::Placing { task, next, .. } => [Some(task.id), next.map(|strand| strand.id)],
        _ => [worker.found.map(|strand| strand.id), None],
    });
    for task in ready.map(|strand| strand.id).chain(with_workers.flatten()) {
        if !found.insert(task) {
            return Err(format!("task {task} is in two places"));
        }
        if network.is_blocked(task) {
            return Err(format!("task {task} is blocked, but in a queue"));
        }
    }
    let blocked = (0..network.processes() as u32).filter(|task| network.is_blocked(*task));
    if let Some(task) = blocked.clone().find(|task| !pool.ledger.is_blocked(*task)) {
        return Err(format!("task {task} is blocked, but not noted as blocked"));
    }
    if blocked.count() as u64 != pool.ledger.blocked {
        return Err(format!("{} tasks are noted as blocked, but fewer tasks are blocked", pool.ledger.blocked));
    }
    Ok(())
}

/// Checks that the program makes progress:
///
/// - A ready strand waits only while a worker is awake or a wake-up is on its way.
/// - While a strand is queued and a worker sleeps, a thief looks for strands or is about to look. Or a worker has just
///   found a strand, and has not yet handed its duty to search to another worker. A worker that has announced its
///   sleep counts as a thief, because it looks once more before it sleeps.
/// - If the protocol has noted a searching worker, so that pushes wake no other worker, a worker really searches.
fn is_alive(pool: &Pool) -> Result<(), String> {
    // In a closed pool, all queued strands wait until the pool is open.
    if pool.is_closed() {
        return Ok(());
    }
    let looking = u64::from(pool.awake().saturating_sub(pool.busy)) + pool.leaving;
    if pool.waiting() > 0 && pool.awake() + pool.rising == 0 {
        return Err(format!("strands wait, but no worker is awake or woken: {}", pool.numbers()));
    }
    if pool.sleep().hunger() < 0 && looking + u64::from(pool.rising) == 0 {
        return Err(format!("a search is noted, but no worker looks for tasks: {}", pool.numbers()));
    }
    if pool.shows_task() && pool.asleep > 0 && looking + u64::from(pool.rising) == 0 {
        return Err(format!("strands wait and workers sleep, but no worker looks for strands: {}", pool.numbers()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;
    use std::time::Duration;

    use comity_policy::Room;
    use comity_protocol::activation::{Retirement, Terms};
    use comity_protocol::orders::Request;
    use comity_protocol::table::Seat;

    use crate::network::{Network, Step, Then};
    use crate::program::{Fork, ForkJoin, Strand};
    use crate::threads::Costs;
    use crate::threads::Host;
    use crate::threads::coordinator::Share;
    use crate::threads::spell::Queues;

    /// Creates two programs in the middle of a parallel phase, on four cores that they share by the table.
    fn host() -> Host {
        let mut host = Host::new(4, Costs::default(), 1);
        for program in 0..2 {
            let work = ForkJoin::new(1_000, 100_000, 600, 1, Fork::AtOnce);
            host.submit(0, Box::new(work), "dws:quantum_us=200".parse().unwrap(), 6, program);
        }
        // Each core has a thread, and no thread waits for a core.
        let is_right =
            |host: &Host| host.kernel.cores.iter().all(|core| core.running.is_some() && core.queue.is_empty());
        for end in (10_000_000..20_000_000).step_by(10_000) {
            host.run(end, 1).unwrap();
            if is_right(&host) {
                break;
            }
        }
        assert!(is_right(&host));
        assert!(host.pools.0.iter().all(|pool| pool.queued > 10 && pool.busy > 0));
        host
    }

    /// Returns the error that the checks report after a change of a correct host.
    fn noticed(change: impl FnOnce(&mut Host)) -> String {
        let mut host = host();
        change(&mut host);
        host.check(true).err().unwrap_or_default()
    }

    fn rich(host: &mut Host) -> &mut Pool {
        &mut host.pools.0[0]
    }

    fn share(pool: &Pool) -> &Share {
        pool.share.as_ref().unwrap()
    }

    /// Sends a request to the first program.
    fn asks(host: &mut Host, request: Request) {
        let slot = share(rich(host)).slot;
        assert!(host.table.ask(slot, 1, 0, request));
    }

    fn terms(alone: bool, by_time: bool, usable: u32) -> Terms {
        Terms { alone, by_time, room: Room::Workers, usable }
    }

    fn thieves(pool: &Pool) -> Vec<u32> {
        (0..6).filter(|worker| !pool.workers[*worker as usize].is_busy()).collect()
    }

    fn waits(pool: &mut Pool, worker: u32) {
        pool.workers[worker as usize].doing = Doing::Waiting;
        pool.note_rest(worker);
    }

    fn retires(pool: &mut Pool, worker: u32) {
        pool.sleep().retire(WorkerId(worker));
        waits(pool, worker);
    }

    #[test]
    fn what_is_not_as_it_should_be_is_noticed() {
        for (change, part) in [
            (
                (|host| (0..6).for_each(|worker| retires(rich(host), worker))) as fn(&mut Host),
                "no worker is awake or woken",
            ),
            (
                |host| {
                    let pool = rich(host);
                    for thief in thieves(pool) {
                        pool.sleep().announce(WorkerId(thief));
                        waits(pool, thief);
                    }
                },
                "workers sleep, but no worker looks for strands",
            ),
            (
                |host| {
                    // A push has claimed one of the sleepers, and its wake-up is lost.
                    let pool = rich(host);
                    let thieves = thieves(pool);
                    thieves.iter().for_each(|thief| pool.sleep().announce(WorkerId(*thief)));
                    pool.sleep().after_spawn(WorkerId(0), &Queues::of(pool));
                    thieves.into_iter().for_each(|thief| waits(pool, thief));
                },
                "a search is noted, but no worker looks for tasks",
            ),
            (
                |host| {
                    let pool = rich(host);
                    let waiting = pool.workers.iter().position(|worker| worker.doing == Doing::Waiting).unwrap();
                    pool.workers[waiting].doing = Doing::Rising;
                    pool.note_rest(waiting as u32);
                },
                "is Rising, but its sleep state differs",
            ),
            (
                |host| {
                    let worker = rich(host).workers.iter_mut().find(|worker| !worker.ready.is_empty()).unwrap();
                    worker.ready.pop_back();
                },
                "the noted numbers differ",
            ),
            (|host| rich(host).queued += 1, "strands were created"),
            (
                |host| {
                    let thread = host.kernel.cores[0].running.unwrap();
                    host.kernel.cores[1].queue.push_back(thread);
                    host.kernel.queued += 1;
                },
                "core 1 has",
            ),
            (|host| host.kernel.cores[2].running = None, "but the noted state differs"),
            (
                |host| {
                    let thread = host.kernel.cores[2].running.take().unwrap();
                    host.kernel.set_idle(2);
                    host.worker_mut(thread).place = Place::Nowhere;
                },
                "is Nowhere, but ",
            ),
            (
                |host| {
                    host.kernel.cores[2].running = None;
                    host.kernel.set_idle(2);
                },
                "threads have a core or a queue, but the cores have",
            ),
            (
                |host| {
                    let thread = host.kernel.cores[3].running.take().unwrap();
                    for _ in 0..2 {
                        host.kernel.cores[0].queue.push_back(thread);
                    }
                    host.worker_mut(thread).place = Place::Queued(0);
                    host.kernel.queued += 2;
                    host.kernel.set_idle(3);
                },
                "core 0 has",
            ),
            (
                |host| {
                    let thread = host.kernel.cores[3].running.take().unwrap();
                    host.kernel.cores[3].queue.push_back(thread);
                    host.worker_mut(thread).place = Place::Queued(3);
                    host.kernel.queued += 1;
                },
                "core 3 is idle, but threads wait for it",
            ),
            (|host| host.kernel.cores[1].set_offline(), "core 1 is offline, but has"),
            (|host| rich(host).busy += 1, "the noted numbers differ"),
            (|host| rich(host).retired += 1, "the noted numbers differ"),
            (
                |host| {
                    let pool = rich(host);
                    let busy = pool.workers.iter().position(Worker::is_busy).unwrap() as u32;
                    pool.sleep().retire(WorkerId(busy));
                    pool.workers[busy as usize].doing =
                        Doing::Acting(Effect::Wait { at_rest: 0, timeout: None, is_retired: true });
                    pool.workers[busy as usize].ready.clear();
                    pool.note_rest(busy);
                },
                "has a task, but is Retired",
            ),
            (
                |host| {
                    // A thief retires, but continues as if it had not.
                    let pool = rich(host);
                    let is_up = |worker: &u32| pool.workers[*worker as usize].rest == Rest::Awake;
                    let up = WorkerId((0..6).find(is_up).unwrap());
                    pool.queued -= pool.workers[up.index()].ready.len() as u64;
                    pool.injected.extend(std::mem::take(&mut pool.workers[up.index()].ready));
                    assert!(share(pool).activation.retire(&Queues::of(pool), up, Retirement::ByItself));
                },
                "is Some(Retired) in the books, but Awake in fact",
            ),
            (
                |host| {
                    // All thieves retire as under a policy that lends cores, but the program withdraws its wait for a
                    // core.
                    let pool = rich(host);
                    let share = pool.share.as_mut().unwrap();
                    share.activation.sharing.sleeper = Sleeper::LendsCore;
                    for thief in thieves(pool) {
                        if pool.workers[thief as usize].rest == Rest::Awake {
                            assert!(self::share(pool).activation.retire(
                                &Queues::of(pool),
                                WorkerId(thief),
                                Retirement::ByItself
                            ));
                        }
                        waits(pool, thief);
                    }
                    Seat::want(self::share(pool).part(), false);
                },
                "but the program does not wait for a core",
            ),
            (
                |host| {
                    // The pools learn that they have lost their cores, but do not act on it.
                    host.table.clear();
                    for share in host.pools.0.iter().map(share) {
                        share.activation.note_losses(&mut share.activation.books(), share.part());
                    }
                },
                "too many workers are awake is wrong",
            ),
            (
                |host| host.table.claims_all(share(&host.pools.0[0]).slot),
                "is held in the table, but the program does not know this",
            ),
            (|host| share(rich(host)).activation.stand(terms(false, false, 1)), "but only 1 can be used"),
            (|host| host.kernel.set_idle(1), "but the noted state differs"),
            (|host| host.kernel.queued += 1, "threads wait for cores"),
            (|host| host.table.forget(share(&host.pools.0[1]).slot), "no program has that slot"),
            (|host| share(rich(host)).activation.stand(terms(false, true, 4)), "the program shares time, but requests"),
            (|host| host.starved += 1, "wait because no core is free, but"),
            (|host| share(rich(host)).activation.close(true), "the pool is closed, but holds cores"),
            (|host| asks(host, Request::Pause(Duration::from_secs(1))), "but is_closed is false"),
            (
                |host| {
                    host.now += 10 * TURN.as_nanos() as u64;
                    let share = rich(host).share.as_mut().expect("it shares cores");
                    share.out_since = Some(0);
                },
                "has been out of turn",
            ),
            (|host| asks(host, Request::Weight(Some(7))), "but the weight is 100"),
            (|host| asks(host, Request::Cores(Some(1))), "workers may be awake"),
            (
                |host| rich(host).workers[0].beyond = 1_000,
                "worker 0 continues as a thief although too many workers are awake",
            ),
            (
                |host| {
                    let worker = rich(host).workers.iter_mut().find(|worker| worker.place == Place::Nowhere).unwrap();
                    worker.place = Place::Blocked;
                },
                "is Blocked, but",
            ),
            (
                |host| {
                    let worker = rich(host).workers.iter_mut().find(|worker| worker.place == Place::Nowhere).unwrap();
                    worker.place = Place::Throttled;
                },
                "is Throttled, but",
            ),
        ] {
            let noticed = noticed(change);
            assert!(noticed.contains(part), "{part:?} is not what is noticed: {noticed:?}");
        }
    }

    /// Returns the error that the checks report after a change of a program with tasks that block, in the middle of
    /// its rounds.
    fn noticed_of_tasks(change: impl FnOnce(&mut Pool)) -> String {
        let mut host = Host::new(4, Costs::default(), 1);
        let network = Network::scatter_gather(40, 1_000, 20_000, 500);
        host.submit_network(0, network, "bws:place=last".parse().unwrap(), 4, 1);
        host.run(1_000_000, 1).unwrap();
        change(&mut host.pools.0[0]);
        host.check(true).unwrap_err()
    }

    fn blocked(pool: &Pool) -> Strand {
        let Work::Network(network) = &pool.work else { panic!("it is one") };
        let id = (0..).find(|task| network.is_blocked(*task)).unwrap();
        Strand { id, length: NonZeroU64::MIN }
    }

    #[test]
    fn a_blocked_task_that_is_somewhere_is_noticed() {
        for (change, part) in [
            (
                (|pool| {
                    let task = blocked(pool);
                    pool.workers[0].ready.push_back(task);
                    pool.queued += 1;
                }) as fn(&mut Pool),
                "strands were created",
            ),
            (
                |pool| {
                    let task = blocked(pool);
                    let queue = pool.workers.iter_mut().find(|worker| !worker.ready.is_empty()).unwrap();
                    queue.ready[0] = task;
                },
                "is blocked, but in a queue",
            ),
            (
                |pool| {
                    let queue = pool.workers.iter_mut().find(|worker| worker.ready.len() > 1).unwrap();
                    queue.ready[0] = queue.ready[1];
                },
                "is in two places",
            ),
            (
                |pool| {
                    let task = blocked(pool);
                    pool.ledger.unblock(task.id).unwrap();
                    pool.carried += 1;
                },
                "are in hand, 0 carried; the noted numbers differ",
            ),
            (
                |pool| {
                    let task = blocked(pool);
                    pool.ledger.waits_untold(task.id);
                },
                "is blocked, but not noted as blocked",
            ),
            (
                |pool| {
                    let rich = (0..4).find(|worker| !pool.workers[*worker].ready.is_empty()).unwrap();
                    retires(pool, rich as u32);
                },
                "but its queue has tasks",
            ),
        ] {
            let noticed = noticed_of_tasks(change);
            assert!(noticed.contains(part), "{noticed}");
        }
    }

    #[test]
    fn a_standstill_is_noticed() {
        // Each of the two tasks waits for a message of the other task.
        let process = |from, to| (vec![Step::new(5, Then::Receive(from)), Step::new(5, Then::Send(to))], 1);
        for policy in ["ws-last", "comity"] {
            let mut host = Host::new(2, Costs::default(), 1);
            let network = Network::new(vec![process(0, 1), process(1, 0)], &[1, 1]);
            host.submit_network(0, network, policy.parse().unwrap(), 2, 1);
            let noticed = host.run(1_000_000, 1).unwrap_err();
            assert!(noticed.contains("a deadlock: all 2 remaining tasks are blocked"), "{noticed}");
        }
    }
}
