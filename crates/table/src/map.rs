//! The memory map of the file. It contains all of this crate's unsafe code.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::{fmt, fs, path};

use comity_os::file_lock::LockFile;
use comity_os::files::{self, Owner};
use comity_os::{environment, lock, writes};
use memmap2::{MmapOptions, MmapRaw};

use crate::fault;
use crate::layout::{BYTES, DIRECTORY, Header, Layout, MAGIC, VERSION};

/// The advice to the user if a location cannot be used.
pub(crate) const ELSEWHERE: &str = "Set COMITY_TABLE to a file in a folder that you may write to, or to off";

/// The environment variable in which `comity run` tells its command the core table, in the form of
/// [`Location::to_text`]. For the command, `comity run` also sets `COMITY_TABLE` to `off`, because the command as a
/// whole is already a member of the table.
pub const TABLE_AROUND: &str = "COMITY_RUN_TABLE";

const ROOT: u32 = 0;

/// The value of [`TABLE_AROUND`] for the user's own table.
const OWN: &str = "own";

/// The location of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The user's own table, in the folder `/dev/shm/comity-UID`. If that folder belongs to another user, the table is
    /// in `/run/user/UID/comity` instead, because only the system can make `/run/user/UID`.
    Own,
    /// A file that programs of several users or containers share.
    At(PathBuf),
}

impl Location {
    /// Returns the table that `COMITY_TABLE` names, or [`Location::Own`] if the variable is not set. Returns `None`
    /// if the variable [is `off`](environment::is_off), or if it is not set and the system is not Linux. A program with
    /// more rights than its caller (set-user-ID) ignores the variable.
    pub fn from_environment() -> Option<Location> {
        match environment::variable("COMITY_TABLE") {
            None => files::ARE_SHARED.then_some(Location::Own),
            Some(text) if environment::is_off(&text) => None,
            Some(text) => Some(Location::At(text.into())),
        }
    }

    /// Returns the table of the `comity run` command that this process belongs to. Returns `None` if there is no such
    /// command, or if `COMITY_TABLE` is not `off`, so that this process can join a table itself.
    pub fn around() -> Option<Location> {
        let is_off = environment::variable("COMITY_TABLE").is_some_and(environment::is_off);
        let text = environment::variable(TABLE_AROUND).filter(|_| is_off)?;
        Some(if text == OWN { Location::Own } else { Location::At(text.into()) })
    }

    /// Returns the table that commands such as `comity table` show: the table of `COMITY_TABLE`, or else of
    /// [`Location::around`].
    pub fn to_look_at() -> Option<Location> {
        Location::from_environment().or_else(Location::around)
    }

    /// Returns the location of another user's own table. Root uses it to look at that table.
    pub fn of_user(user: u32) -> Location {
        Location::At(folder_of(user).join(file_name(VERSION)))
    }

    /// Returns this location with an absolute path, which does not depend on later changes of the current folder.
    pub(crate) fn rooted(&self) -> Location {
        match self {
            Location::Own => Location::Own,
            Location::At(path) => Location::At(path::absolute(path).unwrap_or_else(|_| path.clone())),
        }
    }

    /// Returns the value of [`TABLE_AROUND`] for this table.
    pub fn to_text(&self) -> OsString {
        match self {
            Location::Own => OWN.into(),
            Location::At(path) => path.clone().into(),
        }
    }

    /// Returns the absolute path of the file. If a table of another layout already has that path, returns the path of
    /// a file next to it: `PATH.layout-N`, for layout N. See [`other_layouts`].
    ///
    /// [`other_layouts`]: crate::other_layouts
    pub fn path(&self) -> PathBuf {
        match self {
            Location::Own => own_folder().join(file_name(VERSION)),
            Location::At(path) => {
                let path = path::absolute(path).unwrap_or_else(|_| path.clone());
                let beside = beside(&path, VERSION);
                if layout_of(&path).is_some_and(|layout| layout != VERSION) || layout_of(&beside) == Some(VERSION) {
                    beside
                } else {
                    path
                }
            }
        }
    }

