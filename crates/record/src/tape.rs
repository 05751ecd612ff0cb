//! One thread's record: it is written, or it is read.
//!
//! A record is text, a line a call: `compare_exchange 7 1 4 AcqRel Relaxed = 1 1`. Each word has a number, in the order
//! in which the pool's words are made. A life begins with `worker`, `coordinator` or `member`: all calls of one thread,
//! in order. What the lines of a life are:
//!
//! | lines | between |
//! |---|---|
//! | `search`, `rest`, `begins` | driver and dialogue: a spell begins, and ends with so many wake-ups owed |
//! | `turn` | dialogue and policy: an event, and the action that answered it |
//! | `steal`, `mug`, `wait`, … | dialogue and driver: an effect, and its outcome |
//! | `load`, `store`, `fence`, `wake`, … | the steps and the words, with the orders |
//! | `lock`, `unlock` | the same: the books, as they were found and as they were left |
//! | `deques_have_task`, `confine`, `claim`, … | the activation, and the pool and the table |
//! | `begin`, `come_by`, `leave_off`, `look_by`, `visit`, `next` | a coordinator's thread and its coordination |
//! | `account` | quantum and coordinator: an account, and the orders that answered it |
//! | `round`, `staff`, `sample`, … | the quantum, and the table and the pools |
//! | `claim`, `take_back`, `want`, … to `over` | a member and the table's steps, and below each what it asks of the table |

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use comity_policy::Policy;

use crate::answer::Answer;
use crate::replay::row;

/// A line that says that the record ends here, in the middle of something.
pub(crate) const CUT: &str = "cut";

/// What the thread's calls are.
enum Tape {
    /// As if there were none.
    Off,
    /// Written down while something is open.
    Records(Record),
    /// Compared with a record, which also answers.
    Replays(Script),
}

struct Record {
    /// What was not filed yet.
    text: String,
    /// Where it is filed.
    life: u32,
    is_open: bool,
    turns_left: u32,
}

struct Script {
    lines: Vec<String>,
    at: usize,
}

/// Which of the three, without what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Off,
    Records,
    Replays,
}

/// The record was cut here.
pub(crate) struct Cut;

thread_local! {
    static TAPE: RefCell<Tape> = const { RefCell::new(Tape::Off) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Off) };
}

/// The lives that were recorded, by number.
static FILED: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());

/// How many visits of each coordinator are recorded.
static VISITS: AtomicU32 = AtomicU32::new(0);

// Writing.

/// From now on this thread's life is recorded, up to so many turns. `first`: its first line. The next says what its
/// policy's row does.
pub fn begin_life(first: fmt::Arguments<'_>, policy: Option<&Policy>, turns: u32) {
    static LIVES: AtomicU32 = AtomicU32::new(0);
    let life = LIVES.fetch_add(1, Ordering::Relaxed);
    let row = policy.map_or(String::new(), |policy| format!("{}\n", row(policy)));
    let record = Record { text: format!("{first}\n{row}"), life, is_open: false, turns_left: turns };
    TAPE.set(Tape::Records(record));
}

/// From now on the coordinators that begin are recorded, up to so many visits each.
pub fn record_coordinators(visits: u32) {
    VISITS.store(visits, Ordering::Relaxed);
}

/// A coordinator's life begins.
pub fn life(policy: &Policy, first: fmt::Arguments<'_>) {
    let visits = VISITS.load(Ordering::Relaxed);
    if visits > 0 {
        begin_life(first, Some(policy), visits);
    }
}

/// All that was recorded by now: the lives, each from its first line on.
pub fn filed() -> Vec<String> {
    FILED.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
}

impl Record {
    /// What was written becomes part of the life.
    fn file(&mut self) {
        let mut filed = FILED.lock().unwrap_or_else(PoisonError::into_inner);
        filed.entry(self.life).or_default().push_str(&self.text);
        self.text.clear();
    }

    /// So much was enough.
    fn end(&mut self) {
        (self.is_open, self.turns_left) = (false, 0);
        self.file();
        MODE.set(Mode::Off);
    }
}

