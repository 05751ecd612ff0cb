//! Formats a look at the core table as lines of text, for the screen or for printing.

use std::cmp::Ordering;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::time::Duration;

use clap::ValueEnum;
use comity_table::Request;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::sample::{Core, ProgramRequest, Row, Sample};
use super::{HELP, Sort, is_quit};
use crate::table::policy_and_way;
use crate::weight;

/// The length of a pause that a key requests.
const PAUSE: Duration = Duration::from_secs(600);

/// The settings of the screen that keys change: the order, the filter, the selected program and the visible lines.
pub struct View {
    sort: Sort,
    reverse: bool,
    filter: String,
    /// The filter before the user began to type a new one. `None` if no filter is being typed.
    typing: Option<String>,
    /// The slot and the process of the program to which keys send requests.
    selected: Option<(usize, u32)>,
    /// The outcome of the last key that sent a request to the program.
    said: Option<String>,
    /// True if the help is shown in the place of the table.
    help: bool,
    /// The index of the first visible line of the body.
    top: usize,
    /// The number of visible lines of the body and the number of all lines, when the body was last drawn.
    seen: (usize, usize),
}

/// A column of the programs: its title, its width and its content. Numbers are right-aligned.
struct Column {
    title: &'static str,
    width: usize,
    cell: fn(&Row) -> String,
}

/// The columns after the slot and the name. If not all columns fit, the last columns are not shown. The name takes
/// the remaining width.
const COLUMNS: [Column; 21] = [
    Column { title: "cpu", width: 7, cell: cpu },
    Column { title: "desire", width: 6, cell: |row| row.desire.to_string() },
    Column { title: "held", width: 4, cell: |row| row.held.to_string() },
    Column { title: "owned", width: 5, cell: |row| row.owned.to_string() },
    Column { title: "waits", width: 5, cell: |row| row.waits.to_string() },
    Column { title: "lends", width: 5, cell: |row| row.lends.to_string() },
    Column { title: "weight", width: 6, cell: |row| row.weight.to_string() },
    Column { title: "lost/s", width: 6, cell: |row| format!("{:.1}", row.lost_per_s) },
    Column { title: "due", width: 5, cell: |row| in_cores(row.due) },
    Column { title: "owed", width: 5, cell: |row| in_cores(row.owed) },
    Column { title: "short for", width: 10, cell: |row| row.shortfall.unwrap_or("-").to_owned() },
    Column { title: "awake", width: 5, cell: |row| row.awake.to_string() },
    Column { title: "sw/s", width: 7, cell: |row| whole(row.switches_per_s) },
    Column { title: "pid", width: 7, cell: |row| row.pid.to_string() },
    Column { title: "policy", width: 16, cell: |row| policy_and_way(&row.policy, row.way) },
    Column { title: "steals/s", width: 8, cell: |row| whole(row.steals_per_s) },
    Column { title: "accel/s", width: 7, cell: |row| whole(row.accelerations_per_s) },
    Column { title: "refused/s", width: 9, cell: |row| whole(row.refused_per_s) },
    Column { title: "mostly for", width: 13, cell: |row| row.refused_for.unwrap_or("-").to_owned() },
    Column { title: "command", width: 30, cell: |row| row.command.clone().unwrap_or_else(|| "-".to_owned()) },
    Column { title: "folder", width: 30, cell: |row| row.folder.clone().unwrap_or_else(|| "-".to_owned()) },
];

const SLOT_WIDTH: usize = 4;
const LEAST_NAME: usize = 7;
const MOST_NAME: usize = 24;

/// The width of a core's cell: ` 255*`.
const CORE_WIDTH: usize = 5;

/// The width of the output if it does not go to a terminal.
const PLAIN_WIDTH: usize = 100;

const COLORS: [Color; 6] = [Color::Green, Color::Cyan, Color::Yellow, Color::Magenta, Color::Blue, Color::LightRed];

impl View {
    /// Returns a view with this order and filter.
    pub fn new(sort: Sort, filter: String) -> View {
        View {
            sort,
            reverse: false,
            filter,
            typing: None,
            selected: None,
            said: None,
            help: false,
            top: 0,
            seen: (0, 0),
        }
    }

