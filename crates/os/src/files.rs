//! Files in places where other users may have laid something else, and whose they are.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use crate::system::calls;

/// Opens a regular file for reading and writing, or what has its place, without waiting for a pipe's other end. Closed on `exec`.
///
/// # Errors
/// As the system says; also if it is a symbolic link ([`is_link`]), which is not followed.
pub fn open_itself(path: &Path) -> io::Result<File> {
    calls::open_itself(path)
}

/// Whether [`open_itself`] has found a symbolic link.
pub fn is_link(error: &io::Error) -> bool {
    calls::is_link(error)
}

/// Makes a file in `folder` that has no name and vanishes with its last descriptor, open for reading and writing; less of `mode` where
/// the process has a mask. Closed on `exec`.
///
/// # Errors
/// If the system cannot make the file, or if the file system does not support unnamed files.
pub fn unnamed(folder: &Path, mode: u32) -> io::Result<File> {
    calls::unnamed_file(folder, mode)
}

/// Gives a file that [`unnamed`] made its name.
///
/// # Errors
/// As the system says; `AlreadyExists` if there is one of this name.
pub fn name(file: &File, path: &Path) -> io::Result<()> {
    calls::name_file(file, path)
}

/// Whether this system has what a file needs that the memory of several programs is: locks that end with their process, names that
/// appear with whole files, owners. Where it has not, each call here fails that opens or makes one.
pub const ARE_SHARED: bool = calls::ARE_SHARED;

/// Whose a file is, and what others may do with it.
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
    /// The owner of a file or folder.
    pub fn of(metadata: &Metadata) -> Owner {
        calls::owner(metadata)
    }
}

/// Returns true if some users or groups may read `file` but not write to it, by the permissions `mode` or by an access
/// control list.
pub fn lets_some_only_read(file: &File, mode: u32) -> bool {
    let only_reads = |permissions: u32| permissions & 0o6 == 0o4;
    let Some(list) = calls::access_list(file) else { return only_reads(mode) || only_reads(mode >> 3) };
    // A header of four bytes, then entries of eight: the kind, the permissions, and the number of the user or group
    // (acl(5), `posix_acl_xattr.h` of Linux). The mask limits all entries but those of the owner and of others.
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

/// Which file it is: its device and its number there.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    calls::identity(metadata)
}

/// Makes a folder with these permissions, less the process's mask.
///
/// # Errors
/// As the system says; `AlreadyExists` if something has the name.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    calls::make_folder(path, mode)
}

/// Gives a file these permissions, whatever the process's mask.
///
/// # Errors
/// As the system says.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    calls::set_mode(file, mode)
}

/// The user that the calling process acts for.
pub fn user() -> u32 {
    calls::user()
}

/// Whether the calling process acts for a group.
pub fn is_in_group(group: u32) -> bool {
    calls::groups().contains(&group)
}
