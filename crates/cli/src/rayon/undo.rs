//! The earlier content of a project's files, for the call that has to restore them.
//!
//! - The *journal* is a file in the project's root that exists only while a call changes the project. A call that
//!   finds a journal knows that an earlier call was killed, and reverts what that call had begun. A lock on the root
//!   folder admits one call at a time, and the kernel releases it however a call ends. Therefore no call mistakes the
//!   journal of a running call for that of a killed call. On a file system without such locks, calls may run at the
//!   same time.
//! - The *undo file*, in the user's own files, has the content before `enable` and after it. While the project's files
//!   are as `enable` left them, `disable` restores every byte. Without an undo file, or after other changes, `disable`
//!   removes only what `enable` has added.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use comity_console::loudness::hint;
use comity_console::{Failure, output};
use comity_os::{environment, process};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::lock::{self, Lock};
use super::manifest::Manifest;
use super::project::Project;
use super::tree::Tree;

/// The name of the journal.
const JOURNAL: &str = ".comity-rayon-journal.json";

/// The manifest and the lock file of a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Files {
    pub manifest: Saved,
    /// The lock file. `None` if the project had no lock file.
    lock: Option<Saved>,
}

/// The saved content of a file. Two values with the same text are equal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Saved {
    pub text: String,
    /// The time of the last change, if this call has read the file. Build tools depend on it.
    #[serde(skip)]
    changed: Option<SystemTime>,
}

impl PartialEq for Saved {
    fn eq(&self, other: &Saved) -> bool {
        self.text == other.text
    }
}

impl Files {
    /// Reads the files as they are now.
    pub fn read(project: &Project) -> Result<Files, Failure> {
        let read = |path: &Path| {
            let text = fs::read_to_string(path);
            let text = text.map_err(|error| Failure::Run(format!("cannot read '{}': {error}", path.display())))?;
            Ok(Saved { text, changed: fs::metadata(path).and_then(|file| file.modified()).ok() })
        };
        let lock = project.lock();
        Ok(Files { manifest: read(project.manifest())?, lock: lock.exists().then(|| read(&lock)).transpose()? })
    }

    /// Restores the manifest and the lock file. An error with the manifest does not prevent the restoring of the lock
    /// file.
    fn put_back(&self, project: &Project) -> Result<(), Failure> {
        put_back(project.manifest(), Some(&self.manifest)).and(self.put_back_lock(project))
    }

    /// Restores the lock file.
    pub fn put_back_lock(&self, project: &Project) -> Result<(), Failure> {
        put_back(&project.lock(), self.lock.as_ref())
    }
}

fn put_back(path: &Path, saved: Option<&Saved>) -> Result<(), Failure> {
    let put = |saved: &Saved| {
        if fs::read(path).is_ok_and(|now| now == saved.text.as_bytes()) {
            return Ok(());
        }
        // If the path is a link, its target is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        output::replace(&path, saved.text.as_bytes())?;
        saved.changed.map_or(Ok(()), |time| File::options().write(true).open(&path)?.set_modified(time))
    };
    let done = match saved {
        Some(saved) => put(saved),
        None if path.exists() => fs::remove_file(path),
        None => Ok(()),
    };
    done.map_err(|error| {
        Failure::Run(format!("cannot restore '{}': {error}. Restore it from version control", path.display()))
    })
}

/// The right to change a project, which one call has at a time. Dropping the value releases the right.
pub struct Turn<'a> {
    project: &'a Project,
    _root: File,
}

