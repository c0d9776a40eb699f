//! Regular expressions of schemas: in linear time, or within the steps of a check.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::syntax;

use super::error::Unusable;
use super::look_around::LookAroundPattern;
use super::steps::{Over, Steps};

/// Different patterns of a schema. Published schemas have at most some dozens.
pub const PATTERNS_MAX: usize = 256;

/// Bytes of one pattern. Reading a pattern may take the square of its length.
const PATTERN_BYTES_MAX: usize = 8 * 1024;

/// Bytes that the translations of all patterns of a schema go over. Each escape is a pass of its own over
/// the pattern, and becomes up to [`ESCAPE_BYTES`]; a megabyte takes 0.3 s, and a date 6 KB.
const TRANSLATED_BYTES_MAX: usize = 1 << 20;

/// Bytes that an escape becomes: a class of all white space is the longest.
const ESCAPE_BYTES: usize = 64;

/// Bytes that a class counts for in a pattern that ignores case: all characters of the class are looked
/// up, which takes up to 5 ms.
const FOLDED_CLASS_BYTES: usize = 16 * 1024;

/// States of an automaton that one step goes through: a search may be in all states at once.
const STATES_PER_STEP: u64 = 8;

/// Bytes of one pattern when it was compiled: a class of letters 100 times is 400 KiB.
const COMPILED_BYTES_MAX: usize = 512 * 1024;

/// Bytes of all patterns of a schema when they were compiled.
const ALL_COMPILED_BYTES_MAX: usize = 4 << 20;

/// Bytes for the states that searches with one pattern make as they go.
const CACHE_BYTES: usize = 64 * 1024;

/// A regular expression.
#[derive(Debug)]
pub(super) enum Pattern {
    Automaton {
        regex: Regex,
        steps_per_byte: u64,
    },
    LookAround(LookAroundPattern),
    /// A pattern with a backreference, or with look-around over a bound. No text can be checked.
    Unsupported,
}

impl Pattern {
    fn read(pattern: &str) -> Result<Self, Unusable> {
        let translated = jsonschema_regex::to_rust_regex(pattern);
        let translated = translated.map_err(|()| Unusable::Malformed)?;
        // Versions 0.4 of the engine panic for some patterns (rust-lang/regex#1344).
        let built = catch_unwind(AssertUnwindSafe(|| compiled(&translated)));
        match built.map_err(|_| Unusable::Malformed)? {
            Ok((regex, states)) => {
                let steps_per_byte = 1 + states / STATES_PER_STEP;
                Ok(Self::Automaton { regex, steps_per_byte })
            }
            Err(error) if error.size_limit().is_some() => Err(Unusable::TooLarge),
            Err(_) if has_look_around(&translated) => {
                Ok(LookAroundPattern::read(pattern).map_or(Self::Unsupported, Self::LookAround))
            }
            Err(_) => Err(Unusable::Malformed),
        }
    }

    fn compiled_bytes(&self) -> usize {
        match self {
            Self::Automaton { regex, .. } => regex.memory_usage(),
            Self::LookAround(pattern) => pattern.bytes(),
            Self::Unsupported => 0,
        }
    }

    /// Searches a text, within the steps of a check.
    pub(super) fn is_match(&self, text: &str, steps: &Steps) -> Result<bool, Over> {
        match self {
            Self::Automaton { regex, steps_per_byte } => {
                steps.take(1 + (text.len() as u64).saturating_mul(*steps_per_byte))?;
                catch_unwind(AssertUnwindSafe(|| regex.is_match(text))).map_err(|_| Over)
            }
            Self::LookAround(pattern) => pattern.is_match(text, steps),
            Self::Unsupported => Err(Over),
        }
    }
}

/// Bytes that the translation of a pattern goes over, at worst.
fn translation_bytes(pattern: &str) -> usize {
    let escapes = pattern.matches('\\').count();
    let classes: usize = match ignores_case(pattern) {
        true => ["[", r"\p", r"\P"].iter().map(|class| pattern.matches(*class).count()).sum(),
        false => 0,
    };
    // Each look-around is a pass of its own as well.
    let around =
        ["(?=", "(?!", "(?<=", "(?<!"].iter().map(|opener| pattern.matches(opener).count());
    (1 + escapes) * (pattern.len() + escapes * ESCAPE_BYTES)
        + around.sum::<usize>() * pattern.len()
        + classes * FOLDED_CLASS_BYTES
}

/// Returns `true` for a pattern that may have the flag `i`, as in `(?i)` or `(?s-i:…)`.
fn ignores_case(pattern: &str) -> bool {
    pattern.split('?').skip(1).any(|behind| {
        let is_flag = |c: char| c.is_ascii_alphabetic() || c == '-';
        let rest = behind.trim_start_matches(is_flag);
        let flags = behind.strip_suffix(rest).unwrap_or_default();
        flags.contains('i') && rest.starts_with([')', ':'])
    })
}

/// The automaton of a pattern, and its number of states.
fn compiled(pattern: &str) -> Result<(Regex, u64), Box<BuildError>> {
    let config = NFA::config().nfa_size_limit(Some(COMPILED_BYTES_MAX));
    let automaton = NFA::compiler().configure(config).build(pattern);
    let states = automaton.map(|automaton| automaton.states().len() as u64);
    let config = Regex::config()
        .nfa_size_limit(Some(COMPILED_BYTES_MAX))
        .hybrid_cache_capacity(CACHE_BYTES)
        .backtrack(false)
        .onepass(false);
    let regex = Regex::builder().configure(config).build(pattern).map_err(Box::new)?;
    Ok((regex, states.unwrap_or(COMPILED_BYTES_MAX as u64)))
}

/// Reports a pattern that is valid, and needs more than an automaton.
fn has_look_around(pattern: &str) -> bool {
    use regex_syntax::ast::ErrorKind;
    let parsed = syntax::parse(pattern);
    let Err(regex_syntax::Error::Parse(error)) = parsed else { return false };
    let is_beyond = matches!(
        error.kind(),
        ErrorKind::UnsupportedLookAround | ErrorKind::UnsupportedBackreference
    );
    is_beyond && jsonschema_regex::is_valid_ecma_regex(pattern)
}

/// The patterns of one schema, each compiled once.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    known: HashMap<String, Arc<Pattern>>,
    translated_bytes: usize,
    compiled_bytes: usize,
}

impl Patterns {
    pub(super) fn get(&mut self, pattern: &str) -> Result<Arc<Pattern>, Unusable> {
        if let Some(known) = self.known.get(pattern) {
            return Ok(Arc::clone(known));
        }
        if self.known.len() >= PATTERNS_MAX || pattern.len() > PATTERN_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        self.translated_bytes += translation_bytes(pattern);
        if self.translated_bytes > TRANSLATED_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let read = Arc::new(Pattern::read(pattern)?);
        self.compiled_bytes += read.compiled_bytes();
        if self.compiled_bytes > ALL_COMPILED_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        self.known.insert(pattern.to_owned(), Arc::clone(&read));
        Ok(read)
    }
}
