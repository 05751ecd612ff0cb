//! The verb `comity rayon`: replaces rayon's thread pool by Comity in any cargo project, shows which thread pool a
//! project uses, and removes Comity again.
//!
//! Cargo does the work, through `[patch.crates-io]`. Afterwards the verb checks in cargo's resolved dependency tree,
//! not in the manifest, that the change has worked.

mod lock;
mod manifest;
mod project;
mod source;
mod tree;
mod undo;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comity_console::{Failure, output};
use serde::Serialize;

use lock::{Lock, Locked};
use manifest::{Entry, Manifest};
use project::Project;
use source::Source;
use tree::{Core, Kind, Links, Tree};
use undo::{Files, Turn, Undo};

const EXAMPLES: &str = "Examples:
  comity rayon enable
  COMITY_POLICY=bws cargo run --release
  comity rayon status ../project
  comity rayon disable
  comity rayon enable --record
  comity-lab record --out FILE -- target/release/program

`enable` writes an entry for rayon-core to [patch.crates-io] of the workspace's
Cargo.toml, updates Cargo.lock, and checks with cargo that the entry has an
effect. `disable` restores both files. If there is no Cargo.lock, neither verb
leaves one.

With --record, build the program again. The built program runs its tasks
serially, and writes its task graph if `comity-lab record` runs it. A later
`enable` without --record switches the program to Comity.

Exit codes: 0: done, or nothing to do; 1: the project is invalid or cargo has
failed, and the files are unchanged; 2: invalid command line.";

/// Run any rayon program on Comity without changes to its code
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Enable(Enable),
    Status(Status),
    Disable(Disable),
}

/// Replace the stock rayon-core by Comity's rayon-core
#[derive(Args)]
struct Enable {
    /// Folder of a cargo project, or its Cargo.toml [default: the project around the current folder]
    path: Option<PathBuf>,
    /// Folder of Comity's rayon-core [default: the folder installed with this command, or crates/rayon-core of the
    /// sources that this command was built from]
    #[arg(long, value_name = "DIR", conflicts_with = "git")]
    source: Option<PathBuf>,
    /// Git repository with Comity's rayon-core. Use it if the project is also built on other machines
    #[arg(long, value_name = "URL")]
    git: Option<String>,
    /// Commit, branch or tag of the repository [default: its default branch]
    #[arg(long, value_name = "REV", requires = "git")]
    rev: Option<String>,
    /// Use the variant that records task graphs. Not possible with --git, because cargo would find the ordinary variant
    /// of the same name there
    #[arg(long, conflicts_with = "git")]
    record: bool,
}

/// Show which rayon-core a project links, without changing a file
#[derive(Args)]
struct Status {
    /// Folder of a cargo project, or its Cargo.toml [default: the project around the current folder]
    path: Option<PathBuf>,
    /// Print JSON (schema comity-rayon/1)
    #[arg(long)]
    json: bool,
}

/// Restore the stock rayon-core
#[derive(Args)]
struct Disable {
    /// Folder of a cargo project, or its Cargo.toml [default: the project around the current folder]
    path: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.task {
        Task::Enable(arguments) => enable(arguments),
        Task::Status(arguments) => status(arguments),
        Task::Disable(arguments) => disable(arguments.path.as_deref()),
    }
}