    /// Returns the tables of other layouts at this location, each as its path and its layout's number.
    pub(crate) fn others(&self) -> Vec<(PathBuf, u32)> {
        let own = self.path();
        let named = match self {
            Location::Own => own_folder().join(file_name(VERSION)),
            Location::At(path) => path::absolute(path).unwrap_or_else(|_| path.clone()),
        };
        let stem = match self {
            Location::Own => "layout-".to_owned(),
            Location::At(_) => format!("{}.layout-", named.file_name().unwrap_or_default().to_string_lossy()),
        };
        let entries = named.parent().and_then(|folder| fs::read_dir(folder).ok());
        let beside = entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let is_table = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            *path == named || name.strip_prefix(&stem).is_some_and(|layout| layout.parse::<u32>().is_ok())
        };
        let others = beside.filter(is_table).filter(|path| *path != own);
        others
            .filter_map(|path| layout_of(&path).filter(|layout| *layout != VERSION).map(|layout| (path, layout)))
            .collect()
    }
}

fn own_folder() -> PathBuf {
    folder_of(files::user())
}

/// Returns the folder of a user's own table. It depends on the user and on no environment variable, so that all logins
/// of a user use the same table. All users may write to `/dev/shm`, but only the system can make a folder in
/// `/run/user`.
fn folder_of(user: u32) -> PathBuf {
    let usual = PathBuf::from(format!("/dev/shm/comity-{user}"));
    let of_the_system = PathBuf::from(format!("/run/user/{user}"));
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.is_dir(), Owner::of(&found)));
    let is_taken = owner(&usual).is_some_and(|(_, owner)| owner.user != user);
    let is_alternative = |(is_folder, owner): (bool, Owner)| is_folder && owner.user == user && owner.mode & 0o022 == 0;
    if is_taken && owner(&of_the_system).is_some_and(is_alternative) { of_the_system.join("comity") } else { usual }
}

fn file_name(layout: u32) -> String {
    format!("layout-{layout}")
}

/// Returns the path of a table of `layout` if a table of another layout already has `path`.
fn beside(path: &Path, layout: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", file_name(layout)));
    path.with_file_name(name)
}

/// Opens a table for reading. The file must be regular, have at most `most` bytes, and have an owner or a group whose
/// tables this process uses. Returns `None` for any other file.
pub(crate) fn open_trusted(path: &Path, most: u64) -> Option<File> {
    let file = open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_usable = metadata.is_file() && metadata.len() <= most;
    (is_usable && not_ours(&metadata, &Location::At(path.to_owned())).is_none()).then_some(file)
}

/// Returns the layout of the table at a path. `None`: the path names no table that this process would use.
fn layout_of(path: &Path) -> Option<u32> {
    let mut head = [0; 12];
    open_trusted(path, u64::MAX)?.read_exact(&mut head).ok()?;
    let (magic, version) = head.split_at(8);
    (magic == MAGIC.to_le_bytes()).then(|| u32::from_le_bytes(version.try_into().expect("four bytes")))
}

/// The reason why a table cannot be used. The message also tells the user what to do. The program continues without
/// sharing cores.
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

    /// True if the table was full. A later attempt may find a free slot.
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

/// The condition under which a missing table is created.
#[derive(Clone, Copy)]
pub(crate) enum Make {
    Any,
    /// Create the table only if it gets these permissions, which are those of the table that it replaces. In a folder
    /// without the set-group-ID bit, a new table is for its user alone. Such a table must not replace a group's table.
    Alike(u32),
}

/// A table in memory that has passed all checks.
pub(crate) struct Map {
    /// The last mapping in `place`: the memory of the table that the program uses now.
    layout: AtomicPtr<Layout>,
    place: Mutex<Place>,
}

