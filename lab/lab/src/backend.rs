//! The backends that can run a program: Comity with one of its policies, stock rayon, or one thread.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use comity::ThreadPoolBuilder;
use comity_console::Failure;
use comity_console::parse::whole;
use comity_kernels::Backend as Started;
use comity_policy::Policy;

/// The largest number of workers that a verb accepts for a pool. The limit keeps a typing error from starting
/// thousands of threads. No machine of today needs more.
pub const MAX_WORKERS: u16 = 1024;

const _: () = assert!(MAX_WORKERS as usize <= comity::MAX_THREADS);

/// Returns the value parser of every `--workers` option.
pub fn workers_range() -> impl Fn(&str) -> Result<u16, String> + Clone {
    whole::<u16>(1..=u64::from(MAX_WORKERS))
}

/// A runtime that runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// Comity, with one of its policies
    Comity,
    /// Stock rayon
    Rayon,
    /// A single thread without a pool
    Serial,
}

/// A backend with all its settings except the number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Comity under a policy.
    Comity(Policy),
    /// Stock rayon.
    Rayon,
    /// A single thread without a pool.
    Serial,
}

impl Backend {
    /// Makes a backend. `policy` is for Comity only. Without `policy`, Comity gets the policy of `COMITY_POLICY`,
    /// else the default policy.
    pub fn new(name: BackendName, policy: Option<Policy>) -> Result<Backend, Failure> {
        match (name, policy) {
            (BackendName::Comity, Some(policy)) => Ok(Backend::Comity(policy)),
            (BackendName::Comity, None) => Ok(Backend::Comity(default_policy()?)),
            (BackendName::Rayon, None) => Ok(Backend::Rayon),
            (BackendName::Serial, None) => Ok(Backend::Serial),
            (_, Some(policy)) => {
                let backend = Backend::new(name, None)?;
                Err(Failure::Usage(format!(
                    "--policy {policy} cannot be used with --backend {backend}. Leave out one of the two"
                )))
            }
        }
    }

    /// Returns the backend's name, as in `--backend`.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Comity(_) => "comity",
            Backend::Rayon => "rayon",
            Backend::Serial => "serial",
        }
    }

    /// Returns the policy, if the backend has one.
    pub fn policy(&self) -> Option<Policy> {
        match self {
            Backend::Comity(policy) => Some(*policy),
            Backend::Rayon | Backend::Serial => None,
        }
    }

    /// Returns the number of workers of this backend: 1 for [`Backend::Serial`], otherwise `asked` (the number that the
    /// user requested).
    pub fn workers(&self, asked: u16) -> u16 {
        if *self == Backend::Serial { 1 } else { asked }
    }

    /// Starts the backend's pool with `workers` workers.
    pub fn start(&self, workers: u16) -> Result<Started, Failure> {
        let cannot =
            |error: &dyn fmt::Display| Failure::Run(format!("cannot start {workers} workers of {self}: {error}"));
        let workers = usize::from(workers);
        match self {
            Backend::Comity(policy) => ThreadPoolBuilder::new()
                .num_threads(workers)
                .policy(*policy)
                .build()
                .map(Started::Comity)
                .map_err(|error| cannot(&error)),
            Backend::Rayon => rayon::ThreadPoolBuilder::new()
                .num_threads(workers)
                .build()
                .map(Started::Rayon)
                .map_err(|error| cannot(&error)),
            Backend::Serial => Ok(Started::Serial),
        }
    }
}

/// Formats the policy, or the backend's name if it has no policy. Tables and `--baseline` use this form.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy() {
            Some(policy) => policy.fmt(f),
            None => f.write_str(self.name()),
        }
    }
}

/// A list of policies, for example `abp,bws:sleep_threshold=128,comity`.
///
/// The comma separates policies, and also the parameters of one policy. A piece with a `=` and without a `:` cannot
/// begin a policy, so it is a parameter of the preceding policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyList(pub Vec<Policy>);

