//! The tokens of a command's jobserver: bytes in a pipe that all clients of the command share.
//!
//! By the protocol of GNU make, a client may run one job at any time. For each further job, the client reads a byte,
//! the *token*, from the pipe, and writes it back when the job has ended. The coordinator fills the pipe so that the
//! command runs as many jobs at a time as its share has cores. If the share shrinks, a [thread](super::taker) takes
//! tokens out as clients return them.
//!
//! A client that is killed returns no token. The coordinator cannot see which client has a token, but each token
//! stands for a job that runs: a process that never had children, or a thread of such a process. Processes that lived
//! when no token was in use are no jobs, for example an agent or a server that it has started. If for [`LOST_AFTER`] more
//! tokens are in use than jobs run, the excess counts as lost, and the coordinator writes new tokens. If a client
//! returns such a token after all, the pipe has too many, and the coordinator takes them out.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::taker::Taker;
use comity_os::files;
use comity_os::pidfd::Pidfd;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use serde::Serialize;

/// The minimum interval between two looks at the pipe.
const PERIOD: Duration = Duration::from_millis(100);

/// The interval between two checks that the FIFO is still in its place, and that clients have the pipe.
const SURVEY: Duration = Duration::from_secs(1);

/// The time after which a token that no job uses counts as lost.
const LOST_AFTER: Duration = Duration::from_secs(1);

const TOKEN: u8 = b'+';

const BOTH_ENDS: OFlags = OFlags::RDWR.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The pipe with the tokens.
pub struct Tokens {
    /// Both ends of the pipe. Reading and writing do not block.
    pipe: File,
    /// The path of the pipe, if it is a FIFO.
    path: Option<PathBuf>,
    /// Earlier FIFOs that another program has removed or replaced. Clients may still have them.
    old: Vec<File>,
    budget: Budget,
    /// The thread that takes tokens of the surplus. `None`: there was no surplus since the pipe was made.
    taker: Option<Taker>,
    /// The maximum number of jobs that the user has set in MAKEFLAGS.
    limit: Option<u32>,
    /// The processes that had no children when no token was last in use, each with its start time and its number of
    /// threads. These threads are no jobs.
    bystanders: HashMap<(u32, u64), u32>,
    looked: Option<Instant>,
    surveyed: Instant,
    account: JobsAccount,
}

/// The record of a command's jobserver, also in the JSON schema `comity-run/1`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JobsAccount {
    /// The least number of jobs at a time that the share allowed. 0 if the command ended before the first look.
    least: u32,
    /// The largest number of jobs at a time that the share allowed.
    most: u32,
    /// The number of tokens that were replaced because their clients had ended.
    replaced: u32,
    /// The number of times that the FIFO was gone or was another file.
    fifo_restored: u32,
    /// True if another file was in the place of the FIFO, so that new clients found no jobserver.
    has_no_fifo: bool,
    /// The names of clients that did not inherit the pipe. They run as many jobs as they choose, or one.
    without_pipe: Vec<String>,
}

impl JobsAccount {
    /// Returns the record in words, for the report.
    pub fn in_words(&self) -> String {
        let mut text = match (self.least, self.most) {
            (least, most) if least == most => format!("{most} at a time"),
            (least, most) => format!("{least} to {most} at a time"),
        };
        if self.replaced > 0 {
            text += &format!("; {} lost tokens replaced", self.replaced);
        }
        if self.fifo_restored > 0 {
            text += "; the FIFO was removed and made again";
        }
        if self.has_no_fifo {
            text += "; another file is in the place of the FIFO";
        }
        if !self.without_pipe.is_empty() {
            text +=
                &format!("; {} did not find the pipe, and ran one job or its own number", self.without_pipe.join(", "));
        }
        text
    }
}

impl Tokens {
    /// Returns an empty pipe at `path`, which only this user can open.
    ///
    /// # Errors
    /// If the FIFO cannot be made or opened.
    pub fn at(path: PathBuf) -> io::Result<Tokens> {
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let pipe = open_fifo(&path).inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok(Tokens::of(pipe, Some(path)))
    }

    /// Returns an empty pipe without a path, and the end to read and the end to write for the command.
    ///
    /// # Errors
    /// If the system cannot create a pipe.
    pub fn with_ends() -> io::Result<(Tokens, [OwnedFd; 2])> {
        let (read, write) = io::pipe()?;
        // The flags of these ends are shared with all clients, so the coordinator opens the pipe again.
        let pipe = open(format!("/proc/self/fd/{}", read.as_raw_fd()), BOTH_ENDS, Mode::empty())?;
        Ok((Tokens::of(pipe.into(), None), [read.into(), write.into()]))
    }

