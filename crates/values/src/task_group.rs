//! Task groups of the operating system.

/// A task group of the operating system's scheduler: a session (with Linux's autogroup feature) or a control group. The
/// scheduler divides time by weight among groups that have the same parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskGroup {
    /// The number that distinguishes the group from other groups with the same parent. Never 0.
    pub id: u32,
    /// The number of the parent group. Groups with different parents have different numbers here.
    pub parent: u16,
    /// The weight of the group, in thousandths of the default weight of a group. Never 0.
    pub milli: u16,
}

impl TaskGroup {
    /// Encodes a group as a word of the core table. `None` stands for an unknown group.
    pub fn to_bits(group: Option<TaskGroup>) -> u64 {
        group.map_or(0, |group| u64::from(group.id) << 32 | u64::from(group.parent) << 16 | u64::from(group.milli))
    }

    /// Decodes a word of the core table. Any word is valid. `None` stands for an unknown group.
    pub fn from_bits(bits: u64) -> Option<TaskGroup> {
        let group = TaskGroup { id: (bits >> 32) as u32, parent: (bits >> 16) as u16, milli: bits as u16 };
        (group.id != 0 && group.milli != 0).then_some(group)
    }
}