/// A spell or a visit begins: what is said from now on is written down.
pub fn opens(line: fmt::Arguments<'_>) {
    TAPE.with_borrow_mut(|tape| {
        if let Tape::Records(record) = tape
            && record.turns_left > 0
        {
            record.is_open = true;
            MODE.set(Mode::Records);
        }
    });
    says(line);
}

/// It is over.
pub fn closes() {
    TAPE.with_borrow_mut(|tape| {
        if let Tape::Records(record) = tape
            && record.is_open
        {
            record.is_open = false;
            record.file();
            MODE.set(Mode::Off);
        }
    });
}

/// A turn was written down. With the last one the record ends, whatever is open.
pub(crate) fn turn() {
    TAPE.with_borrow_mut(|tape| {
        if let Tape::Records(record) = tape
            && record.is_open
        {
            record.turns_left -= 1;
            if record.turns_left == 0 {
                let _ = writeln!(record.text, "{CUT}");
                record.end();
            }
        }
    });
}

// Either.

#[inline]
pub(crate) fn mode() -> Mode {
    MODE.get()
}

/// Something that is not asked is said: it is written down, or compared.
#[inline]
pub fn says(line: fmt::Arguments<'_>) {
    if mode() != Mode::Off {
        said(line);
    }
}

fn said(line: fmt::Arguments<'_>) {
    match mode() {
        Mode::Off => {}
        Mode::Records => write(line, &()),
        Mode::Replays => read::<()>(line),
    }
}

/// The driver is asked something, and answers as it does; or as it did.
pub(crate) fn asks<A: Answer>(line: fmt::Arguments<'_>, driver: impl FnOnce() -> A) -> A {
    match mode() {
        Mode::Off => driver(),
        Mode::Records => {
            let answer = aside(driver);
            write(line, &answer);
            answer
        }
        Mode::Replays => read(line),
    }
}

/// What is said meanwhile is the driver's own.
pub(crate) fn aside<R>(own: impl FnOnce() -> R) -> R {
    let before = MODE.replace(Mode::Off);
    let outcome = own();
    MODE.set(before);
    outcome
}

pub(crate) fn write<A: Answer>(line: fmt::Arguments<'_>, answer: &A) {
    let mut numbers = Vec::new();
    answer.put(&mut numbers);
    TAPE.with_borrow_mut(|tape| {
        if let Tape::Records(Record { text, .. }) = tape {
            let _ = write!(text, "{line}");
            if !numbers.is_empty() {
                text.push_str(" =");
                for number in numbers {
                    let _ = write!(text, " {number}");
                }
            }
            text.push('\n');
        }
    });
}

// Reading.

/// Calls `replay` while this thread's calls are compared with these lines.
pub(crate) fn replaying(lines: Vec<String>, replay: impl FnOnce()) {
    TAPE.set(Tape::Replays(Script { lines, at: 0 }));
    MODE.set(Mode::Replays);
    replay();
    MODE.set(Mode::Off);
    TAPE.set(Tape::Off);
}

/// The next line, which stays the next. `None`: the record ends here.
pub(crate) fn next_line() -> Option<String> {
    TAPE.with_borrow(|tape| match tape {
        Tape::Replays(script) => script.lines.get(script.at).filter(|line| *line != CUT).cloned(),
        _ => None,
    })
}

/// Takes the next line, which must be this one.
///
/// # Panics
/// If it is another.
pub(crate) fn read<A: Answer>(line: fmt::Arguments<'_>) -> A {
    let (recorded, at) = TAPE.with_borrow_mut(|tape| {
        let Tape::Replays(script) = tape else { unreachable!("the mode says so") };
        script.at += 1;
        (script.lines.get(script.at - 1).cloned(), script.at)
    });
    let Some(recorded) = recorded.filter(|recorded| recorded != CUT) else { resume_unwind(Box::new(Cut)) };
    let (said, answer) = recorded.split_once(" =").unwrap_or((&recorded, ""));
    let now = line.to_string();
    assert!(said == now, "line {at} of this life was `{recorded}`, and now it is `{now}`");
    let mut numbers = answer.split_ascii_whitespace().map_while(|number| number.parse().ok());
    let answer = A::take(&mut numbers).filter(|_| numbers.next().is_none());
    answer.unwrap_or_else(|| panic!("line {at} of this life, `{recorded}`, has no such answer"))
}
