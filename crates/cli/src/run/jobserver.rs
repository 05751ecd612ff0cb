//! The jobserver that `comity run` offers its command, so that builds run as many jobs at a time as the command's
//! share has cores.
//!
//! Clients are make, ninja, cargo, rustc and GCC's linker. They find the jobserver in the variable `MAKEFLAGS`: see the
//! manual of GNU make, "POSIX Jobserver Interaction". The coordinator serves the [tokens](super::tokens).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use comity_console::loudness::{detail, hint};
use comity_os::jobserver::{Inherited, inherited};
use comity_os::{census, environment, files};
use rustix::fs::OFlags;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::tokens::Tokens;
use super::tree;

/// The form of a jobserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// A FIFO if the installed make knows FIFOs, or if there is no make, and a pipe otherwise. No jobserver if the
    /// command itself gives a number of jobs (make -j8)
    Auto,
    /// A file in the temporary folder, for GNU make from 4.4, ninja from 1.13, cargo and rustc. Earlier versions of GNU
    /// make end with an error
    Fifo,
    /// Two inherited descriptors, for all versions of GNU make, cargo and rustc
    Pipe,
}

impl Style {
    fn is_fifo(self) -> bool {
        match self {
            Style::Auto => is_fifo_known(),
            Style::Fifo => true,
            Style::Pipe => false,
        }
    }
}

/// The prefix of the names of FIFOs.
const FIFO: &str = "comity-jobs-";

/// The least number of an inherited descriptor, and the least if a limit on open files forbids the first. Scripts
/// redirect descriptors with small numbers.
const FIRST: [RawFd; 2] = [100, 10];

/// Offers a command a jobserver for up to `most` jobs, if it has none. `mark` is different for each command. Returns the
/// tokens. There are none at first: the coordinator adds them.
pub fn offer(command: &mut Command, words: &[OsString], style: Style, most: u32, mark: &str) -> Option<Tokens> {
    if style == Style::Auto && gives_jobs(words) {
        return None;
    }
    match inherited() {
        Inherited::Works => {
            detail(|| "comity: jobs: limited by the jobserver that the environment names".to_owned());
            return None;
        }
        Inherited::Gone(why) => hint(format!("comity: {why}. The command gets another jobserver.")),
        Inherited::Nothing => {}
    }
    let made = if style.is_fifo() { fifo(mark) } else { pipe() };
    let (mut tokens, auth) = made.inspect_err(|why| hint(format!("comity: cannot make a jobserver: {why}"))).ok()?;
    announce(command, most, &auth).into_iter().for_each(|limit| tokens.limit(limit));
    Some(tokens)
}

/// Sets the variables of a command that name the jobserver `auth`. Returns the limits on jobs that they had.
fn announce(command: &mut Command, most: u32, auth: &str) -> Vec<Option<u32>> {
    detail(|| format!("comity: jobs: limited by a jobserver ({auth})"));
    // cargo and rustc read MAKEFLAGS if the other variable is not set.
    let is_needed = |(variable, flags): &(&str, Option<OsString>)| *variable == VARIABLES[0] || flags.is_some();
    let of = |(variable, flags): (&str, Option<OsString>)| {
        let (flags, limit) = with_jobserver(&flags.unwrap_or_default().to_string_lossy(), most, auth);
        command.env(variable, flags);
        limit
    };
    flags().into_iter().filter(is_needed).map(of).collect()
}

/// Makes the jobserver for the commands that `comity run` will start inside of the adopted command with this first
/// process. It is a FIFO, which [`offer_outer`] finds among the coordinator's files.
///
/// # Errors
/// If the FIFO cannot be made.
pub fn for_adopted(process: u32) -> io::Result<Tokens> {
    // A process may be adopted several times, and the file of a killed coordinator stays.
    fifo_at(&format!("{process}-{}", tree::mark(std::process::id(), census::now())))
}

/// Returns the coordinator of the `comity run` command that this process is a part of. Takes 5 µs for each process of
/// the machine.
fn coordinator() -> Option<u32> {
    let mark = environment::variable(tree::MARK)?;
    let starter: u32 = mark.to_str()?.split_once('-')?.0.parse().ok()?;
    let wanted = format!("comity:{starter}");
    let is_it = |id: &u32| census::name(*id) == wanted && census::is_in_this_namespace(*id);
    // With --report, the process that has started the command is its coordinator.
    census::processes().into_iter().find(is_it).or_else(|| Some(starter).filter(|id| census::name(*id) == "comity"))
}

