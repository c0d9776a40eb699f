//! How plain the doc comments of a crate are.

use super::source::Crate;

/// Words with which a doc comment begins that asks a question or leaves its subject out.
const ASKING: &str = "what who whom whose how whether where when why which that those this it one \
                      of nothing nobody somebody as so there here if no not";
/// Words that stand for a noun that the reader has to find.
const PRONOUNS: &str = "it its they them those this that who whom whose what which one ones \
                        somebody nobody nothing everything anybody anything whoever whatever";
/// Words of a sentence above which it has to be read twice.
pub(crate) const SENTENCE_WORDS: usize = 30;

/// Counts over the doc comments of a crate.
#[derive(Debug, Default)]
pub(crate) struct Prose {
    docs: u64,
    asking: u64,
    words: u64,
    pronouns: u64,
    /// Sentences that are too long, as `path:line`.
    pub(crate) long: Vec<String>,
}

impl Prose {
    /// Reads the doc comments outside of tests.
    pub(crate) fn of(of: &Crate) -> Self {
        let mut prose = Self::default();
        for source in &of.sources {
            let mut text = String::new();
            let (mut kind, mut from, mut example) = ("", 0, false);
            for (line, number) in source.text.lines().chain([""]).zip(1..) {
                let (found, rest) = doc(line).unwrap_or(("", ""));
                if found != kind {
                    prose.add(&text, &source.path, from);
                    text.clear();
                    (kind, from, example) = (found, number, false);
                }
                if rest.trim_start().starts_with("```") {
                    example = !example;
                } else if !example && !rest.trim_start().starts_with(['|', '#']) {
                    text.push(' ');
                    text.push_str(rest);
                }
            }
        }
        prose
    }

    /// Doc comments that begin with a question word, of a thousand.
    pub(crate) fn asking(&self) -> u64 {
        self.asking * 1000 / self.docs.max(1)
    }

    /// Pronouns in a thousand words.
    pub(crate) fn pronouns(&self) -> u64 {
        self.pronouns * 1000 / self.words.max(1)
    }

    fn add(&mut self, text: &str, path: &str, line: usize) {
        let text = without_code(text);
        let mut words = text
            .split(|c: char| !c.is_ascii_alphabetic() && c != '\'')
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .peekable();
        let Some(first) = words.peek() else { return };
        self.docs += 1;
        self.asking += u64::from(is_one_of(first, ASKING));
        for word in words {
            self.words += 1;
            self.pronouns += u64::from(is_one_of(&word, PRONOUNS));
        }
        let mut sentence = 0;
        for word in text.split_whitespace() {
            sentence += 1;
            if word.ends_with(['.', '!', '?', ':', ';']) {
                self.sentence(sentence, path, line);
                sentence = 0;
            }
        }
        self.sentence(sentence, path, line);
    }

    fn sentence(&mut self, words: usize, path: &str, line: usize) {
        if words > SENTENCE_WORDS {
            self.long.push(format!("{path}:{line} has a sentence of {words} words"));
        }
    }
}

fn is_one_of(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// The kind of a doc comment, inner or outer, and its text.
fn doc(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let (kind, rest) = match line.strip_prefix("//!") {
        Some(rest) => ("!", rest),
        None => ("/", line.strip_prefix("///").filter(|rest| !rest.starts_with('/'))?),
    };
    Some((kind, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Replaces what stands between back-ticks by one word.
fn without_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), after) = (parts.next(), parts.next()) {
        out.push('X');
        out.push_str(after.unwrap_or_default());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    fn prose(text: &str) -> Prose {
        let source = Source::new("a.rs".to_owned(), Vec::new(), text.to_owned());
        Prose::of(&Crate { name: "x".to_owned(), sources: vec![source] })
    }

    #[test]
    fn counts_first_words_and_pronouns() {
        let prose =
            prose("/// What it does.\nfn a() {}\n\n/// The number of `it` calls.\nfn b() {}\n");
        assert_eq!((prose.docs, prose.asking), (2, 1));
        assert_eq!((prose.words, prose.pronouns), (8, 2));
        assert_eq!(prose.asking(), 500);
    }

    #[test]
    fn leaves_examples_and_tables_out() {
        let prose = prose("//! A table.\n//! ```\n//! what it is\n//! ```\n//! | it |\n");
        assert_eq!((prose.words, prose.pronouns), (2, 0));
    }

    #[test]
    fn names_long_sentences() {
        let long = "word ".repeat(31);
        assert_eq!(prose(&format!("/// Short.\n/// {long}\nfn a() {{}}\n")).long.len(), 1);
        assert!(
            prose(&format!("/// {}. {}\n", "word ".repeat(20), "word ".repeat(20))).long.is_empty()
        );
    }
}
