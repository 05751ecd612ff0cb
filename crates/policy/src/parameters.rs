//! Parameters of a policy: the fields of a struct, and the table that parses, prints and lists them.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::ops::RangeInclusive;

/// The maximum number of parameters of a policy, not counting `place`.
const MOST: usize = 8;

/// A parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key, as in `bws:sleep_threshold=64`: the name of the field.
    pub key: &'static str,
    /// The default value.
    pub default: u32,
    /// The values that the parameter accepts.
    pub domain: Domain,
    /// The description: what the parameter counts or decides.
    pub help: &'static str,
}

/// The values that a parameter accepts. The catalog keeps each value as a number, and the policy's field has the
/// actual type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Whole numbers.
    Number {
        /// The smallest number.
        least: u32,
        /// The largest number.
        most: u32,
    },
    /// A name of this list. The value is the name's index.
    Choice(&'static [&'static str]),
}

impl Parameter {
    /// A number parameter. The macro [`parameters`] sets its key.
    pub(crate) const fn number(default: u32, taken: RangeInclusive<u32>, help: &'static str) -> Parameter {
        let domain = Domain::Number { least: *taken.start(), most: *taken.end() };
        Parameter { key: "", default, domain, help }
    }

    /// A parameter with one of these names as its value. `default` is the index of the default name.
    pub(crate) const fn choice(default: u32, names: &'static [&'static str], help: &'static str) -> Parameter {
        Parameter { key: "", default, domain: Domain::Choice(names), help }
    }

    /// Returns the parameter with another default.
    pub(crate) const fn or(self, default: u32) -> Parameter {
        Parameter { default, ..self }
    }

    /// Parses a value of this parameter.
    ///
    /// # Errors
    /// Fails if the text is not a valid value. The error describes the valid values, as the end of a sentence: `a
    /// whole number from 1 to 64`.
    pub fn parse(&self, text: &str) -> Result<u32, String> {
        match self.domain {
            Domain::Number { least, most } => (text.parse().ok())
                .filter(|value| (least..=most).contains(value))
                .ok_or_else(|| format!("a whole number from {}", self.domain)),
            Domain::Choice(names) => (names.iter().position(|name| *name == text).map(|place| place as u32))
                .ok_or_else(|| format!("one of {}", self.domain)),
        }
    }

    /// Writes a value of this parameter as text.
    ///
    /// # Panics
    /// Panics if the parameter is a choice and `value` is not the index of a name.
    pub fn shown(&self, value: u32) -> String {
        match self.domain {
            Domain::Number { .. } => value.to_string(),
            Domain::Choice(names) => names[value as usize].to_string(),
        }
    }
}

/// Writes the domain as `1 to 64`, or `current, last`.
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Domain::Number { least, most } => write!(f, "{least} to {most}"),
            Domain::Choice(names) => f.write_str(&names.join(", ")),
        }
    }
}

/// The values of a policy's parameters as the catalog keeps them. A policy converts them to a struct of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values(pub(crate) [u32; MOST]);

impl Values {
    /// The default values.
    ///
    /// # Panics
    /// Panics if there are more than the maximum number of parameters.
    pub(crate) fn of(parameters: &[Parameter]) -> Values {
        let mut values = Values::default();
        parameters.iter().enumerate().for_each(|(nth, parameter)| values.0[nth] = parameter.default);
        values
    }
}

/// The type of a parameter's field.
pub(crate) trait Field {
    /// Converts a number of the parameter's domain to the field's type.
    fn of(value: u32) -> Self;
}

impl Field for bool {
    fn of(value: u32) -> bool {
        value == 1
    }
}

impl Field for u32 {
    fn of(value: u32) -> u32 {
        value
    }
}

/// Declares the parameters of a policy: `struct Parameters { field: Type = Parameter, … }`.
///
/// The macro declares the struct, `Parameters::TABLE` (the parameters, with the fields' names as keys) and
/// `Parameters::read(&Values)`.
macro_rules! parameters {
    ($(#[$doc:meta])* $sees:vis struct $name:ident { $($(#[$about:meta])* $field:ident: $type:ty = $parameter:expr,)+ }) => {
        $(#[$doc])*
        $sees struct $name { $($(#[$about])* $field: $type,)+ }

        impl $name {
            const TABLE: &'static [$crate::parameters::Parameter] =
                &[$($crate::parameters::Parameter { key: stringify!($field), ..$parameter }),+];

            fn read(values: &$crate::parameters::Values) -> $name {
                let [$($field,)+ ..] = values.0;
                $name { $($field: <$type as $crate::parameters::Field>::of($field),)+ }
            }
        }
    };
}
pub(crate) use parameters;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    parameters! {
        struct Parameters {
            rounds: u32 = Parameter::number(64, 1..=128, "so many"),
            place: Place = Parameter::choice(Place::Last as u32, &Place::NAMES, "where to"),
        }
    }

    #[test]
    fn a_field_has_its_type_and_its_key() {
        let Parameters { rounds, place } = Parameters::read(&Values::of(Parameters::TABLE));
        assert_eq!((rounds, place), (64, Place::Last));
        let keys = Parameters::TABLE.iter().map(|parameter| parameter.key);
        assert!(keys.eq(["rounds", "place"]));
    }

    #[test]
    fn what_is_shown_parses_back_and_nothing_else_does() {
        let [rounds, place] = Parameters::TABLE else { panic!("there are two") };
        for (parameter, values) in [(rounds, 1..=128), (place, 0..=2)] {
            for value in values {
                assert_eq!(parameter.parse(&parameter.shown(value)), Ok(value));
            }
        }
        for text in ["0", "129", "-1", "many", ""] {
            assert_eq!(rounds.parse(text).unwrap_err(), "a whole number from 1 to 128");
            assert_eq!(place.parse(text).unwrap_err(), "one of current, last, last-if-up");
        }
    }
}
