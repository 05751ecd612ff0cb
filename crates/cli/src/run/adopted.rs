//! Which processes belong to an adopted command: the descendants of its first process, and the processes whose parent
//! has ended, but that are in the process group or session that the first process leads.
//!
//! Each process has one coordinator. So a process of another command, or a program that is a member of the core table
//! itself, does not belong to the command, nor does what it has started.

use comity_os::census::{self, Stat};
use comity_os::files;

use super::roster::Roster;
use super::tree::MARK;

/// The part of a [`Tree`](super::tree::Tree) that only an adopted command has.
pub struct Adopted {
    /// The mark of the first process. It is that of a command that has ended, in which the process was started.
    mark: Option<String>,
    /// The members of the core table that do not belong to the command, each process with its start.
    pub left_out: Vec<(u32, u64)>,
    /// The list for the companion.
    pub roster: Option<Roster>,
}

impl Adopted {
    pub fn new(root: u32, left_out: Vec<(u32, u64)>) -> Adopted {
        Adopted { mark: census::variable_of(root, MARK), left_out, roster: None }
    }

    /// True unless the process is a member of the table, belongs to another command, or is a coordinator or companion.
    pub fn may_have(&self, id: u32, start: u64) -> bool {
        let mark = || census::variable_of(id, MARK);
        !self.left_out.contains(&(id, start)) && !is_of_comity(id) && mark().is_none_or(|mark| Some(mark) == self.mark)
    }
}

/// True for the name of a coordinator or a companion.
pub fn is_of_comity(process: u32) -> bool {
    let name = census::name(process);
    name.starts_with("comity:") || name.starts_with("comity+")
}

/// True for a process without its parent that is in the process group or the session that the process `root` leads. Its
/// present parent is not in it. It has the user of the coordinator, but not from a set-user-id program.
pub fn is_left_behind(root: u32, id: u32, stat: &Stat) -> bool {
    let parent = Stat::of_process(stat.parent);
    let is_in_group = stat.group == root && parent.is_none_or(|parent| parent.group != root);
    let is_in_session = stat.session == root && parent.is_none_or(|parent| parent.session != root);
    (is_in_group || is_in_session) && census::user(id) == Some(files::user()) && census::has_rights_of_its_caller(id)
}