impl FromStr for PolicyList {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicyList, String> {
        let mut names: Vec<String> = Vec::new();
        for piece in text.split(',') {
            let continues = piece.contains('=') && !piece.contains(':');
            match names.last_mut() {
                Some(last) if continues && last.contains(':') => {
                    last.push(',');
                    last.push_str(piece);
                }
                Some(last) if continues => {
                    return Err(format!(
                        "'{piece}' follows '{last}', which has no parameters yet. Write {last}:{piece}"
                    ));
                }
                _ => names.push(piece.to_owned()),
            }
        }
        let policies: Result<Vec<Policy>, _> = names.iter().map(|name| name.parse::<Policy>()).collect();
        policies.map(PolicyList).map_err(|error| error.to_string())
    }
}

/// Returns the policy of a pool whose builder sets no policy. It depends on `COMITY_POLICY` and `COMITY=off`.
fn default_policy() -> Result<Policy, Failure> {
    comity::internal::default_policy(&ThreadPoolBuilder::new()).map_err(|error| Failure::Usage(error.to_string()))
}

/// Returns the number of workers of a pool whose builder sets no number. It depends on `COMITY_NUM_THREADS` and
/// rayon's variables.
pub fn default_workers() -> Result<u16, Failure> {
    let number = comity::internal::default_num_threads(&ThreadPoolBuilder::new())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    u16::try_from(number).ok().filter(|number| *number <= MAX_WORKERS).ok_or_else(|| {
        Failure::Usage(format!("{number} workers are too many. Choose 1 to {MAX_WORKERS} with --workers"))
    })
}

/// Returns the backends of a co-run: the given policies, and each backend in `names`. Comity's default policy is
/// added if both lists are empty, or if `names` contains Comity and no policy is given.
pub fn backends(policies: &[PolicyList], names: &[BackendName]) -> Result<Vec<Backend>, Failure> {
    let mut policies: Vec<Policy> = policies.iter().flat_map(|list| list.0.iter().copied()).collect();
    if policies.is_empty() && (names.is_empty() || names.contains(&BackendName::Comity)) {
        policies.push(default_policy()?);
    }
    let others = names.iter().filter_map(|name| match name {
        BackendName::Comity => None,
        BackendName::Rayon => Some(Backend::Rayon),
        BackendName::Serial => Some(Backend::Serial),
    });
    let all: Vec<Backend> = policies.into_iter().map(Backend::Comity).chain(others).collect();
    match all.iter().enumerate().find(|(nth, backend)| all[..*nth].contains(backend)) {
        Some((_, twice)) => Err(Failure::Usage(format!("{twice} is listed twice. List each policy and backend once"))),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(policies: &[&str], names: &[BackendName]) -> Vec<String> {
        let lists: Vec<PolicyList> = policies.iter().map(|list| list.parse().unwrap()).collect();
        backends(&lists, names).unwrap().iter().map(Backend::to_string).collect()
    }

    #[test]
    fn a_comma_separates_policies_and_their_parameters() {
        assert_eq!(labels(&["abp,bws:sleep_threshold=128,comity"], &[]), ["abp", "bws:sleep_threshold=128", "comity"]);
        assert_eq!(labels(&["abp", "bws"], &[]), ["abp", "bws"]);
        let joined = "bws:sleep_threshold=1,sleep_threshold=2,abp".parse::<PolicyList>().unwrap();
        assert_eq!(joined.0.len(), 2);
    }

    #[test]
    fn a_bad_list_is_refused_with_what_to_write_instead() {
        for (text, part) in [
            ("abp,cilk", "no policy is called 'cilk'"),
            ("abp,,bws", "no policy is called ''"),
            ("bws,sleep_threshold=3", "Write bws:sleep_threshold=3"),
            ("sleep_threshold=3", "no policy is called 'sleep_threshold=3'"),
            ("bws:sleep_threshold=3,depth=4", "has no parameter 'depth'"),
        ] {
            let error = text.parse::<PolicyList>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn rayon_joins_the_policies_or_stands_alone() {
        use BackendName::{Comity, Rayon, Serial};
        assert_eq!(labels(&[], &[]), ["comity"]);
        assert_eq!(labels(&[], &[Rayon]), ["rayon"]);
        assert_eq!(labels(&["bws"], &[Rayon]), ["bws", "rayon"]);
        assert_eq!(labels(&[], &[Serial, Comity, Rayon]), ["comity", "serial", "rayon"]);
        let twice = ["bws,bws:sleep_threshold=64".parse().unwrap()];
        assert!(matches!(backends(&twice, &[]), Err(Failure::Usage(sentence)) if sentence.contains("twice")));
    }
}
