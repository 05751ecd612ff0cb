//! The place of a recording: a file that is replaced as a whole, or a device that is written to.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{self, Path, PathBuf};

use comity_os::writes::{to_file, without_signals};

/// The place of a recording, as an absolute path: a later change of the working directory has no effect on it.
#[derive(Debug)]
pub(crate) enum Place {
    /// A regular file. Its path contains no symbolic links.
    File(PathBuf),
    /// A device. The recording is written to it, because a renamed file would replace the device.
    Device(PathBuf),
}

impl Place {
    /// Finds the place that `path` names. Empties a regular file, or creates it. If the file stays empty, the program
    /// has started, but was killed or has aborted.
    ///
    /// # Errors
    /// If `path` is a pipe, or cannot be written.
    pub(crate) fn claim(path: &Path) -> io::Result<Place> {
        match fs::metadata(path) {
            Ok(found) if is_pipe(&found) => {
                // Without a reader, opening the pipe would block the program in its first fork.
                Err(io::Error::other("it is a pipe; set the variable to the name of a file"))
            }
            Ok(found) if !found.is_file() && !found.is_dir() => {
                File::options().write(true).open(path)?;
                Ok(Place::Device(path::absolute(path)?))
            }
            _ => {
                to_file(path, "")?;
                Ok(Place::File(fs::canonicalize(path)?))
            }
        }
    }

    /// Returns the path of the place.
    pub(crate) fn path(&self) -> &Path {
        let (Place::File(path) | Place::Device(path)) = self;
        path
    }

    /// Writes the recording. A file is replaced in one step, and keeps its permissions.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn put(&self, text: &[u8]) -> io::Result<()> {
        let Place::File(path) = self else {
            return without_signals(|| File::options().write(true).open(self.path())?.write_all(text));
        };
        let mut part = path.clone().into_os_string();
        part.push(format!(".{}.part", std::process::id()));
        let replaced = match prepare(path, part.as_ref()) {
            Ok(()) => to_file(&part, text).and_then(|()| fs::rename(&part, path)),
            // The temporary file cannot be created. The recording's own file is empty, so writing to it directly
            // loses nothing.
            Err(_) => to_file(path, text),
        };
        if replaced.is_err() {
            let _ = fs::remove_file(&part);
        }
        replaced
    }
}

/// Creates the empty file `part`, with the owner and the permissions of the file at `path`.
fn prepare(path: &Path, part: &Path) -> io::Result<()> {
    to_file(part, "")?;
    let Ok(old) = fs::metadata(path) else { return Ok(()) };
    let alike = give_away(&old, part).and_then(|()| fs::set_permissions(part, old.permissions()));
    if alike.is_err() {
        fs::remove_file(part)?;
    }
    alike
}

/// Replaces each `%p` of the path by the process number. The path need not be valid Unicode.
#[cfg(unix)]
pub(crate) fn numbered(path: OsString, process: u32) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let (mut bytes, number) = (path.into_vec(), process.to_string().into_bytes());
    while let Some(place) = bytes.windows(2).position(|two| two == b"%p") {
        bytes.splice(place..place + 2, number.iter().copied());
    }
    OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
pub(crate) fn numbered(path: OsString, process: u32) -> PathBuf {
    path.to_str().map_or_else(|| path.clone().into(), |path| path.replace("%p", &process.to_string()).into())
}

#[cfg(unix)]
fn is_pipe(found: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_found: &fs::Metadata) -> bool {
    false
}

/// Changes owner and group of `part` to those of the file with the metadata `old`, which `part` replaces.
#[cfg(unix)]
fn give_away(old: &fs::Metadata, part: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, chown};
    let new = fs::metadata(part)?;
    if (old.uid(), old.gid()) == (new.uid(), new.gid()) {
        return Ok(());
    }
    chown(part, Some(old.uid()), Some(old.gid()))
}

#[cfg(not(unix))]
fn give_away(_old: &fs::Metadata, _part: &Path) -> io::Result<()> {
    Ok(())
}
