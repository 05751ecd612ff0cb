//! A stage: the processes that run at the same time, either one program alone or all programs together.

use std::process::Command;
use std::time::Duration;

use super::Grouping;
use super::program::Program;
use crate::backend::Backend;
use crate::children::Children;
use crate::serve::Event;
use crate::trial::Round;
use comity_console::Failure;

/// A program and how to run it.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// The backend under which the program runs.
    pub backend: &'a Backend,
    /// The number of workers.
    pub workers: u16,
    /// The only core on which the program may run. `None`: any core.
    pub core: Option<usize>,
    /// The task group of the program.
    pub grouping: Grouping,
}

/// The processes of one stage. Dropping the stage ends all of them and all processes that they started.
pub struct Stage {
    processes: Children<Event>,
    number: usize,
}

impl Stage {
    /// Starts all processes and waits until each can run.
    pub fn open(launches: &[Launch<'_>], timeout: Duration) -> Result<Stage, Failure> {
        let mut stage = Stage { processes: Children::new(timeout), number: launches.len() };
        for (index, launch) in launches.iter().enumerate() {
            stage.processes.start(launch.program.to_string(), &mut command(launch))?;
            stage.processes.expect(index);
        }
        let mut ready = 0;
        while ready < stage.number {
            match stage.next()? {
                (_, Event::Ready) => ready += 1,
                (from, event) => return Err(stage.processes.fail(from, format!("sent {event:?} too early"))),
            }
        }
        Ok(stage)
    }

    /// Orders every program to run `rounds` rounds. `None`: rounds until the stage ends.
    pub fn go(&mut self, rounds: Option<usize>) -> Result<(), Failure> {
        let order = go_order(rounds);
        (0..self.number).try_for_each(|index| self.processes.tell(index, &order))
    }

    /// Orders one program to run `rounds` rounds, and waits for their end. The other programs must not have rounds
    /// left to run.
    pub fn rounds_of(&mut self, program: usize, rounds: usize, mut note: impl FnMut(Round)) -> Result<(), Failure> {
        (0..self.number).for_each(|index| self.processes.excuse(index));
        if rounds > 0 {
            self.processes.tell(program, &go_order(Some(rounds)))?;
        }
        (0..rounds).try_for_each(|_| self.next_round().map(|(_, round)| note(round)))
    }

    /// Waits until any program ends a round. Returns the program and the round.
    pub fn next_round(&mut self) -> Result<(usize, Round), Failure> {
        match self.next()? {
            (from, Event::Round(round)) => Ok((from, round)),
            (from, event) => Err(self.processes.fail(from, format!("sent {event:?} out of turn"))),
        }
    }

    /// Ends every process and all processes that they started.
    pub fn close(self) -> Result<(), Failure> {
        self.processes.close()
    }

    fn next(&mut self) -> Result<(usize, Event), Failure> {
        match self.processes.hear()? {
            (from, Event::Failed(sentence)) => Err(self.processes.fail(from, sentence)),
            (from, event) => {
                // The timeout for the next round of this program begins now.
                self.processes.expect(from);
                Ok((from, event))
            }
        }
    }
}

fn go_order(rounds: Option<usize>) -> String {
    rounds.map_or_else(|| "go".to_owned(), |rounds| format!("go {rounds}"))
}

/// Makes the command that starts a program. The command is this executable, even if its file has been replaced since
/// this process started.
fn command(launch: &Launch<'_>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("serve").args(["--parent", &std::process::id().to_string()]);
    command.args(["--backend", launch.backend.name(), "--workers", &launch.workers.to_string()]);
    for variable in ["COMITY", "COMITY_POLICY", "COMITY_WATCH", "COMITY_TRACE"] {
        command.env_remove(variable);
    }
    if let Some(policy) = launch.backend.policy() {
        command.args(["--policy", &policy.to_string()]).env("COMITY_POLICY", policy.to_string());
    }
    for variable in ["COMITY_NUM_THREADS", "RAYON_NUM_THREADS"] {
        command.env(variable, launch.workers.to_string());
    }
    if launch.grouping == Grouping::Separate {
        command.arg("--session");
    }
    if let Some(core) = launch.core {
        command.args(["--core", &core.to_string()]);
    }
    match launch.program {
        Program::Kernel(text) => command.arg(format!("--kernel={text}")),
        Program::Command(text) => command.arg(format!("--shell={text}")),
    };
    command
}
