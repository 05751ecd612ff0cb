//! The verb `comity top`: shows cores and programs live. It only reads the core table and is not a member of it, so
//! it does not slow down any program.

mod prometheus;
mod sample;
mod screen;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use comity_console::Failure;
use comity_console::output::{self, ResultFile};
use comity_console::parse;
use comity_os::process;
use comity_table::Location;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::sample::Watch;
use self::screen::View;

/// The examples at the beginning of the help of the command.
const EXAMPLES: &str = "Examples:
  comity top
  comity top --once --sort cpu
  comity top --json | jq '.programs[].cpu'
  comity top --prometheus /var/lib/node_exporter/comity.prom";
const EXIT_CODES: &str = "Exit codes: 0: quit, or ended by SIGTERM, SIGINT or SIGHUP; 1: the terminal, or
with --once the table, cannot be used; 2: invalid command line.";

/// The help that the screen shows. It is also a part of the help of the command.
const HELP: &str = "\
Keys:
  q               quit
  ?               show or close this text
  s, r            sort by the next column; reverse the order
  /               filter by name or policy; Enter keeps the filter, Esc drops it
  arrows, Page Up, Page Down
                  scroll
  Tab, Shift-Tab  select a program
  p               pause the selected program for 10 minutes, or resume it
  +, -            double the weight of the selected program; halve it
`comity set --help` explains weights and pauses.

The first line of the screen has the number of held cores, the number of lent
cores, and the processor time that all programs use, in cores.

Columns of a program:
  cpu:        processor time that it uses, in cores; or paused, stopped, dead
  desire:     cores that it could use now; 0 while it holds no core and may run
              on any core
  held:       whole cores that it holds now
  owned:      whole cores that it is entitled to now
  waits:      desired cores that it does not hold
  lends:      its own cores that other programs hold
  weight:     weight 200 gets twice the processor time of weight 100
  lost/s:     cores that their owners took back from it, per second
  due:        processor time that it is entitled to, in cores
  owed:       processor time that it is due and does not get, in cores
  short for:  why it uses less than it holds or is due: `tasks wait` (for each
              other, for input or for a lock), `no core` (tasks are queued, but
              workers have no core) or `few tasks`
  awake:      awake workers; for a command, its awake threads
  sw/s:       context switches per second
  pid:        number of its process
  policy:     policy by which it shares cores; run: a `comity run` command
  steals/s:   tasks that its workers took from each other, per second
  accel/s:    times per second that a worker without a task gave another worker
              the rest of its time slice
  refused/s:  times per second that a worker without a task kept its time slice
  mostly for: most frequent reason of refused/s
  command:    a command of `comity run`: the program and its arguments
  folder:     the current folder of the command

A `-` means that the value is not known. A command of `comity run` never
publishes the four columns from steals/s. The screen shows the columns that
fit. --json and --prometheus also count the refusals for each reason.

Cores:
  3    held by its owner, the program in slot 3
  3*   owned by another program and lent to the program in slot 3
  (3)  owned by the program in slot 3 and not held
  -    neither owned nor held";

/// Show live which program owns, holds, lends and waits for which core
#[derive(Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{HELP}\n\n{EXIT_CODES}"))]
pub struct Arguments {
    /// Look at the table once, print the result, and exit
    #[arg(long)]
    once: bool,
    /// Print JSON, one object per look at the table (schema comity-top/1)
    #[arg(long)]
    json: bool,
    /// Write metrics for the node exporter of Prometheus to this file at each look, instead of printing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "sort", "filter"])]
    prometheus: Option<PathBuf>,
    /// Column by which the programs are sorted
    #[arg(long, value_enum, default_value = "slot")]
    sort: Sort,
    /// Show only programs with this text in their name or policy
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Time between two looks at the table, in milliseconds, 50 to 3600000 [default: 250; 1000 with --once or --json;
    /// 5000 with --prometheus]
    #[arg(long, value_name = "MS", value_parser = parse::whole::<u64>(50..=3_600_000), allow_negative_numbers = true)]
    interval_ms: Option<u64>,
}

/// The column by which programs are sorted: names from A, numbers from the largest, slots from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Slot in the table
    Slot,
    /// Name
    Name,
    /// Processor time
    Cpu,
    /// Cores held
    Held,
    /// Cores waited for
    Waits,
    /// Cores lost
    Lost,
    /// Weight
    Weight,
}

