//! Sizes of files, functions and types.

use std::collections::BTreeMap;

use super::source::{Crate, Source, end_of_block, identifier, keyword};

/// Lines of a file above which it probably has a second subject.
pub(crate) const FILE_LINES: usize = 600;
/// Lines of a function body above which it is hard to read at once.
pub(crate) const FUNCTION_LINES: usize = 60;
/// Methods of a type, over all of its `impl` blocks, above which the type is several types.
pub(crate) const TYPE_METHODS: usize = 30;

/// A named thing and its size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sized {
    pub(crate) size: usize,
    pub(crate) name: String,
}

/// Every file with its lines outside of tests.
pub(crate) fn files(of: &Crate) -> Vec<Sized> {
    let sources = of.sources.iter();
    sources.map(|source| Sized { size: source.lines, name: source.path.clone() }).collect()
}

/// Every function with the non-blank lines of its body.
pub(crate) fn functions(of: &Crate) -> Vec<Sized> {
    of.sources.iter().flat_map(functions_of).collect()
}

fn functions_of(source: &Source) -> Vec<Sized> {
    let mut found = Vec::new();
    for at in keyword(&source.code, "fn") {
        let name = identifier(&source.code, at + 2);
        let Some(open) = body(&source.code, at).filter(|_| !name.is_empty()) else { continue };
        let text = source.raw(open + 1, end_of_block(&source.code, open).saturating_sub(1));
        let size = text.lines().filter(|line| !line.trim().is_empty()).count();
        let place = format!("{}:{} {name}", source.path, source.line_of(at));
        found.push(Sized { size, name: place });
    }
    found
}

/// The position of the brace that opens the body; none for a declaration.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Every type with the methods of all its `impl` blocks.
pub(crate) fn types(of: &Crate) -> Vec<Sized> {
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    for source in &of.sources {
        for at in keyword(&source.code, "impl") {
            if let Some((name, count)) = block(&source.code, at) {
                *methods.entry(name).or_default() += count;
            }
        }
    }
    let sized = methods.into_iter();
    sized.map(|(name, size)| Sized { size, name: format!("{} {name}", of.name) }).collect()
}

/// The type of an `impl` block, and its functions. An `impl Trait` in a signature has none.
fn block(code: &str, at: usize) -> Option<(String, usize)> {
    let before = code.get(..at)?.trim_end();
    let starts = before.is_empty() || before.ends_with(['}', ';', ']', '{']);
    if !starts && !before.ends_with("unsafe") {
        return None;
    }
    let open = body(code, at)?;
    let header = without_generics(code.get(at + 4..open)?);
    let header = header.split(" where ").next()?;
    let name = header.rsplit(" for ").next()?.trim().trim_start_matches('&');
    let name = name.rsplit("::").next()?.trim();
    let name = identifier(name, 0);
    let inside = code.get(open..end_of_block(code, open))?;
    (!name.is_empty()).then(|| (name.to_owned(), keyword(inside, "fn").count()))
}

/// Drops everything between angle brackets.
fn without_generics(header: &str) -> String {
    let mut depth = 0_usize;
    let mut previous = ' ';
    let mut out = String::new();
    for c in header.chars() {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(if c.is_whitespace() { ' ' } else { c }),
            _ => {}
        }
        previous = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Crate {
        let source = Source::new("a.rs".to_owned(), Vec::new(), text.to_owned());
        Crate { name: "x".to_owned(), sources: vec![source] }
    }

    fn shown(sizes: &[Sized]) -> Vec<String> {
        sizes.iter().map(|sized| format!("{} {}", sized.name, sized.size)).collect()
    }

    #[test]
    fn counts_the_lines_of_a_body() {
        let text = "trait T { fn none(&self); }\nfn one(a: [u8; 2]) -> u8 {\n\n  1 // {\n}\n";
        assert_eq!(shown(&functions(&of(text))), ["a.rs:2 one 1"]);
    }

    #[test]
    fn sums_methods_over_impl_blocks() {
        let text = "impl<T: Fn() -> u8> A<T> { fn a() {} fn b() {} }\nimpl fmt::Debug for A<u8> { fn c() {} }\n\
                    fn f(x: impl Iterator) -> impl Sized { fn g() {} }\nimpl B { }";
        assert_eq!(shown(&types(&of(text))), ["x A 3", "x B 0"]);
    }
}