/// Offers a part of a command the jobserver that the command's coordinator serves, if the environment names none that
/// works. An adopted command cannot learn of its jobserver, and many programs close inherited descriptors for what they
/// start. A limit on jobs in the environment stays, without a jobserver. `adopted` is the coordinator, if the command was
/// adopted.
pub fn offer_outer(command: &mut Command, words: &[OsString], style: Style, most: u32, adopted: Option<u32>) {
    if style == Style::Auto && gives_jobs(words) {
        return;
    }
    let is_limited = |flags: &OsString| with_jobserver(&flags.to_string_lossy(), most, "").1.is_some();
    match inherited() {
        Inherited::Works => return,
        // The user has turned the jobserver off, or has set a limit.
        Inherited::Nothing if adopted.is_none() => return,
        Inherited::Nothing if flags().iter().any(|(_, flags)| flags.as_ref().is_some_and(is_limited)) => return,
        Inherited::Nothing | Inherited::Gone(_) => {}
    }
    if let Some(auth) = adopted.or_else(self::coordinator).and_then(|coordinator| reopened(style, coordinator)) {
        announce(command, most, &auth);
    }
}

/// Opens the pipe or FIFO of a coordinator for a command. Returns what `--jobserver-auth` says of it.
fn reopened(style: Style, coordinator: u32) -> Option<String> {
    let files = fs::read_dir(format!("/proc/{coordinator}/fd")).into_iter().flatten().flatten();
    // The coordinator has opened both ends at once. It may have inherited other pipes.
    let has_both_ends = |file: &DirEntry| {
        let info = fs::read_to_string(format!("/proc/{coordinator}/fdinfo/{}", file.file_name().display()));
        let flags = info
            .unwrap_or_default()
            .lines()
            .find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
        flags.is_some_and(|flags| flags & OFlags::RWMODE.bits() == OFlags::RDWR.bits())
    };
    let mut links =
        files.filter(has_both_ends).filter_map(|file| Some((file.path(), fs::read_link(file.path()).ok()?)));
    let is_fifo = |link: &Path| {
        let name = link.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with(FIFO)) && link.is_absolute()
    };
    let is_pipe = |link: &Path| link.to_str().is_some_and(|link| link.starts_with("pipe:"));
    let (file, link) = links.find(|(_, link)| is_fifo(link) || is_pipe(link))?;
    // With both ends, so that this call does not wait if the coordinator has ended meanwhile.
    let both = OpenOptions::new().read(true).write(true).open(file).ok()?;
    let metadata = both.metadata().ok()?;
    if !metadata.file_type().is_fifo() || metadata.uid() != files::user() {
        return None;
    }
    if is_fifo(&link) && style.is_fifo() {
        // A client that opens a FIFO waits until another process has it open.
        inherit(&both).ok()?;
        return Some(format!("fifo:{}", link.display()));
    }
    let end = |end: &mut OpenOptions| inherit(&end.open(format!("/proc/self/fd/{}", both.as_raw_fd())).ok()?).ok();
    let read = end(OpenOptions::new().read(true))?;
    let write = end(OpenOptions::new().write(true))?;
    Some(format!("{read},{write}"))
}

/// Takes the offer back, because no coordinator serves the tokens.
pub fn withdraw(command: &mut Command, tokens: Option<Tokens>) {
    let Some(tokens) = tokens else { return };
    for (variable, flags) in flags() {
        match flags {
            Some(flags) => command.env(variable, flags),
            None => command.env_remove(variable),
        };
    }
    tokens.end();
}

const VARIABLES: [&str; 2] = ["MAKEFLAGS", "CARGO_MAKEFLAGS"];

