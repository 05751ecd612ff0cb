//! Destinations of results: standard output, or a file that is never left half written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use comity_os::writes::without_signals;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Writes `text` to standard output. A reader that has closed the pipe (`comity policies | head -1`) is not a failure.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(text).map(|_is_read| ())
}

/// Writes `text` to standard output, for commands that print repeatedly. Ends this process with exit code 0 if the
/// reader has closed the pipe.
pub fn print_while_read(text: &str) -> Result<(), Failure> {
    if write_out(text)? { Ok(()) } else { std::process::exit(0) }
}

/// Writes `text` to standard output. Returns false if the reader has closed the pipe.
fn write_out(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match without_signals(|| out.write_all(text.as_bytes()).and_then(|()| out.flush())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Run(format!("cannot write to standard output: {error}"))),
    }
}

/// Returns the JSON text of `value` on one line.
pub fn to_json_line(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).expect("our structs have string keys and no failing serializer");
    text.push('\n');
    text
}

/// Returns the JSON text of `value`, indented for people.
pub fn to_json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("our structs have string keys and no failing serializer");
    text.push('\n');
    text
}

/// The destination of a result. [`ResultFile::check`] makes sure before the run that the destination can be written.
#[derive(Debug, PartialEq, Eq)]
pub enum ResultFile {
    /// Standard output, named `-`.
    Standard,
    /// A regular file, which may not exist yet. A write replaces the whole file.
    Regular(PathBuf),
    /// A device or a pipe. A write goes into the device or pipe and does not replace it by a regular file.
    Special(PathBuf),
}

impl ResultFile {
    /// Checks that `path`, the value of `option`, can be written. Does not change an existing file.
    pub fn check(path: &Path, option: &str) -> Result<ResultFile, Failure> {
        if path == Path::new("-") {
            return Ok(ResultFile::Standard);
        }
        let refuse = |why: &dyn std::fmt::Display| {
            Failure::Usage(format!("cannot write '{}': {why}. Choose another file for {option}", path.display()))
        };
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(refuse(&"it is a directory")),
            Ok(found) if found.is_file() => {
                OpenOptions::new().append(true).open(path).map_err(|error| refuse(&error))?;
                // A write must replace the file that a link points to, and not the link.
                let path = fs::canonicalize(path).map_err(|error| refuse(&error))?;
                temporary_beside(&path).map_err(|error| refuse(&in_words(&error)))?;
                Ok(ResultFile::Regular(path))
            }
            Ok(_) => Ok(ResultFile::Special(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.file_name().is_some() => {
                // A write must create the missing target of a link, and keep the link.
                if let Ok(target) = fs::read_link(path) {
                    return ResultFile::check(&folder_of(path).join(target), option);
                }
                temporary_beside(path).map_err(|error| refuse(&in_words(&error)))?;
                // With absolute paths, the caller can compare two results that name the same file in different ways.
                let folder = fs::canonicalize(folder_of(path)).map_err(|error| refuse(&error))?;
                Ok(ResultFile::Regular(folder.join(path.file_name().unwrap_or_default())))
            }
            Err(error) => Err(refuse(&error)),
        }
    }

    /// Writes `text`. Even after a failure, a regular file has either its old content or all of the new content.
    pub fn write(&self, text: &str) -> Result<(), Failure> {
        let path = match self {
            ResultFile::Standard => return print(text),
            ResultFile::Regular(path) | ResultFile::Special(path) => path,
        };
        let written = match self {
            ResultFile::Regular(_) => replace(path, text.as_bytes()),
            _ => without_signals(|| File::options().write(true).open(path)?.write_all(text.as_bytes())),
        };
        written.map_err(|error| Failure::Run(format!("cannot write '{}': {error}", path.display())))
    }
}

/// Replaces the content of a regular file. Even after a failure, the file has either its old content or all of the new
/// content. The file keeps its permissions. It keeps its owner if this process may set the owner of a file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary_beside(path)?;
    without_signals(|| file.write_all(bytes))?;
    file.as_file().sync_all()?;
    if let Ok(old) = fs::metadata(path) {
        // Only root may set another owner. For other users, the file then belongs to the user that runs the command.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
        file.as_file().set_permissions(old.permissions())?;
    }
    file.persist(path)?;
    Ok(())
}

/// Describes the error without the temporary file's name, which would mislead the user.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
        kind => format!("no file can be created in its folder: {kind}"),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Creates a temporary file in the folder of `path`, because only a rename within a file system is atomic. The file is
/// deleted when the value is dropped.
pub fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let all_may_read = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".comity-").permissions(all_may_read).tempfile_in(folder_of(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_changes_nothing_and_a_write_replaces_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        let fresh = ResultFile::check(&path, "--json").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fresh.write("first and longer").unwrap();
        let again = ResultFile::check(&path, "--json").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first and longer");
        again.write("second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        ResultFile::check(&link, "--json").unwrap().write("new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(
            ResultFile::check(Path::new("/dev/null"), "--json").unwrap(),
            ResultFile::Special(PathBuf::from("/dev/null"))
        );
    }

    #[test]
    fn a_file_that_is_not_there_yet_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("new"), folder.path().join("link"));
        std::os::unix::fs::symlink("new", &link).unwrap();
        let expected = ResultFile::check(&path, "--json").unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        for other in [folder.path().join("./new"), folder.path().join("below/../new"), link.clone()] {
            assert_eq!(ResultFile::check(&other, "--csv").unwrap(), expected, "{}", other.display());
        }
        ResultFile::check(&link, "--csv").unwrap().write("made").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "made");
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("no/such/folder.json"), PathBuf::from("/proc/x.json")]
        {
            assert!(matches!(ResultFile::check(&path, "--json"), Err(Failure::Usage(_))), "{}", path.display());
        }
    }
}
