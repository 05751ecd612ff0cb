//! The reasons why a program uses less processor time than its cores or its share allow.

use comity_policy::Account;

/// The reason why a program used less than nine tenths of the cores that it held, or of its share, in a quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The program's tasks waited: for each other, for input, or for a lock.
    TasksWait,
    /// Tasks were queued, and workers rested because the program held no core for them.
    WorkersWait,
    /// The program had fewer tasks than cores.
    FewTasks,
}

impl Shortfall {
    /// Returns the reason, or `None` if the program used at least nine tenths of its cores and of its share.
    pub(crate) fn of(account: &Account) -> Option<Shortfall> {
        let due_ns = u64::from(account.share_milli.min(1000 * account.usable)) * account.elapsed_ns / 1000;
        let is_used = 10 * account.used_ns >= 9 * account.held_ns.max(due_ns);
        // Tasks also waited if workers had a task for longer (`usage_ns`) than they ran or waited for a core
        // (`wanted_ns`).
        let tasks_wait = account.blocked > 0
            || 20 * account.blocked_ns >= account.elapsed_ns
            || 4 * account.usage_ns > 5 * account.wanted_ns;
        match () {
            () if account.elapsed_ns == 0 || is_used => None,
            () if tasks_wait => Some(Shortfall::TasksWait),
            () if account.queued > 0 && account.retired > 0 => Some(Shortfall::WorkersWait),
            () => Some(Shortfall::FewTasks),
        }
    }

    /// Encodes an optional reason as a word of the core table.
    pub fn to_bits(reason: Option<Shortfall>) -> u32 {
        match reason {
            None => 0,
            Some(Shortfall::TasksWait) => 1,
            Some(Shortfall::WorkersWait) => 2,
            Some(Shortfall::FewTasks) => 3,
        }
    }

    /// Decodes a word of the core table. Any word is valid: a word that no build writes is decoded as no reason.
    pub fn from_bits(bits: u32) -> Option<Shortfall> {
        match bits {
            1 => Some(Shortfall::TasksWait),
            2 => Some(Shortfall::WorkersWait),
            3 => Some(Shortfall::FewTasks),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A quantum of 10 ms in which the program held one of two cores and used `used` ms.
    fn account(used: u64) -> Account {
        Account {
            elapsed_ns: 10 * MS,
            usable: 2,
            share_milli: 1000,
            held_ns: 10 * MS,
            used_ns: used * MS,
            wanted_ns: used * MS,
            usage_ns: used * MS,
            ..Account::default()
        }
    }

    #[test]
    fn the_reason_is_what_kept_the_program_from_its_share() {
        assert_eq!(Shortfall::of(&account(9)), None);
        assert_eq!(Shortfall::of(&Account::default()), None, "no time has passed");
        assert_eq!(Shortfall::of(&account(5)), Some(Shortfall::FewTasks));
        for waits in [
            Account { blocked: 1, ..account(5) },
            Account { blocked_ns: MS / 2, ..account(5) },
            Account { usage_ns: 10 * MS, queued: 3, retired: 1, ..account(5) },
            Account { held_ns: 0, usage_ns: 90 * MS, ..account(5) },
        ] {
            assert_eq!(Shortfall::of(&waits), Some(Shortfall::TasksWait), "{waits:?}");
        }
        assert_eq!(Shortfall::of(&Account { queued: 3, retired: 1, ..account(5) }), Some(Shortfall::WorkersWait));
        assert_eq!(Shortfall::of(&Account { queued: 3, ..account(5) }), Some(Shortfall::FewTasks));
    }

    #[test]
    fn a_word_is_read_as_it_was_written_and_any_other_says_nothing() {
        for reason in [None, Some(Shortfall::TasksWait), Some(Shortfall::WorkersWait), Some(Shortfall::FewTasks)] {
            assert_eq!(Shortfall::from_bits(Shortfall::to_bits(reason)), reason);
        }
        assert_eq!([4, 77, u32::MAX].map(Shortfall::from_bits), [None; 3]);
    }
}
