//! Sentences with gaps, and what fills them.

use crate::random::Random;

/// Sentences of one kind of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prose {
    /// With gaps as `{file}`, and `{#}` for a number.
    pub(crate) sentences: &'static [&'static str],
    /// What fills them, by the name of the gap.
    pub(crate) gaps: &'static [(&'static str, &'static [&'static str])],
}

/// Numbers in sentences are below this.
const NUMBER_END: u64 = 900;

impl Prose {
    /// A sentence, filled.
    pub(crate) fn sentence(&self, random: &mut Random) -> String {
        let sentence = random.pick(self.sentences);
        self.fill(sentence, random)
    }

    /// A paragraph of so many sentences.
    pub(crate) fn paragraph(&self, sentences: u64, random: &mut Random) -> String {
        let sentences: Vec<_> = (0..sentences).map(|_| self.sentence(random)).collect();
        sentences.join(" ")
    }

    /// A text with its gaps filled.
    pub(crate) fn fill(&self, text: &str, random: &mut Random) -> String {
        let mut filled = String::with_capacity(text.len() * 2);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (gap, after) = after.split_once('}').unwrap_or((after, ""));
            filled.push_str(before);
            filled.push_str(&self.gap(gap, random));
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn gap(&self, name: &str, random: &mut Random) -> String {
        if name == "#" {
            return random.between(2, NUMBER_END).to_string();
        }
        let words = self.gaps.iter().find(|(gap, _)| *gap == name).map(|(_, words)| *words);
        random.pick(words.unwrap_or(&["?"])).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_every_gap() {
        let prose = Prose { sentences: &["{who} saw {#} {who}s."], gaps: &[("who", &["fox"])] };
        let sentence = prose.sentence(&mut Random::new(1));
        assert!(sentence.starts_with("fox saw ") && sentence.ends_with(" foxs."), "{sentence}");
    }
}
