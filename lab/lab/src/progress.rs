//! Shows the progress of a measurement on standard error: a bar on a terminal, and a line for each block elsewhere.
//! With `-q`, shows nothing.
//!
//! The bar is drawn only when a step has ended, so it takes no core from a program that is being measured.

use std::fmt;

use comity_console::loudness;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A display of the finished steps of a measurement.
pub struct Progress {
    bar: ProgressBar,
    unit: &'static str,
}

impl Progress {
    /// Starts the display for `all` steps, of which an earlier command did `done`. `unit` is the plural noun for the
    /// steps.
    pub fn new(all: usize, done: usize, unit: &'static str) -> Progress {
        Progress::onto(ProgressDrawTarget::stderr(), all, done, unit)
    }

    /// Draws onto `target`.
    fn onto(target: ProgressDrawTarget, all: usize, done: usize, unit: &'static str) -> Progress {
        let target = if loudness::is_quiet() { ProgressDrawTarget::hidden() } else { target };
        let done = done as u64;
        let to_go = move |state: &ProgressState, text: &mut dyn fmt::Write| {
            // An estimate needs at least one step that this command has done.
            let is_known = state.pos() > done && state.eta().as_secs() > 0;
            let _ = if is_known { write!(text, ", {:#} to go", HumanDuration(state.eta())) } else { Ok(()) };
        };
        let template = format!("{{wide_bar}} {{pos}}/{{len}} {unit}, {{elapsed}}{{to_go}}\n{{wide_msg}}");
        let style = ProgressStyle::with_template(&template).expect("the template is well formed");
        let bar = ProgressBar::with_draw_target(Some(all as u64), target).with_style(style.with_key("to_go", to_go));
        bar.set_position(done);
        bar.reset_eta();
        Progress { bar, unit }
    }

    /// Shows the name of the current measurement.
    pub fn doing(&self, what: impl FnOnce() -> String) {
        let what = what();
        if self.bar.is_hidden() {
            loudness::detail(|| format!("measuring {what}"));
        }
        self.bar.set_message(what);
    }

    /// Counts one more step.
    pub fn inc(&self) {
        self.bar.inc(1);
    }

    /// Prints a line about the end of a block, unless a bar shows the progress.
    pub fn end_of_block(&self, block: impl fmt::Display) {
        if self.bar.is_hidden() {
            let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
            loudness::hint(format!("{done} of {all} {}: {block}", self.unit));
        }
    }

    /// Calls `print` while the bar is hidden.
    pub fn aside<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    /// Returns what a terminal shows after `steps` further steps, when `done` of ten were done before.
    fn shown(done: usize, steps: usize) -> String {
        let terminal = InMemoryTerm::new(4, 80);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let progress = Progress::onto(target, 10, done, "rounds");
        progress.doing(|| "fib".to_owned());
        for _ in 0..steps {
            std::thread::sleep(std::time::Duration::from_millis(600));
            progress.inc();
        }
        progress.doing(|| "mm".to_owned());
        terminal.contents()
    }

    #[test]
    fn there_is_no_estimate_before_something_is_done() {
        for (done, steps) in [(0, 0), (4, 0)] {
            let text = shown(done, steps);
            assert!(text.contains(&format!(" {done}/10 rounds, ")) && text.contains("mm"), "{text}");
            assert!(!text.contains("to go"), "{text}");
        }
        let text = shown(4, 2);
        assert!(text.contains(" 6/10 rounds, ") && text.contains(" to go"), "{text}");
    }
}