/// The file of a table, and the mappings of that file and of the files that it replaced.
struct Place {
    path: PathBuf,
    identity: (u64, u64),
    /// The permissions of the file when it was opened.
    mode: u32,
    /// The last mapping is that of the current file. Earlier mappings stay, because threads may still read them.
    memory: Vec<MmapRaw>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.memory.clear();
        fault::point("unmapped");
    }
}

impl Map {
    /// Opens the table. Creates the table if it does not exist.
    pub(crate) fn open(location: &Location, make: Make) -> Result<Map, TableError> {
        if *location == Location::Own {
            make_own_folder()?;
        }
        let path = location.path();
        // Another program may create or remove the file between `open` and `create`.
        for _ in 0..8 {
            match open(&path) {
                Ok(file) => return Map::of(file, path, location, not_trusted),
                Err(error) if error.kind() == io::ErrorKind::NotFound => match create(&path, location, make) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        return Err(TableError::new(&path, format!("cannot be created: {error}. {ELSEWHERE}")));
                    }
                    Ok(()) => {}
                },
                Err(error) => return Err(refused(&path, &error)),
            }
        }
        Err(TableError::new(&path, format!("is removed by another process as soon as it is created. {ELSEWHERE}")))
    }

    /// Opens an existing table to read it. Returns `None` if there is no table.
    pub(crate) fn open_existing(location: &Location) -> Result<Option<Map>, TableError> {
        if !has_folder(location)? {
            return Ok(None);
        }
        let path = location.path();
        match open(&path) {
            Ok(file) => Map::of(file, path, location, not_trusted_to_look).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(&path, &error)),
        }
    }

    /// Checks the file, and maps it if all checks succeed.
    fn of(
        mut file: File,
        path: PathBuf,
        location: &Location,
        not_trusted: fn(&File, &fs::Metadata, &Location) -> Option<&'static str>,
    ) -> Result<Map, TableError> {
        let wrong = |what: &str| Err(TableError::new(&path, what));
        let read = |error: io::Error| TableError::new(&path, format!("cannot be read: {error}. {ELSEWHERE}"));
        let metadata = file.metadata().map_err(read)?;
        if !metadata.is_file() {
            return wrong("is not a regular file. Set COMITY_TABLE to another file");
        }
        let mut head = [0; 16];
        let there = head.len().min(metadata.len() as usize);
        file.read_exact(&mut head[..there]).map_err(read)?;
        let magic = MAGIC.to_le_bytes();
        if head[..there.min(magic.len())] != magic[..there.min(magic.len())] {
            return wrong("is not a core table. Set COMITY_TABLE to another file");
        }
        if metadata.len() < size_of::<Header>() as u64 {
            return wrong("is cut short. `comity table clean` removes it if no program uses it");
        }
        let rest = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
        let (version, bytes) = (rest as u32, (rest >> 32) as u32);
        if version != VERSION {
            // A table of another layout has just replaced a table of this layout.
            return wrong(&format!("has layout {version}, but this program uses layout {VERSION}. Try again"));
        }
        if bytes as usize != BYTES || metadata.len() != BYTES as u64 {
            return wrong("has the wrong size. `comity table clean` removes it if no program uses it");
        }
        if let Some(what) = not_trusted(&file, &metadata, location) {
            return wrong(what);
        }
        let memory = MmapOptions::new().len(BYTES).map_raw(&file);
        let memory =
            memory.map_err(|error| TableError::new(&path, format!("cannot be mapped: {error}. {ELSEWHERE}")))?;
        fault::point("mapped");
        let layout = AtomicPtr::new(memory.as_mut_ptr().cast());
        let (identity, mode) = (files::identity(&metadata), Owner::of(&metadata).mode);
        let place = Place { identity, mode, path, memory: vec![memory] };
        Ok(Map { layout, place: Mutex::new(place) })
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        lock(&self.place)
    }

    /// The permissions of the file when it was opened.
    pub(crate) fn mode(&self) -> u32 {
        self.place().mode
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.place().path.clone()
    }

    /// Opens the file to lock its bytes. `None`: the path now names another file, or no file.
    pub(crate) fn open_to_lock(&self) -> io::Result<Option<LockFile>> {
        let place = self.place();
        match LockFile::open(&place.path) {
            Ok(lock) => Ok(Some(lock).filter(|lock| lock.identity() == place.identity)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        // SAFETY: the pointer is that of a mapping in `place`, which has the size of a layout, is aligned to a page,
        // and lives as long as `self`. A layout has atomic words only, for which any bytes are valid, whichever
        // program changes them.
        unsafe { &*self.layout.load(Ordering::Acquire) }
    }

    /// True if a program that joins at `location` now would join this table.
    pub(crate) fn is_in_place(&self, location: &Location) -> bool {
        let place = self.place();
        let found = |file: File| {
            let metadata = file.metadata().ok()?;
            let is_trusted = not_trusted(&file, &metadata, location).is_none();
            Some(is_trusted && files::identity(&metadata) == place.identity)
        };
        location.path() == place.path && open(&place.path).ok().and_then(found).unwrap_or(false)
    }

    /// Replaces this table by another. The memory of the old table stays until `self` is dropped.
    pub(crate) fn replace(&self, by: Map) {
        let (mut place, mut by) = (self.place(), by.place());
        place.memory.append(&mut by.memory);
        std::mem::swap(&mut place.path, &mut by.path);
        (place.identity, place.mode) = (by.identity, by.mode);
        let last = place.memory.last().expect("a table has memory");
        self.layout.store(last.as_mut_ptr().cast(), Ordering::Release);
    }
}

fn open(path: &Path) -> io::Result<File> {
    files::open_itself(path)
}

fn make_own_folder() -> Result<(), TableError> {
    let folder = own_folder();
    match files::make_folder(&folder, 0o700) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(TableError::new(
            &folder.join(file_name(VERSION)),
            format!("is in a folder that cannot be created: {error}. {ELSEWHERE}"),
        )),
        _ => trust_own_folder(fs::symlink_metadata(&folder)),
    }
}