/// Returns the variables that name a jobserver, with their values.
fn flags() -> [(&'static str, Option<OsString>); 2] {
    #[expect(clippy::disallowed_methods, reason = "they are the command's variables")]
    VARIABLES.map(|variable| (variable, env::var_os(variable)))
}

/// Returns a FIFO, and what `--jobserver-auth` says of it.
fn fifo(mark: &str) -> io::Result<(Tokens, String)> {
    let tokens = fifo_at(mark)?;
    // A client that opens a FIFO waits until another process has it open. The command has it open if both the
    // coordinator and the companion are killed.
    let _open = inherit(&tokens);
    let path = tokens.path().map(Path::to_path_buf).unwrap_or_default();
    Ok((tokens, format!("fifo:{}", path.display())))
}

fn fifo_at(mark: &str) -> io::Result<Tokens> {
    let folder = env::temp_dir();
    // Clients may have other current folders. The flags in MAKEFLAGS are separated by spaces.
    let has_space = folder.to_str().is_none_or(|folder| folder.contains(char::is_whitespace));
    let folder = if has_space || folder.is_relative() { Path::new("/tmp") } else { &folder };
    let path = folder.join(format!("{FIFO}{mark}"));
    Tokens::at(path.clone()).map_err(|error| io::Error::new(error.kind(), format!("'{}': {error}", path.display())))
}

/// Returns a pipe that the command inherits, and what `--jobserver-auth` says of it.
fn pipe() -> io::Result<(Tokens, String)> {
    let (tokens, ends) = Tokens::with_ends()?;
    let mut numbers = [0; 2];
    for (number, end) in numbers.iter_mut().zip(ends) {
        *number = inherit(&end)?;
    }
    let [read, write] = numbers;
    Ok((tokens, format!("{read},{write}")))
}

/// Copies a descriptor for the command, and returns its number there.
fn inherit(descriptor: &impl AsFd) -> io::Result<RawFd> {
    let kept = FIRST.iter().find_map(|first| fcntl_dupfd_cloexec(descriptor.as_fd(), *first).ok());
    let kept = kept.ok_or_else(|| io::Error::other("the limit on open files (ulimit -n) is too small"))?;
    fcntl_setfd(&kept, FdFlags::empty())?;
    Ok(kept.into_raw_fd())
}

/// True if the `make` that the command would find, if there is one, can use a FIFO: its program then has the word
/// `fifo:`. To ask it for its version would take a millisecond.
fn is_fifo_known() -> bool {
    let folders = environment::variable("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&folders).map(|folder| folder.join("make"));
    programs.find_map(|program| fs::read(program).ok()).is_none_or(|program| has_word(&program, b"fifo:"))
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// True if the command is a client that gives its number of jobs itself. It would ignore a jobserver, with a warning.
fn gives_jobs(words: &[OsString]) -> bool {
    let Some((program, words)) = words.split_first() else { return false };
    let name = Path::new(program).file_name().and_then(OsStr::to_str);
    let is_client = name.is_some_and(|name| ["cargo", "gmake", "make", "ninja"].contains(&name));
    let gives = |word: &str| {
        // Letters of one word are several options, as in `make -kj8`, up to an option with a value, as in `-fjobs.mk`. A
        // word with two hyphens is one option.
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let is_option = |letter: &char| letter.is_ascii_alphabetic() && !"CEFIOWZdflot".contains(*letter);
        word.starts_with("--jobs")
            || letters.is_some_and(|letters| letters.chars().take_while(is_option).any(|letter| letter == 'j'))
    };
    is_client && words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()).any(gives)
}

/// Returns the value of `MAKEFLAGS` with a jobserver for `most` jobs, and the limit on jobs that it had. The jobserver
/// keeps this limit in its place.
fn with_jobserver(flags: &str, most: u32, auth: &str) -> (String, Option<u32>) {
    // Variables that were set on make's command line follow after two hyphens.
    let (switches, variables) = flags.split_once(" -- ").map_or((flags, None), |(all, rest)| (all, Some(rest)));
    let mut limit = None;
    let mut words = Vec::new();
    let mut left = switches.split_whitespace().peekable();
    while let Some(word) = left.next() {
        let value = word.strip_prefix("--jobs").map(|value| value.trim_start_matches('='));
        let value = value.filter(|value| !value.starts_with("erver")).or_else(|| word.strip_prefix("-j"));
        match value.map(str::parse::<u32>) {
            // The number may be a word of its own.
            Some(Err(_)) if value == Some("") => {
                limit = left.peek().and_then(|next| next.parse().ok());
                limit.and_then(|_| left.next());
            }
            Some(Ok(number)) => limit = Some(number),
            _ if word.starts_with("--jobserver-") => {}
            _ => words.push(word.to_owned()),
        }
    }
    let limit = limit.filter(|number| *number > 0);
    words.extend([format!("-j{}", limit.map_or(most, |limit| limit.min(most))), format!("--jobserver-auth={auth}")]);
    words.extend(variables.map(|variables| format!("-- {variables}")));
    (words.join(" "), limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_make_keep_their_meaning() {
        let with = |flags: &str| with_jobserver(flags, 8, "fifo:/tmp/jobs").0;
        let ours = "-j8 --jobserver-auth=fifo:/tmp/jobs";
        assert_eq!(with(""), ours);
        assert_eq!(with(" -j -j16 --jobserver-auth=3,4"), ours);
        assert_eq!(with("ks -j --jobserver-fds=3,4"), format!("ks {ours}"));
        assert_eq!(with("k --no-print-directory -- V=1 W=-j4"), format!("k --no-print-directory {ours} -- V=1 W=-j4"));
    }

    #[test]
    fn a_limit_of_the_user_stays() {
        for flags in ["-j4", "--jobs=4", "-j 4", "--jobs 4", " -j4 --jobserver-auth=3,4"] {
            let (text, limit) = with_jobserver(flags, 8, "3,4");
            assert_eq!((text.as_str(), limit), ("-j4 --jobserver-auth=3,4", Some(4)), "{flags}");
        }
        assert_eq!(with_jobserver("-j V=1", 8, "3,4"), ("V=1 -j8 --jobserver-auth=3,4".to_owned(), None));
    }

    #[test]
    fn a_client_with_a_number_of_jobs_needs_no_jobserver() {
        let gives = |line: &str| gives_jobs(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        for line in ["make -j8", "make -j", "/usr/bin/make -kj8 all", "make --jobs=8", "cargo build -j 2", "ninja -j2"]
        {
            assert!(gives(line), "{line}");
        }
        for line in [
            "make",
            "make -k all",
            "cargo test -- -j8",
            "sh -c 'make -j8'",
            "java -jar x",
            "make -fjobs.mk",
            "make -Cjson",
        ] {
            assert!(!gives(line), "{line}");
        }
    }
}
