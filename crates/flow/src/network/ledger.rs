//! The waits of a network's processes, and the search for a deadlock among them.
//!
//! Each process has one atomic word, `Process::waits`, which it writes only when a wait begins or ends. A process that
//! reads an empty channel waits for the channel's writer. A process that writes to a full channel waits for its reader.
//! A check reads all words and looks for a cycle. It cannot read the words at one instant, so each word counts the
//! waits. The cycle is a deadlock if two conditions hold: no word of the cycle changed between a first and a second
//! reading, and between these readings each channel of the cycle was empty or full. Then each process of the cycle
//! waited all the time, and only processes of the cycle could have ended the waits.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// The number of a process in its network.
pub(super) type ProcessId = usize;

/// The side of a channel that a process uses.
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

/// The data of a process that other threads read.
///
/// Public only because [`Ports`](super::Ports) names it.
#[derive(Debug)]
pub struct Process {
    id: ProcessId,
    /// The flag that stops the process's network. It also identifies the network.
    network: Arc<AtomicBool>,
    name: String,
    /// `2 × n` after n waits, and `2 × n − 1` during wait n. [`HAS_ENDED`] after the process has ended. Written by the
    /// thread that polls the process.
    waits: AtomicU64,
    /// The channel and the side of the current wait: `4 × channel number + side`. Valid only during a wait.
    at: AtomicU64,
    /// True after a panic has dropped an end of this process, until the process has caught the panic. Set by the
    /// dropping thread before it closes the channel. Cleared by the thread that polls the process.
    breaks: AtomicBool,
    /// Notified when `breaks` is cleared.
    survives: Notify,
}

/// The value of `Process::waits` after the process has ended.
const HAS_ENDED: u64 = u64::MAX - 1;

impl Process {
    pub(super) fn id(&self) -> ProcessId {
        self.id
    }

    pub(super) fn is_of(&self, network: &Arc<AtomicBool>) -> bool {
        Arc::ptr_eq(&self.network, network)
    }

    /// Marks the process as waiting until the returned guard is dropped.
    pub(super) fn waits(&self, edge: &Edge, side: Side) -> impl Drop {
        let count = self.waits.load(Ordering::Relaxed);
        if count == HAS_ENDED {
            // The process has ended, and another task uses the channel's end.
            return Waits(None);
        }
        self.at.store(edge.id as u64 * 4 + side as u64, Ordering::Relaxed);
        self.waits.store(count + 1, Ordering::Release);
        Waits(Some(self))
    }

    pub(super) fn has_ended(&self) {
        self.waits.store(HAS_ENDED, Ordering::Release);
    }

    /// Called when a panic drops one of the process's ends. The process may still catch the panic.
    pub(super) fn breaks(&self) {
        self.breaks.store(true, Ordering::Release);
    }

    /// Called when a poll of the process returned without a panic: a panic during the poll was caught by the process.
    pub(super) fn survives(&self) {
        if self.breaks.load(Ordering::Acquire) {
            self.breaks.store(false, Ordering::Release);
            self.survives.notify_waiters();
        }
    }

    /// Waits until the process has caught its panic. Returns immediately if there was no panic, and waits forever if
    /// the panic ends the process.
    pub(super) async fn unless_broken(&self) {
        while self.breaks.load(Ordering::Acquire) {
            // Register before the second check, so that no notification is missed.
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

/// A channel. The writing end counts in `sent`, the reading end in `received`.
#[derive(Debug)]
pub(super) struct Edge {
    id: usize,
    name: String,
    capacity: u64,
    writer: OnceLock<Arc<Process>>,
    reader: OnceLock<Arc<Process>>,
    sent: AtomicU64,
    received: AtomicU64,
    /// True after one end was closed: then no process has to wait at the other end. Set before the end is dropped.
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

    /// True if a process that uses the channel's `side` has to wait.
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

    /// Returns the process at the end opposite to `side`. A process that waits on `side` waits for it.
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

    /// Returns the process's current wait and the process that it waits for, if that process is in this network.
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

    /// Returns a cycle of processes that wait for each other, if there is one.
    pub(super) fn deadlock(&self) -> Option<Deadlock> {
        let waits: Vec<_> = self.processes.iter().map(|process| self.wait_of(process)).collect();
        let holds = |id: ProcessId| {
            let (count, edge, side, _) = waits[id].expect("each process of a cycle waits");
            edge.holds_up(side) && self.processes[id].waits.load(Ordering::Acquire) == count
        };
        let next = |id: ProcessId| waits[id].map(|(.., other)| other);
        // Each process waits for at most one other process. A walk that reaches a process of the same walk again has
        // found a cycle.
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
                    let (_, edge, side, other) = waits[*id].expect("each process of a cycle waits");
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

/// A cycle of processes that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    cycle: Vec<Wait>,
}

impl Deadlock {
    /// Returns the waits of the cycle: each process waits for the next one, and the last for the first.
    pub fn cycle(&self) -> &[Wait] {
        &self.cycle
    }

    /// True if a full channel is in the cycle. With a larger channel, the network would continue.
    pub fn is_artificial(&self) -> bool {
        self.cycle.iter().any(|wait| wait.full.is_some())
    }
}

impl std::error::Error for Deadlock {}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deadlock: ")?;
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

/// The wait of one process of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The process that waits.
    pub process: String,
    /// The channel at which the process waits.
    pub channel: String,
    /// The channel's capacity if the channel is full and the process waits to write. `None` if the channel is empty and
    /// the process waits to read.
    pub full: Option<usize>,
    /// The process that would end the wait.
    pub other: String,
}
