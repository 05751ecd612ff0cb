//! Tests of the texts that `comity` prints: the help, errors, hints, reports and headings. The tests print all texts,
//! so that a person can read them:
//!
//! ```text
//! cargo test -p comity-cli --test architecture every_printed_text -- --nocapture
//! ```

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ExprMethodCall, Fields, ItemEnum, ItemFn, ItemMod, ItemStruct, LitStr, Macro, Meta};

use super::imports::is_for_tests;
use super::prose::MOST_WORDS;
use super::{glossary, tracked};

/// The folders of the sources that print texts.
const FOLDERS: [&str; 2] = ["crates/cli/src/", "crates/console/src/"];

/// The derives of types whose doc comments are help texts.
const PARSED: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// Collects the texts of a file: the string literals that have a space, and the doc comments of arguments.
#[derive(Default)]
struct Texts {
    found: Vec<String>,
}

impl Texts {
    fn of(source: &str) -> Vec<String> {
        let mut texts = Texts::default();
        texts.visit_file(&syn::parse_file(source).expect("the source is Rust"));
        texts.found
    }

    fn note(&mut self, text: String) {
        if text.trim().contains(' ') {
            self.found.push(text);
        }
    }

    /// Notes the literals of a macro or an attribute.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<LitStr>(&literal.to_string()) {
                        self.note(text.value());
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }

    /// Notes a doc comment, whose lines are joined.
    fn doc(&mut self, attributes: &[Attribute]) {
        let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => Some(text.value().trim().to_owned()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        });
        let text = lines.collect::<Vec<String>>().join("\n");
        self.note(text);
    }

    fn fields(&mut self, fields: &Fields) {
        for field in fields {
            self.doc(&field.attrs);
        }
    }
}

fn is_parsed(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("derive") => list
            .tokens
            .clone()
            .into_iter()
            .any(|token| matches!(token, TokenTree::Ident(name) if PARSED.iter().any(|parsed| name == *parsed))),
        _ => false,
    })
}

impl Visit<'_> for Texts {
    fn visit_item_mod(&mut self, module: &ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_struct(&mut self, item: &ItemStruct) {
        if is_parsed(&item.attrs) {
            self.doc(&item.attrs);
            self.fields(&item.fields);
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        if is_parsed(&item.attrs) {
            for variant in &item.variants {
                self.doc(&variant.attrs);
                self.fields(&variant.fields);
            }
        }
        visit::visit_item_enum(self, item);
    }

    /// Notes the texts of clap's attributes. Doc comments are noted with their items.
    fn visit_attribute(&mut self, attribute: &Attribute) {
        if let Meta::List(list) = &attribute.meta
            && ["arg", "command"].iter().any(|name| list.path.is_ident(name))
        {
            self.tokens(list.tokens.clone());
        }
    }

    /// Leaves out the text of an `expect`, because it is for developers, not for users.
    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        if call.method == "expect" {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_macro(&mut self, call: &Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_lit_str(&mut self, text: &LitStr) {
        self.note(text.value());
    }
}

/// Returns the sentences of a text, each as a list of words. A sentence also ends at the end of a list item or of a
/// table's line.
fn sentences(text: &str) -> Vec<Vec<&str>> {
    let mut sentences = vec![Vec::new()];
    for line in text.lines() {
        if line.is_empty() || line.starts_with("  ") {
            sentences.push(Vec::new());
        }
        for word in line.split_whitespace() {
            sentences.last_mut().expect("there is always a sentence").push(word);
            if word.ends_with(['.', '?', '!']) {
                sentences.push(Vec::new());
            }
        }
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// Returns the retired words of printed texts and of all prose.
fn retired() -> Vec<Vec<String>> {
    [glossary::retired(glossary::PRINTED), glossary::retired(glossary::PROSE)].concat()
}

/// Returns the rules that a text breaks, as sentences.
fn broken(text: &str, retired: &[Vec<String>]) -> Vec<String> {
    let words = glossary::words(text);
    let retired = retired.iter().filter(|phrase| glossary::contain(&words, phrase));
    let retired = retired.map(|phrase| format!("'{}' is a retired word", phrase.join(" ")));
    let sentences = sentences(text).into_iter().filter(|sentence| sentence.len() > MOST_WORDS);
    let long = sentences.map(|sentence| format!("{} words: {}", sentence.len(), sentence.join(" ")));
    retired.chain(long).collect()
}

#[test]
fn every_printed_text_has_plain_words_and_short_sentences() {
    let files = tracked::files();
    let is_source = |file: &&String| file.ends_with(".rs") && FOLDERS.iter().any(|folder| file.starts_with(folder));
    let retired = retired();
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(is_source) {
        for text in Texts::of(&tracked::text(file)) {
            seen += 1;
            println!("{file}: {text}");
            wrong.extend(broken(&text, &retired).into_iter().map(|rule| format!("{file}: {rule}")));
        }
    }
    assert!(seen > 300, "only {seen} texts were found: the search is broken");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn texts_are_found_wherever_they_stand() {
    let source = r#"
        //! Not printed.
        /// About the verb
        #[derive(Args)]
        #[command(after_help = "The help")]
        struct Arguments {
            /// A field
            /// of two lines
            field: u32,
        }
        #[derive(Subcommand)]
        enum Task {
            /// A task
            One,
        }
        /// A private constant.
        const NAME: &str = "A constant";
        fn run() -> Result<(), Failure> {
            hint(format!("a hint: {error}"));
            let word = "word";
            step().expect("not printed");
            Err(Failure::Run("an error".to_owned()))
        }
        #[cfg(test)]
        mod tests {
            const TEXT: &str = "not printed";
        }
    "#;
    let expected =
        ["About the verb", "A field\nof two lines", "The help", "A task", "A constant", "a hint: {error}", "an error"];
    assert_eq!(Texts::of(source), expected);
}

#[test]
fn a_long_sentence_and_a_retired_word_are_found() {
    let broken = |text: &str| broken(text, &retired());
    let short = "word ".repeat(MOST_WORDS);
    assert_eq!(broken(&format!("{short}\n\n{short}\n  {short}\n{short}").replace("word \n", "word.\n")), [""; 0]);
    assert_eq!(broken(&format!("{short}more")).len(), 1);
    assert_eq!(broken("The command line is\nat fault."), ["'at fault' is a retired word"]);
}
