//! The texts that distinguish commands in `comity table` and `top`: the label that the user gives, the words of the
//! command, and its current folder.

use std::fs;

use comity_console::Failure;
use comity_os::census::{self, Stat};
use comity_os::environment;
use comity_table::{ADOPTED, Program};

use crate::run::{MARK, mark};

/// The maximum length of a label in bytes, which is the room for a name in the core table.
const MOST: usize = 32;

/// Parses a label. A label has no form of the other targets of `comity set`: #SLOT or a process number.
pub fn parse(text: &str) -> Result<String, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if text.is_empty() || text.len() > MOST || text.chars().any(char::is_control) {
        return Err(format!("give a label of 1 to {MOST} bytes without control characters"));
    }
    if is_number || text.starts_with(['#', '-']) {
        return Err("a label is no number and does not begin with # or -".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns the label from the command line, else from `COMITY_LABEL`.
pub fn chosen(said: Option<&String>) -> Result<Option<String>, Failure> {
    if let Some(label) = said {
        return Ok(Some(label.clone()));
    }
    let Some(text) = environment::variable("COMITY_LABEL").filter(|text| !text.is_empty()) else { return Ok(None) };
    let label = parse(&text.to_string_lossy());
    label.map(Some).map_err(|why| Failure::Usage(format!("COMITY_LABEL={}: {why}", text.display())))
}

/// The words and the current folder of a command.
pub struct Words {
    /// The program and its arguments, with spaces between them.
    pub command: String,
    /// The current folder.
    pub folder: String,
}

/// Returns the words of a command's first process. `None` if the program is not a command, or if the process belongs to
/// another user. Also `None` for a command in another container, because its numbers stand for other processes here.
pub fn words_of(program: &Program) -> Option<Words> {
    let process = program.pid;
    let stat = Stat::of_process(process)?;
    // With --report, the command is a child of the process that gave it its mark.
    let is_marked_by =
        |starter: u32, start: u64| census::has_in_environment(process, &format!("{MARK}={}", mark(starter, start)));
    let parent = || Stat::of_process(stat.parent).is_some_and(|parent| is_marked_by(stat.parent, parent.start));
    // The processes of an adopted command have no mark.
    let is_adopted = || program.policy == ADOPTED && program.keeper().is_some();
    if !is_marked_by(process, stat.start) && !parent() && !is_adopted() {
        return None;
    }
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let words = String::from_utf8_lossy(&line);
    let command = words.trim_end_matches('\0').replace(|letter: char| letter.is_control(), " ");
    let folder = fs::read_link(format!("/proc/{process}/cwd")).ok()?;
    Some(Words { command, folder: folder.display().to_string().replace(char::is_control, " ") })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_label_cannot_be_taken_for_a_slot_or_a_process() {
        for text in ["agent-1", "build of app", "é", "7z"] {
            assert_eq!(parse(text), Ok(text.to_owned()));
        }
        for text in ["", "4711", "#3", "-x", "a\nb", &"a".repeat(33)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
