//! Safe operations on files in folders that other users may also write to, and the owners of files.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use crate::system::calls;

/// Opens the file at `path` for reading and writing. Does not follow a symbolic link, and does not wait for the other
/// end of a pipe. The descriptor is closed on `exec`.
///
/// # Errors
/// Errors of the system. Also if `path` is a symbolic link ([`is_link`]).
pub fn open_itself(path: &Path) -> io::Result<File> {
    calls::open_itself(path)
}

/// True if [`open_itself`] failed because it found a symbolic link.
pub fn is_link(error: &io::Error) -> bool {
    calls::is_link(error)
}

/// Creates a file without a name in `folder`, open for reading and writing. The file is deleted when its last
/// descriptor is closed. The permissions are `mode` minus the process's umask. The descriptor is closed on `exec`.
///
/// # Errors
/// If the system cannot create the file, or if the file system does not support unnamed files.
pub fn unnamed(folder: &Path, mode: u32) -> io::Result<File> {
    calls::unnamed_file(folder, mode)
}

/// Gives a name to a file that [`unnamed`] created.
///
/// # Errors
/// Errors of the system; `AlreadyExists` if the name is taken.
pub fn name(file: &File, path: &Path) -> io::Result<()> {
    calls::name_file(file, path)
}

/// True if this system supports files as the shared memory of several programs. This needs locks that end with their
/// process, file owners, and files that get their name only when they are complete. If false, each function here that
/// opens or creates a file fails.
pub const ARE_SHARED: bool = calls::ARE_SHARED;

/// The owner of a file, and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// The permissions, as `chmod` takes them.
    pub mode: u32,
}

impl Owner {
    /// Returns the owner of a file or folder.
    pub fn of(metadata: &Metadata) -> Owner {
        calls::owner(metadata)
    }
}

/// Returns true if some users or groups may read `file` but not write to it, by the permissions `mode` or by an access
/// control list.
pub fn lets_some_only_read(file: &File, mode: u32) -> bool {
    let only_reads = |permissions: u32| permissions & 0o6 == 0o4;
    let Some(list) = calls::access_list(file) else { return only_reads(mode) || only_reads(mode >> 3) };
    // The list has a header of 4 bytes, then entries of 8 bytes: kind, permissions, and number of the user or group
    // (acl(5), `posix_acl_xattr.h` of Linux). The mask limits all entries except those of the owner and of others.
    const OWNER: u32 = 0x01;
    const MASK: u32 = 0x10;
    const OTHERS: u32 = 0x20;
    let entries = list.get(4..).unwrap_or_default().chunks_exact(8);
    let entries = entries.map(|entry| [0, 2].map(|at| u32::from(u16::from_le_bytes([entry[at], entry[at + 1]]))));
    let mask = entries.clone().find(|[kind, _]| *kind == MASK).map_or(0o7, |[_, permissions]| permissions);
    entries
        .filter(|[kind, _]| ![OWNER, MASK].contains(kind))
        .any(|[kind, permissions]| only_reads(if kind == OTHERS { permissions } else { permissions & mask }))
}

/// Returns the identity of a file: its device and its inode number.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    calls::identity(metadata)
}

/// Creates a folder with these permissions, minus the process's umask.
///
/// # Errors
/// Errors of the system; `AlreadyExists` if the name is taken.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    calls::make_folder(path, mode)
}

/// Gives a file these permissions, independent of the process's umask.
///
/// # Errors
/// Errors of the system.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    calls::set_mode(file, mode)
}

/// Returns the effective user of the calling process.
pub fn user() -> u32 {
    calls::user()
}

/// True if the calling process is in a group.
pub fn is_in_group(group: u32) -> bool {
    calls::groups().contains(&group)
}
