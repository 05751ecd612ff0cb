//! Tests that the parsers of `comity` and `comity-lab` accept the command lines that documents quote and that scripts
//! run. No command line is run.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::error::ErrorKind;
use comity_policy::Policy;

/// A command line of a document or a script.
struct Quoted {
    /// The file and the line number.
    place: String,
    /// The words after the command's name. `None` stands for a word that only the script or the reader knows.
    words: Vec<Option<String>>,
}

/// Checks that `parser` accepts each quoted command line of its command, and that more than `least` are found.
pub fn assert_every_quoted_command_parses(mut parser: clap::Command, least: usize) {
    parser.build();
    let mut refused = Vec::new();
    let mut seen = 0;
    for file in files() {
        let text = fs::read_to_string(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        for quoted in commands(&file, &text, &parser) {
            seen += 1;
            refused.extend(refusal(&parser, &quoted).map(|why| format!("{}: {why}", quoted.place)));
        }
        refused.extend(unknown_policies(&file, &text));
    }
    assert_eq!(refused, [""; 0]);
    assert!(seen > least, "only {seen} command lines were found: the search is broken");
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the documents and the scripts, without those of another project (upstream).
fn files() -> Vec<String> {
    let words = ["ls-files", "*.md", "lab/bench/*.sh", "lab/bench/*.py", ":!crates/rayon-core/upstream"];
    let output = Command::new("git").args(words).current_dir(root()).output().expect("git is installed");
    let names = String::from_utf8(output.stdout).unwrap();
    let files: Vec<String> = names.lines().filter(|name| root().join(name).exists()).map(str::to_owned).collect();
    assert!(files.len() > 100, "{files:?}");
    files
}

/// Finds the command lines of `parser` in a file.
fn commands(file: &str, text: &str, parser: &clap::Command) -> Vec<Quoted> {
    let mut found = Vec::new();
    let (mut is_code, mut lines) = (!file.ends_with(".md"), text.lines().enumerate());
    while let Some((nth, line)) = lines.next() {
        let mut line = line.to_owned();
        if file.ends_with(".md") && line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        while is_code && line.ends_with('\\') {
            line.pop();
            line.extend(lines.next().map(|(_, next)| next));
        }
        let parts = match (file.ends_with(".py"), is_code) {
            (true, _) => line.split('[').skip(1).map(|part| listed(part.split(']').next().unwrap())).collect(),
            (false, true) => vec![shlex::split(&line).unwrap_or_default()],
            // A sentence may mention an option without its value, so `…` is added as a value.
            (false, false) => {
                line.split('`').skip(1).step_by(2).filter_map(|quoted| shlex::split(&format!("{quoted} …"))).collect()
            }
        };
        let place = format!("{file}:{}", nth + 1);
        for words in parts.iter().filter_map(|words| after_the_name(words, parser)) {
            found.push(Quoted { place: place.clone(), words: filled(words, text) });
        }
    }
    found
}

/// Splits the inside of a Python list into its elements. An element that is not a string becomes a variable of the
/// shell.
fn listed(list: &str) -> Vec<String> {
    let words = list.split(',').map(str::trim);
    words
        .map(|word| word.strip_prefix('"').map_or(format!("${word}"), |word| word.trim_end_matches('"').into()))
        .collect()
}

/// Returns the words after the name of the command, up to the end of the command.
fn after_the_name<'a>(words: &'a [String], parser: &clap::Command) -> Option<&'a [String]> {
    let short = parser.get_name().rsplit('-').next()?;
    let is_name = |word: &str| {
        let word = word.trim_start_matches(['(', '$', '{']).trim_end_matches('}').trim_start_matches("self.");
        word == parser.get_name() || word == short || word.ends_with(&format!("/{}", parser.get_name()))
    };
    let is_verb = |word: &str| parser.find_subcommand(word).is_some() || word == "-q" || word == "-v";
    let begin = words.windows(2).position(|two| is_name(&two[0]) && is_verb(&two[1]))? + 1;
    let ends = |word: &String| word.starts_with(['|', '>', '&', ';', ')', '#']) || word.starts_with("2>");
    let length = words[begin..].iter().position(ends).unwrap_or(words.len() - begin);
    Some(&words[begin..begin + length])
}

/// Replaces variables by values from the loops of the file. A word with another variable becomes `None`.
fn filled(words: &[String], text: &str) -> Vec<Option<String>> {
    let mut filled = Vec::new();
    for word in words {
        let is_last = word.ends_with([';', ')']) && !word.contains('(');
        let word = word.trim_end_matches([';', ')']);
        let variable = word.strip_prefix('$').map(|name| format!("for {name} in "));
        let of_loop = variable
            .and_then(|head| text.split_once(&head)?.1.split([' ', ';', '\n']).next())
            .filter(|word| !word.starts_with('('));
        let word = of_loop.unwrap_or(word);
        let is_name = |letter: char| letter.is_ascii_uppercase() || ['|', '_', '/'].contains(&letter);
        let is_hole = word.contains(['$', '…', '<', '*', '{', '|']) || word.chars().all(is_name);
        filled.push((!is_hole).then(|| word.to_owned()));
        if is_last {
            break;
        }
    }
    filled
}

/// Returns the reason if the parser refuses a command line.
fn refusal(parser: &clap::Command, quoted: &Quoted) -> Option<String> {
    let mut words = vec![parser.get_name().to_owned()];
    let mut has_holes = false;
    for word in &quoted.words {
        match (word, words.last()) {
            (Some(word), _) => words.push(word.clone()),
            // The value of the option is unknown here, so only the option is checked.
            (None, Some(option)) if option.starts_with("--") && option.len() > 2 => {
                let option = words.pop()?;
                if !has_option(parser, &option[2..]) {
                    return Some(format!("no verb has {option}"));
                }
                has_holes = true;
            }
            (None, _) => has_holes = true,
        }
    }
    let error = parser.clone().try_get_matches_from(&words).err()?;
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        // A sentence may name only a verb, and a Python list may be only the beginning of a command line.
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            has_holes || !quoted.place.contains(".sh:")
        }
        _ => false,
    };
    (!is_fine).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

fn has_option(parser: &clap::Command, name: &str) -> bool {
    let has = |argument: &clap::Arg| argument.get_long() == Some(name);
    parser.get_arguments().any(has) || parser.get_subcommands().any(|verb| has_option(verb, name))
}

/// Returns the values of `COMITY_POLICY` in a file that are no policies.
fn unknown_policies(file: &str, text: &str) -> Vec<String> {
    let values = text.split("COMITY_POLICY=").skip(1).map(|rest| {
        let end = |letter: char| !letter.is_alphanumeric() && !":=,_-".contains(letter);
        rest.trim_start_matches('"').split(end).next().unwrap()
    });
    let is_name = |value: &&str| value.starts_with(|letter: char| letter.is_ascii_lowercase());
    let unknown = values.filter(is_name).filter_map(|value| value.trim_end_matches(':').parse::<Policy>().err());
    unknown.map(|error| format!("{file}: COMITY_POLICY: {error}")).collect()
}
