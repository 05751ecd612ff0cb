//! All or nothing for files that several steps change, cargo's among them.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use comity_console::{Failure, output};
use comity_os::process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Runs `work`. If it fails, or a signal asks this command to end meanwhile, `files` are as they were before. But
/// the first, which people edit, stays as it is unless `is_ours` says that it is as this command has left it.
pub fn all_or_nothing<T>(
    files: &[&Path],
    is_ours: impl Fn() -> bool,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let saved = files.iter().map(|path| Saved::of(path)).collect::<Result<Vec<Saved>, Failure>>()?;
    let interrupted = heed_signals()?;
    let why = match work() {
        _ if interrupted.load(Ordering::Relaxed) => "interrupted by a signal".to_owned(),
        Err(failure) => failure.into_sentence(),
        Ok(done) => return Ok(done),
    };
    if !is_ours() {
        let (edited, others) = saved.split_first().expect("a manifest is among the files");
        let edited = format!("'{}' was changed meanwhile and stays so; look what is in it", edited.path.display());
        return Err(Failure::Run(format!("{why}\n{edited}. {}", put_back(others, "Cargo.lock is as it was."))));
    }
    Err(Failure::Run(format!("{why}\n{}", put_back(&saved, "Cargo.toml and Cargo.lock are as they were."))))
}

/// Runs `work` for what it answers; `file` is as it was afterwards, whatever happened to it.
pub fn and_back<T>(file: &Path, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let saved = Saved::of(file)?;
    let interrupted = heed_signals()?;
    let answer = work();
    saved.put_back().map_err(|error| Failure::Run(saved.lost(&error)))?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::Run("interrupted by a signal".to_owned()));
    }
    answer
}

/// From now on a signal that would end this command only sets the flag. Cargo gets a terminal's signals itself and
/// ends, so no caller waits.
fn heed_signals() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal)) {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::Run(format!("cannot heed signals: {error}; nothing was changed")))?;
    }
    Ok(flag)
}

/// Every file is tried, and the sentence says how that went.
fn put_back(saved: &[Saved], done: &str) -> String {
    let lost: Vec<String> =
        saved.iter().filter_map(|saved| saved.put_back().err().map(|error| saved.lost(&error))).collect();
    if lost.is_empty() { done.to_owned() } else { lost.join("; ") }
}

/// A file as it was, or that there was none.
struct Saved {
    path: PathBuf,
    before: Option<(Vec<u8>, Metadata)>,
}

impl Saved {
    fn of(path: &Path) -> Result<Saved, Failure> {
        let read = || -> io::Result<_> { Ok((fs::read(path)?, fs::metadata(path)?)) };
        let before = match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::Run(format!("cannot read '{}': {error}", path.display()))),
            Ok(before) => Some(before),
        };
        Ok(Saved { path: path.to_owned(), before })
    }

    /// The time of the last change comes back too: build tools go by it.
    fn put_back(&self) -> io::Result<()> {
        let Some((bytes, metadata)) = &self.before else {
            return if self.path.exists() { fs::remove_file(&self.path) } else { Ok(()) };
        };
        if fs::read(&self.path).is_ok_and(|now| now == *bytes) {
            return Ok(());
        }
        // The file that a link points to is replaced, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        output::replace(&path, bytes)?;
        File::options().write(true).open(&path)?.set_modified(metadata.modified()?)
    }

    fn lost(&self, error: &io::Error) -> String {
        let path = self.path.display();
        format!("'{path}' could not be put back as it was: {error}; version control may have the old one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_puts_every_file_back_with_its_time_and_removes_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "dear").unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options().write(true).open(&old).unwrap().set_modified(time).unwrap();
        let failed = all_or_nothing(
            &[&old, &new],
            || true,
            || {
                fs::write(&old, "other").unwrap();
                fs::write(&new, "text").unwrap();
                Err::<(), Failure>(Failure::Run("it rained".to_owned()))
            },
        );
        let Err(Failure::Run(sentence)) = failed else { panic!("{failed:?}") };
        assert_eq!(sentence, "it rained\nCargo.toml and Cargo.lock are as they were.");
        assert_eq!(fs::read_to_string(&old).unwrap(), "dear");
        assert_eq!(fs::metadata(&old).unwrap().modified().unwrap(), time);
        assert!(!new.exists());
    }

    #[test]
    fn success_keeps_what_was_done_and_a_look_never_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let write = || {
            fs::write(&file, "done").unwrap();
            Ok(7)
        };
        assert_eq!(and_back(&file, write).unwrap(), 7);
        assert!(!file.exists());
        assert_eq!(all_or_nothing(&[&file], || true, write).unwrap(), 7);
        assert_eq!(fs::read_to_string(&file).unwrap(), "done");
    }

    #[test]
    fn what_another_program_has_edited_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (edited, other) = (folder.path().join("edited"), folder.path().join("other"));
        fs::write(&edited, "old").unwrap();
        let is_ours = || fs::read_to_string(&edited).unwrap() == "ours";
        let failed = all_or_nothing(&[&edited, &other], is_ours, || {
            fs::write(&edited, "theirs").unwrap();
            fs::write(&other, "text").unwrap();
            Err::<(), Failure>(Failure::Run("it rained".to_owned()))
        });
        let Err(Failure::Run(sentence)) = failed else { panic!("{failed:?}") };
        assert!(sentence.contains("edited' was changed meanwhile and stays so"), "{sentence}");
        assert_eq!(fs::read_to_string(&edited).unwrap(), "theirs");
        assert!(!other.exists());
    }

    #[test]
    fn what_cannot_be_put_back_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/file");
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(&file, "dear").unwrap();
        let failed = all_or_nothing(
            &[&file],
            || true,
            || {
                fs::remove_dir_all(folder.path().join("below")).unwrap();
                Err::<(), Failure>(Failure::Run("it rained".to_owned()))
            },
        );
        let Err(Failure::Run(sentence)) = failed else { panic!("{failed:?}") };
        assert!(sentence.contains("below/file' could not be put back as it was"), "{sentence}");
    }
}
