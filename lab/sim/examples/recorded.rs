//! Measures the number of events per second that the simulator handles for a recorded program: `cargo run --release
//! -p comity-sim --example recorded -- FILE [CORES [SIMULATED SECONDS]]`.
//!
//! The program has a worker for each core, and starts again whenever it has ended. Fast checks run after every event.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use std::time::Instant;

use comity_graph::Graph;
use comity_sim::program::Recorded;
use comity_sim::threads::{Costs, Host};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(file) = arguments.first() else { return Err("name a recording".into()) };
    let number = |nth: usize, otherwise: u64| arguments.get(nth).map_or(Ok(otherwise), |text| text.parse());
    let (cores, seconds) = (number(1, 8)?, number(2, 2)?);
    let graph = Arc::new(Graph::read(&mut BufReader::new(File::open(file)?))?);
    for policy in ["abp", "bws", "comity"] {
        let mut host = Host::new(cores as usize, Costs::default(), 1);
        let program = Recorded::new(Arc::clone(&graph), 1);
        let program = host.submit(0, Box::new(program), policy.parse()?, cores as u32, 1);
        host.repeat(program);
        let start = Instant::now();
        host.run(seconds * 1_000_000_000, 1_000_000)?;
        let (took, events) = (start.elapsed().as_secs_f64(), host.events());
        let (executions, tasks) = (host.executions(program).len(), graph.count_tasks());
        println!(
            "{policy}: {executions} executions of {tasks} tasks, {events} events in {took:.3} s, {:.2} million a second",
            events as f64 / took / 1e6
        );
    }
    Ok(())
}
