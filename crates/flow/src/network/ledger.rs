//! Which process waits for which: what a network's processes note when they wait, and how a deadlock is read from
//! that.
//!
//! Each process writes its own word, and only where it has to wait. A look at all words finds a cycle: a process that
//! reads an empty channel waits for its writer, one that writes a full channel for its reader. The look is not one
//! moment. So each word counts, and a cycle is a deadlock on two conditions. None of its words has moved between a
//! first and a second reading, and each of its channels was empty, or full, in between. Then each process in it waited
//! all the time, and only these processes could have ended each other's waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// A process's number in its network.
pub(super) type ProcessId = usize;

/// What a process does with a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Reads = 1,
    Writes = 2,
}

/// The processes and channels of a network.
#[derive(Default)]
pub(super) struct Ledger {
    processes: Vec<Arc<Process>>,
    edges: Vec<Arc<Edge>>,
    stopped: Arc<AtomicBool>,
}

/// One process, as it is seen by others.
///
/// Public only because [`Ports`](super::Ports) names it.
#[derive(Debug)]
pub struct Process {
    id: ProcessId,
    /// Its network, by what tells it to stop.
    network: Arc<AtomicBool>,
    name: String,
    /// Twice the number of its waits, one less while it waits; see also `RUNS` and `HAS_ENDED`. Written by the thread
    /// that polls the process.
    waits: AtomicU64,
    /// Where it waits: the channel's number, and the side. Valid while it waits.
    at: AtomicU64,
    /// Whether a panic drops its ends that the process may yet catch. Set by the thread that drops an end, before that
    /// closes the channel; taken back by the thread that polls the process.
    breaks: AtomicBool,
    /// Told when `breaks` is taken back.
    survives: Notify,
}

/// `Process::waits` after its end.
const HAS_ENDED: u64 = u64::MAX - 1;

impl Process {
    pub(super) fn id(&self) -> ProcessId {
        self.id
    }

    pub(super) fn is_of(&self, network: &Arc<AtomicBool>) -> bool {
        Arc::ptr_eq(&self.network, network)
    }

    /// From here until the answer is dropped, the process waits.
    pub(super) fn waits(&self, edge: &Edge, side: Side) -> impl Drop {
        let count = self.waits.load(Ordering::Relaxed);
        if count == HAS_ENDED {
            // An end has outlived its process.
            return Waits(None);
        }
        self.at.store(edge.id as u64 * 4 + side as u64, Ordering::Relaxed);
        self.waits.store(count + 1, Ordering::Release);
        Waits(Some(self))
    }

    pub(super) fn has_ended(&self) {
        self.waits.store(HAS_ENDED, Ordering::Release);
    }

    /// A panic drops one of its ends, and may end the process.
    pub(super) fn breaks(&self) {
        self.breaks.store(true, Ordering::Release);
    }

    /// It has returned from a poll: if there was a panic, the process has caught it.
    pub(super) fn survives(&self) {
        if self.breaks.load(Ordering::Acquire) {
            self.breaks.store(false, Ordering::Release);
            self.survives.notify_waiters();
        }
    }

    /// Waits until it has survived its panic, which may be for ever.
    pub(super) async fn unless_broken(&self) {
        while self.breaks.load(Ordering::Acquire) {
            // Hears of what is told from here on.
            let survives = self.survives.notified();
            if self.breaks.load(Ordering::Acquire) {
                survives.await;
            }
        }
    }
}

struct Waits<'a>(Option<&'a Process>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let Some(process) = self.0 else { return };
        let count = process.waits.load(Ordering::Relaxed);
        if count != HAS_ENDED {
            process.waits.store(count + 1, Ordering::Release);
        }
    }
}

/// One channel. Its counts are written by its ends, each by one.
#[derive(Debug)]
pub(super) struct Edge {
    id: usize,
    name: String,
    capacity: u64,
    writer: OnceLock<Arc<Process>>,
    reader: OnceLock<Arc<Process>>,
    sent: AtomicU64,
    received: AtomicU64,
    /// Whether an end is gone: then no process waits at the other for ever. Set before it goes.
    closed: AtomicBool,
}

impl Edge {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn bind(&self, side: Side, process: &Arc<Process>) {
        let end = match side {
            Side::Reads => &self.reader,
            Side::Writes => &self.writer,
        };
        end.set(Arc::clone(process)).expect("an end is owned once: it moves into its process");
    }

