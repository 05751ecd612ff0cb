//! Makes the first tables of docs/results/kernel-model.md: the fair queues of Linux 2.6.36 at their least, and four
//! programs by hand, under ABP or without yields, on 32 cores.
//!
//! usage: rustc --edition 2021 -O -o first-look lab/bench/first-look.rs && ./first-look [KEY=VALUE…]
//! Keys and defaults are in `main`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Nanoseconds.
type Ns = u64;
/// Leaves of a phase: from, to.
type Range = (u32, u32);

/// A serial part, then a parallel loop of so many leaves. The worker that ends the last leaf goes on with the next phase.
#[derive(Clone)]
struct Phase {
    serial: Ns,
    leaves: u32,
    leaf: Ns,
}

#[derive(Clone)]
struct Shape {
    name: &'static str,
    phases: Vec<Phase>,
    workers: usize,
    /// So many cores use all of the memory's bandwidth; with more each leaf takes longer.
    bandwidth: f64,
}

struct Program {
    shape: Shape,
    phase: usize,
    left: u32,
    began: Ns,
    rounds: Vec<Ns>,
    deques: Vec<VecDeque<Range>>,
    /// The time for which its workers have had a core and a task.
    busy: Ns,
}

#[derive(Clone, Copy)]
enum Doing {
    Serial,
    Leaf,
    Yield,
    Steal,
}

struct Thread {
    program: usize,
    worker: usize,
    vruntime: Ns,
    doing: Doing,
    /// Of what it does.
    left: Ns,
    has_task: bool,
}

struct Core {
    queue: Vec<usize>,
    current: Option<usize>,
    charged: Ns,
    /// Since it was switched to.
    ran: Ns,
    next_tick: Ns,
    /// Which of the events in the heap counts.
    version: u64,
}

#[derive(Clone)]
struct Kernel {
    cores: usize,
    latency: Ns,
    granularity: Ns,
    tick: Ns,
    /// `sched_compat_yield`: a yield goes behind all others of the queue. Else it changes nothing.
    compat_yield: bool,
    switch: Ns,
    yield_call: Ns,
    steal: Ns,
    /// ABP: a thief yields before each attempt.
    thieves_yield: bool,
    seed: u64,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 32) as usize * bound) >> 32
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

struct Machine {
    kernel: Kernel,
    programs: Vec<Program>,
    threads: Vec<Thread>,
    cores: Vec<Core>,
    events: BinaryHeap<Reverse<(Ns, usize, u64)>>,
    now: Ns,
    random: Random,
}

impl Machine {
    /// The workers of each program begin on cores with the shortest queues, as at a fork. All stay runnable, so none is
    /// moved.
    fn new(kernel: Kernel, shapes: &[&Shape]) -> Machine {
        let core = |nth: usize| Core {
            queue: Vec::new(),
            current: None,
            charged: 0,
            ran: 0,
            next_tick: kernel.tick + nth as u64 * 37_123 % kernel.tick,
            version: 0,
        };
        let mut machine = Machine {
            cores: (0..kernel.cores).map(core).collect(),
            programs: Vec::new(),
            threads: Vec::new(),
            events: BinaryHeap::new(),
            now: 0,
            random: Random(kernel.seed * 7919 + 12_345),
            kernel,
        };
        for (program, shape) in shapes.iter().enumerate() {
            let first = machine.threads.len();
            let mut order: Vec<usize> = (0..machine.cores.len()).collect();
            (1..order.len()).rev().for_each(|i| order.swap(i, machine.random.below(i + 1)));
            order.sort_by_key(|core| machine.cores[*core].queue.len());
            for worker in 0..shape.workers {
                machine.cores[order[worker % order.len()]].queue.push(first + worker);
                let (vruntime, doing, left, has_task) = (0, Doing::Yield, 0, false);
                machine.threads.push(Thread { program, worker, vruntime, doing, left, has_task });
            }
            let (shape, deques) = ((*shape).clone(), vec![VecDeque::new(); shape.workers]);
            machine.programs.push(Program { shape, phase: 0, left: 0, began: 0, rounds: Vec::new(), deques, busy: 0 });
            machine.begin_phase(first);
        }
        for core in 0..machine.cores.len() {
            if !machine.cores[core].queue.is_empty() {
                machine.switch(core);
            }
        }
        machine
    }

    fn begin_phase(&mut self, thread: usize) {
        let thread = &mut self.threads[thread];
        let program = &self.programs[thread.program];
        (thread.doing, thread.has_task) = (Doing::Serial, true);
        thread.left = program.shape.phases[program.phase].serial.max(1);
    }

