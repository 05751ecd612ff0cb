//! Property tests: a graph agrees with the run that was recorded, also after writing, reading and scaling.

use comity_graph::{About, Graph, Recorder, Scale, Step};
use proptest::collection::vec;
use proptest::prelude::*;

/// A part of a simulated run, which a [`Teller`] reports to a recorder.
#[derive(Clone, Debug)]
enum Part {
    Run(u64),
    Fork(Vec<Vec<Part>>),
    Repeat(u32, Vec<Part>),
}

fn program() -> impl Strategy<Value = Vec<Part>> {
    let leaf = vec((1..5_000u64).prop_map(Part::Run), 0..3);
    leaf.prop_recursive(4, 60, 4, |inner| {
        let part = prop_oneof![
            (1..5_000u64).prop_map(Part::Run),
            vec(inner.clone(), 2..4).prop_map(Part::Fork),
            ((1..9u32), inner).prop_map(|(times, part)| Part::Repeat(times, part)),
        ];
        vec(part, 0..4)
    })
}

/// A simulated run, in which time passes only during stretches. Also computes the expected measures of the graph.
struct Teller {
    now: u64,
    recorder: Recorder,
    work: u64,
    tasks: u64,
    /// The increase of a stretch's length with each repetition, in ns.
    drift: u64,
}

impl Teller {
    fn new(merge_ns: u64, drift: u64) -> Teller {
        Teller { now: 0, recorder: Recorder::new(0, merge_ns, 0, 0.0), work: 0, tasks: 1, drift }
    }

    /// Reports the parts to the recorder, and returns their span in ns.
    fn tell(&mut self, parts: &[Part], nth: u64) -> u64 {
        let mut span = 0;
        for part in parts {
            match part {
                Part::Run(length) => {
                    let length = length + nth * self.drift;
                    (self.now, self.work, span) = (self.now + length, self.work + length, span + length);
                }
                Part::Fork(children) => {
                    let mut longest = 0;
                    self.recorder.stop(self.now);
                    self.recorder.fork();
                    for (which, child) in children.iter().enumerate() {
                        if which > 0 {
                            self.recorder.stop(self.now);
                            self.recorder.next();
                        }
                        self.recorder.go(self.now);
                        longest = longest.max(self.tell(child, nth));
                    }
                    self.recorder.stop(self.now);
                    self.recorder.join();
                    self.recorder.go(self.now);
                    self.tasks += children.len() as u64;
                    span += longest;
                }
                Part::Repeat(times, inner) => {
                    span += (0..*times).map(|again| self.tell(inner, nth + u64::from(again))).sum::<u64>();
                }
            }
        }
        span
    }

    fn graph(mut self) -> Graph {
        self.recorder.stop(self.now);
        self.recorder.finish(About { program: "made up".into(), ..About::default() }).unwrap()
    }
}

fn is_exact(graph: &Graph) -> bool {
    let steps = graph.tasks().iter().flat_map(|task| &task.0);
    steps.into_iter().all(|step| !matches!(step, Step::Run(stretch) if stretch.parts().len() > 1))
}

/// True if `found` exceeds `wanted` only by rounding: each first stretch lasts at least 1 ns, even if it was empty.
fn nearly(found: u64, wanted: u64, tasks: u128) -> bool {
    found >= wanted && u128::from(found - wanted) <= 2 * tasks
}