    /// Handles a key. Returns `Break` if the key quits, and the request if the key sends one to the selected program.
    pub fn press(&mut self, key: KeyEvent, sample: &Sample) -> ControlFlow<(), Option<ProgramRequest>> {
        if is_quit(key) {
            return ControlFlow::Break(());
        }
        if let Some(before) = &self.typing {
            match key.code {
                KeyCode::Enter => self.typing = None,
                KeyCode::Esc => (self.filter, self.typing) = (before.clone(), None),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => {}
            }
            return ControlFlow::Continue(None);
        }
        self.said = None;
        let page = self.seen.0.max(1);
        match key.code {
            KeyCode::Char('?') => (self.help, self.top) = (!self.help, 0),
            KeyCode::Esc if self.help => (self.help, self.top) = (false, 0),
            KeyCode::Char('q') | KeyCode::Esc => return ControlFlow::Break(()),
            // While the help is shown, these keys have no effect, because it hides what they change.
            KeyCode::Char(_) | KeyCode::Tab | KeyCode::BackTab if self.help => {}
            KeyCode::Char('s') => {
                let orders = Sort::value_variants();
                let now = orders.iter().position(|order| *order == self.sort).unwrap_or(0);
                self.sort = orders[(now + 1) % orders.len()];
            }
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('/') => self.typing = Some(std::mem::take(&mut self.filter)),
            KeyCode::Tab | KeyCode::BackTab => self.select(sample, key.code == KeyCode::Tab),
            KeyCode::Char(letter @ ('p' | '+' | '-')) => return ControlFlow::Continue(self.request(sample, letter)),
            KeyCode::Up => self.top = self.top.saturating_sub(1),
            KeyCode::Down => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(page),
            KeyCode::PageDown => self.top += page,
            KeyCode::Home => self.top = 0,
            _ => {}
        }
        ControlFlow::Continue(None)
    }

    /// Sets the message about the last key that sent a request.
    pub fn say(&mut self, what: String) {
        self.said = Some(what);
    }

    fn is_selected(&self, row: &Row) -> bool {
        self.selected == Some((row.slot, row.pid))
    }

    /// Selects the next visible program, or the previous one if `forward` is false.
    fn select(&mut self, sample: &Sample, forward: bool) {
        let rows = self.rows(sample);
        let now = rows.iter().position(|row| self.is_selected(row));
        let next = match now {
            _ if rows.is_empty() => None,
            None if forward => Some(0),
            None => Some(rows.len() - 1),
            Some(now) if forward => Some((now + 1) % rows.len()),
            Some(now) => Some((now + rows.len() - 1) % rows.len()),
        };
        self.selected = next.map(|next| (rows[next].slot, rows[next].pid));
    }

    fn request(&mut self, sample: &Sample, letter: char) -> Option<ProgramRequest> {
        let Some(row) = sample.programs.iter().find(|row| self.is_selected(row)) else {
            self.say("first select a program with Tab".to_owned());
            return None;
        };
        let request = match letter {
            '+' => Request::Weight(Some(row.weight.saturating_mul(2).clamp(1, weight::MOST))),
            '-' => Request::Weight(Some((row.weight / 2).clamp(1, weight::MOST))),
            _ if row.paused_s.is_some() => Request::Resume,
            _ => Request::Pause(PAUSE),
        };
        Some(ProgramRequest { slot: row.slot, pid: row.pid, request })
    }

    /// Returns the programs that are shown, in their order.
    pub fn rows<'a>(&self, sample: &'a Sample) -> Vec<&'a Row> {
        let wanted = self.filter.to_lowercase();
        let holds = |text: &str| text.to_lowercase().contains(&wanted);
        let mut rows: Vec<&Row> = sample.programs.iter().filter(|row| holds(&row.name) || holds(&row.policy)).collect();
        rows.sort_by(|one, other| {
            let order = match self.sort {
                Sort::Slot => Ordering::Equal,
                Sort::Name => one.name.cmp(&other.name),
                Sort::Cpu => other.cpu.unwrap_or(-1.0).total_cmp(&one.cpu.unwrap_or(-1.0)),
                Sort::Held => other.held.cmp(&one.held),
                Sort::Waits => other.waits.cmp(&one.waits),
                Sort::Lost => other.lost_per_s.total_cmp(&one.lost_per_s).then(other.lost.cmp(&one.lost)),
                Sort::Weight => other.weight.cmp(&one.weight),
            };
            order.then(one.slot.cmp(&other.slot))
        });
        if self.reverse {
            rows.reverse();
        }
        rows
    }
}