/// An event between two looks.
enum TerminalEvent {
    Key(KeyEvent),
    Resized,
    /// A signal asks this process to end, or the terminal was closed.
    End,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let usual = match arguments {
        Arguments { prometheus: Some(_), .. } => 5000,
        Arguments { once: true, .. } | Arguments { json: true, .. } => 1000,
        _ => 250,
    };
    let interval = Duration::from_millis(arguments.interval_ms.unwrap_or(usual));
    let file = arguments.prometheus.as_deref().map(|path| ResultFile::check(path, "--prometheus")).transpose()?;
    let location = Location::to_look_at();
    let mut watch = Watch::new(location);
    let view = View::new(arguments.sort, arguments.filter.clone());
    if arguments.once || arguments.json || file.is_some() {
        return print(&mut watch, &view, arguments, file, interval);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let why = "standard input and output are not a terminal. Use --once, --json or --prometheus";
        return Err(Failure::Usage(why.to_owned()));
    }
    live(&mut watch, view, interval)
}

/// Prints looks instead of drawing them on the screen.
fn print(
    watch: &mut Watch,
    view: &View,
    arguments: &Arguments,
    file: Option<ResultFile>,
    interval: Duration,
) -> Result<(), Failure> {
    let (sender, events) = mpsc::channel();
    let cannot = |error: io::Error| Failure::Run(format!("cannot watch for signals: {error}"));
    // A signal ends the loop only while it waits for the next look, so that no file is left incomplete.
    let _sender =
        if arguments.once { Some(sender) } else { listen_for_signals(sender).map(|()| None).map_err(cannot)? };
    // Rates need two looks.
    watch.look();
    loop {
        if let Ok(_end) = events.recv_timeout(interval) {
            return Ok(());
        }
        let mut sample = watch.look();
        sample.programs = view.rows(&sample).into_iter().cloned().collect();
        if arguments.once
            && let Some(trouble) = sample.trouble
        {
            return Err(Failure::Run(trouble));
        }
        match &file {
            Some(ResultFile::Standard) => output::print_while_read(&prometheus::text(&sample))?,
            Some(file) => file.write(&prometheus::text(&sample))?,
            None if arguments.json => output::print_while_read(&output::to_json_line(&sample))?,
            None => output::print(&screen::plain(&sample, view))?,
        }
        if arguments.once {
            return Ok(());
        }
    }
}

/// Draws looks on the screen until the user quits or a signal asks this process to end. Then restores the terminal,
/// also after a panic.
fn live(watch: &mut Watch, mut view: View, interval: Duration) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::Run(format!("cannot use the terminal: {error}. Use --once or --json"));
    let (sender, events) = mpsc::channel();
    listen_for_signals(sender.clone()).map_err(cannot)?;
    let mut terminal = ratatui::try_init().map_err(cannot)?;
    let read = thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&sender));
    let ended = match read {
        Ok(_until_the_process_ends) => watch_and_draw(watch, &mut view, &mut terminal, &events, interval),
        Err(error) => Err(error),
    };
    // If the terminal was closed, nothing needs to be restored.
    let _gone = ratatui::try_restore();
    ended.map_err(cannot)
}

fn watch_and_draw(
    watch: &mut Watch,
    view: &mut View,
    terminal: &mut ratatui::DefaultTerminal,
    events: &Receiver<TerminalEvent>,
    interval: Duration,
) -> io::Result<()> {
    let mut sample = watch.look();
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| screen::draw(frame, &sample, view))?;
        match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(TerminalEvent::Key(key)) => match view.press(key, &sample) {
                ControlFlow::Break(()) => return Ok(()),
                ControlFlow::Continue(None) => {}
                ControlFlow::Continue(Some(request)) => {
                    view.say(watch.ask(request).unwrap_or_else(|why| why));
                    sample = watch.look();
                }
            },
            Ok(TerminalEvent::Resized) => {}
            Ok(TerminalEvent::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                sample = watch.look();
                // The next look is due one interval from now, so that this process does not look many times in a row
                // after it was stopped.
                next = Instant::now() + interval;
            }
        }
    }
}

fn listen_for_signals(events: Sender<TerminalEvent>) -> io::Result<()> {
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !process::ignores(*signal));
    let mut signals = Signals::new(signals)?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            let _ended = events.send(TerminalEvent::End);
        }
    })?;
    Ok(())
}

fn read_keys(events: &Sender<TerminalEvent>) {
    loop {
        let event = match event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => TerminalEvent::Key(key),
            Ok(Event::Resize(..)) => TerminalEvent::Resized,
            Ok(_) => continue,
            Err(_gone) => TerminalEvent::End,
        };
        let is_end = matches!(event, TerminalEvent::End);
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

/// True if the key is Ctrl-C, which is an ordinary key in raw mode.
fn is_quit(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}
