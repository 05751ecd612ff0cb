//! The programs of the BWS and DWS papers: kernels of this repository. Each program was recorded once, and the
//! recording is part of the sources, so that all simulations use the same graph. `comity-lab record NAME --out FILE`
//! makes such a file; its first line describes the recording.
//!
//! Two recordings are not only scaled. For CG, the steps of conjugate gradients are repeated, because an execution of
//! class B consists of thousands of similar phases. For CLIP, the pairs come in batches, with a serial stretch before
//! each batch. The paper's CLIP has a speedup below 16, but one loop over all pairs would use all cores of the
//! machine.

use std::sync::Arc;

use comity_graph::{Graph, Scale, Step, Stretch, Task, TaskId};

/// Includes a recording from this folder.
macro_rules! recording {
    ($name:literal) => {
        ($name, include_bytes!(concat!("programs/", $name, ".graph")).as_slice())
    };
}

/// The recordings, by name.
const RECORDINGS: [(&str, &[u8]); 15] = [
    recording!("bfs"),
    recording!("ep"),
    recording!("mm"),
    recording!("raytrace"),
    recording!("cg"),
    recording!("clip"),
    recording!("mi"),
    recording!("fft"),
    recording!("pnn"),
    recording!("cholesky"),
    recording!("lu"),
    recording!("ge"),
    recording!("heat"),
    recording!("sor"),
    recording!("mergesort"),
];

/// Returns the recording of a program, scaled.
///
/// # Panics
/// If there is no recording of this name, or if the recording cannot be scaled by `scale`.
pub fn recorded(name: &str, scale: Scale) -> Arc<Graph> {
    Arc::new(read(name).scaled(scale).unwrap_or_else(|why| panic!("{name}: {why}")))
}

fn read(name: &str) -> Graph {
    let mut bytes = RECORDINGS.iter().find(|(known, _)| *known == name).expect("it is recorded").1;
    Graph::read(&mut bytes).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Returns a program of `steps` steps of CG, each scaled by `scale`.
pub fn conjugate_gradients(steps: u32, scale: Scale) -> Arc<Graph> {
    let graph = read("cg").scaled(scale).unwrap_or_else(|why| panic!("cg: {why}"));
    // Returns the task that `task` repeats. The root of CG repeats a step of the inverse iteration, and this step
    // repeats a step of conjugate gradients.
    let recurs = |task: TaskId| {
        graph.tasks()[task as usize].0.iter().find_map(|step| match step {
            Step::Repeat { task, .. } => Some(*task),
            _ => None,
        })
    };
    let step = recurs(graph.root()).and_then(recurs).expect("CG has steps of steps");
    again(&graph, graph.tasks()[..=step as usize].to_vec(), steps)
}

/// Returns a program of `batches` batches of CLIP's pairs. Each batch begins with a serial stretch of `serial` ns.
pub fn clip_in_batches(batches: u32, serial: u64, scale: Scale) -> Arc<Graph> {
    let graph = read("clip").scaled(scale).unwrap_or_else(|why| panic!("clip: {why}"));
    let mut tasks = graph.tasks().to_vec();
    let batch = tasks.last_mut().expect("a graph has a root");
    batch.0[0] = Step::Run(Stretch::of(serial, 0));
    again(&graph, tasks, batches)
}

/// Returns a program that executes `graph` `times` times in sequence.
pub fn repeated(graph: &Graph, times: u32) -> Arc<Graph> {
    again(graph, graph.tasks().to_vec(), times)
}

/// Returns a program that begins with a serial stretch and then executes `graph`, which takes `parallel` ns alone.
/// The stretch takes `thousandths` / 1000 of the whole time alone.
pub fn set_up(graph: &Graph, parallel: f64, thousandths: u32) -> Arc<Graph> {
    let part = f64::from(thousandths) / 1e3;
    after((parallel * part / (1.0 - part)) as u64 + 1, graph, graph.tasks().to_vec(), 1)
}

/// Returns the scale of a program on a machine that is slower, by this factor, than the machine of the recording.
pub fn slower(times: f64) -> Scale {
    Scale { length: times, serial: times, ..Scale::default() }
}

/// Returns the scale for class B of CG on a machine that is slower by the factor `times`. The factor `more` increases
/// the number of tasks beyond class B. The recording has class A: 14,000 rows of 132.3 nonzeros. Class B has 75,000
/// rows of 182.6 nonzeros.
pub fn class_b(times: f64, more: f64) -> Scale {
    let (rows, nonzeros) = (75_000.0 / 14_000.0, 182.6 / 132.3);
    Scale { width: rows * more, length: times * nonzeros, serial: times * rows, ..Scale::default() }
}

/// Returns a program that repeats the last of these tasks `times` times.
fn again(of: &Graph, tasks: Vec<Task>, times: u32) -> Arc<Graph> {
    after(1, of, tasks, times)
}

/// Returns a program that repeats the last of these tasks `times` times, after a serial stretch of `serial` ns.
fn after(serial: u64, of: &Graph, mut tasks: Vec<Task>, times: u32) -> Arc<Graph> {
    let task = tasks.len() as TaskId - 1;
    tasks.push(Task(vec![Step::Run(Stretch::of(serial, 0)), Step::Repeat { task, times }]));
    Arc::new(Graph::new(of.about.clone(), tasks).expect("its tasks are those of a graph"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_read_and_scaled() {
        for (name, _) in RECORDINGS {
            let (plain, long) = (read(name), recorded(name, Scale { length: 2.0, serial: 2.0, ..Scale::default() }));
            let (plain, long) = (plain.measure(1), long.measure(1));
            assert!(long.work > plain.work && long.span > plain.span, "{name}");
        }
    }

    #[test]
    fn steps_and_batches_are_as_many_as_asked() {
        let steps = |steps| conjugate_gradients(steps, Scale::default()).measure(1);
        let (one, ten) = (steps(1), steps(10));
        let of_ten = (ten.work - 1) as f64 / (10 * (one.work - 1)) as f64;
        // One step takes about as long as the mean of ten steps.
        assert!((0.8..1.25).contains(&of_ten), "{of_ten}");
        let batches = |batches| clip_in_batches(batches, 1_000, Scale::default()).measure(1);
        let (one, ten) = (batches(1), batches(10));
        assert_eq!((ten.work - 1, ten.span - 1), (10 * (one.work - 1), 10 * (one.span - 1)));
        let plain = recorded("mm", Scale::default());
        let thrice = repeated(&plain, 3).measure(1);
        assert_eq!(thrice.work - 1, 3 * plain.measure(1).work);
        let (late, plain) = (set_up(&plain, 1e6, 500).measure(1), plain.measure(1));
        assert_eq!((late.work, late.span), (plain.work + 1_000_001, plain.span + 1_000_001));
    }
}