/// Draws a look into the whole of `frame`.
pub fn draw(frame: &mut Frame, sample: &Sample, view: &mut View) {
    let [head, middle, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Line::styled(summary(sample), Style::new().add_modifier(Modifier::BOLD)), head);
    let body = body(sample, view, middle.width.into());
    view.seen = (middle.height.into(), body.len());
    view.top = view.top.min(body.len().saturating_sub(middle.height.into()));
    let top = u16::try_from(view.top).unwrap_or(u16::MAX);
    let body = Paragraph::new(body).scroll((top, 0));
    // Sentences are wrapped; a table that is too wide is cut.
    let body = if sample.programs.is_empty() { body.wrap(Wrap { trim: false }) } else { body };
    frame.render_widget(body, middle);
    frame.render_widget(Line::styled(keys(view), Style::new().add_modifier(Modifier::DIM)), foot);
}

/// Formats a look as text with the width of the terminal.
pub fn plain(sample: &Sample, view: &View) -> String {
    let terminal = io::stdout().is_terminal().then(|| ratatui::crossterm::terminal::size().ok()).flatten();
    let width = terminal.map(|(width, _)| usize::from(width)).filter(|width| *width > 0).unwrap_or(PLAIN_WIDTH);
    let lines = [Line::from(summary(sample))].into_iter().chain(body(sample, view, width));
    lines.map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}

fn summary(sample: &Sample) -> String {
    let Some(table) = &sample.table else { return "comity top".to_owned() };
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let held = sample.cores.iter().filter(|core| core.holder.is_some()).count();
    let lent = sample.cores.iter().filter(|core| is_lent(core)).count();
    let (programs, cores) = (count(sample.programs.len(), "program"), count(sample.cores.len(), "core"));
    // The processor time is known from the second look on.
    let cpus: Vec<f64> = sample.programs.iter().filter_map(|row| row.cpu).collect();
    let used = if cpus.is_empty() { String::new() } else { format!(", {:.2} used", cpus.iter().sum::<f64>()) };
    format!("{programs}, {cores}: {held} held, {lent} lent{used}  {table}")
}

fn keys(view: &View) -> String {
    let reverse = if view.reverse { " reversed" } else { "" };
    let order = view.sort.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    let asks = if view.selected.is_some() { "  p pause, resume  + - weight" } else { "" };
    let more = if view.seen.1 > view.seen.0 { "  arrows scroll" } else { "" };
    match &view.typing {
        None if view.said.is_some() => view.said.clone().unwrap_or_default(),
        Some(_) => format!("filter: {}_  Enter keep  Esc drop", view.filter),
        None if view.help => format!("? or Esc back  q quit{more}"),
        None if view.filter.is_empty() => {
            format!("q quit  ? help  s sort: {order}{reverse}  r reverse  / filter  Tab select{asks}{more}")
        }
        None => format!("q quit  ? help  s sort: {order}{reverse}  r reverse  / filter: {}{asks}{more}", view.filter),
    }
}

fn body(sample: &Sample, view: &View, width: usize) -> Vec<Line<'static>> {
    let lines = |text: &str| text.lines().map(|line| Line::from(line.to_owned())).collect::<Vec<_>>();
    if view.help {
        return lines(HELP);
    }
    if let Some(trouble) = &sample.trouble {
        return lines(trouble);
    }
    if sample.table.is_none() {
        return lines("COMITY_TABLE is off: programs that are\nstarted here share no cores.");
    }
    if sample.programs.is_empty() {
        return lines(
            "No program shares cores now. Start one:\n\n  comity run make -j8\n\nor use Comity in a rayon \
             program, in its folder:\n\n  comity rayon enable\n\nand start the program while another program runs.",
        );
    }
    let mut body = programs(&view.rows(sample), view, width);
    body.push(Line::default());
    body.extend(cores(&sample.cores, width));
    body
}

