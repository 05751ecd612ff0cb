//! Programs with tasks that wait for each other: processes that send messages over channels, as in a Kahn process
//! network.
//!
//! A channel has one sender, one receiver and a fixed capacity. A process that sends into a full channel or receives
//! from an empty one is blocked until the other end has received or sent. The order in which the processes run
//! changes neither the values that they compute (Kahn 1974) nor whether they end.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU64;

use crate::program::Strand;

/// A part of a process: a number of instructions, then one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of instructions, which is also the number of nanoseconds.
    pub work: NonZeroU64,
    /// The operation that follows the instructions. It takes no time.
    pub then: Then,
}

/// The operation at the end of a step. Channels are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The process continues with its next step.
    GoOn,
    /// The process sends a message.
    Send(usize),
    /// The process receives a message.
    Receive(usize),
    /// The process receives a message. If the channel is empty, the process keeps its worker, repeats this step from
    /// its start, and looks again.
    Look(usize),
    /// The process receives a message. If the channel is empty, its thread waits in a system call and the process
    /// keeps its worker, like a task that waits on a condition variable.
    Wait(usize),
}

impl Step {
    /// Creates a step.
    ///
    /// # Panics
    /// Panics if `work` is zero.
    pub fn new(work: u64, then: Then) -> Step {
        Step { work: NonZeroU64::new(work).expect("a step has work"), then }
    }
}

/// The state of a process after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The process continues with this strand, a chain of instructions.
    GoesOn(Strand),
    /// The process waits for the other end of a channel, and releases its worker.
    Blocks,
    /// The process waits for the other end of a channel, and keeps its worker, whose thread waits in a system call.
    Waits,
    /// The process has ended.
    Ends,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The state of the process that did the step.
    pub next: Next,
    /// The strand of another process that was blocked and can now continue.
    pub unblocked: Option<Strand>,
    /// The strand of another process whose thread waited. It continues on that thread.
    pub woken: Option<Strand>,
}

impl Done {
    fn of(next: Next) -> Done {
        Done { next, unblocked: None, woken: None }
    }
}

#[derive(Clone, Debug)]
struct Process {
    steps: Vec<Step>,
    /// The number of times that the process does all its steps.
    times: u32,
    past: u32,
    at: usize,
    blocked_on: Option<usize>,
    /// A digest of all received messages, in order.
    digest: u64,
}

impl Process {
    fn step(&self) -> Option<Step> {
        (self.past < self.times).then(|| self.steps[self.at])
    }

