//! The `key=value,…` part of a program's name.

use std::fmt;

/// A key that a program understands.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The key.
    pub key: &'static str,
    /// The value if the user gives none.
    pub default: &'static str,
    /// The meaning of the value, its unit and its range.
    pub help: &'static str,
}

/// The names of the sizes, for [`Parameters::class`].
const CLASSES: [&str; 3] = ["small", "medium", "paper"];

/// An error in a program's parameters: a sentence that also says what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError(String);

impl ParameterError {
    /// Returns an error with this sentence.
    pub fn new(sentence: impl Into<String>) -> ParameterError {
        ParameterError(sentence.into())
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParameterError {}

/// Parsed parameters of one program: every known key has a value, and no unknown key is present.
#[derive(Clone, Debug)]
pub struct Parameters {
    program: &'static str,
    values: Vec<(&'static str, String)>,
}

impl Parameters {
    /// Parses `text` (`key=value,…`, possibly empty) against the keys that `program` understands.
    ///
    /// # Errors
    /// An unknown key, a key given twice, or a piece that is not `key=value`.
    pub fn parse(program: &'static str, known: &'static [Parameter], text: &str) -> Result<Parameters, ParameterError> {
        let mut given: Vec<(&'static str, String)> = Vec::new();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let Some((key, value)) = piece.split_once('=') else {
                return Err(ParameterError(format!(
                    "{program}: '{piece}' is not of the form key=value; {}",
                    known_keys(known)
                )));
            };
            let Some(parameter) = known.iter().find(|parameter| parameter.key == key) else {
                return Err(ParameterError(format!("{program} has no key '{key}'; {}", known_keys(known))));
            };
            if given.iter().any(|(other, _)| *other == key) {
                return Err(ParameterError(format!("{program}: '{key}' is given twice. Give it once")));
            }
            given.push((parameter.key, value.to_owned()));
        }
        let values = known
            .iter()
            .map(|parameter| {
                let value = given.iter().find(|(key, _)| *key == parameter.key);
                (parameter.key, value.map_or_else(|| parameter.default.to_owned(), |(_, value)| value.clone()))
            })
            .collect();
        Ok(Parameters { program, values })
    }

    /// Returns the value of `key` as text.
    ///
    /// # Panics
    /// If the program does not declare `key`.
    pub fn text(&self, key: &str) -> &str {
        let found = self.values.iter().find(|(known, _)| *known == key);
        &found.unwrap_or_else(|| panic!("{} does not declare the key '{key}'", self.program)).1
    }

    /// Returns the value of `key` as a whole number within `allowed`.
    ///
    /// # Errors
    /// If the value is not a whole number within `allowed`.
    ///
    /// # Panics
    /// If the program does not declare `key`.
    pub fn number(&self, key: &str, allowed: std::ops::RangeInclusive<usize>) -> Result<usize, ParameterError> {
        let text = self.text(key);
        match text.parse::<usize>() {
            Ok(number) if allowed.contains(&number) => Ok(number),
            _ => Err(ParameterError(format!(
                "{}: {key}={text} is not a whole number from {} to {}",
                self.program,
                allowed.start(),
                allowed.end()
            ))),
        }
    }

    /// Returns the value of `key` as a whole number within `allowed`, or `otherwise` if the value is empty.
    ///
    /// # Errors
    /// If the value is neither empty nor a whole number within `allowed`.
    ///
    /// # Panics
    /// If the program does not declare `key`.
    pub fn number_or(
        &self,
        key: &str,
        otherwise: usize,
        allowed: std::ops::RangeInclusive<usize>,
    ) -> Result<usize, ParameterError> {
        if self.text(key).is_empty() { Ok(otherwise) } else { self.number(key, allowed) }
    }

    /// Checks that `bytes` bytes of memory are available. Otherwise the kernel might kill this process or another
    /// process later.
    ///
    /// # Errors
    /// If less memory is available.
    pub fn must_fit(&self, bytes: u64) -> Result<(), ParameterError> {
        const MIB: u64 = 1 << 20;
        match comity_os::memory::available() {
            Some(available) if bytes > available => Err(ParameterError(format!(
                "{}: this input needs {} MiB of memory, and {} MiB are available. Choose a smaller input",
                self.program,
                bytes.div_ceil(MIB),
                available / MIB
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the element of `sizes` that the key `class` names: small, medium or paper.
    ///
    /// # Errors
    /// If `class` has another value.
    ///
    /// # Panics
    /// If the program does not declare `class`.
    pub fn class<T: Copy>(&self, sizes: &[T; CLASSES.len()]) -> Result<T, ParameterError> {
        Ok(sizes[self.choice("class", &CLASSES)?])
    }

    /// Returns the position of the value of `key` in `choices`.
    ///
    /// # Errors
    /// If the value is not in `choices`.
    ///
    /// # Panics
    /// If the program does not declare `key`.
    pub fn choice(&self, key: &str, choices: &[&str]) -> Result<usize, ParameterError> {
        let text = self.text(key);
        choices.iter().position(|choice| *choice == text).ok_or_else(|| {
            ParameterError(format!("{}: {key}={text} is unknown. Choose one of {}", self.program, choices.join(", ")))
        })
    }
}

fn known_keys(known: &[Parameter]) -> String {
    if known.is_empty() {
        return "it takes no parameters".to_owned();
    }
    let keys: Vec<&str> = known.iter().map(|parameter| parameter.key).collect();
    format!("its keys are {}", keys.join(", "))
}
