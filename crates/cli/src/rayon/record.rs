//! What a project's files were before they were changed, for the call that has to put them back.
//!
//! - The *journal*, a file in the project's root, is there only while a call changes the project. A call that finds
//!   one knows that the call before it was killed, and takes back what that had begun. Calls take turns, by a lock
//!   on the root folder that the kernel gives back whatever a call dies of. So a living call's journal is never
//!   taken for a dead one's. Where the file system has no such locks, calls do not take turns.
//! - The *record*, among the user's own files, has what was there before `enable` and what it left. As long as the
//!   project's files are what `enable` left, `disable` puts back every byte. Without a record, or after other
//!   changes, only what `enable` has put in is taken out.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use comity_console::loudness::hint;
use comity_console::{Failure, output};
use comity_os::environment;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::lock::{self, Lock};
use super::manifest::Manifest;
use super::project::Project;
use super::tree::Tree;
use super::undo;

/// The journal's name.
const JOURNAL: &str = ".comity-rayon-journal.json";

/// Both files of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    manifest: String,
    /// `None`: there was none.
    lock: Option<String>,
}

impl Files {
    /// As they are now.
    pub fn read(project: &Project) -> Result<Files, Failure> {
        let refuse =
            |path: &Path, error: &io::Error| Failure::Run(format!("cannot read '{}': {error}", path.display()));
        let manifest = fs::read_to_string(project.manifest()).map_err(|error| refuse(project.manifest(), &error))?;
        let lock = match fs::read_to_string(project.lock()) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refuse(&project.lock(), &error)),
        };
        Ok(Files { manifest, lock })
    }

    /// Whether the manifest is still this one.
    pub fn has_manifest_of(&self, project: &Project) -> bool {
        fs::read_to_string(project.manifest()).is_ok_and(|now| now == self.manifest)
    }

    /// Puts them in the place of what is there.
    fn write(&self, project: &Project) -> Result<(), Failure> {
        put(project.manifest(), &self.manifest)?;
        match &self.lock {
            Some(lock) => put(&project.lock(), lock),
            None => remove(&project.lock()),
        }
    }
}