    fn of(pipe: File, path: Option<PathBuf>) -> Tokens {
        Tokens {
            pipe,
            path,
            old: Vec::new(),
            budget: Budget::default(),
            taker: None,
            limit: None,
            bystanders: HashMap::new(),
            looked: None,
            surveyed: Instant::now(),
            account: JobsAccount::default(),
        }
    }

    /// Returns the path of the pipe, if it is a FIFO.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Limits the jobs at a time.
    pub fn limit(&mut self, limit: Option<u32>) {
        self.limit = limit.or(self.limit);
    }

    /// True if enough time has passed since the last look.
    pub fn is_look_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= PERIOD)
    }

    /// Adjusts the number of tokens, so that the command may run `most` jobs at a time. `leaves` are the command's
    /// processes that never had children, each with its number, its start time and its number of threads. `None`: they are
    /// halted or not known, and no token counts as lost. `processes` are the command's processes.
    pub fn look(&mut self, most: u32, leaves: impl FnOnce() -> Option<HashMap<(u32, u64), u32>>, processes: &[u32]) {
        let now = Instant::now();
        let most = self.limit.map_or(most, |limit| limit.min(most));
        let account = &mut self.account;
        account.least = if self.looked.is_none() { most } else { account.least.min(most) };
        account.most = account.most.max(most);
        self.looked = Some(now);
        if now.duration_since(self.surveyed) >= SURVEY {
            self.surveyed = now;
            self.restore_fifo();
            self.note_clients(processes);
        }
        // The thread stops first, so that the counts below belong together.
        self.budget.issued = self.budget.issued.saturating_sub(self.taker.as_ref().map_or(0, Taker::stop));
        for old in &self.old {
            self.budget.issued = self.budget.issued.saturating_sub(take(old, u32::MAX));
        }
        // A client always has one job without a token.
        let free = available(&self.pipe);
        let leaves = leaves();
        let before = |leaf: &(u32, u64)| self.bystanders.get(leaf).copied().unwrap_or(0);
        let jobs = |leaves: &HashMap<(u32, u64), u32>| {
            leaves.iter().map(|(leaf, threads)| threads.saturating_sub(before(leaf))).sum()
        };
        let jobs = leaves.as_ref().map_or(u32::MAX, jobs);
        if let Some(leaves) = leaves.filter(|_| self.budget.issued <= free) {
            self.bystanders = leaves;
        }
        let surplus = self.budget.surplus(most.saturating_sub(1), free, jobs, now);
        let number = u32::try_from(surplus.unsigned_abs()).unwrap_or(u32::MAX);
        if surplus > 0 {
            let taken = take(&self.pipe, number);
            self.budget.issued -= taken;
            self.take_later(number - taken);
        } else if surplus < 0 {
            self.budget.issued += put(&self.pipe, number);
        }
        self.account.replaced = self.budget.replaced;
    }

    /// Takes tokens as clients return them, until the next look.
    fn take_later(&mut self, number: u32) {
        if number == 0 {
            return;
        }
        if self.taker.is_none() {
            self.taker = Taker::start(&self.pipe).ok();
        }
        self.taker.iter().for_each(|taker| taker.want(number));
    }

    /// Makes a new FIFO if the FIFO was removed, so that new clients find one. If another FIFO is in its place, the
    /// coordinator opens that one. A client that opens a FIFO waits until another process has it open too.
    fn restore_fifo(&mut self) {
        let Some(path) = &self.path else { return };
        if self.is_in_place(path) {
            return;
        }
        let _exists = mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        if let Ok(new) = open_fifo(path) {
            self.old.push(std::mem::replace(&mut self.pipe, new));
            self.taker = None;
            self.account.fifo_restored += 1;
        } else {
            self.account.has_no_fifo = true;
        }
    }

    fn is_in_place(&self, path: &Path) -> bool {
        identity(fs::symlink_metadata(path)) == identity(self.pipe.metadata())
    }

    /// Notes the clients that do not have the inherited pipe, because a process between closes all descriptors.
    fn note_clients(&mut self, processes: &[u32]) {
        /// The names of the clients that cannot work without the pipe.
        const CLIENTS: [&str; 4] = ["cargo", "gmake", "make", "rustc"];
        let Ok(pipe) = self.pipe.metadata().map(|metadata| metadata.ino()) else { return };
        if self.path.is_some() {
            return;
        }
        for process in processes {
            let Ok(name) = fs::read_to_string(format!("/proc/{process}/comm")) else { continue };
            let name = name.trim();
            if !CLIENTS.contains(&name) || self.account.without_pipe.iter().any(|known| known == name) {
                continue;
            }
            let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            let is_pipe = |target: PathBuf| target.as_os_str() == format!("pipe:[{pipe}]").as_str();
            let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            // A process that ends has no descriptors any more.
            let mut any = false;
            if !targets.by_ref().inspect(|_| any = true).any(is_pipe) && any {
                self.account.without_pipe.push(name.to_owned());
            }
        }
    }

    /// Gives a command that is no member of a table its tokens: `most` jobs at a time until the command ends.
    pub fn look_alone(&mut self, most: u32) {
        self.look(most, || None, &[]);
    }

    /// Takes the place of a coordinator that was killed: leaves at least one token, and holds the FIFO open until the
    /// command ends. The command itself holds a pipe open.
    pub fn outlive_coordinator(&self, command: &Pidfd) {
        // The coordinator may have made a new FIFO after this copy of it.
        let new = self.path.as_ref().and_then(|path| open_fifo(path).ok());
        let pipe = new.as_ref().unwrap_or(&self.pipe);
        if available(pipe) == 0 {
            put(pipe, 1);
        }
        let Some(path) = &self.path else { return };
        while !command.has_ended_within(Duration::MAX) {}
        if identity(fs::symlink_metadata(path)) == identity(pipe.metadata()) {
            let _gone = fs::remove_file(path);
        }
    }

    /// Removes the FIFO and returns the record.
    ///
    /// There is no `Drop`, because several copies of this process have this value.
    pub fn end(self) -> JobsAccount {
        self.remove();
        self.account
    }

    /// Removes the FIFO.
    pub fn remove(&self) {
        if let Some(path) = self.path.as_ref().filter(|path| self.is_in_place(path)) {
            let _gone = fs::remove_file(path);
        }
    }
}

