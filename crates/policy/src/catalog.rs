//! The catalog of policies by name. A new policy needs a file under `policies/` and an entry here.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;
use core::time::Duration;
use core::{fmt, iter};

use crate::definition::{Accelerates, Definition, Pull, Share, Sharing};
use crate::parameters::{Field, Values};
use crate::policies;
use crate::{Coordinator, Place, Thief, Victims, WorkerId};

/// All policies. The first is the default.
pub const DEFINITIONS: &[Definition] = &[
    policies::comity::DEFINITION,
    policies::plain::DEFINITION,
    policies::abp::DEFINITION,
    policies::delay_yield::DEFINITION,
    policies::selective_yield::DEFINITION,
    policies::bws::DEFINITION,
    policies::bws_busy_wakes::DEFINITION,
    policies::robinhood::DEFINITION,
    policies::robinhood::DEFINITION_U,
    policies::robinhood::DEFINITION_S,
    policies::wsgi::DEFINITION,
    policies::equipartition::DEFINITION,
    policies::dws::DEFINITION,
    policies::dws_nc::DEFINITION,
    policies::a_steal::DEFINITION,
    policies::abp_eq::DEFINITION,
    policies::abp_mug::DEFINITION,
    policies::ws_last::DEFINITION,
];

/// A policy of the catalog with the values of its parameters. Each pool is built with a `Policy`.
/// [`Definition::of`] and [`Sharing::of`] return the parts that drivers need.
///
/// Parse a policy from `NAME[:key=value,…]`, or take the default, `comity`. Every policy accepts `place=current`,
/// `last` or `last-if-up` in addition to its own parameters.
#[derive(Clone, Copy)]
pub struct Policy {
    definition: &'static Definition,
    values: Values,
    place: Place,
}

impl Policy {
    /// Returns the policy of a definition, with default parameters.
    pub fn of(definition: &'static Definition) -> Policy {
        Policy { definition, values: Values::of(definition.parameters), place: definition.place }
    }

    /// Returns the policy `plain`: work stealing without any mechanism of Comity. `COMITY=off` selects it.
    pub fn plain() -> Policy {
        Policy::of(&policies::plain::DEFINITION)
    }

    /// Returns every policy of the catalog with its default parameters.
    pub fn all() -> impl Iterator<Item = Policy> {
        DEFINITIONS.iter().map(Policy::of)
    }

    /// The name in the catalog, without parameters.
    pub fn name(&self) -> &'static str {
        self.definition.name
    }

    /// The queue that an unblocked task goes to.
    pub fn place(&self) -> Place {
        self.place
    }

    /// True if programs under this policy get their cores from the core table.
    pub fn shares_cores(&self) -> bool {
        matches!(self.definition.share, Share::Cores(_))
    }

    /// The time for which a core must have been free before a program under this policy claims it from another owner.
    pub fn lend_after(&self) -> Duration {
        let lend_us = Sharing::of(self).map_or(0, |(sharing, _)| (sharing.lend_us)(&self.values));
        Duration::from_micros(lend_us.into())
    }

    /// True if the policy's coordinator uses steal time.
    pub fn folds(&self) -> bool {
        Sharing::of(self).is_some_and(|(sharing, _)| (sharing.folds)(&self.values))
    }

    /// Makes a coordinator. Returns `None` if programs under this policy do not share cores.
    pub fn coordinator(&self) -> Option<Box<dyn Coordinator>> {
        let (sharing, _) = Sharing::of(self)?;
        Some((sharing.coordinator)(&self.values))
    }

    /// The way in which a thief that yields to a peer moves the peer to its core. `None`: the peer stays on its core.
    pub fn yield_to(&self) -> Option<Pull> {
        (self.definition.yield_to)(&self.values)
    }

    /// The threads and virtual CPUs that thieves accelerate. `None`: thieves accelerate nothing.
    pub fn accelerates(&self) -> Option<Accelerates> {
        (self.definition.accelerates)(&self.values)
    }

    /// The length of a thief's time slices from its first yield until it has a task. `None`: the operating system's
    /// length.
    pub fn slice(&self) -> Option<Duration> {
        let slice_us = (self.definition.slice_us)(&self.values);
        (slice_us > 0).then(|| Duration::from_micros(slice_us.into()))
    }

    /// Makes the thief of worker `me` in a pool of `workers`; `seed` fixes its random choices.
    ///
    /// # Panics
    /// Panics if `me` is not below `workers`.
    pub fn thief(&self, me: WorkerId, workers: u32, seed: u64) -> Box<dyn Thief> {
        (self.definition.rest)(Victims::new(me, workers, seed), &self.values)
    }
}

