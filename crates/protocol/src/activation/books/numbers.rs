//! The books as plain numbers, which a record of what a pool did can hold.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Books, Entry, State};
use crate::CoreSet;

impl Books {
    /// All that they say: [`Books::of_numbers`] makes the same books of it.
    pub fn to_numbers(&self) -> Vec<u64> {
        let Books { entries, awake, retired, held, off_core, may_use } = self;
        let mut to = Vec::from([*awake, *retired, *off_core, entries.len() as u32].map(u64::from));
        put_set(&mut to, *held);
        put_set(&mut to, *may_use);
        for Entry { state, core, confined, led_to, led, is_late, midway, adopted } in entries {
            to.extend([*state as u64, u64::from(*led), u64::from(*is_late), u64::from(*midway), u64::from(*adopted)]);
            to.extend([core, led_to].map(|core| core.map_or(0, |core| core as u64 + 1)));
            to.push(u64::from(confined.is_some()));
            put_set(&mut to, confined.unwrap_or_default());
        }
        to
    }

    /// `None`: these numbers are no books.
    pub fn of_numbers(from: &mut impl Iterator<Item = u64>) -> Option<Books> {
        let mut small = || u32::try_from(from.next()?).ok();
        let (awake, retired, off_core, workers) = (small()?, small()?, small()?, small()?);
        let (held, may_use) = (take_set(from)?, take_set(from)?);
        let entries: Option<Box<[Entry]>> = (0..workers).map(|_| take_entry(from)).collect();
        Some(Books { entries: entries?, awake, retired, held, off_core, may_use })
    }
}

fn take_entry(from: &mut impl Iterator<Item = u64>) -> Option<Entry> {
    let state = match from.next()? {
        0 => State::Awake,
        1 => State::Asleep,
        2 => State::Retired,
        _ => return None,
    };
    let mut flag = || from.next().map(|flag| flag == 1);
    let (led, is_late, midway, adopted) = (flag()?, flag()?, flag()?, flag()?);
    let mut core = || from.next().map(|core| (core as usize).checked_sub(1));
    let (core, led_to) = (core()?, core()?);
    let is_confined = from.next()? == 1;
    let confined = Some(take_set(from)?).filter(|_| is_confined);
    Some(Entry { state, core, confined, led_to, led, is_late, midway, adopted })
}

/// How many cores, and which.
fn put_set(to: &mut Vec<u64>, set: CoreSet) {
    to.push(set.len() as u64);
    to.extend(set.iter().map(|core| core as u64));
}

fn take_set(from: &mut impl Iterator<Item = u64>) -> Option<CoreSet> {
    let cores = from.next()?;
    (0..cores).map(|_| Some(from.next()? as usize)).collect()
}

#[cfg(test)]
mod tests {
    use comity_policy::WorkerId;

    use super::*;

    #[test]
    fn books_are_the_same_after_they_were_numbers() {
        let mut books = Books::new(3, true, [1, 5, 700].into_iter().collect());
        books.held.insert(5);
        books.retire(WorkerId(1));
        books.fall_asleep(WorkerId(2));
        books.entries[1].core = Some(5);
        books.entries[2].confined = Some(CoreSet::EMPTY);
        let numbers = books.to_numbers();
        assert_eq!(Books::of_numbers(&mut numbers.iter().copied()), Some(books));
        assert_eq!(Books::of_numbers(&mut numbers.iter().copied().take(numbers.len() - 1)), None);
    }
}
