//! Programs of tasks that block. They use tokio's channels, which need no runtime, so every executor runs the same
//! code.

use std::hint::black_box;
use std::time::Instant;

use clap::ValueEnum;
use comity_kernels::joins::piece;
use comity_os::usage::Usage;
use serde::Serialize;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::executor::Executor;

/// The pattern of messages between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Each round, one task sends a message to n workers and collects their answers
    ScatterGather,
    /// n messages at a time pass through ten stages
    Pipeline,
    /// Each round, n tasks send to n/2 tasks, those to n/4, and so on, down to one task
    FanIn,
    /// A message goes around a ring of n tasks
    Ring,
    /// n/2 clients, each with its own server
    RequestReply,
}

impl Workload {
    /// Returns the workload's name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no workload is hidden").get_name().to_owned()
    }
}

/// The parameters of one run of a workload.
#[derive(Clone, Copy)]
pub struct Plan {
    pub workload: Workload,
    /// The number of tasks, or another quantity that the workload calls n.
    pub n: u32,
    /// Steps of arithmetic per message.
    pub steps: u64,
    /// Rounds that are measured.
    pub rounds: u32,
}

/// The measurements of one run.
#[derive(Clone, Copy)]
pub struct Measured {
    /// Seconds that the measured rounds took.
    pub seconds: f64,
    /// Context switches of the process in the measured rounds.
    pub switches: u64,
}

/// The number of stages of the pipeline.
const STAGES: u32 = 10;

impl Plan {
    /// Returns the number of messages with work in a round.
    pub fn messages(&self) -> u64 {
        let n = u64::from(self.n);
        match self.workload {
            Workload::ScatterGather => n,
            Workload::Pipeline => n * u64::from(STAGES),
            Workload::FanIn => leaves(self.n) * 2 - 1,
            Workload::Ring => n,
            // Each pair exchanges a request, which has work, and an answer, which has no work.
            Workload::RequestReply => n / 2,
        }
    }

    /// True if at most one task has work at any time.
    pub fn is_serial(&self) -> bool {
        self.workload == Workload::Ring
    }

    /// Runs the workload. The first rounds warm up and are not measured.
    pub fn run(self, executor: &Executor) -> Measured {
        match self.workload {
            Workload::ScatterGather => self.scatter_gather(executor),
            Workload::Pipeline => self.pipeline(executor),
            Workload::FanIn => self.fan_in(executor),
            Workload::Ring => self.ring(executor),
            Workload::RequestReply => self.request_reply(executor),
        }
    }

    fn work(self, message: u64) -> u64 {
        black_box(piece(message as usize, self.steps))
    }

    /// Runs the program of WS-LAST, figure 2: a channel to each worker and a channel back from it.
    fn scatter_gather(self, executor: &Executor) -> Measured {
        let mut ends: Vec<(Sender<u64>, Receiver<u64>)> = Vec::new();
        for _ in 0..self.n {
            let (to_worker, mut requests) = mpsc::channel(1);
            let (answers, from_worker) = mpsc::channel(1);
            ends.push((to_worker, from_worker));
            executor.spawn(async move {
                while let Some(message) = requests.recv().await {
                    if answers.send(self.work(message)).await.is_err() {
                        break;
                    }
                }
            });
        }
        executor.run(async move {
            let mut rounds = self.timed();
            while let Some(round) = rounds.next() {
                for (to_worker, _) in &ends {
                    to_worker.send(round.into()).await.expect("the worker waits");
                }
                for (_, from_worker) in &mut ends {
                    from_worker.recv().await.expect("the worker answers");
                }
            }
            rounds.measured()
        })
    }

    fn pipeline(self, executor: &Executor) -> Measured {
        let (into, mut input) = mpsc::channel::<u64>(4);
        for _ in 0..STAGES {
            let (output, next) = mpsc::channel(4);
            let mut stage_input = std::mem::replace(&mut input, next);
            executor.spawn(async move {
                while let Some(message) = stage_input.recv().await {
                    if output.send(self.work(message)).await.is_err() {
                        break;
                    }
                }
            });
        }
        // A separate task, the source, sends the messages, because the main task reads the results at the same time.
        let (go, mut rounds) = mpsc::channel::<u32>(1);
        executor.spawn(async move {
            while let Some(round) = rounds.recv().await {
                for nth in 0..self.n {
                    if into.send(u64::from(round + nth)).await.is_err() {
                        return;
                    }
                }
            }
        });
        executor.run(async move {
            let mut rounds = self.timed();
            while let Some(round) = rounds.next() {
                go.send(round).await.expect("the source waits");
                for _ in 0..self.n {
                    input.recv().await.expect("the stages run");
                }
            }
            rounds.measured()
        })
    }