fn enable(arguments: &Enable) -> Result<(), Failure> {
    let named = named_source(arguments)?;
    let project = Project::find(arguments.path.as_deref())?;
    let turn = Turn::wait(&project)?;
    project.check_toolchain()?;
    let manifest = Manifest::read(project.manifest())?;
    let place = project.manifest().display();
    let source = match manifest.entry() {
        Entry::Foreign(entry) => {
            return Err(Failure::Run(format!(
                "'{place}' has another patch of rayon-core: {entry}. Remove the patch first (nothing was changed)"
            )));
        }
        // The user chose a repository with an earlier `enable`. Only a source on the command line replaces it.
        Entry::Git => named,
        Entry::Folder => Some(named.map_or_else(|| Source::built_in(false), Ok)?),
        Entry::None => {
            let source = named.map_or_else(|| Source::built_in(false), Ok)?;
            if is_settled(&project, &turn.look()?, source.records())? {
                return Ok(());
            }
            Some(source)
        }
    };
    let before = match Undo::of(&project)? {
        Some(undo) => Some(undo.before),
        // An entry that the user wrote is the user's to remove.
        None if manifest.entry() != Entry::None => None,
        None => Some(Files::read(&project)?),
    };
    let locked_before = Lock::read(&project.lock())?;
    let (tree, changed) = put_in(&turn, &project, &manifest, source.as_ref(), before)?;
    let done = match (tree.records(), changed) {
        (false, true) => "runs on Comity now",
        (false, false) => "runs on Comity already",
        (true, true) => "is built to be recorded now",
        (true, false) => "is built to be recorded already",
    };
    let mut text = format!("'{place}' ({}) {done}: it links {} and no other.\n", tree.rayon(), tree.cores_in_words());
    if let (Some(before), Some(now)) = (locked_before, Lock::read(&project.lock())?) {
        let [moved, new] = lock::changes(&before.packages, &now.packages);
        let lists = [("has other versions", moved), ("has new packages", new)];
        for (what, packages) in lists.iter().filter(|(_, packages)| !packages.is_empty()) {
            text += &format!("Cargo.lock {what}: {}.\n", packages.join(", "));
        }
    }
    if tree.records() {
        text += "After a build, `comity-lab record --out FILE -- COMMAND` runs the program serially and writes its \
                 task graph. `comity rayon enable` switches to Comity; `comity rayon disable` restores the stock \
                 rayon-core.\n";
        return output::print(&text);
    }
    text += &match &source {
        Some(Source::Folder { path, .. }) => format!(
            "Cargo.toml names the folder '{path}' of this machine. Without this folder, the project does not build. \
             `comity rayon enable --git URL --rev REV` names a repository instead.\n"
        ),
        Some(Source::Git { .. }) => String::new(),
        None => format!(
            "Cargo.toml still names the repository '{}'. To use the rayon-core of this command instead, run \
             `comity rayon disable` and then `comity rayon enable`.\n",
            manifest.repository().unwrap_or_default()
        ),
    };
    text += "`comity rayon disable` restores the stock rayon-core. COMITY_POLICY=NAME (see `comity policies`) and \
             COMITY=off select another policy when the program starts.\n";
    output::print(&text)
}

fn named_source(arguments: &Enable) -> Result<Option<Source>, Failure> {
    match (&arguments.source, &arguments.git) {
        (Some(folder), _) => Source::in_folder(folder, arguments.record).map(Some),
        (None, Some(url)) => Ok(Some(Source::Git { url: url.clone(), rev: arguments.rev.clone() })),
        (None, None) if arguments.record => Source::built_in(true).map(Some),
        (None, None) => Ok(None),
    }
}