fn put(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|now| now == text.as_bytes()) {
        return Ok(());
    }
    // The file that a link points to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let refuse = |error: &io::Error| Failure::Run(format!("cannot write '{}': {}", path.display(), error.kind()));
    output::replace(&path, text.as_bytes()).map_err(|error| refuse(&error))
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::Run(format!("cannot remove '{}': {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// The right to change a project, until it is dropped: one call at a time.
pub struct Turn<'a> {
    project: &'a Project,
    _root: File,
}

impl<'a> Turn<'a> {
    /// Waits until no other call is at work on the project.
    pub fn wait(project: &'a Project) -> Result<Turn<'a>, Failure> {
        let root = project.root();
        let refuse = |error: &dyn std::fmt::Display| {
            Failure::Run(format!("cannot lock '{}': {error}; nothing was changed", root.display()))
        };
        let folder = File::open(root).map_err(|error| refuse(&error))?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            // A network file system, which locks no folders.
            Err(Errno::BADF | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {}
            Err(Errno::WOULDBLOCK) => {
                if rustix::stdio::stderr().is_terminal() {
                    hint(format!("comity: waits until another `comity rayon` has done with '{}'", root.display()));
                }
                flock(&folder, FlockOperation::LockExclusive).map_err(|error| refuse(&error))?;
            }
            other => other.map_err(|error| refuse(&error))?,
        }
        Ok(Turn { project, _root: folder })
    }

    fn journal(&self) -> PathBuf {
        self.project.root().join(JOURNAL)
    }

    /// Takes back what an earlier call had begun when it was killed. To be called before the project is looked at.
    pub fn repair(&self) -> Result<(), Failure> {
        let path = self.journal();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text.map_err(|error| Failure::Run(format!("cannot read '{}': {error}", path.display())))?,
        };
        let before: Files = serde_json::from_str(&text).map_err(|error| {
            Failure::Run(format!(
                "'{}', which a call that was killed has left, cannot be read: {error}; bring Cargo.toml and Cargo.lock back \
                 by hand and remove it",
                path.display()
            ))
        })?;
        let place = self.project.manifest().display();
        if self.is_ours(&before)? {
            before.write(self.project)?;
            hint(format!(
                "comity: an earlier `comity rayon` on '{place}' was killed; what it had begun was taken back"
            ));
        } else {
            hint(format!(
                "comity: an earlier `comity rayon` on '{place}' was killed, and its files were changed since: they stay as \
                 they are"
            ));
        }
        remove(&path)
    }

    /// Whether the files differ from what they were before in nothing but what `comity rayon` writes.
    fn is_ours(&self, before: &Files) -> Result<bool, Failure> {
        let now = Manifest::read(self.project.manifest())?;
        let manifest = now.with_text(&before.manifest)?;
        if now.without_entry(false)? != manifest.without_entry(false)? {
            return Ok(false);
        }
        let packages = |lock: Lock| lock.packages;
        let lock_before = before.lock.as_ref().and_then(|text| text.parse().ok()).map(packages);
        // One that cannot be read is what cargo was about to write.
        let lock_now = Lock::read(&self.project.lock()).ok().flatten().map(packages);
        let (Some(before), Some(now)) = (lock_before, lock_now) else { return Ok(true) };
        Ok(lock::differ_by_comity_alone(&before, &now))
    }

    /// Runs `work`. If it fails, or a signal asks this command to end meanwhile, both files are as they were
    /// before. But Cargo.toml, which people edit, stays as it is unless `is_ours` says that it is as this command
    /// has left it. If this command is killed, the next takes it back.
    pub fn all_or_nothing<T>(
        &self,
        is_ours: impl Fn() -> bool,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = Files::read(self.project)?;
        let files = [self.project.manifest(), &self.project.lock()];
        undo::all_or_nothing(&files, is_ours, || {
            self.write_journal(&before)?;
            work()
        })
        .inspect(|_| self.remove_journal())
        .inspect_err(|_| {
            // Where something could not be put back, the next call tries again.
            if Files::read(self.project).is_ok_and(|now| now == before) {
                self.remove_journal();
            }
        })
    }

    /// What the project links if it were built now. Cargo may write the lock file, which is put back.
    pub fn look(&self) -> Result<Tree, Failure> {
        self.project.look_locked().or_else(|_| {
            // Where no journal can be written, cargo can write nothing either.
            let _ = self.write_journal(&Files::read(self.project)?);
            let looked = undo::and_back(&self.project.lock(), || self.project.tree());
            self.remove_journal();
            looked
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

/// What `enable` has found and left.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    project: PathBuf,
    before: Files,
    left: Files,
}

impl Record {
    /// The record of a project, if its files are still as `enable` left them.
    pub fn of(project: &Project) -> Result<Option<Record>, Failure> {
        let Some(text) = place(project).and_then(|path| fs::read_to_string(path).ok()) else { return Ok(None) };
        // What cannot be read is as if it were not there.
        let record: Option<Record> = serde_json::from_str(&text).ok();
        let now = Files::read(project)?;
        Ok(record.filter(|record| record.project == project.manifest() && record.left == now))
    }

    /// What was there before.
    pub fn before(&self) -> &Files {
        &self.before
    }

    /// Puts back what was there before. An edit that came meanwhile is not lost.
    pub fn put_back(&self, project: &Project) -> Result<(), Failure> {
        if Files::read(project)? != self.left {
            return Err(Failure::Run(format!(
                "'{}' or its Cargo.lock was changed while this command worked on it; nothing of that was lost, so try again",
                project.manifest().display()
            )));
        }
        self.before.write(project)
    }

    /// Notes that `enable` has left the project with this manifest and the lock file that is there, and found it as
    /// it was `before`. Where the user has no place for it, `disable` does without.
    pub fn keep(project: &Project, before: Files, manifest: String) -> Result<(), Failure> {
        let left = Files { manifest, ..Files::read(project)? };
        let record = Record { project: project.manifest().to_owned(), before, left };
        if let Some(path) = place(project) {
            let _ = fs::create_dir_all(path.parent().expect("it lies in a folder"));
            let _ = output::replace(&path, output::to_json(&record).as_bytes());
        }
        Ok(())
    }

    /// There is nothing to go back to any more.
    pub fn forget(project: &Project) {
        if let Some(path) = place(project) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Where the record of a project is, if the user has a folder for such.
fn place(project: &Project) -> Option<PathBuf> {
    let absolute = |name| environment::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let states = absolute("XDG_STATE_HOME").or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    // FNV-1a, for a name that is the same under every compiler; the record names its project.
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let name = project.manifest().as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    Some(states.join("comity/rayon").join(format!("{name:016x}.json")))
}
