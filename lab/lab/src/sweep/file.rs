//! The file of a sweep: the runs, the number of shards, and the options of an engine.

use std::fs;
use std::path::{Path, PathBuf};

use comity_console::Failure;
use serde::Deserialize;

/// The largest number of shards, so that a typing error does not fill a queue.
const MOST_SHARDS: usize = 100_000;

/// The content of a sweep's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// The folder for results. In the file, the path is relative to the file's folder. [`Campaign::read`] makes it
    /// relative to the current folder.
    pub out: PathBuf,
    /// The number of tasks of the array.
    #[serde(default = "eight")]
    pub shards: usize,
    /// The number of threads of a shard, which is also the number of CPUs that the engine gives to a task.
    #[serde(default = "one")]
    pub cpus: u16,
    /// The number of times that the engine restarts a shard that was killed.
    #[serde(default = "four")]
    pub restarts: u32,
    /// The scenarios.
    #[serde(default)]
    pub simulate: Vec<Simulate>,
    /// The papers.
    #[serde(default)]
    pub reproduce: Vec<Reproduce>,
    /// The options for HyperQueue.
    #[serde(default)]
    pub hyperqueue: Hyperqueue,
    /// The options for Slurm.
    #[serde(default)]
    pub slurm: Slurm,
}

/// A list of scenarios. All settings apply to each scenario.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// The folder for the results of these scenarios, within `out`. If there are several scenarios, it has a folder
    /// for each.
    pub name: Option<String>,
    /// The files of the scenarios, relative to the folder of the sweep's file.
    pub scenarios: Vec<PathBuf>,
    /// Values of `--policy` of `comity-lab simulate`.
    #[serde(default)]
    pub policy: Vec<String>,
    /// Values of `--set` of `comity-lab simulate`.
    #[serde(default)]
    pub set: Vec<String>,
    /// True if a CSV file with a row per run and program is written.
    #[serde(default)]
    pub csv: bool,
    /// True if pictures are drawn.
    #[serde(default)]
    pub plot: bool,
}

/// A paper to reproduce.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproduce {
    /// The folder for the results of this paper, within `out`.
    pub name: Option<String>,
    /// The paper, as after `comity-lab reproduce`.
    pub paper: String,
    /// The experiments; all experiments if the list is empty.
    #[serde(default)]
    pub experiments: Vec<String>,
    /// True for the option `--full`.
    #[serde(default)]
    pub full: bool,
    /// True for the option `--check`.
    #[serde(default)]
    pub check: bool,
    /// Further options, each as one word.
    #[serde(default)]
    pub options: Vec<String>,
}

/// The options for HyperQueue.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hyperqueue {
    /// The folder of the server's access file. `None` means HyperQueue's default.
    pub server_dir: Option<PathBuf>,
    /// Further options of `hq submit`.
    #[serde(default)]
    pub options: Vec<String>,
}

/// The options for Slurm.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slurm {
    /// Further options of `sbatch`.
    #[serde(default)]
    pub options: Vec<String>,
}

fn one() -> u16 {
    1
}

fn four() -> u32 {
    4
}

fn eight() -> usize {
    8
}

impl Campaign {
    /// Reads a file and checks the numbers in it.
    pub fn read(path: &Path) -> Result<Campaign, Failure> {
        let refuse = |why: &str| Failure::Usage(format!("sweep '{}': {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| refuse(&error.to_string()))?;
        // The message of the parser shows the line of the error.
        let mut campaign: Campaign =
            toml_edit::de::from_str(&text).map_err(|error| refuse(error.to_string().trim_end()))?;
        campaign.refused().map_or(Ok(()), |why| Err(refuse(&why)))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let place = |path: &mut PathBuf| *path = folder.join(&*path);
        place(&mut campaign.out);
        campaign.simulate.iter_mut().flat_map(|simulate| &mut simulate.scenarios).for_each(place);
        campaign.hyperqueue.server_dir.iter_mut().for_each(place);
        Ok(campaign)
    }

    /// Returns the reason why the sweep cannot be run, if there is one.
    fn refused(&self) -> Option<String> {
        if self.out.as_os_str().is_empty() {
            return Some("out is empty. Write a folder for results".to_owned());
        }
        if !(1..=MOST_SHARDS).contains(&self.shards) {
            return Some(format!("shards is {}. Write a number from 1 to {MOST_SHARDS}", self.shards));
        }
        if self.cpus == 0 {
            return Some("cpus is 0. Write 1 or more".to_owned());
        }
        if self.simulate.is_empty() && self.reproduce.is_empty() {
            return Some("the file runs nothing. Write a [[simulate]] or a [[reproduce]]".to_owned());
        }
        let without = self.simulate.iter().position(|simulate| simulate.scenarios.is_empty());
        without.map(|nth| format!("[[simulate]] {} has no scenarios. List them", nth + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Campaign, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        fs::write(&path, text).unwrap();
        let mut campaign = Campaign::read(&path).map_err(Failure::into_sentence)?;
        campaign.out = campaign.out.strip_prefix(folder.path()).unwrap().to_owned();
        Ok(campaign)
    }

    #[test]
    fn paths_are_from_the_file_on_and_the_rest_has_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        let text =
            "out = 'results'\n[[simulate]]\nscenarios = ['a.toml', '/b.toml']\n[hyperqueue]\nserver_dir = 'hq'\n";
        fs::write(&path, text).unwrap();
        let campaign = Campaign::read(&path).unwrap_or_else(|failure| panic!("{failure:?}"));
        assert_eq!((campaign.shards, campaign.cpus, campaign.restarts), (8, 1, 4));
        assert_eq!(campaign.out, folder.path().join("results"));
        assert_eq!(campaign.simulate[0].scenarios, [folder.path().join("a.toml"), "/b.toml".into()]);
        assert_eq!(campaign.hyperqueue.server_dir, Some(folder.path().join("hq")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let some = "[[reproduce]]\npaper = 'ws-last'\n";
        for (text, part) in [
            (some.to_owned(), "missing field `out`"),
            ("out = 'x'\n".to_owned(), "the file runs nothing. Write a [[simulate]] or a [[reproduce]]"),
            (format!("out = ''\n{some}"), "out is empty"),
            (format!("out = 'x'\nshards = 0\n{some}"), "shards is 0. Write a number from 1 to 100000"),
            (format!("out = 'x'\nshards = 1_000_000\n{some}"), "shards is 1000000"),
            (format!("out = 'x'\ncpus = 0\n{some}"), "cpus is 0"),
            (format!("out = 'x'\nshard = 2\n{some}"), "unknown field `shard`, expected one of"),
            (format!("out = 'x'\n{some}papper = 1\n"), "unknown field `papper`"),
            ("out = 'x'\n[[reproduce]]\nfull = true\n".to_owned(), "missing field `paper`"),
            ("out = 'x'\n[[simulate]]\nscenarios = []\n".to_owned(), "[[simulate]] 1 has no scenarios. List them"),
            (format!("out = 'x'\n{some}[slurm]\npartition = 'short'\n"), "unknown field `partition`"),
            ("out = ".to_owned(), "TOML parse error at line 1"),
        ] {
            let why = read(&text).err().unwrap_or_else(|| panic!("{text} is right"));
            assert!(why.starts_with("sweep '") && why.contains(part), "{text}: {why}");
        }
        let missing = Campaign::read(Path::new("/no/such.toml")).unwrap_err().into_sentence();
        assert!(missing.starts_with("sweep '/no/such.toml': No such file"), "{missing}");
    }
}