impl<'a> Turn<'a> {
    /// Waits until no other call works on the project, and reverts what an earlier, killed call had begun. Must be
    /// called before the project's files are read, because it may change them.
    pub fn wait(project: &'a Project) -> Result<Turn<'a>, Failure> {
        let root = project.root();
        let refuse = |error: &dyn std::fmt::Display| {
            Failure::Run(format!("cannot lock '{}': {error}. Nothing was changed", root.display()))
        };
        let folder = File::open(root).map_err(|error| refuse(&error))?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            // A network file system may not support locks on folders.
            Err(Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {}
            Err(Errno::WOULDBLOCK) => {
                if rustix::stdio::stderr().is_terminal() {
                    hint(format!("comity: waiting for another `comity rayon` that works on '{}'", root.display()));
                }
                flock(&folder, FlockOperation::LockExclusive).map_err(|error| refuse(&error))?;
            }
            other => other.map_err(|error| refuse(&error))?,
        }
        let turn = Turn { project, _root: folder };
        turn.repair()?;
        Ok(turn)
    }

    fn journal(&self) -> PathBuf {
        self.project.root().join(JOURNAL)
    }

    fn repair(&self) -> Result<(), Failure> {
        let path = self.journal();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text.map_err(|error| Failure::Run(format!("cannot read '{}': {error}", path.display())))?,
        };
        let before: Files = serde_json::from_str(&text).map_err(|error| {
            Failure::Run(format!(
                "cannot read '{}', which a killed call has left: {error}. Restore Cargo.toml and Cargo.lock by hand, \
                 and remove this file",
                path.display()
            ))
        })?;
        let place = self.project.manifest().display();
        if self.has_only_our_entry(&before)? && self.has_only_our_packages(&before) {
            before.put_back(self.project)?;
            hint(format!("comity: an earlier `comity rayon` on '{place}' was killed. Its changes were undone."));
        } else {
            hint(format!(
                "comity: an earlier `comity rayon` on '{place}' was killed. Its changes were not undone, because the \
                 files were edited since."
            ));
        }
        fs::remove_file(&path).map_err(|error| Failure::Run(format!("cannot remove '{}': {error}", path.display())))
    }

    /// True if the manifest differs from `before` only in the text that `comity rayon` writes.
    fn has_only_our_entry(&self, before: &Files) -> Result<bool, Failure> {
        let now = Manifest::read(self.project.manifest())?;
        Ok(now.without_entry()? == now.with_text(&before.manifest.text)?.without_entry()?)
    }

    /// True if the lock file differs from `before` only in the versions of packages that `comity rayon` changes.
    fn has_only_our_packages(&self, before: &Files) -> bool {
        let before: Option<Lock> = before.lock.as_ref().and_then(|lock| lock.text.parse().ok());
        // If the lock file cannot be read, cargo was writing it when the earlier call was killed.
        let now = Lock::read(&self.project.lock()).ok().flatten();
        let (Some(before), Some(now)) = (before, now) else { return true };
        lock::differ_by_comity_alone(&before.packages, &now.packages)
    }

    /// Runs `work`. If `work` fails, or if a signal asks this command to end in the meantime, restores Cargo.toml and
    /// Cargo.lock with their times. If another program has changed Cargo.toml in the meantime, Cargo.toml keeps that
    /// change, because it may be the user's. If this command is killed, the next call restores the files.
    pub fn all_or_nothing<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let before = Files::read(self.project)?;
        let interrupted = note_signals()?;
        let why = match self.write_journal(&before).and_then(|()| work()) {
            _ if interrupted.load(Ordering::Relaxed) => "interrupted by a signal".to_owned(),
            Err(failure) => failure.into_sentence(),
            Ok(done) => {
                self.remove_journal();
                return Ok(done);
            }
        };
        let is_ours = self.has_only_our_entry(&before).unwrap_or(false);
        let put_back = if is_ours { before.put_back(self.project) } else { before.put_back_lock(self.project) };
        let outcome = match put_back {
            // The journal stays, so the next call tries again to restore the files.
            Err(failure) => failure.into_sentence(),
            Ok(()) => {
                self.remove_journal();
                if is_ours {
                    "Cargo.toml and Cargo.lock are unchanged.".to_owned()
                } else {
                    let place = self.project.manifest().display();
                    format!(
                        "Another program has changed '{place}', so it was not restored. Check it. Cargo.lock is \
                         unchanged."
                    )
                }
            }
        };
        Err(Failure::Run(format!("{why}\n{outcome}")))
    }

    /// Returns the packages that the project would link now. Cargo may write the lock file, which is then restored.
    pub fn look(&self) -> Result<Tree, Failure> {
        self.project.look_locked().or_else(|_| {
            let before = Files::read(self.project)?;
            let interrupted = note_signals()?;
            // Within `all_or_nothing`, a journal exists already. If no journal can be written, cargo cannot write any
            // file either.
            let is_first = !self.journal().exists();
            let _ = is_first.then(|| self.write_journal(&before));
            let tree = self.project.tree();
            before.put_back_lock(self.project)?;
            let _: Option<()> = is_first.then(|| self.remove_journal());
            if interrupted.load(Ordering::Relaxed) {
                return Err(Failure::Run("interrupted by a signal".to_owned()));
            }
            tree
        })
    }

    fn write_journal(&self, before: &Files) -> Result<(), Failure> {
        let journal = self.journal();
        output::replace(&journal, output::to_json(before).as_bytes())
            .map_err(|error| Failure::Run(format!("cannot write '{}': {}", journal.display(), error.kind())))
    }

    fn remove_journal(&self) {
        let _ = fs::remove_file(self.journal());
    }
}