/// True if a project without an entry of `comity rayon` already links the requested rayon-core of Comity. Fails if
/// the project links no rayon-core, or if it links the other variant of Comity's rayon-core (ordinary instead of
/// recording, or the reverse).
fn is_settled(project: &Project, tree: &Tree, records: bool) -> Result<bool, Failure> {
    let place = project.manifest().display();
    match tree.links() {
        Links::None => Err(Failure::Run(format!("{} (nothing was changed)", no_core(project, tree)))),
        Links::One(Kind::Comity) if records != tree.records() => Err(Failure::Run(format!(
            "'{place}' links {}, which {}. The cause is not its own [patch.crates-io]. Remove the cause first \
             (nothing was changed)",
            tree.cores_in_words(),
            if records { "does not record" } else { "records" }
        ))),
        Links::One(Kind::Comity) => {
            output::print(&format!(
                "'{place}' ({}) {} already: it links {}. The cause is not its own [patch.crates-io]. Nothing was \
                 changed.\n",
                tree.rayon(),
                if records { "is built to be recorded" } else { "runs on Comity" },
                tree.cores_in_words()
            ))?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn no_core(project: &Project, tree: &Tree) -> String {
    let place = project.manifest().display();
    if tree.rayons.is_empty() {
        return format!("'{place}' does not use rayon: it links no package rayon-core");
    }
    format!("'{place}' uses {}, which has no rayon-core to replace. Use rayon 0.7 or later", tree.rayon())
}

/// Makes all changes of `enable`. Returns the new dependency tree, and true if a file has changed.
fn put_in(
    turn: &Turn,
    project: &Project,
    manifest: &Manifest,
    source: Option<&Source>,
    found: Option<Files>,
) -> Result<(Tree, bool), Failure> {
    let path = project.lock();
    let (before, bytes_before) = (Lock::read(&path)?, fs::read(&path).ok());
    // The first manifest that is written notes the stock rayon-core. If this command is killed and its journal is
    // lost, `disable` can at least restore this package.
    let stock = before.as_ref().and_then(Lock::stock_core);
    let mut locked = stock.map_or_else(|| manifest.locked().unwrap_or_default(), |core| vec![core.clone()]);
    turn.all_or_nothing(|| {
        let first = manifest.with_entry(source, &locked)?;
        manifest.write(None, &first)?;
        let records = source.is_some_and(Source::records);
        let tree = match &before {
            None => turn.look()?,
            Some(before) => update_lock(project, before)?,
        };
        verify(project, &tree)?;
        if records != tree.records() {
            return Err(Failure::Run(format!(
                "'{}' links {}, which {}. Look for another [patch], for example in a .cargo/config.toml",
                project.manifest().display(),
                tree.cores_in_words(),
                if records { "does not record" } else { "records" }
            )));
        }
        if let (Some(before), Some(_), Some(now)) = (&before, stock, Lock::read(&path)?) {
            locked = lock::missing(&before.packages, &now.packages);
        }
        let complete = manifest.with_entry(source, &locked)?;
        if complete != first {
            manifest.write(Some(&first), &complete)?;
        }
        if let Some(found) = found {
            Undo::keep(project, found, complete.clone())?;
        }
        Ok((tree, complete != manifest.text() || fs::read(&path).ok() != bytes_before))
    })
}

/// Updates the lock file so that cargo uses the patch. Without an update, cargo keeps the version of the stock crate
/// that the lock file names, and only warns that the patch is unused.
fn update_lock(project: &Project, before: &Lock) -> Result<Tree, Failure> {
    if !before.has_core {
        project.cargo(&["update", "--workspace"])?;
        return project.tree();
    }
    // The dependencies of Comity may be locked at versions that are too old. They are updated first, each to the
    // lowest sufficient version. Otherwise the update of rayon-core would also move dependencies that only the stock
    // rayon-core needs, to their newest versions.
    let refused = lock::bring(project, &before.too_old())?;
    project.cargo(&["update", "--package", "rayon-core"])?;
    let tree = project.tree()?;
    match refused.into_iter().next() {
        Some((floor, locked, failure)) if tree.links() != Links::One(Kind::Comity) => Err(Failure::Run(format!(
            "Comity needs {floor} or later, but the project has {locked}: {}",
            failure.into_sentence()
        ))),
        _ => {
            // Cargo may have updated packages further than Comity's dependencies require. A package stays at its new
            // version if cargo refuses the older one.
            let too_far = Lock::read(&project.lock())?.map_or_else(Vec::new, |now| before.too_far(&now));
            lock::bring(project, &too_far)?;
            Ok(tree)
        }
    }
}

fn verify(project: &Project, tree: &Tree) -> Result<(), Failure> {
    let place = project.manifest().display();
    match tree.links() {
        Links::One(Kind::Comity) => Ok(()),
        Links::None => Err(Failure::Run(no_core(project, tree))),
        _ if tree.core_in_a_folder().is_some() => Err(Failure::Run(format!(
            "'{place}' links the rayon-core in '{}' through a path dependency, which no patch of crates.io replaces. \
             Replace the path by a version",
            tree.core_in_a_folder().unwrap_or_default()
        ))),
        _ => Err(Failure::Run(format!(
            "'{place}' links {} in spite of the patch. Comity's rayon-core is {}. Perhaps {} or another package \
             requires another version, for example \"=1.12.1\": run `cargo tree -i rayon-core`. Or another patch has \
             precedence{}",
            tree.cores_in_words(),
            lock::comity_version(),
            tree.rayon(),
            project.elsewhere().map_or_else(String::new, |sentence| format!(". {sentence}"))
        ))),
    }
}

fn disable(path: Option<&Path>) -> Result<(), Failure> {
    let project = Project::find(path)?;
    let turn = Turn::wait(&project)?;
    let manifest = Manifest::read(project.manifest())?;
    let place = project.manifest().display();
    match manifest.entry() {
        Entry::Foreign(entry) => {
            return Err(Failure::Run(format!(
                "the patch of rayon-core in '{place}' is not Comity's: {entry}. Nothing was changed"
            )));
        }
        Entry::None if manifest.locked().is_none() => return was_not_enabled(&turn, &project),
        _ => {}
    }
    let (tree, refused) = match Undo::of(&project)? {
        Some(undo) => (put_back(&turn, &project, &manifest, &undo.before)?, Vec::new()),
        None => take_out(&turn, &project, &manifest)?,
    };
    Undo::forget(&project);
    let mut text = format!("'{place}' does not use Comity any more: ");
    text += &match tree.links() {
        Links::None => "it links no package rayon-core.\n".to_owned(),
        _ => format!("{} links {}.\n", tree.rayon(), tree.cores_in_words()),
    };
    if !refused.is_empty() {
        text += &format!(
            "Cargo did not restore {}, because the project has changed since `enable`.\n",
            tree::list(&refused)
        );
    }
    output::print(&text)
}

fn was_not_enabled(turn: &Turn, project: &Project) -> Result<(), Failure> {
    let tree = turn.look()?;
    let place = project.manifest().display();
    if tree.has_comity() {
        return Err(Failure::Run(format!(
            "'{place}' links {}, but not because of its own [patch.crates-io]. Look for a [patch] in a \
             .cargo/config.toml there or above (nothing was changed)",
            tree.cores_in_words()
        )));
    }
    output::print(&format!("Comity is not enabled in '{place}'. Nothing was changed.\n"))
}

/// Restores the files that `enable` found, byte for byte.
fn put_back(turn: &Turn, project: &Project, manifest: &Manifest, before: &Files) -> Result<Tree, Failure> {
    turn.all_or_nothing(|| {
        manifest.write(None, &before.manifest.text)?;
        before.put_back_lock(project)?;
        without_comity(project, turn.look()?)
    })
}

fn without_comity(project: &Project, tree: Tree) -> Result<Tree, Failure> {
    if tree.has_comity() {
        return Err(Failure::Run(format!(
            "'{}' still links {} without its patch. Look for another [patch] in a .cargo/config.toml there or above",
            project.manifest().display(),
            tree.cores_in_words()
        )));
    }
    Ok(tree)
}

/// Makes all changes of `disable` for a project that has changed since `enable`. Returns the new dependency tree, and
/// the packages that cargo refused to restore in the lock file.
fn take_out(turn: &Turn, project: &Project, manifest: &Manifest) -> Result<(Tree, Vec<Locked>), Failure> {
    turn.all_or_nothing(|| {
        manifest.write(None, &manifest.without_entry()?)?;
        let mut refused = Vec::new();
        let tree = if project.lock().exists() {
            project.cargo(&["update", "--workspace"])?;
            refused = lock::bring(project, &manifest.locked().unwrap_or_default())?;
            project.tree()?
        } else {
            turn.look()?
        };
        Ok((without_comity(project, tree)?, refused.into_iter().map(|(locked, ..)| locked).collect()))
    })
}

fn status(arguments: &Status) -> Result<(), Failure> {
    let project = Project::find(arguments.path.as_deref())?;
    let turn = Turn::wait(&project)?;
    let manifest = Manifest::read(project.manifest())?;
    let enabled = matches!(manifest.entry(), Entry::Folder | Entry::Git);
    let tree = turn.look().map_err(|failure| match manifest.lost_folder() {
        Some(folder) => Failure::Run(format!(
            "'{}' takes rayon-core from the folder '{folder}', which no longer exists. `comity rayon disable` restores \
             the stock rayon-core; `comity rayon enable --source DIR` names another folder",
            project.manifest().display()
        )),
        None => failure,
    })?;
    if arguments.json {
        return output::print(&output::to_json(&Report {
            schema: "comity-rayon/1",
            manifest: project.manifest().display().to_string(),
            enabled,
            links: tree.links().word(),
            rayon: tree.rayons,
            rayon_core: tree.cores,
        }));
    }
    let place = project.manifest().display();
    let then = match (tree.links(), enabled) {
        (Links::None, _) => return output::print(&format!("{}.\n", no_core(&project, &tree))),
        (Links::One(Kind::Comity), true) if tree.records() => {
            "`comity-lab record --out FILE -- COMMAND` writes the task graph of a run. `comity rayon enable` switches \
             to Comity; `comity rayon disable` restores the stock rayon-core."
        }
        (Links::One(Kind::Comity), true) => "`comity rayon disable` restores the stock rayon-core.",
        (Links::One(Kind::Comity), false) => "The cause is not its own [patch.crates-io].",
        (Links::Several, _) => "Each rayon-core has its own threads.",
        (_, true) => {
            "Its [patch.crates-io] names Comity's rayon-core, but has no effect. Repair it: `comity rayon enable`."
        }
        (_, false) => "`comity rayon enable` replaces it by Comity's rayon-core.",
    };
    output::print(&format!("'{place}' ({}) runs on {}. {then}\n", tree.rayon(), tree.cores_in_words()))
}

/// The JSON schema `comity-rayon/1`: the rayon-core that a cargo project links.
#[derive(Serialize)]
struct Report {
    /// The name of the schema, `comity-rayon/1`.
    schema: &'static str,
    /// The path of the workspace's root manifest.
    manifest: String,
    /// True if this manifest replaces rayon-core by Comity's. The field `links` may differ, because cargo also reads
    /// other files, for example .cargo/config.toml.
    enabled: bool,
    /// The linked rayon-core: `comity`, `stock`, `other` (neither Comity's nor crates.io's), `several` or `none`.
    links: &'static str,
    /// The version of each package named rayon in the dependency tree.
    rayon: Vec<String>,
    /// Each package named rayon-core in the dependency tree.
    rayon_core: Vec<Core>,
}