impl AsFd for Tokens {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl AsRawFd for Tokens {
    fn as_raw_fd(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }
}

/// Opens both ends of a FIFO, which does not wait for other processes.
fn open_fifo(path: &Path) -> io::Result<File> {
    let pipe = File::from(open(path, BOTH_ENDS | OFlags::NOFOLLOW, Mode::empty())?);
    let metadata = pipe.metadata()?;
    let is_own = metadata.file_type().is_fifo() && metadata.uid() == files::user();
    if is_own { Ok(pipe) } else { Err(io::Error::other(format!("'{}' is no FIFO of this user", path.display()))) }
}

/// Returns what identifies a file: its device and its number there.
fn identity(metadata: io::Result<fs::Metadata>) -> Option<(u64, u64)> {
    metadata.ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns the number of tokens in a pipe.
fn available(pipe: &File) -> u32 {
    rustix::io::ioctl_fionread(pipe).map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Takes up to `most` tokens out of a pipe. Returns the number of tokens taken.
pub fn take(mut pipe: &File, most: u32) -> u32 {
    let mut taken = 0;
    let mut bytes = [0; 256];
    while taken < most {
        let part = bytes.len().min((most - taken) as usize);
        match pipe.read(&mut bytes[..part]) {
            Ok(0) => break,
            Ok(read) => taken += read as u32,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    taken
}

/// Puts up to `most` tokens into a pipe. Returns the number of tokens put.
fn put(mut pipe: &File, most: u32) -> u32 {
    let tokens = vec![TOKEN; most.min(1024) as usize];
    pipe.write(&tokens).map_or(0, |put| put as u32)
}

/// The number of tokens that clients have or can take.
#[derive(Default)]
struct Budget {
    issued: u32,
    /// The time since when more tokens are in use than jobs run, and the least such excess since then.
    excess: Option<(Instant, u32)>,
    replaced: u32,
}

impl Budget {
    /// Returns by how many tokens the issued ones exceed `wanted`. `free` tokens are in the pipe. `jobs` counts the
    /// jobs that run.
    fn surplus(&mut self, wanted: u32, free: u32, jobs: u32, now: Instant) -> i64 {
        // A client has written bytes that are no tokens, or has returned a token that counted as lost.
        self.issued = self.issued.max(free);
        let in_use = self.issued - free;
        let excess = in_use.saturating_sub(jobs);
        self.excess = match self.excess {
            _ if excess == 0 => None,
            None => Some((now, excess)),
            Some((since, least)) => Some((since, least.min(excess))),
        };
        if let Some((since, least)) = self.excess
            && now.duration_since(since) >= LOST_AFTER
        {
            self.issued -= least;
            self.replaced += least;
            self.excess = None;
        }
        i64::from(self.issued) - i64::from(wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    /// Plays the looks of a coordinator, one each 100 ms. Each has the tokens wanted, the tokens in the pipe and the
    /// jobs that run. Returns the surplus of each.
    fn surpluses(looks: impl IntoIterator<Item = (u32, u32, u32)>) -> (Vec<i64>, Budget) {
        let (began, mut budget) = (Instant::now(), Budget::default());
        let mut surpluses = Vec::new();
        for (nth, (wanted, free, jobs)) in (0..).zip(looks) {
            let surplus = budget.surplus(wanted, free, jobs, began + PERIOD * nth);
            // Added tokens are issued. Of a surplus, only free tokens can be taken out.
            budget.issued = u32::try_from(i64::from(budget.issued) - surplus.min(i64::from(free))).unwrap();
            surpluses.push(surplus);
        }
        (surpluses, budget)
    }

    #[test]
    fn the_tokens_follow_the_share_as_clients_return_them() {
        // Seven tokens, all in use. The share falls to 3 jobs, so 5 tokens are too many until clients return them.
        let looks = [(7, 0, 1), (7, 0, 8), (2, 0, 8), (2, 3, 5), (2, 2, 3), (2, 0, 3), (4, 0, 3)];
        let (surpluses, budget) = surpluses(looks);
        assert_eq!(surpluses, [-7, 0, 5, 5, 2, 0, -2]);
        assert_eq!((budget.issued, budget.replaced), (4, 0));
    }

    #[test]
    fn a_token_without_a_job_is_replaced_after_a_second() {
        // Three tokens are in use, and one of them is lost: only two jobs run.
        let looks = iter::once((3, 0, 1)).chain(iter::repeat_n((3, 0, 2), 12));
        let (surpluses, budget) = surpluses(looks);
        assert_eq!(
            surpluses.iter().map(|surplus| -surplus).collect::<Vec<_>>(),
            [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
        );
        assert_eq!((budget.issued, budget.replaced), (3, 1));
    }

    #[test]
    fn a_pause_between_two_jobs_loses_no_token() {
        let jobs = [4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4];
        let (surpluses, budget) = surpluses(iter::once((3, 0, 1)).chain(jobs.map(|jobs| (3, 0, jobs))));
        assert!(surpluses[1..].iter().all(|surplus| *surplus == 0), "{surpluses:?}");
        assert_eq!(budget.replaced, 0);
    }

    #[test]
    fn bytes_that_are_no_tokens_are_taken_out() {
        let (surpluses, budget) = surpluses([(1, 0, 1), (1, 100, 1), (1, 1, 1)]);
        assert_eq!(surpluses, [-1, 99, 0]);
        assert_eq!(budget.issued, 1);
    }

    #[test]
    fn a_pipe_has_the_tokens_that_were_put_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::at(folder.path().join("fifo")).unwrap();
        tokens.look(8, || None, &[]);
        assert_eq!(available(&tokens.pipe), 7);
        // A full pipe: the coordinator takes out what is too much.
        while put(&tokens.pipe, 1024) > 0 {}
        tokens.look(4, || None, &[]);
        assert_eq!(available(&tokens.pipe), 3);
    }

    #[test]
    fn a_process_that_lived_before_the_tokens_were_in_use_is_no_job() {
        let folder = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::at(folder.path().join("fifo")).unwrap();
        let server = || Some(HashMap::from([((7, 70), 11)]));
        tokens.look(4, server, &[]);
        assert_eq!(take(&tokens.pipe, 3), 3);
        tokens.look(4, server, &[]);
        let (since, excess) = tokens.budget.excess.unwrap();
        assert_eq!(excess, 3);
        tokens.budget.excess = Some((since - LOST_AFTER, excess));
        tokens.look(4, server, &[]);
        assert_eq!((available(&tokens.pipe), tokens.account.replaced), (3, 3));
    }

    #[test]
    fn a_fifo_that_was_removed_or_replaced_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let mut tokens = Tokens::at(path.clone()).unwrap();
        let look = |tokens: &mut Tokens| {
            tokens.surveyed -= SURVEY;
            tokens.look(4, || None, &[]);
        };
        for times in 1..=2 {
            fs::remove_file(&path).unwrap();
            if times == 2 {
                mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
            }
            look(&mut tokens);
            let new = open_fifo(&path).unwrap();
            assert_eq!((available(&new), tokens.account.fifo_restored), (3, times));
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, "no FIFO").unwrap();
        look(&mut tokens);
        assert_eq!(tokens.account.fifo_restored, 2);
        tokens.end();
        assert!(path.exists(), "it is another file");
    }
}