fn programs(rows: &[&Row], view: &View, width: usize) -> Vec<Line<'static>> {
    let width_of = |columns: &[Column]| columns.iter().map(|column| column.width + 1).sum::<usize>();
    let fits = |number: &usize| SLOT_WIDTH + LEAST_NAME + width_of(&COLUMNS[..*number]) <= width;
    let shown = &COLUMNS[..(0..=COLUMNS.len()).rev().find(fits).unwrap_or(0)];
    let name_width = width.saturating_sub(SLOT_WIDTH + width_of(shown)).clamp(LEAST_NAME, MOST_NAME);
    let line = |slot: &str, name: &str, cells: Vec<String>| {
        let mut text = format!("{slot:>3} {:<name_width$}", cut(name, name_width));
        for (cell, column) in cells.iter().zip(shown) {
            text += &format!(" {:>width$}", cut(cell, column.width), width = column.width);
        }
        text
    };
    let titles = shown.iter().map(|column| column.title.to_owned()).collect();
    let head = Line::styled(line("", "name", titles), Style::new().add_modifier(Modifier::UNDERLINED));
    let programs = rows.iter().map(|row| {
        let cells = shown.iter().map(|column| (column.cell)(row)).collect();
        let style = style(Some(row.slot));
        let style = if view.is_selected(row) { style.add_modifier(Modifier::REVERSED) } else { style };
        Line::styled(line(&row.slot.to_string(), &row.name, cells), style)
    });
    [head].into_iter().chain(programs).collect()
}

/// Returns the lines of the cores. The number of cores per line is a power of two, so that users can find a core by
/// its number. A gap in the numbers begins a new line.
fn cores(cores: &[Core], width: usize) -> Vec<Line<'static>> {
    let label = cores.last().map_or(1, |core| core.id.to_string().len()) + "core ".len();
    let fit = width.saturating_sub(label) / CORE_WIDTH;
    let per_line = if fit == 0 { 1 } else { 1 << fit.ilog2() };
    let runs = cores.chunk_by(|one, next| one.id + 1 == next.id);
    let lines = runs.flat_map(|run| run.chunks(per_line)).map(|chunk| {
        let first = Span::from(format!("{:<label$}", format!("core {}", chunk[0].id)));
        let cells =
            chunk.iter().map(|core| Span::styled(format!("{:>CORE_WIDTH$}", core_cell(core)), style(core.holder)));
        Line::from([first].into_iter().chain(cells).collect::<Vec<Span>>())
    });
    let legend = "3 held by its owner   3* lent to 3   (3) not held   - free";
    lines.chain([Line::default(), Line::styled(legend, Style::new().add_modifier(Modifier::DIM))]).collect()
}

/// Returns the processor time, or the state of a program that is paused or not living.
fn cpu(row: &Row) -> String {
    if row.life == "living" && row.paused_s.is_some() {
        return "paused".to_owned();
    }
    if row.life != "living" {
        return row.life.to_owned();
    }
    in_cores(row.cpu)
}

fn in_cores(cores: Option<f64>) -> String {
    cores.map_or("-".to_owned(), |cores| format!("{cores:.2}"))
}

/// Formats a rate without its fraction.
fn whole(rate: Option<f64>) -> String {
    rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"))
}

fn core_cell(core: &Core) -> String {
    match (core.owner, core.holder) {
        (_, Some(holder)) if is_lent(core) => format!("{holder}*"),
        (_, Some(holder)) => format!("{holder} "),
        (Some(owner), None) => format!("({owner})"),
        (None, None) => "- ".to_owned(),
    }
}

fn is_lent(core: &Core) -> bool {
    core.owner.is_some() && core.holder.is_some() && core.owner != core.holder
}

fn style(slot: Option<usize>) -> Style {
    slot.map_or(Style::new(), |slot| Style::new().fg(COLORS[slot % COLORS.len()]))
}

