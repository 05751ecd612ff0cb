//! A second account of all strands, by identifier, from the events of each strand: created, begun, done. The checks
//! compare it with the counts of the pool.

use std::collections::HashMap;

/// The strands of one program.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    /// The strands that are not done.
    live: HashMap<u32, Stage>,
    created: u64,
    pub(super) running: u64,
    pub(super) blocked: u64,
    pub(super) done: u64,
}

/// The state of a strand. All strands of a task that can block have the identifier of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    Runs,
    IsBlocked,
}

impl Ledger {
    pub(super) fn create(&mut self, strand: u32) -> Result<(), String> {
        self.created += 1;
        match self.live.insert(strand, Stage::Waits) {
            None => Ok(()),
            Some(_) => Err(format!("strand {strand} is created, but exists already")),
        }
    }

    pub(super) fn begin(&mut self, strand: u32) -> Result<(), String> {
        self.running += 1;
        match self.live.insert(strand, Stage::Runs) {
            Some(Stage::Waits) => Ok(()),
            Some(Stage::IsBlocked) => Err(format!("strand {strand} is run, but is blocked")),
            Some(Stage::Runs) => Err(format!("strand {strand} is run twice")),
            None => Err(format!("strand {strand} is run, but was not created or is done")),
        }
    }

    pub(super) fn end(&mut self, strand: u32) -> Result<(), String> {
        self.running = self.running.saturating_sub(1);
        self.done += 1;
        match self.live.remove(&strand) {
            Some(Stage::Runs) => Ok(()),
            _ => Err(format!("strand {strand} is done, but was not begun")),
        }
    }

    /// Checks that a task that continues with its next strand is running.
    pub(super) fn goes_on(&self, task: u32) -> Result<(), String> {
        match self.live.get(&task) {
            Some(Stage::Runs) => Ok(()),
            other => Err(format!("task {task} continues, but was {other:?}")),
        }
    }

    pub(super) fn block(&mut self, task: u32) -> Result<(), String> {
        self.running = self.running.saturating_sub(1);
        self.blocked += 1;
        match self.live.insert(task, Stage::IsBlocked) {
            Some(Stage::Runs) => Ok(()),
            other => Err(format!("task {task} blocks, but was {other:?}")),
        }
    }

    pub(super) fn unblock(&mut self, task: u32) -> Result<(), String> {
        self.blocked = self.blocked.saturating_sub(1);
        match self.live.insert(task, Stage::Waits) {
            Some(Stage::IsBlocked) => Ok(()),
            other => Err(format!("task {task} is unblocked, but was {other:?}")),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Checks that created = done + running + blocked + waiting. If a task is blocked, also checks that another task
    /// runs or is ready.
    pub(super) fn balances(&self, waiting: u64) -> Result<(), String> {
        let Ledger { created, running, blocked, done, .. } = *self;
        if created != done + running + blocked + waiting {
            let what = format!("{created} strands were created, {done} are done, {running} run, {waiting} wait");
            return Err(if blocked > 0 { format!("{what}, {blocked} are blocked") } else { what });
        }
        if blocked > 0 && running + waiting == 0 {
            return Err(format!("a deadlock: all {blocked} remaining tasks are blocked"));
        }
        Ok(())
    }

    pub(super) fn is_blocked(&self, task: u32) -> bool {
        self.live.get(&task) == Some(&Stage::IsBlocked)
    }
}

#[cfg(test)]
impl Ledger {
    /// Marks a blocked task as waiting, without counting that it is unblocked.
    pub(super) fn waits_untold(&mut self, task: u32) {
        self.live.insert(task, Stage::Waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_is_run_while_it_is_blocked_is_noticed() {
        let mut ledger = Ledger::default();
        ledger.create(7).unwrap();
        assert!(ledger.goes_on(7).is_err() && ledger.clone().block(7).is_err());
        ledger.begin(7).unwrap();
        ledger.goes_on(7).unwrap();
        ledger.block(7).unwrap();
        assert!(ledger.is_blocked(7) && ledger.clone().end(7).is_err());
        assert_eq!(ledger.clone().begin(7), Err("strand 7 is run, but is blocked".into()));
        ledger.create(8).unwrap();
        ledger.balances(1).unwrap();
        assert!(ledger.balances(0).unwrap_err().ends_with("0 wait, 1 are blocked"));
        ledger.unblock(7).unwrap();
        assert!(ledger.unblock(7).is_err() && !ledger.is_empty());
    }

    #[test]
    fn a_strand_that_is_run_twice_or_lost_is_noticed() {
        let mut ledger = Ledger::default();
        ledger.create(7).unwrap();
        ledger.balances(1).unwrap();
        assert_eq!(ledger.balances(0), Err("1 strands were created, 0 are done, 0 run, 0 wait".into()));
        assert!(ledger.create(7).is_err() && ledger.end(7).is_err());

        let mut ledger = Ledger::default();
        ledger.create(7).unwrap();
        ledger.begin(7).unwrap();
        assert_eq!(ledger.begin(7), Err("strand 7 is run twice".into()));
        ledger.end(7).unwrap();
        assert!(ledger.is_empty() && ledger.begin(7).is_err() && ledger.begin(8).is_err());
    }
}
