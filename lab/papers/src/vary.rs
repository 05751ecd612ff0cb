//! The values of `--vary`: `key=value` sets a parameter that the paper does not give.

use std::str::FromStr;

/// The parameters that all simulations of a paper share.
pub trait Vary: Clone {
    /// Returns the setting with the chosen values.
    ///
    /// # Errors
    /// A sentence that says why this seed gives no setting.
    fn usual(seed: u64) -> Result<Self, String>;

    /// Sets a parameter that the paper does not give, written as `key=value`.
    ///
    /// # Errors
    /// A sentence that says what can be written instead.
    fn vary(&mut self, text: &str) -> Result<(), String>;
}

/// A `key=value` that is being read.
#[derive(Clone, Copy)]
pub(crate) struct Varied<'a> {
    /// The text before the `=`.
    pub key: &'a str,
    /// The text after the `=`. Empty if there is no `=`.
    pub value: &'a str,
}

impl<'a> Varied<'a> {
    /// Splits the text at its first `=`.
    pub fn new(text: &'a str) -> Varied<'a> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        Varied { key, value }
    }

    /// Reads a whole number within these bounds.
    pub fn whole<N: TryFrom<u64>>(self, least: u64, most: u64) -> Result<N, String> {
        let number = self.parsed().filter(|number| (least..=most).contains(number));
        let wrong = || self.wrong(&format!("a whole number from {least} to {most}"));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(wrong)
    }

    /// Reads the factor by which recorded lengths are multiplied.
    pub fn factor(self) -> Result<f64, String> {
        let factor = self.parsed().filter(|factor| (0.1..=1000.0).contains(factor));
        factor.ok_or_else(|| self.wrong("a number from 0.1 to 1000"))
    }

    /// Reads one of these words. `words` lists them for the error message.
    pub fn one_of<T: Copy>(self, all: &[(&str, T)], words: &str) -> Result<T, String> {
        let one = all.iter().find(|(word, _)| *word == self.value);
        one.map(|(_, value)| *value).ok_or_else(|| self.wrong(words))
    }

    fn parsed<T: FromStr>(self) -> Option<T> {
        self.value.parse().ok()
    }

    fn wrong(self, instead: &str) -> String {
        format!("{}={}: write {instead}", self.key, self.value)
    }
}