/// Returns a flag that signals set. From now on, these signals do not end this command. The terminal also sends its
/// signals to cargo, which ends, so this command does not wait for cargo's work.
fn note_signals() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal)) {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::Run(format!("cannot watch for signals: {error}. Nothing was changed")))?;
    }
    Ok(flag)
}

/// The content of the project's files before and after `enable`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Undo {
    project: PathBuf,
    pub before: Files,
    left: Files,
}

impl Undo {
    /// Returns the undo file of a project, if the project's files are still as `enable` left them.
    pub fn of(project: &Project) -> Result<Option<Undo>, Failure> {
        let Some(text) = place(project).and_then(|path| fs::read_to_string(path).ok()) else { return Ok(None) };
        // An undo file that cannot be read is treated as missing.
        let undo: Option<Undo> = serde_json::from_str(&text).ok();
        let now = Files::read(project)?;
        Ok(undo.filter(|undo| undo.project == project.manifest() && undo.left == now))
    }

    /// Saves the undo file of an `enable`: the files `before` it, and the files after it (this manifest and the present
    /// lock file). If the user has no folder for state files, nothing is saved, and `disable` works without an undo
    /// file.
    pub fn keep(project: &Project, before: Files, manifest: String) -> Result<(), Failure> {
        let left = Files { manifest: Saved { text: manifest, changed: None }, ..Files::read(project)? };
        let undo = Undo { project: project.manifest().to_owned(), before, left };
        if let Some(path) = place(project) {
            let _ = fs::create_dir_all(path.parent().expect("it lies in a folder"));
            let _ = output::replace(&path, output::to_json(&undo).as_bytes());
        }
        Ok(())
    }

    /// Deletes the undo file of a project. Called when the project has nothing left to restore.
    pub fn forget(project: &Project) {
        let _ = place(project).map(fs::remove_file);
    }
}

/// Returns the path of the undo file of a project, if the user has a folder for state files.
fn place(project: &Project) -> Option<PathBuf> {
    let absolute = |name| environment::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let states = absolute("XDG_STATE_HOME").or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    // FNV-1a gives the same name with every compiler. The undo file also contains the project's path, so a collision is
    // noticed.
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let name = project.manifest().as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    Some(states.join("comity/rayon").join(format!("{name:016x}.json")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_put_back_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let saved = Saved { text: "dear".to_owned(), changed: None };
        let Err(Failure::Run(sentence)) = put_back(&folder.path().join("below/file"), Some(&saved)) else { panic!() };
        assert!(sentence.starts_with("cannot restore '") && sentence.contains("below/file'"), "{sentence}");
    }
}