    /// Halves the range down to a leaf, and leaves the other halves to thieves.
    fn begin(&mut self, thread: usize, (from, mut to): Range) {
        let Thread { program: nth, worker, .. } = self.threads[thread];
        let program = &mut self.programs[nth];
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            program.deques[worker].push_back((middle, to));
            to = middle;
        }
        let computes = |core: &&Core| {
            core.current.is_some_and(|other| self.threads[other].program == nth && self.threads[other].has_task)
        };
        let computing = self.cores.iter().filter(computes).count() as f64;
        let slower = (computing / program.shape.bandwidth).max(1.0);
        let scatter = 0.75 + 0.5 * self.random.unit();
        let leaf = program.shape.phases[program.phase].leaf as f64 * slower * scatter;
        let thread = &mut self.threads[thread];
        (thread.doing, thread.left, thread.has_task) = (Doing::Leaf, (leaf as Ns).max(1), true);
    }

    fn search(&mut self, thread: usize) {
        let thread = &mut self.threads[thread];
        (thread.doing, thread.left) = match self.kernel.thieves_yield {
            true => (Doing::Yield, self.kernel.yield_call),
            false => (Doing::Steal, self.kernel.steal),
        };
        thread.has_task = false;
    }

    /// What the thread did is done. True: it was the call of a yield.
    fn is_done(&mut self, thread: usize) -> bool {
        let Thread { program: nth, worker, doing, .. } = self.threads[thread];
        let program = &mut self.programs[nth];
        match doing {
            Doing::Serial => {
                program.left = program.shape.phases[program.phase].leaves;
                let all = (0, program.left);
                self.begin(thread, all);
            }
            Doing::Leaf => {
                program.left -= 1;
                if program.left == 0 {
                    program.phase += 1;
                    if program.phase == program.shape.phases.len() {
                        program.phase = 0;
                        program.rounds.push(self.now - program.began);
                        program.began = self.now;
                    }
                    self.begin_phase(thread);
                } else if let Some(range) = program.deques[worker].pop_back() {
                    self.begin(thread, range);
                } else {
                    self.search(thread);
                }
            }
            Doing::Yield => {
                (self.threads[thread].doing, self.threads[thread].left) = (Doing::Steal, self.kernel.steal);
                return true;
            }
            Doing::Steal => {
                let victim = (worker + 1 + self.random.below(program.shape.workers - 1)) % program.shape.workers;
                match program.deques[victim].pop_front() {
                    Some(range) => self.begin(thread, range),
                    None => self.search(thread),
                }
            }
        }
        false
    }

    /// The thread with the least virtual run time comes next.
    fn switch(&mut self, nth: usize) {
        let core = &mut self.cores[nth];
        let before = core.current.take();
        core.queue.extend(before);
        let key = |at: &usize| (self.threads[core.queue[*at]].vruntime, Some(core.queue[*at]) == before);
        let next = (0..core.queue.len()).min_by_key(key).expect("a thread is queued");
        let next = core.queue.swap_remove(next);
        (core.current, core.ran, core.charged) = (Some(next), 0, self.now);
        if before.is_some_and(|before| before != next) {
            self.threads[next].left += self.kernel.switch;
        }
        self.schedule(nth);
    }

    fn schedule(&mut self, nth: usize) {
        let core = &mut self.cores[nth];
        let current = core.current.expect("a core runs a thread");
        let mut at = self.now + self.threads[current].left;
        if !core.queue.is_empty() {
            while core.next_tick <= self.now {
                core.next_tick += self.kernel.tick;
            }
            at = at.min(core.next_tick);
        }
        core.version += 1;
        self.events.push(Reverse((at, nth, core.version)));
    }

    fn step(&mut self) {
        let Reverse((at, nth, version)) = self.events.pop().expect("threads run");
        if self.cores[nth].version != version {
            return;
        }
        self.now = at;
        let core = &mut self.cores[nth];
        let current = core.current.expect("a core runs a thread");
        let ran = at - core.charged;
        (core.charged, core.ran) = (at, core.ran + ran);
        let thread = &mut self.threads[current];
        (thread.vruntime, thread.left) = (thread.vruntime + ran, thread.left - ran);
        if thread.has_task {
            self.programs[thread.program].busy += ran;
        }
        let mut switches = false;
        if self.threads[current].left == 0 && self.is_done(current) && self.kernel.compat_yield {
            let last = self.cores[nth].queue.iter().map(|other| self.threads[*other].vruntime).max();
            if let Some(last) = last {
                self.threads[current].vruntime = self.threads[current].vruntime.max(last + 1);
                switches = true;
            }
        }
        let core = &self.cores[nth];
        if !core.queue.is_empty() && at >= core.next_tick {
            let threads = core.queue.len() as u64 + 1;
            let slice = self.kernel.latency.max(self.kernel.granularity * threads) / threads;
            let least = core.queue.iter().map(|other| self.threads[*other].vruntime).min().unwrap_or(0);
            let ahead = self.threads[current].vruntime.saturating_sub(least);
            switches |= core.ran > slice || core.ran >= self.kernel.granularity && ahead > slice;
        }
        match switches {
            true => self.switch(nth),
            false => self.schedule(nth),
        }
    }

    /// Until each program has been done so often, the first round not counted.
    fn run(mut self, rounds: usize) -> Machine {
        while self.now < 60_000_000_000 && self.programs.iter().any(|program| program.rounds.len() <= rounds) {
            self.step();
        }
        self
    }

    fn round(&self, program: usize) -> f64 {
        let rounds = &self.programs[program].rounds[1..];
        rounds.iter().sum::<Ns>() as f64 / rounds.len() as f64
    }
}