/// True if the folder of the user's own table exists. Always true for a named table.
///
/// # Errors
/// If the folder of the own table may not be used, for example because it belongs to another user.
pub(crate) fn has_folder(location: &Location) -> Result<bool, TableError> {
    if *location == Location::Own {
        match fs::symlink_metadata(own_folder()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            metadata => trust_own_folder(metadata)?,
        }
    }
    Ok(true)
}

/// Checks that the folder belongs to the user alone. In `/dev/shm`, which has the sticky bit, no other user can replace
/// such a folder.
fn trust_own_folder(metadata: io::Result<fs::Metadata>) -> Result<(), TableError> {
    let wrong = |what: &str| Err(TableError::new(&own_folder().join(file_name(VERSION)), what));
    match metadata {
        Err(error) => wrong(&format!("is in a folder that cannot be examined: {error}. {ELSEWHERE}")),
        Ok(folder) => match Owner::of(&folder) {
            Owner { user, .. } if user != files::user() => {
                let none = format!("there is no folder /run/user/{} to use instead", files::user());
                wrong(&format!("is in a folder of another user ({user}), and {none}. {ELSEWHERE}"))
            }
            _ if !folder.is_dir() => {
                wrong("has no folder: a file or a link has the folder's name. Remove that file or link")
            }
            Owner { mode, .. } if mode & 0o077 != 0 => {
                wrong("is in a folder that is open to other users. Set the mode of the folder to 0700 (chmod 0700)")
            }
            _ => Ok(()),
        },
    }
}

fn refused(path: &Path, error: &io::Error) -> TableError {
    if files::is_link(error) {
        return TableError::new(
            path,
            "is a symbolic link, which Comity does not follow. Set COMITY_TABLE to its target",
        );
    }
    TableError::new(path, format!("cannot be opened for reading and writing: {error}. {ELSEWHERE}"))
}