proptest! {
    #[test]
    fn what_unfolds_is_what_was_told(parts in program(), seed: u64) {
        let mut teller = Teller::new(0, 0);
        let span = teller.tell(&parts, 0);
        let (work, tasks) = (teller.work, teller.tasks);
        let graph = teller.graph();
        prop_assert_eq!(graph.about.span_ns, span);
        prop_assert_eq!((graph.count_tasks(), graph.merged_joins()), (tasks.into(), 0));
        let found = graph.measure(seed);
        let steps = 10 * u128::from(tasks);
        prop_assert!(found.work.abs_diff(work) as u128 <= steps, "{found:?}, {work}");
        // The span is exact only without distributions, from which the lengths of repetitions are drawn.
        if is_exact(&graph) {
            prop_assert!(nearly(found.span, span, steps), "{found:?}, {span}");
        }
        prop_assert!(graph.leaves().count <= tasks);
    }

    #[test]
    fn merging_changes_no_work_and_lengthens_the_span_alone(parts in program(), least in 1..20_000u64, drift in 0..300u64) {
        let mut teller = Teller::new(least, drift);
        let span = teller.tell(&parts, 0);
        let (work, tasks) = (teller.work, teller.tasks);
        let graph = teller.graph();
        let (found, slack) = (graph.measure(0), 10 * u128::from(tasks));
        // The mean lengths in distributions are rounded.
        prop_assert!(u128::from(found.work.abs_diff(work)) <= slack, "{found:?}, {work}");
        prop_assert!(graph.count_tasks() <= tasks.into());
        if is_exact(&graph) {
            prop_assert!(u128::from(found.span) + slack >= span.into(), "{found:?}, {span}");
        }
        // A task is short if its mean length is below `least`, so a single drawn length may be below `least`.
        let leaves = graph.leaves();
        prop_assert!(leaves.count == 1 || leaves.tenth + 1 >= least / 2 || !is_exact(&graph), "{leaves:?}");
    }

    #[test]
    fn what_is_written_is_read(parts in program(), least in 0..5_000u64, drift in 0..300u64, seed: u64) {
        let mut teller = Teller::new(least, drift);
        teller.tell(&parts, 0);
        let graph = teller.graph();
        let mut file = Vec::new();
        graph.write(&mut file).unwrap();
        let read = Graph::read(&mut file.as_slice()).unwrap();
        prop_assert_eq!(&read, &graph);
        prop_assert_eq!(read.measure(seed), graph.measure(seed));
        // The work does not depend on the seed.
        prop_assert_eq!(graph.measure(seed).work, graph.measure(!seed).work);
    }

    #[test]
    fn no_change_of_a_file_makes_it_panic(parts in program(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut teller = Teller::new(0, 10);
        teller.tell(&parts, 0);
        let mut file = Vec::new();
        teller.graph().write(&mut file).unwrap();
        let whole = file.len();
        let place = at.index(whole);
        file[place] = byte;
        if let Err(why) = Graph::read(&mut file.as_slice()) {
            prop_assert!(!why.is_empty());
        }
        file.truncate(cut.index(whole));
        prop_assert!(Graph::read(&mut file.as_slice()).is_err());
    }

    #[test]
    fn a_wider_graph_has_as_many_times_the_leaves(leaves in 2..40usize, times in 1..30u32, width in 1..6u32) {
        let leaf = vec![Part::Run(3_000)];
        let phase = vec![Part::Run(100), Part::Fork(vec![leaf; leaves])];
        let mut teller = Teller::new(0, 7);
        teller.tell(&[Part::Run(500), Part::Repeat(times, phase)], 0);
        let graph = teller.graph();
        let wide = graph.scaled(Scale { width: width.into(), ..Scale::default() }).unwrap();
        prop_assert_eq!(wide.leaves().count, u64::from(width) * graph.leaves().count);
    }
}

proptest! {
    #[test]
    fn so_many_phases_are_so_many_times_the_work(widths in vec(2..40usize, 1..30), phases in 1..8u32, between in 1..500u64) {
        let phase = |width: usize| vec![Part::Fork(vec![vec![Part::Run(3_000)]; width]), Part::Run(between)];
        let parts = [vec![Part::Run(700)], widths.iter().flat_map(|width| phase(*width)).collect()].concat();
        let mut teller = Teller::new(0, 0);
        let span = teller.tell(&parts, 0);
        let graph = teller.graph();
        let scaled = graph.scaled(Scale { phases: phases.into(), ..Scale::default() }).unwrap();
        let leaves: usize = widths.iter().sum();
        prop_assert_eq!(graph.leaves().count, leaves as u64);
        prop_assert_eq!(scaled.leaves().count, u64::from(phases) * leaves as u64);
        // The parts before the first phase and after the last phase occur once. If all phases are equal, they become
        // one repetition, in which a stretch of `between` ns also precedes the first phase.
        let (once, times, found) = (700 + between, u64::from(phases), scaled.measure(0));
        let slack = u128::from(times) * (2 * widths.len() as u128 + u128::from(between));
        prop_assert!(nearly(found.span, once + times * (span - once), slack), "{found:?}, {span}");
        prop_assert_eq!(found.work - found.span, times * 3_000 * (leaves - widths.len()) as u64);
        // Scaling in two steps gives the same result.
        let again = scaled.scaled(Scale { phases: 2.0, ..Scale::default() }).unwrap();
        prop_assert_eq!(again.leaves().count, 2 * scaled.leaves().count);
    }
}

#[test]
fn what_recurs_is_kept_once() {
    let leaf = vec![Part::Run(20_000)];
    let halved = vec![Part::Fork(vec![vec![Part::Fork(vec![leaf.clone(), leaf.clone()])], leaf])];
    let other = vec![Part::Fork(vec![vec![Part::Run(30_000)]; 5])];
    let step = vec![Part::Repeat(25, [vec![Part::Run(50)], halved.clone(), vec![Part::Run(70)], halved].concat())];
    let all = [Part::Run(1_000), Part::Repeat(15, [step, vec![Part::Run(9)], other].concat())];
    let mut teller = Teller::new(2_000, 3);
    teller.tell(&all, 0);
    let (work, tasks) = (teller.work, teller.tasks);
    let graph = teller.graph();
    assert_eq!(graph.count_tasks(), tasks.into());
    assert!(graph.tasks().len() < 20, "{} tasks are kept", graph.tasks().len());
    assert!(graph.measure(5).work.abs_diff(work) < 10_000);
}

#[test]
fn what_comes_before_a_repetition_is_no_part_of_it() {
    let phase = vec![Part::Run(50), Part::Fork(vec![vec![Part::Run(20_000)]; 4])];
    let mut teller = Teller::new(0, 0);
    let span = teller.tell(&[Part::Run(7_000), Part::Repeat(10, phase)], 0);
    let graph = teller.graph();
    assert_eq!(graph.measure(0).span, span);
    let more = graph.scaled(Scale { repeats: 5.0, ..Scale::default() }).unwrap();
    assert_eq!(more.measure(0).span, 7_000 + 50 * 20_050);
}

#[test]
fn a_large_graph_is_rounded_and_has_the_same_work() {
    fn tree(levels: u32, seed: &mut u64) -> Vec<Part> {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let run = Part::Run(2_000 + (*seed >> 33) % 8_000);
        if levels == 0 {
            vec![run]
        } else {
            vec![run, Part::Fork(vec![tree(levels - 1, seed), tree(levels - 1, seed)])]
        }
    }
    let mut teller = Teller::new(1_000, 0);
    let span = teller.tell(&tree(13, &mut 1), 0);
    let (work, tasks) = (teller.work, teller.tasks);
    let graph = teller.graph();
    assert_eq!(graph.count_tasks(), tasks.into());
    // Without rounding, no two tasks would be equal.
    assert!(graph.tasks().len() < tasks as usize * 7 / 10, "{} of {tasks} are kept", graph.tasks().len());
    let found = graph.measure(0);
    assert!(found.work.abs_diff(work) < 100_000, "{found:?}, {work}");
    assert!(found.span.abs_diff(span) < span / 50, "{found:?}, {span}");
}

#[test]
fn many_short_tasks_of_one_fork_become_fewer_and_stay_beside_each_other() {
    // The recorder keeps at most 500 000 short tasks. Of 700 000 tasks, it merges the last ones during the run.
    for count in [10_000, 700_000] {
        let mut teller = Teller::new(2_000, 0);
        teller.tell(
            &[
                Part::Run(5_000),
                Part::Fork(vec![vec![Part::Run(300)]; 2]),
                Part::Fork(vec![vec![Part::Run(300)]; count]),
            ],
            0,
        );
        let graph = teller.graph();
        let (found, leaves) = (graph.measure(0), graph.leaves());
        assert_eq!(found.work, 5_600 + 300 * count as u64);
        assert!(found.span <= 5_600 + 2 * 2_400, "{found:?}");
        // Each leaf consists of seven tasks.
        assert!((leaves.count as i64 - count as i64 / 7).abs() < 2 && leaves.median == 2_100, "{leaves:?}");
        assert_eq!(u128::from(graph.merged_joins()) + graph.count_tasks(), 1 + 1 + count as u128);
    }
}

#[test]
fn short_tasks_beside_long_ones_are_merged_alike_whether_at_once_or_at_the_end() {
    let of = |length| vec![Part::Run(length)];
    let mixed = [vec![of(300); 3], vec![of(5_000)], vec![of(300); 6], vec![of(7_000)]].concat();
    let told = |parts: &[Part]| {
        let mut teller = Teller::new(2_000, 0);
        teller.tell(parts, 0);
        let graph = teller.graph();
        let (found, leaves) = (graph.measure(0), graph.leaves());
        [found.work, found.span, leaves.count, graph.count_tasks() as u64 - 1, graph.merged_joins()]
    };
    let many = [Part::Run(5_000), Part::Fork(vec![of(300); 600_000])];
    let few = [Part::Run(5_000), Part::Fork(mixed)];
    let alone = told(&few);
    // Seven of the nine short tasks become one task, and the parent runs the other two.
    assert_eq!(alone, [19_700, 5_600 + 7_000, 3, 3, 8]);
    let before = told(&many);
    let both = told(&[many, few].concat());
    assert_eq!(both, std::array::from_fn(|nth| before[nth] + alone[nth]));
}

#[test]
fn what_is_recorded_apart_is_as_if_it_was_told_in_one_fork() {
    let forks = |length| vec![Part::Run(length), Part::Fork(vec![vec![Part::Run(3_000)], vec![Part::Run(length)]])];
    let tasks =
        |count: u64| (0..count).map(move |nth| if nth % 50 == 0 { forks(nth % 900) } else { vec![Part::Run(300)] });
    for count in [1, 30, 600_000] {
        let mut together = Teller::new(2_000, 0);
        together.tell(&[Part::Fork(tasks(count).collect())], 0);
        let mut apart = Teller::new(2_000, 0);
        // A task that never ends is never added, and must not change the graph.
        let _endless = apart.recorder.apart();
        for task in tasks(count) {
            let other = apart.recorder.apart();
            let mut teller = Teller { now: 0, recorder: other, work: 0, tasks: 0, drift: 0 };
            teller.tell(&task, 0);
            teller.recorder.stop(teller.now);
            apart.recorder.add(teller.recorder);
        }
        apart.recorder.join();
        assert_eq!(apart.graph(), together.graph());
    }
}