// These are functions of `Definition` and `Sharing`, so that a crate that re-exports only `Policy` does not publish
// them.
impl Definition {
    /// The definition of `policy`.
    pub fn of(policy: &Policy) -> &'static Definition {
        policy.definition
    }
}

impl Sharing {
    /// Returns the rules by which programs under `policy` use the core table, and the length of a quantum. `None`:
    /// they do not use the core table.
    pub fn of(policy: &Policy) -> Option<(Sharing, Duration)> {
        match policy.definition.share {
            Share::Time => None,
            Share::Cores(sharing) => {
                let quantum = (sharing.quantum_us)(&policy.values);
                Some((sharing, Duration::from_micros(quantum.into())))
            }
        }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::of(&DEFINITIONS[0])
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Policy) -> bool {
        self.definition.name == other.definition.name && self.values == other.values && self.place == other.place
    }
}

impl Eq for Policy {}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({self})")
    }
}

/// Writes the name, with the parameters that differ from their defaults. The text parses to the same policy.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition.name)?;
        let mut separator = ':';
        for (parameter, value) in
            self.definition.all_parameters().zip(iter::once(self.place as u32).chain(self.values.0))
        {
            if value != parameter.default {
                write!(f, "{separator}{}={}", parameter.key, parameter.shown(value))?;
                separator = ',';
            }
        }
        Ok(())
    }
}

/// The error for an invalid policy name or setting. Its text tells the user what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(String);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PolicyError {}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Policy, PolicyError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let definition = DEFINITIONS.iter().find(|definition| definition.name == name).ok_or_else(|| {
            let names: Vec<&str> = DEFINITIONS.iter().map(|definition| definition.name).collect();
            PolicyError(format!("no policy is called '{name}'. Choose one of {}", names.join(", ")))
        })?;
        let mut policy = Policy::of(definition);
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            policy.set(setting)?;
        }
        Ok(policy)
    }
}

impl Policy {
    /// Applies one `key=value`.
    fn set(&mut self, setting: &str) -> Result<(), PolicyError> {
        let name = self.definition.name;
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| PolicyError(format!("policy {name}: '{setting}' is not of the form key=value")))?;
        let (nth, parameter) = self
            .definition
            .all_parameters()
            .enumerate()
            .find(|(_, parameter)| parameter.key == key)
            .ok_or_else(|| {
                let keys: Vec<&str> = self.definition.all_parameters().map(|parameter| parameter.key).collect();
                PolicyError(format!("policy {name} has no parameter '{key}'. Its parameters are {}", keys.join(", ")))
            })?;
        let value = parameter
            .parse(value)
            .map_err(|taken| PolicyError(format!("policy {name}: {key}={value} is not {taken}")))?;
        match nth {
            0 => self.place = Place::of(value),
            nth => self.values.0[nth - 1] = value,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_are_unique_and_parse_to_their_row() {
        for (nth, definition) in DEFINITIONS.iter().enumerate() {
            assert!(
                DEFINITIONS[nth + 1..].iter().all(|other| other.name != definition.name),
                "{} stands twice",
                definition.name
            );
            assert_eq!(definition.name.parse::<Policy>().unwrap(), Policy::of(definition));
            for parameter in definition.all_parameters() {
                let shown = parameter.shown(parameter.default);
                assert_eq!(parameter.parse(&shown), Ok(parameter.default), "{}: {}", definition.name, parameter.key);
            }
        }
    }

    #[test]
    fn what_is_displayed_parses_back() {
        for text in [
            "bws:sleep_threshold=4096",
            "bws:place=last",
            "ws-last:place=current",
            "bws:place=last-if-up,sleep_threshold=99",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
            assert_eq!(policy.to_string().parse::<Policy>().unwrap(), policy);
        }
        for (default, name) in
            [("bws:sleep_threshold=64", "bws"), ("abp:place=current", "abp"), ("ws-last:place=last", "ws-last")]
        {
            assert_eq!(default.parse::<Policy>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn each_mistake_is_answered_with_what_to_write_instead() {
        for (text, part) in [
            ("cilk", "no policy is called 'cilk'. Choose one of comity, plain, abp"),
            ("", "no policy is called ''"),
            ("abp:sleep_threshold=3", "has no parameter 'sleep_threshold'. Its parameters are place"),
            ("bws:threshold=3", "Its parameters are place, sleep_threshold"),
            ("bws:sleep_threshold", "not of the form key=value"),
            ("bws:sleep_threshold=0", "is not a whole number from 1 to"),
            ("bws:sleep_threshold=many", "is not a whole number from 1 to"),
            ("abp:place=first", "place=first is not one of current, last, last-if-up"),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