/// Returns the reason why a program must not join a table, or `None` if it may join. A program may join the tables of
/// its user. If the user names a file, the program may also join a file of root, or a file that a group of this process
/// may write to.
fn not_trusted(file: &File, metadata: &fs::Metadata, location: &Location) -> Option<&'static str> {
    let Owner { mode, .. } = Owner::of(metadata);
    let readers =
        "can be locked by users who may read it but not write to it. Set its mode to 0600, or to 0660 for a group";
    not_ours(metadata, location).or(match location {
        Location::Own if mode & 0o077 != 0 => Some("is open to other users. Set its mode to 0600, or remove it"),
        Location::Own => None,
        Location::At(_) if mode & 0o002 != 0 => Some("can be written by all users. Remove that permission (chmod o-w)"),
        // Users who may only read the file can hold read locks. Such locks keep new programs out of the table, and
        // make a dead program look alive.
        Location::At(_) => files::lets_some_only_read(file, mode).then_some(readers),
    })
}

/// Returns the reason why a process may not read a table or send requests to its programs, or `None` if it may. The
/// rules are those of `not_trusted`, except that root may read the table of any user.
fn not_trusted_to_look(file: &File, metadata: &fs::Metadata, location: &Location) -> Option<&'static str> {
    if is_root_elsewhere(location) { None } else { not_trusted(file, metadata, location) }
}

/// Returns the reason why a process may not remove a table, or `None` if it may. The rules are those of `not_trusted`
/// with two exceptions: permissions for other users do not matter, and root may remove the table of any user.
pub(crate) fn not_to_clean(metadata: &fs::Metadata, location: &Location) -> Option<&'static str> {
    if is_root_elsewhere(location) { None } else { not_ours(metadata, location) }
}

fn not_ours(metadata: &fs::Metadata, location: &Location) -> Option<&'static str> {
    let Owner { user, group, mode } = Owner::of(metadata);
    match location {
        _ if user == files::user() => None,
        Location::Own => Some("belongs to another user. Set COMITY_TABLE to a file of your own"),
        Location::At(_) if user == ROOT || mode & 0o020 != 0 && files::is_in_group(group) => None,
        Location::At(_) => {
            Some("belongs to another user, and no group of this program may write to it. See `comity table --help`")
        }
    }
}

fn is_root_elsewhere(location: &Location) -> bool {
    files::user() == ROOT && *location != Location::Own
}

/// True if the folder has the set-group-ID bit, so that its files get its group, and belongs to this user or to root.
fn is_for_a_group(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|folder| {
        let Owner { user, mode, .. } = Owner::of(&folder);
        (user == files::user() || user == 0) && mode & 0o2000 != 0
    })
}

/// Creates a file without a name, writes the table into it, and then gives the file its name unless the name exists by
/// then. No program can see an incomplete table.
fn create(path: &Path, location: &Location, make: Make) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mode = if *location != Location::Own && is_for_a_group(folder) { 0o660 } else { 0o600 };
    if matches!(make, Make::Alike(other) if other != mode) {
        return Err(io::Error::other("a new table would not have the permissions of the table that it replaces"));
    }
    let mut file = files::unnamed(folder, mode)?;
    files::set_mode(&file, mode)?;
    // Write the bytes instead of only setting the size: a full file system is then an error here, and not a SIGBUS
    // when the memory is first used.
    let mut bytes = vec![0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(BYTES as u32).to_le_bytes());
    for (word, number) in bytes[16..].chunks_exact_mut(4).zip(DIRECTORY) {
        word.copy_from_slice(&number.to_le_bytes());
    }
    writes::without_signals(|| file.write_all(&bytes))?;
    fault::point("file-made");
    files::name(&file, path)?;
    fault::point("file-named");
    Ok(())
}
