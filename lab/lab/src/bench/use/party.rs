//! Runs the members of a scenario as processes. Each process has its own session, as if started from its own
//! terminal.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use comity_console::Failure;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::clocks;
use super::quota::Quota;
use super::role::Role;
use super::scenario::{Act, Member, Program, Scenario};
use crate::descendants;

/// The time between the start of one member and the start of the next.
const BETWEEN_STARTS: Duration = Duration::from_millis(200);

/// The number of lines of a failed member's standard error that are shown.
const LAST_LINES: usize = 5;

/// The core table of a party.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// A core table for the members of the scenario only.
    Table,
    /// No table: `COMITY_TABLE=off`.
    Off,
}

/// The members of a scenario, which run together. Dropping the party ends them.
pub struct Party {
    members: Vec<Started>,
    /// The folder of the table, and of the files with the members' standard error.
    folder: TempDir,
    ended: bool,
}

struct Started {
    name: &'static str,
    child: Child,
    last_words: PathBuf,
    quota: Option<Quota>,
}

/// The values of all clocks at one moment.
pub struct Look {
    at: Instant,
    used_s: Vec<f64>,
    idle_s: f64,
}

/// The processor time that was used between two looks, in cores.
#[derive(Serialize, Deserialize)]
pub struct Used {
    /// Cores that each member used.
    pub by: Vec<f64>,
    /// Cores that no process used.
    pub idle: f64,
}

impl Party {
    /// Starts all members of a scenario.
    pub fn start(scenario: &Scenario, sharing: Sharing, cores: usize) -> Result<Party, Failure> {
        let cannot = |error: io::Error| Failure::Run(format!("cannot prepare the scenario {}: {error}", scenario.name));
        let folder = tempfile::tempdir().map_err(cannot)?;
        let mut party = Party { members: Vec::new(), folder, ended: false };
        let (pipe_out, pipe_in) = io::pipe().map_err(cannot)?;
        for member in scenario.members {
            let words = member.program.command(cores)?;
            party.start_member(member, sharing, words, (&pipe_out, &pipe_in)).map_err(cannot)?;
            sleep(BETWEEN_STARTS);
        }
        Ok(party)
    }

    fn start_member(
        &mut self,
        member: &Member,
        sharing: Sharing,
        (program, words): (PathBuf, Vec<String>),
        (pipe_out, pipe_in): (&PipeReader, &PipeWriter),
    ) -> io::Result<()> {
        let nth = self.members.len();
        let quota = member.quota.map(|cores| Quota::new(nth, cores)).transpose()?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["bench", "use", "--parent", &std::process::id().to_string()]);
        if let Some(quota) = &quota {
            command.arg("--entrance").arg(quota.entrance());
        }
        command.arg("--").arg(program).args(words);
        for variable in [
            "COMITY",
            "COMITY_POLICY",
            "COMITY_WATCH",
            "COMITY_TRACE",
            "COMITY_WEIGHT",
            "COMITY_CORES",
            "COMITY_NUM_THREADS",
        ] {
            command.env_remove(variable);
        }
        match sharing {
            Sharing::Table => command.env("COMITY_TABLE", self.folder.path().join("table")),
            Sharing::Off => command.env("COMITY_TABLE", "off"),
        };
        let last_words = self.folder.path().join(nth.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&last_words)?);
        match member.program {
            Program::Role(Role::Reader) => drop(command.stdin(pipe_out.try_clone()?)),
            Program::Role(Role::Writer) => drop(command.stdout(pipe_in.try_clone()?)),
            _ => {}
        }
        let child = descendants::start(&mut command)?;
        self.members.push(Started { name: member.program.name(), child, last_words, quota });
        Ok(())
    }

    /// Reads all clocks.
    pub fn look(&self) -> Result<Look, Failure> {
        let used_s = self.members.iter().map(|member| clocks::used_in_session(member.child.id())).collect();
        Ok(Look { at: Instant::now(), used_s, idle_s: clocks::idle()? })
    }

    /// Stops, continues or limits the member with index `to`.
    pub fn act(&self, to: usize, act: Act) -> Result<(), Failure> {
        let Started { name, quota, child, .. } = &self.members[to];
        let done = match (act, quota) {
            (Act::Stop, _) => signal_session(child, Signal::STOP),
            (Act::GoOn, _) => signal_session(child, Signal::CONT),
            (Act::Grant(cores), Some(quota)) => quota.grant(cores),
            (Act::Grant(_), None) => unreachable!("only members with a quota are granted another one"),
        };
        done.map_err(|error| Failure::Run(format!("cannot stop, continue or limit {name}: {error}")))
    }

    /// Ends all members. Returns an error if a member has ended earlier.
    pub fn end(mut self) -> Result<(), Failure> {
        for member in &mut self.members {
            if let Ok(Some(status)) = member.child.try_wait() {
                let words = fs::read_to_string(&member.last_words).unwrap_or_default();
                let lines: Vec<&str> = words.lines().collect();
                let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n  ");
                let name = member.name;
                return Err(Failure::Run(format!(
                    "{name} ended too early: {status}. The end of its standard error:\n  {last}"
                )));
            }
        }
        self.end_members()
    }

    fn end_members(&mut self) -> Result<(), Failure> {
        self.ended = true;
        for member in &self.members {
            // The signals reach all processes of the member that have not changed their process group. SIGCONT
            // follows, because a stopped process must continue before it can end.
            for signal in [Signal::TERM, Signal::CONT] {
                let _gone = signal_session(&member.child, signal);
            }
        }
        descendants::end_all()
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        if !self.ended {
            // The caller already returns an error, so an error here is ignored.
            let _best = self.end_members();
        }
    }
}

impl Look {
    /// Returns the cores that were used between the look `earlier` and this look.
    pub fn since(&self, earlier: &Look) -> Used {
        let seconds = (self.at - earlier.at).as_secs_f64();
        let by = self.used_s.iter().zip(&earlier.used_s).map(|(now, then)| (now - then) / seconds).collect();
        Used { by, idle: (self.idle_s - earlier.idle_s) / seconds }
    }
}

/// Sends a signal to a member's process group. The member leads this group, to which the processes that it starts
/// belong.
fn signal_session(child: &Child, signal: Signal) -> io::Result<()> {
    Ok(kill_process_group(Pid::from_child(child), signal)?)
}