fn main() {
    let given: HashMap<String, f64> = std::env::args()
        .skip(1)
        .map(|word| {
            let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("'{word}' is not KEY=VALUE"));
            (key.to_owned(), value.parse().unwrap_or_else(|_| panic!("'{value}' is not a number")))
        })
        .collect();
    let get = |key: &str, default: f64| given.get(key).copied().unwrap_or(default);
    let us = |key: &str, default: f64| (get(key, default) * 1e3) as Ns;

    // By hand, all in µs; what of it is tuned is said in kernel-model.md.
    let loops = |name: &str, default: [f64; 4]| {
        let value = |what: &str, nth: usize| get(&format!("{name}.{what}"), default[nth]);
        let (leaf, work) = (value("leaf", 3), value("work", 2));
        let phase =
            Phase { serial: (value("serial", 1) * 1e3) as Ns, leaves: (work / leaf) as u32, leaf: (leaf * 1e3) as Ns };
        vec![phase; value("phases", 0) as usize]
    };
    let frontiers = || {
        let (levels, work, leaf) = (get("bfs.levels", 17.0), get("bfs.work", 3_800_000.0), us("bfs.leaf", 260.0));
        let weight = |level: f64| (-get("bfs.sharp", 4.0) * ((level + 0.5) / levels - 0.5).powi(2)).exp();
        let all: f64 = (0..levels as usize).map(|level| weight(level as f64)).sum();
        let leaves = |level: usize| (work * 1e3 * weight(level as f64) / all / leaf as f64).max(1.0) as u32;
        (0..levels as usize)
            .map(|level| Phase { serial: us("bfs.serial", 900.0), leaves: leaves(level), leaf })
            .collect()
    };
    let shape = |name: &'static str, phases: Vec<Phase>, workers| {
        let bandwidth = get(&format!("{name}.bandwidth"), if name == "bfs" { 24.0 } else { f64::INFINITY });
        Shape { name, phases, workers, bandwidth }
    };
    let bfs = shape("bfs", frontiers(), 32);
    let ep = shape("ep", loops("ep", [1.0, 500.0, 50_000_000.0, 5_000.0]), 32);
    let cg = shape("cg", loops("cg", [118.0, 3_560.0, 48_800.0, 177.0]), 32);
    let cg_of_16 = Shape { workers: 16, ..cg.clone() };
    let mm = shape("mm", loops("mm", [57.0, 63.0, 280_000.0, 215.0]), 32);

    let kernel = |thieves_yield, seed| Kernel {
        cores: 32,
        latency: us("latency", 24_000.0),
        granularity: us("granularity", 8_000.0),
        tick: us("tick", 1_000.0),
        compat_yield: get("compat_yield", 1.0) > 0.0,
        switch: us("switch", 1.5),
        yield_call: us("yield", 0.7),
        steal: us("steal", 0.5),
        thieves_yield,
        seed,
    };
    let rounds = get("rounds", 4.0) as usize;
    for (title, pair, base, thieves_yield) in [
        ("bfs + ep", [&bfs, &ep], [&bfs, &ep], true),
        ("cg + mm", [&cg, &mm], [&cg, &mm], true),
        ("cg of 16 + mm", [&cg_of_16, &mm], [&cg, &mm], true),
        ("cg + mm without yields", [&cg, &mm], [&cg, &mm], false),
    ] {
        let mut found: [Vec<f64>; 6] = Default::default();
        for seed in 1..=get("seeds", 5.0) as u64 {
            let together = Machine::new(kernel(thieves_yield, seed), &pair).run(rounds);
            for nth in 0..2 {
                let alone = Machine::new(kernel(true, seed), &[base[nth]]).run(rounds).round(0);
                let work: Ns =
                    base[nth].phases.iter().map(|phase| phase.serial + Ns::from(phase.leaves) * phase.leaf).sum();
                found[nth].push((together.round(nth) / alone - 1.0) * 100.0);
                found[2 + nth].push(work as f64 / alone);
                found[4 + nth].push(together.programs[nth].busy as f64 / together.now as f64);
            }
        }
        let shown = found.each_mut().map(|values| {
            values.sort_by(f64::total_cmp);
            let digits = if values[0].abs() < 40.0 { 1 } else { 0 };
            let [least, median, most] = [0, values.len() / 2, values.len() - 1].map(|nth| values[nth]);
            format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
        });
        let names = pair.map(|shape| shape.name);
        println!(
            "{title}: slowdown in % of {} {}, of {} {}; speedup alone {}, {}; cores with a task {}, {}",
            names[0], shown[0], names[1], shown[1], shown[2], shown[3], shown[4], shown[5]
        );
    }
}