    fn fan_in(self, executor: &Executor) -> Measured {
        let mut starts = Vec::new();
        let mut level: Vec<Receiver<u64>> = Vec::new();
        for _ in 0..leaves(self.n) {
            let (start, mut starting) = mpsc::channel::<u64>(1);
            let (up, answers) = mpsc::channel(1);
            starts.push(start);
            level.push(answers);
            executor.spawn(async move {
                while let Some(message) = starting.recv().await {
                    if up.send(self.work(message)).await.is_err() {
                        break;
                    }
                }
            });
        }
        while level.len() > 1 {
            let mut lower = std::mem::take(&mut level).into_iter();
            while let (Some(mut left), Some(mut right)) = (lower.next(), lower.next()) {
                let (up, answers) = mpsc::channel(1);
                level.push(answers);
                executor.spawn(async move {
                    while let (Some(left), Some(right)) = (left.recv().await, right.recv().await) {
                        if up.send(self.work(left.wrapping_add(right))).await.is_err() {
                            break;
                        }
                    }
                });
            }
        }
        let mut root = level.pop().expect("there is a root");
        executor.run(async move {
            let mut rounds = self.timed();
            while let Some(round) = rounds.next() {
                for start in &starts {
                    start.send(round.into()).await.expect("the leaf waits");
                }
                root.recv().await.expect("the root answers");
            }
            rounds.measured()
        })
    }

    fn ring(self, executor: &Executor) -> Measured {
        let (into, mut input) = mpsc::channel::<u64>(1);
        for _ in 0..self.n {
            let (output, next) = mpsc::channel(1);
            let mut own = std::mem::replace(&mut input, next);
            executor.spawn(async move {
                while let Some(message) = own.recv().await {
                    if output.send(self.work(message)).await.is_err() {
                        break;
                    }
                }
            });
        }
        executor.run(async move {
            let mut rounds = self.timed();
            while let Some(round) = rounds.next() {
                into.send(round.into()).await.expect("the ring runs");
                input.recv().await.expect("the message comes back");
            }
            rounds.measured()
        })
    }

    /// Runs the pairs of clients and servers. In a round, each pair has one request. Pairs do not wait for each
    /// other.
    fn request_reply(self, executor: &Executor) -> Measured {
        let (report, mut reports) = mpsc::channel::<()>(self.n as usize);
        let mut starts = Vec::new();
        for _ in 0..self.n / 2 {
            let (start, mut starting) = mpsc::channel::<u32>(1);
            let (ask, mut requests) = mpsc::channel::<u64>(1);
            let (answer, mut answers) = mpsc::channel::<u64>(1);
            starts.push(start);
            let report = report.clone();
            executor.spawn(async move {
                while let Some(rounds) = starting.recv().await {
                    for round in 0..rounds {
                        ask.send(round.into()).await.expect("the server waits");
                        answers.recv().await.expect("the server answers");
                    }
                    report.send(()).await.expect("the main task counts");
                }
            });
            executor.spawn(async move {
                while let Some(request) = requests.recv().await {
                    if answer.send(self.work(request)).await.is_err() {
                        break;
                    }
                }
            });
        }
        // The main task starts each pair only twice: for all warm-up rounds, then for all measured rounds.
        executor.run(async move {
            let mut phases = Rounds::new(1, 1);
            while let Some(phase) = phases.next() {
                for start in &starts {
                    start.send(if phase == 0 { self.warm_up() } else { self.rounds }).await.expect("the client waits");
                }
                for _ in 0..starts.len() {
                    reports.recv().await.expect("the client reports");
                }
            }
            phases.measured()
        })
    }

    /// Returns the measured rounds as a fraction of all rounds.
    pub fn measured_part(self) -> f64 {
        f64::from(self.rounds) / f64::from(self.rounds + self.warm_up())
    }

    /// Returns the number of warm-up rounds, which are not measured.
    fn warm_up(self) -> u32 {
        (self.rounds / 5).max(3)
    }

    fn timed(self) -> Rounds {
        Rounds::new(self.warm_up(), self.rounds)
    }
}

fn leaves(n: u32) -> u64 {
    u64::from(n.next_power_of_two())
}

/// A counter of rounds that measures all rounds after the warm-up.
struct Rounds {
    next: u32,
    warm_up: u32,
    all: u32,
    began: Instant,
    used: Usage,
}

impl Rounds {
    fn new(warm_up: u32, measured: u32) -> Rounds {
        Rounds { next: 0, warm_up, all: warm_up + measured, began: Instant::now(), used: Usage::of_this_process() }
    }

    fn next(&mut self) -> Option<u32> {
        if self.next == self.warm_up {
            self.used = Usage::of_this_process();
            self.began = Instant::now();
        }
        let round = self.next;
        self.next += 1;
        (round < self.all).then_some(round)
    }

    fn measured(&self) -> Measured {
        let seconds = self.began.elapsed().as_secs_f64();
        let used = Usage::of_this_process().since(self.used);
        Measured { seconds, switches: used.voluntary_switches + used.involuntary_switches }
    }
}