    fn advance(&mut self) {
        self.at += 1;
        if self.at == self.steps.len() {
            (self.at, self.past) = (0, self.past + 1);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Message {
    number: u64,
    value: u64,
}

#[derive(Clone, Debug)]
struct Channel {
    from: usize,
    to: usize,
    capacity: usize,
    messages: VecDeque<Message>,
    sent: u64,
    received: u64,
}

/// Processes and their channels. The strands of each process have the process' number, from 0, as their identifier.
#[derive(Clone, Debug)]
pub struct Network {
    processes: Vec<Process>,
    channels: Vec<Channel>,
    wrong: Option<String>,
    looked: u64,
}

impl Network {
    /// Creates a network. `processes` has the steps of each process and how often it repeats them; `capacities` has
    /// the number of messages that each channel can hold.
    ///
    /// # Panics
    /// Panics if a process has no step, or if a channel has no capacity, or not exactly one sender and one receiver.
    pub fn new(processes: Vec<(Vec<Step>, u32)>, capacities: &[usize]) -> Network {
        let mut ends = vec![(None, None); capacities.len()];
        for (nth, (steps, _)) in processes.iter().enumerate() {
            assert!(!steps.is_empty(), "process {nth} has no step");
            for step in steps {
                let end: &mut Option<usize> = match step.then {
                    Then::GoOn => continue,
                    Then::Send(channel) => &mut ends[channel].0,
                    Then::Receive(channel) | Then::Look(channel) | Then::Wait(channel) => &mut ends[channel].1,
                };
                assert!(
                    end.is_none_or(|other| other == nth),
                    "process {nth} uses the end of a channel that belongs to another process"
                );
                *end = Some(nth);
            }
        }
        let channel = |((from, to), capacity): ((Option<usize>, Option<usize>), &usize)| {
            assert!(*capacity > 0, "a channel has room for a message");
            let [from, to] = [from, to].map(|end| end.expect("a channel has a sender and a receiver"));
            Channel { from, to, capacity: *capacity, messages: VecDeque::new(), sent: 0, received: 0 }
        };
        let channels = ends.into_iter().zip(capacities).map(channel).collect();
        let process = |(nth, (steps, times)): (usize, (Vec<Step>, u32))| Process {
            steps,
            times,
            past: 0,
            at: 0,
            blocked_on: None,
            digest: nth as u64,
        };
        Network {
            processes: processes.into_iter().enumerate().map(process).collect(),
            channels,
            wrong: None,
            looked: 0,
        }
    }

    /// Creates the scatter-gather program of the WS-LAST paper (Vrba, Halvorsen and Griwodz, 2010; §4, figure 2).
    /// Process 0 has `workers` other processes as workers. In each round it sends a message to each worker, and then
    /// receives a reply from each worker in the same order. A worker that receives a message works for `work` ns and
    /// replies. Sending and receiving take `message` ns each.
    ///
    /// # Panics
    /// Panics if there are no workers, or if a message takes no time.
    pub fn scatter_gather(workers: usize, rounds: u32, work: u64, message: u64) -> Network {
        let there = (0..workers).map(|worker| Step::new(message, Then::Send(worker)));
        let back = (0..workers).map(|worker| Step::new(message, Then::Receive(workers + worker)));
        let mut processes = vec![(there.chain(back).collect(), rounds)];
        processes.extend((0..workers).map(|worker| {
            let receive = Step::new(message, Then::Receive(worker));
            (vec![receive, Step::new(work + message, Then::Send(workers + worker))], rounds)
        }));
        Network::new(processes, &vec![1; 2 * workers])
    }

    /// Creates a ring of tasks in which tokens circulate. A task receives a token, works for `work` ns and sends the
    /// token to the next task. Each task does this `rounds` times. The tokens begin at evenly spaced tasks. Each
    /// message takes `message` ns to send and to receive.
    ///
    /// # Panics
    /// Panics if there are fewer than two tasks, no token or more tokens than tasks, or if a message takes no time.
    pub fn token_ring(tasks: usize, tokens: usize, rounds: u32, work: u64, message: u64) -> Network {
        assert!(tasks > 1 && (1..=tasks).contains(&tokens), "a ring has two tasks and a token");
        let task = |nth: usize| {
            let receive = Step::new(message, Then::Receive((nth + tasks - 1) % tasks));
            let send = Step::new(work + message, Then::Send(nth));
            // Every `tasks / tokens`-th task begins with a token.
            let has_token = (nth + 1) * tokens / tasks > nth * tokens / tasks;
            (if has_token { vec![send, receive] } else { vec![receive, send] }, rounds)
        };
        // All tokens can wait for one task.
        Network::new((0..tasks).map(task).collect(), &vec![tasks + 1; tasks])
    }

    /// Creates pairs of a client and a server. A client sends a request and waits for the reply. Its server works for
    /// `work` ns on each request. There are `rounds` requests for each pair. Each message takes `message` ns to send
    /// and to receive.
    ///
    /// # Panics
    /// Panics if there are no pairs, or if a message takes no time.
    pub fn request_reply(pairs: usize, rounds: u32, work: u64, message: u64) -> Network {
        assert!(pairs > 0, "there is a pair");
        let pair = |nth: usize| {
            let (request, reply) = (2 * nth, 2 * nth + 1);
            let client = vec![Step::new(message, Then::Send(request)), Step::new(message, Then::Receive(reply))];
            let server = vec![Step::new(message, Then::Receive(request)), Step::new(work + message, Then::Send(reply))];
            [(client, rounds), (server, rounds)]
        };
        Network::new((0..pairs).flat_map(pair).collect(), &vec![1; 2 * pairs])
    }

    /// Creates a wavefront, like the sweeps of NAS's LU. Each of `tasks` processes works for `work` ns on each of
    /// `strips`, as soon as the process before it has finished that strip. Until then, the process checks again and
    /// again, like a thread that spins on a flag. A check takes `look` ns.
    ///
    /// # Panics
    /// Panics if there are no tasks, or if the work or a look takes no time.
    pub fn wavefront(tasks: usize, strips: u32, work: u64, look: u64) -> Network {
        assert!(tasks > 0, "a wavefront has tasks");
        let task = |nth: usize| {
            let waits = (nth > 0).then(|| Step::new(look, Then::Look(nth - 1)));
            let then = if nth + 1 < tasks { Then::Send(nth) } else { Then::GoOn };
            (waits.into_iter().chain([Step::new(work, then)]).collect(), strips)
        };
        // A process can finish several strips before the next process checks, so a channel has room for all strips.
        Network::new((0..tasks).map(task).collect(), &vec![strips as usize; tasks - 1])
    }

    /// Creates a ring of tasks that keep their workers while they wait. In each round a task works for `work` ns and
    /// sets a flag for the next task. It then sleeps until the task before it has set a flag, as on a condition
    /// variable. A check of the flag takes `lock` ns.
    ///
    /// # Panics
    /// Panics if there are fewer than two tasks, or if the work or the lock takes no time.
    pub fn ring(tasks: usize, rounds: u32, work: u64, lock: u64) -> Network {
        assert!(tasks > 1, "a ring has two tasks");
        let task = |nth: usize| {
            let before = (nth + tasks - 1) % tasks;
            (vec![Step::new(work, Then::Send(nth)), Step::new(lock, Then::Wait(before))], rounds)
        };
        // A task receives once between two sends, so it is at most one send ahead of the task before it. Around the
        // ring, it is at most `tasks - 1` sends ahead of the task after it. So a channel never holds more than `tasks`
        // messages, and is never full.
        Network::new((0..tasks).map(task).collect(), &vec![tasks + 1; tasks])
    }

    /// The number of processes.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Returns the first strand of each process.
    pub fn start(&self) -> Vec<Strand> {
        (0..self.processes.len()).map(|process| self.strand(process)).collect()
    }

    /// Returns the next strand of a process. The last strand, with which the process ends, is one instruction.
    fn strand(&self, process: usize) -> Strand {
        let length = self.processes[process].step().map_or(NonZeroU64::MIN, |step| step.work);
        Strand { id: process as u32, length }
    }

    /// Ends the current strand of the process, and returns the result of the step.
    pub fn done(&mut self, process: u32) -> Done {
        let process = process as usize;
        let Some(step) = self.processes[process].step() else { return Done::of(Next::Ends) };
        let (channel, other) = match step.then {
            Then::GoOn => {
                self.processes[process].advance();
                return Done::of(Next::GoesOn(self.strand(process)));
            }
            Then::Send(channel) => (channel, self.channels[channel].to),
            Then::Receive(channel) | Then::Look(channel) | Then::Wait(channel) => {
                (channel, self.channels[channel].from)
            }
        };
        if !self.operate(process, step.then) {
            if let Then::Look(_) = step.then {
                self.looked += step.work.get();
                return Done::of(Next::GoesOn(self.strand(process)));
            }
            self.processes[process].blocked_on = Some(channel);
            return Done::of(if let Then::Wait(_) = step.then { Next::Waits } else { Next::Blocks });
        }
        let (mut unblocked, mut woken) = (None, None);
        if self.processes[other].blocked_on == Some(channel)
            && let Some(waits) = self.processes[other].step()
            && self.operate(other, waits.then)
        {
            self.processes[other].blocked_on = None;
            let goes_on = if let Then::Wait(_) = waits.then { &mut woken } else { &mut unblocked };
            *goes_on = Some(self.strand(other));
        }
        Done { next: Next::GoesOn(self.strand(process)), unblocked, woken }
    }

    /// Sends or receives. Returns false if the channel is full or has no message.
    fn operate(&mut self, process: usize, then: Then) -> bool {
        let state = &mut self.processes[process];
        match then {
            Then::GoOn => {}
            Then::Send(channel) => {
                let Channel { capacity, messages, sent, .. } = &mut self.channels[channel];
                if messages.len() == *capacity {
                    return false;
                }
                messages.push_back(Message { number: *sent, value: state.digest });
                *sent += 1;
                state.digest = mixed(state.digest, *sent);
            }
            Then::Receive(channel) | Then::Look(channel) | Then::Wait(channel) => {
                let Channel { messages, received, .. } = &mut self.channels[channel];
                let Some(message) = messages.pop_front() else { return false };
                if message.number != *received {
                    self.wrong =
                        Some(format!("channel {channel} gives message {} after message {received}", message.number));
                }
                *received += 1;
                state.digest = mixed(state.digest, message.value);
            }
        }
        state.advance();
        true
    }

    /// The nanoseconds of looks that found no message.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// True if a process waits for the other end of a channel, and has released its worker.
    pub fn is_blocked(&self, process: u32) -> bool {
        let process = &self.processes[process as usize];
        let keeps_worker = process.step().is_some_and(|step| matches!(step.then, Then::Wait(_)));
        process.blocked_on.is_some() && !keeps_worker
    }

    /// Returns, for each process, a digest of all messages that it has received. A message contains the digest that its
    /// sender had at that time. The digests do not depend on the order in which processes run.
    pub fn digests(&self) -> Vec<u64> {
        self.processes.iter().map(|process| process.digest).collect()
    }

    /// Returns T₁: the nanoseconds of all steps, with one look for each message.
    pub fn work(&self) -> u64 {
        let of = |process: &Process| {
            let steps: u64 = process.steps.iter().map(|step| step.work.get()).sum();
            u64::from(process.times) * steps + 1
        };
        self.processes.iter().map(of).sum()
    }

    /// Returns T∞: the nanoseconds from start to end if every process runs whenever it is not blocked. If the network
    /// comes to a standstill, returns the nanoseconds until the standstill.
    pub fn critical_path(&self) -> u64 {
        let mut network = self.clone();
        let mut running: BinaryHeap<Reverse<(u64, u32)>> =
            network.start().iter().map(|strand| Reverse((strand.length.get(), strand.id))).collect();
        let mut now = 0;
        while let Some(Reverse((at, process))) = running.pop() {
            now = at;
            let Done { next, unblocked, woken } = network.done(process);
            let next = if let Next::GoesOn(strand) = next { Some(strand) } else { None };
            let strands = next.into_iter().chain(unblocked).chain(woken);
            running.extend(strands.map(|strand| Reverse((at + strand.length.get(), strand.id))));
        }
        now
    }

    /// Checks the channels' invariants: no channel holds more messages than its capacity, all messages are in order,
    /// and no blocked process could continue.
    ///
    /// # Errors
    /// Names the invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        for (nth, Channel { from, to, capacity, messages, sent, received }) in self.channels.iter().enumerate() {
            let (length, most) = (messages.len(), *capacity);
            if length > most {
                return Err(format!("channel {nth} has {length} messages, but room for {most}"));
            }
            let numbers = messages.iter().map(|message| message.number);
            if !numbers.eq(*received..*sent) {
                return Err(format!(
                    "channel {nth}: {sent} messages sent, {received} received, but {length} are in it"
                ));
            }
            let blocked = |process: &usize| self.processes[*process].blocked_on == Some(nth);
            if blocked(from) && length < most || blocked(to) && length > 0 {
                return Err(format!(
                    "a process is blocked at channel {nth}, but could continue: {length} messages, room for {most}"
                ));
            }
        }
        Ok(())
    }
}

/// Mixes a value into a digest. The result depends on both, and on their order (FNV's prime).
fn mixed(digest: u64, value: u64) -> u64 {
    (digest.rotate_left(23) ^ value).wrapping_mul(0x0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one step of one ready process at a time: always the process that became ready last, or always the process
    /// that became ready first.
    fn played(mut network: Network, last: bool) -> Network {
        let mut ready: VecDeque<u32> = network.start().iter().map(|strand| strand.id).collect();
        while let Some(process) = if last { ready.pop_back() } else { ready.pop_front() } {
            let Done { next, unblocked, .. } = network.done(process);
            network.check().unwrap();
            ready.extend(unblocked.map(|strand| strand.id));
            if let Next::GoesOn(strand) = next {
                ready.push_back(strand.id);
            }
        }
        network
    }

    #[test]
    fn a_round_is_a_barrier() {
        let network = Network::scatter_gather(3, 5, 100, 10);
        assert_eq!(network.work(), 5 * (3 * 2 * 10 + 3 * 120) + 4);
        // The last reply arrives 110 ns after the last message was sent, and process 0 waits for this reply. The last
        // ns is the end of process 0.
        assert_eq!(network.critical_path(), 5 * (3 * 10 + 110) + 1);
    }

    #[test]
    fn what_is_received_does_not_depend_on_which_process_runs_when() {
        let network = Network::scatter_gather(5, 7, 3, 1);
        let [first, last] = [false, true].map(|last| played(network.clone(), last).digests());
        assert_eq!(first, last);
        let other = played(Network::scatter_gather(5, 8, 3, 1), false).digests();
        assert!(first.iter().zip(&other).all(|(digest, other)| digest != other));
    }

    #[test]
    fn a_wavefront_goes_from_task_to_task() {
        let network = Network::wavefront(3, 4, 100, 10);
        assert_eq!(network.work(), 4 * (100 + 2 * 110) + 3);
        // A look takes 10 ns, and a strip 100 ns. The second task ends its strips at 200, 310, 420 and 530 ns. The
        // third task sees at once that a strip is ready, and ends it 100 ns later. The last ns is the third task's end.
        assert_eq!(network.critical_path(), 631);
        assert_eq!(network.looked(), 0);
        // In this order of steps, some tasks look and find nothing.
        let done = played(network, false);
        assert!(done.looked() > 0);
    }

    #[test]
    fn what_is_wrong_with_a_channel_is_noticed() {
        let wrong = |change: fn(&mut Network)| {
            let mut network = Network::scatter_gather(2, 1, 3, 1);
            assert_eq!(network.done(1).next, Next::Blocks);
            network.check().unwrap();
            change(&mut network);
            network.check().unwrap_err()
        };
        fn message(number: u64) -> Message {
            Message { number, value: 0 }
        }
        assert!(wrong(|network| network.processes[1].blocked_on = Some(2)).contains("could continue"));
        assert!(wrong(|network| network.channels[0].messages.push_back(message(0))).contains("messages sent"));
        assert!(wrong(|network| network.channels[1].messages.extend([0, 1].map(message))).contains("but room for 1"));
        let out_of_order = wrong(|network| {
            network.channels[1].messages.push_back(message(4));
            assert!(network.operate(2, Then::Receive(1)));
        });
        assert!(out_of_order.contains("gives message 4 after message 0"), "{out_of_order}");
    }

    #[test]
    #[should_panic(expected = "that belongs to another process")]
    fn a_channel_has_one_sender() {
        let send = || (vec![Step::new(1, Then::Send(0))], 1);
        Network::new(vec![send(), send()], &[1]);
    }
}