/// Returns the text, cut to `width` letters. A cut text ends with `~`.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyModifiers;

    fn row(slot: usize, name: &str, life: &'static str) -> Row {
        Row {
            slot,
            pid: 4_000_000,
            name: name.to_owned(),
            command: None,
            folder: None,
            policy: "dws:t_sleep=2".to_owned(),
            way: None,
            weight: 250,
            life,
            desire: 3,
            held: 2,
            owned: 2,
            waits: 1,
            lends: 0,
            awake: 2,
            cpu: Some(1.5),
            due: Some(1.75),
            owed: Some(0.25),
            shortfall: Some("tasks wait"),
            switches_per_s: Some(331.4),
            lost_per_s: 0.5,
            lost: 7,
            steals_per_s: Some(1234.5),
            accelerations_per_s: Some(21.0),
            refused_per_s: Some(99_000.0),
            refused_for: Some("no hypervisor"),
            steals: None,
            accelerations: None,
            refused: None,
            cpu_s: None,
            paused_s: None,
            asked_weight: None,
            asked_cores: None,
        }
    }

    fn sample() -> Sample {
        let core = |id, owner, holder| Core { id, owner, holder };
        Sample {
            table: Some("/dev/shm/table".to_owned()),
            cores: vec![
                core(0, Some(0), Some(0)),
                core(1, Some(0), Some(12)),
                core(2, Some(12), None),
                core(8, None, None),
            ],
            programs: vec![row(0, "a-very-long-name-of-a-program", "living"), row(12, "two", "stopped")],
            ..Sample::default()
        }
    }

    fn press(view: &mut View, code: KeyCode) -> bool {
        view.press(KeyEvent::new(code, KeyModifiers::NONE), &sample()).is_break()
    }

    #[test]
    fn every_width_has_whole_numbers_and_the_narrow_the_most_important() {
        let view = View::new(Sort::Slot, String::new());
        for width in [60, 80, 134, 166] {
            let lines: Vec<String> = body(&sample(), &view, width).iter().map(|line| line.to_string()).collect();
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert!(
                lines[0].contains("weight") && lines[1].contains("a-ver") && lines[1].contains(" 250"),
                "{lines:#?}"
            );
            assert!(lines[2].contains("stopped") && !lines[2].contains('~'), "{lines:#?}");
            assert_eq!(lines[0].contains("pid"), width >= 134, "{lines:#?}");
            assert_eq!(lines[0].contains("policy") && lines[0].contains("steals/s"), width >= 134, "{lines:#?}");
            assert_eq!(lines[1].contains(" 99000 no hypervisor"), width == 166, "{lines:#?}");
        }
        for width in 0..60 {
            assert!(!body(&sample(), &view, width).is_empty());
        }
    }

    #[test]
    fn a_core_is_held_lent_not_held_or_free_and_gaps_begin_a_line() {
        let lines: Vec<String> = cores(&sample().cores, 60).iter().map(|line| line.to_string()).collect();
        assert_eq!(&lines[..2], ["core 0   0   12* (12)", "core 8   - "]);
    }

    #[test]
    fn a_column_that_the_table_has_too_has_its_name() {
        // Rates, and values that need two looks or other programs, are not in the table.
        let own = ["waits", "lends", "due", "short for", "mostly for"];
        for Column { title, .. } in COLUMNS.iter().filter(|column| !column.title.ends_with("/s")) {
            let is_in_table = crate::table::COLUMNS.iter().any(|(name, _)| name == title);
            assert!(is_in_table != own.contains(title), "{title}");
        }
    }

    #[test]
    fn a_core_that_is_held_is_not_said_to_be_used() {
        let mut sample = sample();
        for row in &mut sample.programs {
            row.cpu = Some(0.26);
        }
        assert_eq!(summary(&sample), "2 programs, 4 cores: 2 held, 1 lent, 0.52 used  /dev/shm/table");
    }

    #[test]
    fn a_question_mark_explains_keys_and_columns() {
        let mut view = View::new(Sort::Slot, String::new());
        let shown = |view: &View| body(&sample(), view, 80).iter().map(|line| format!("{line}\n")).collect::<String>();
        assert!(keys(&view).contains("? help") && !shown(&view).contains("Keys:"));
        assert!(!press(&mut view, KeyCode::Char('?')));
        for Column { title, .. } in &COLUMNS {
            let words = shown(&view).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!([":", ","].iter().any(|end| words.contains(&format!("{title}{end}"))), "{title}: {words}");
        }
        assert!(shown(&view).lines().all(|line| line.chars().count() <= 80));
        assert!(!press(&mut view, KeyCode::Esc) && !shown(&view).contains("Keys:"), "Esc closes the help");
        press(&mut view, KeyCode::Char('?'));
        assert!(!press(&mut view, KeyCode::Char('?')) && !shown(&view).contains("Keys:"));
        assert!(press(&mut view, KeyCode::Esc));
    }

    #[test]
    fn keys_sort_filter_scroll_and_quit() {
        let mut view = View::new(Sort::Slot, String::new());
        let order = |view: &View| view.rows(&sample()).iter().map(|row| row.slot).collect::<Vec<usize>>();
        assert_eq!(order(&view), [0, 12]);
        assert!(!press(&mut view, KeyCode::Char('r')));
        assert_eq!(order(&view), [12, 0]);
        for sort in &Sort::value_variants()[1..] {
            press(&mut view, KeyCode::Char('s'));
            assert_eq!(view.sort, *sort);
        }
        press(&mut view, KeyCode::Char('s'));
        assert_eq!(view.sort, Sort::Slot);
        // While a filter is typed, letters are part of it. Esc restores the old filter.
        for code in [KeyCode::Char('/'), KeyCode::Char('t'), KeyCode::Char('q'), KeyCode::Backspace, KeyCode::Enter] {
            assert!(!press(&mut view, code));
        }
        assert_eq!((view.filter.as_str(), order(&view)), ("t", vec![12, 0]), "the policy holds a t");
        for code in [KeyCode::Char('/'), KeyCode::Char('z'), KeyCode::Esc] {
            assert!(!press(&mut view, code));
        }
        assert_eq!(view.filter, "t");
        press(&mut view, KeyCode::PageDown);
        press(&mut view, KeyCode::Up);
        assert!(press(&mut view, KeyCode::Esc) && press(&mut view, KeyCode::Char('q')));
        assert!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), &sample()).is_break());
    }

    #[test]
    fn keys_ask_of_the_selected_program() {
        let mut view = View::new(Sort::Slot, String::new());
        let mut sample = sample();
        let press = |view: &mut View, sample: &Sample, code| match view
            .press(KeyEvent::new(code, KeyModifiers::NONE), sample)
        {
            ControlFlow::Continue(request) => request,
            ControlFlow::Break(()) => panic!("{code:?} quits"),
        };
        assert_eq!(press(&mut view, &sample, KeyCode::Char('p')), None);
        assert!(keys(&view).contains("with Tab"), "{}", keys(&view));
        press(&mut view, &sample, KeyCode::Tab);
        let of_first = |request| Some(ProgramRequest { slot: 0, pid: 4_000_000, request });
        assert_eq!(press(&mut view, &sample, KeyCode::Char('+')), of_first(Request::Weight(Some(500))));
        assert_eq!(press(&mut view, &sample, KeyCode::Char('-')), of_first(Request::Weight(Some(125))));
        assert_eq!(press(&mut view, &sample, KeyCode::Char('p')), of_first(Request::Pause(PAUSE)));
        sample.programs[0].paused_s = Some(9.0);
        assert_eq!(press(&mut view, &sample, KeyCode::Char('p')), of_first(Request::Resume));
        assert_eq!(cpu(&sample.programs[0]), "paused");
        for (code, slot) in [(KeyCode::Tab, 12), (KeyCode::Tab, 0), (KeyCode::BackTab, 12)] {
            press(&mut view, &sample, code);
            assert_eq!(view.selected.map(|(slot, _)| slot), Some(slot));
        }
        // Another program has taken over the slot.
        sample.programs[1].pid = 7;
        assert_eq!(press(&mut view, &sample, KeyCode::Char('p')), None);
    }
}
