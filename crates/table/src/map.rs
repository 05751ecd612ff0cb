//! The file in memory. All of this crate's unsafe code.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use comity_os::file_lock;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::layout::{BYTES, Header, Layout, MAGIC, VERSION};

/// What to do where a place is no good.
pub(crate) const ELSEWHERE: &str = "name a file in a folder that you may write to in COMITY_TABLE, or set it to off";

/// Where the table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The user's own: `/dev/shm/comity-UID-v1`.
    Own,
    /// A file that programs of several users or containers share.
    At(PathBuf),
}

impl Location {
    /// What `COMITY_TABLE` says; `None` if it says `off`.
    pub fn from_environment() -> Option<Location> {
        match std::env::var_os("COMITY_TABLE") {
            None => Some(Location::Own),
            Some(text) if text.is_empty() => Some(Location::Own),
            Some(text) if text == "off" => None,
            Some(text) => Some(Location::At(text.into())),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        match self {
            Location::Own => format!("/dev/shm/comity-{}-v{VERSION}", rustix::process::geteuid().as_raw()).into(),
            Location::At(path) => path.clone(),
        }
    }
}

/// Why a table cannot be used: a sentence that says what to do. The program goes on without sharing cores.
#[derive(Debug)]
pub struct TableError {
    path: PathBuf,
    what: String,
    is_full: bool,
}

impl TableError {
    pub(crate) fn new(path: &Path, what: impl Into<String>) -> TableError {
        TableError { path: path.to_owned(), what: what.into(), is_full: false }
    }

    pub(crate) fn full(self) -> TableError {
        TableError { is_full: true, ..self }
    }

    /// Whether there was no place left: there may be one later.
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the core table '{}' {}", self.path.display(), self.what)
    }
}

impl std::error::Error for TableError {}

/// A table that was looked at and found good, in memory.
pub(crate) struct Map {
    memory: MmapRaw,
    pub(crate) path: PathBuf,
    /// Which file it is.
    pub(crate) identity: (u64, u64),
}

impl Map {
    /// Opens the table, or makes one if there is none.
    pub(crate) fn open(location: &Location) -> Result<Map, TableError> {
        let path = location.path();
        // Somebody else may make it, or take it away, in between.
        for _ in 0..8 {
            match open(&path) {
                Ok(file) => return Map::of(file, path, location),
                Err(error) if error.kind() == io::ErrorKind::NotFound => match create(&path, location) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(TableError::new(&path, format!("cannot be made: {error}; {ELSEWHERE}"))),
                    Ok(()) => {}
                },
                Err(error) => return Err(refused(&path, &error)),
            }
        }
        Err(TableError::new(&path, format!("comes and goes: something else removes it; {ELSEWHERE}")))
    }

    /// Opens a table that is there.
    pub(crate) fn open_existing(location: &Location) -> Result<Option<Map>, TableError> {
        let path = location.path();
        match open(&path) {
            Ok(file) => Map::of(file, path, location).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(&path, &error)),
        }
    }

    /// Looks at everything that can be wrong before anything is mapped, or written.
    fn of(mut file: File, path: PathBuf, location: &Location) -> Result<Map, TableError> {
        let wrong = |what: &str| Err(TableError::new(&path, what));
        let read = |error: io::Error| TableError::new(&path, format!("cannot be read: {error}; {ELSEWHERE}"));
        let metadata = file.metadata().map_err(read)?;
        if !metadata.is_file() {
            return wrong("is not a regular file; name another in COMITY_TABLE");
        }
        if let Some(what) = not_trusted(&metadata, location) {
            return wrong(what);
        }
        if metadata.len() < size_of::<Header>() as u64 {
            return wrong("is cut short; `comity table clean` removes it if no program uses it");
        }
        let mut head = [0; 16];
        file.read_exact(&mut head).map_err(read)?;
        let [magic, rest] = [0, 8].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes")));
        let (version, bytes) = (rest as u32, (rest >> 32) as u32);
        if magic != MAGIC {
            return wrong("is no core table; name another file in COMITY_TABLE");
        }
        if version != VERSION {
            let what = format!(
                "has layout {version}, and this program knows layout {VERSION}; programs of one table must be built with \
                 one version of comity"
            );
            return wrong(&what);
        }
        if bytes as usize != BYTES || metadata.len() != BYTES as u64 {
            return wrong("is cut short or has grown; `comity table clean` removes it if no program uses it");
        }
        let memory = MmapOptions::new().len(BYTES).map_raw(&file);
        let memory =
            memory.map_err(|error| TableError::new(&path, format!("cannot be mapped: {error}; {ELSEWHERE}")))?;
        Ok(Map { memory, identity: (metadata.dev(), metadata.ino()), path })
    }

    pub(crate) fn layout(&self) -> &Layout {
        // SAFETY: the mapping has the size of a layout, is aligned to a page, and lives as long as `self`. A layout has
        // atomic words only, for which any bytes are valid, whoever changes them.
        unsafe { &*self.memory.as_ptr().cast::<Layout>() }
    }

    /// Whether the path still names this file.
    pub(crate) fn is_in_place(&self) -> bool {
        open(&self.path).and_then(file_lock::identity).is_ok_and(|identity| identity == self.identity)
    }
}

// SAFETY: the memory is only reached through `layout`, which has atomic words only.
unsafe impl Sync for Map {}
// SAFETY: as above.
unsafe impl Send for Map {}

fn open(path: &Path) -> io::Result<File> {
    // Without waiting for a pipe's other end, and without following a link that somebody else has laid.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn refused(path: &Path, error: &io::Error) -> TableError {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::LOOP) => {
            TableError::new(path, "is a symbolic link, which is not followed; name its target")
        }
        _ => TableError::new(path, format!("cannot be opened for reading and writing: {error}; {ELSEWHERE}")),
    }
}

/// Whose tables a program takes part in: its user's own, and where the user names a file, also root's and those that a
/// group of this process may write to.
fn not_trusted(metadata: &fs::Metadata, location: &Location) -> Option<&'static str> {
    let me = rustix::process::geteuid().as_raw();
    let mode = metadata.permissions().mode();
    match location {
        Location::Own if metadata.uid() != me => {
            Some("belongs to another user; name a file of your own in COMITY_TABLE")
        }
        Location::Own if mode & 0o077 != 0 => Some("is open to other users; make its mode 0600, or remove it"),
        Location::Own => None,
        Location::At(_) if mode & 0o002 != 0 => Some("may be written by everybody; take that away (chmod o-w)"),
        Location::At(_) => {
            let is_ours = metadata.uid() == me || metadata.uid() == 0;
            let shares_group = mode & 0o020 != 0 && is_in_group(metadata.gid());
            let what = "belongs to another user and to no group that this program is in; see `comity table --help`";
            (!is_ours && !shares_group).then_some(what)
        }
    }
}

fn is_in_group(group: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == group || groups.iter().any(|own| own.as_raw() == group)
}

/// Makes a table without a name and then gives it its name, unless there is one by then: nobody sees half a table.
fn create(path: &Path, location: &Location) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mode = match location {
        Location::Own => 0o600,
        Location::At(_) => 0o660,
    };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(mode))?);
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    // Written, not only made large: a full file system says so here, and not by a signal later.
    let mut bytes = vec![0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(BYTES as u32).to_le_bytes());
    file.write_all(&bytes)?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}