    pub(super) fn has_sent(&self) {
        self.sent.store(self.sent.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(super) fn has_received(&self) {
        self.received.store(self.received.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(super) fn closes(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether a process that uses it so has to wait.
    fn holds_up(&self, side: Side) -> bool {
        if self.closed.load(Ordering::Acquire) {
            return false;
        }
        let received = self.received.load(Ordering::Acquire);
        let held = self.sent.load(Ordering::Acquire).saturating_sub(received);
        match side {
            Side::Reads => held == 0,
            Side::Writes => held >= self.capacity,
        }
    }

    /// The process that ends such a wait.
    pub(super) fn other(&self, side: Side) -> Option<&Arc<Process>> {
        match side {
            Side::Reads => self.writer.get(),
            Side::Writes => self.reader.get(),
        }
    }
}

impl Ledger {
    pub(super) fn add_process(&mut self, name: String) -> Arc<Process> {
        let id = self.processes.len();
        let process = Arc::new(Process {
            id,
            network: self.stopped(),
            name,
            waits: AtomicU64::new(0),
            at: AtomicU64::new(0),
            breaks: AtomicBool::new(false),
            survives: Notify::new(),
        });
        self.processes.push(Arc::clone(&process));
        process
    }

    pub(super) fn add_channel(&mut self, name: String, capacity: usize) -> Arc<Edge> {
        let edge = Arc::new(Edge {
            id: self.edges.len(),
            name,
            capacity: capacity as u64,
            writer: OnceLock::new(),
            reader: OnceLock::new(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        self.edges.push(Arc::clone(&edge));
        edge
    }

    pub(super) fn stopped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stopped)
    }

    pub(super) fn process(&self, id: ProcessId) -> &str {
        &self.processes[id].name
    }

    /// Where the process waits, and for which, if it waits for another process of this network.
    fn wait_of(&self, process: &Process) -> Option<(u64, &Edge, Side, ProcessId)> {
        let count = process.waits.load(Ordering::Acquire);
        if count == HAS_ENDED || count.is_multiple_of(2) {
            return None;
        }
        let at = process.at.load(Ordering::Relaxed);
        let side = if at % 4 == Side::Reads as u64 { Side::Reads } else { Side::Writes };
        let edge = self.edges.get((at / 4) as usize)?;
        Some((count, edge, side, edge.other(side)?.id))
    }

    /// A cycle of processes that wait for each other, if there is one.
    pub(super) fn deadlock(&self) -> Option<Deadlock> {
        let waits: Vec<_> = self.processes.iter().map(|process| self.wait_of(process)).collect();
        let holds = |id: ProcessId| {
            let (count, edge, side, _) = waits[id].expect("all in a cycle wait");
            edge.holds_up(side) && self.processes[id].waits.load(Ordering::Acquire) == count
        };
        let next = |id: ProcessId| waits[id].map(|(.., other)| other);
        // Each process waits for one other at most: from where a walk meets its own track, it is in a cycle.
        let mut met = vec![usize::MAX; waits.len()];
        for start in 0..waits.len() {
            let mut at = Some(start);
            while let Some(id) = at.filter(|id| met[*id] == usize::MAX) {
                met[id] = start;
                at = next(id);
            }
            let Some(first) = at.filter(|id| met[*id] == start) else { continue };
            let rest = std::iter::successors(next(first), |id| next(*id)).take_while(|id| *id != first);
            let cycle: Vec<ProcessId> = std::iter::once(first).chain(rest).collect();
            if cycle.iter().all(|id| holds(*id)) {
                let wait = |id: &ProcessId| {
                    let (_, edge, side, other) = waits[*id].expect("as above");
                    Wait {
                        process: self.process(*id).to_owned(),
                        channel: edge.name.clone(),
                        full: (side == Side::Writes).then_some(edge.capacity as usize),
                        other: self.process(other).to_owned(),
                    }
                };
                return Some(Deadlock { cycle: cycle.iter().map(wait).collect() });
            }
        }
        None
    }
}

/// Processes that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    cycle: Vec<Wait>,
}

impl Deadlock {
    /// The processes that wait, each for the next, and the last for the first.
    pub fn cycle(&self) -> &[Wait] {
        &self.cycle
    }

    /// Whether it comes from a channel that is full: with more room there the network would go on.
    pub fn is_artificial(&self) -> bool {
        self.cycle.iter().any(|wait| wait.full.is_some())
    }
}

impl std::error::Error for Deadlock {}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a deadlock: ")?;
        for (nth, Wait { process, channel, full, other }) in self.cycle.iter().enumerate() {
            let separator = if nth == 0 { "" } else { "; " };
            match full {
                None => {
                    write!(f, "{separator}'{process}' waits for '{other}' to write to the empty channel '{channel}'")?
                }
                Some(held) => write!(
                    f,
                    "{separator}'{process}' waits for '{other}' to read from the channel '{channel}', which is full with {held}"
                )?,
            }
        }
        if self.is_artificial() {
            let full: Vec<String> = self
                .cycle
                .iter()
                .filter(|wait| wait.full.is_some())
                .map(|wait| format!("'{}'", wait.channel))
                .collect();
            write!(f, ". It is artificial: give {} a larger capacity", full.join(" or "))?;
        }
        Ok(())
    }
}

/// One process of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The process that waits.
    pub process: String,
    /// Where.
    pub channel: String,
    /// The process waits to write, and the channel holds as many values as it can; `None`: it waits to read, and the
    /// channel is empty.
    pub full: Option<usize>,
    /// The process that would end the wait.
    pub other: String,
}
