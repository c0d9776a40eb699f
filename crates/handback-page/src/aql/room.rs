//! What an answer has room for.

use super::engine::Call;
use super::request::Limits;

/// What an answer has room for: the limit of the settings, or the budget of the client, if that is
/// less.
///
/// A client's budget is about what it reads. MCP carries an answer as a text inside of JSON, where
/// quotes and backslashes take two bytes: they count so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes that are left.
    pub(crate) bytes: usize,
    /// Bytes of the whole answer: what a caller is told.
    pub(crate) limit: usize,
    /// Whether it is the budget of the client.
    pub(crate) is_clients: bool,
}

impl Room {
    /// The room of the answer to a call.
    pub(crate) fn of(call: &Call<'_>, limits: &Limits) -> Self {
        let limit = limits.response_bytes;
        match call.budget_bytes {
            // As a text, an answer has twice as many bytes at most.
            Some(budget) if budget < limit.saturating_mul(2) => {
                let limit = budget.min(limit);
                Self { bytes: limit, limit, is_clients: true }
            }
            _ => Self { bytes: limit, limit, is_clients: false },
        }
    }

    /// That of the whole answer.
    pub(crate) const fn whole(self) -> Self {
        self.with(self.limit)
    }

    /// With so many bytes left.
    pub(crate) const fn with(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// With so many bytes less.
    pub(crate) const fn without(self, bytes: usize) -> Self {
        self.with(self.bytes.saturating_sub(bytes))
    }

    /// The bytes of a piece of the answer.
    pub(crate) fn cost(self, json: &str) -> usize {
        if !self.is_clients {
            return json.len();
        }
        let is_escaped = |byte: &u8| matches!(byte, b'"' | b'\\') || *byte < b' ';
        json.len() + json.bytes().filter(|byte| is_escaped(byte)).count()
    }

    /// How many bytes of a text fit that is written as a JSON string: whole characters.
    pub(crate) fn fitting(self, text: &str) -> usize {
        let mut left = self.bytes;
        for (at, character) in text.char_indices() {
            match left.checked_sub(self.cost_in_text(character)) {
                Some(rest) => left = rest,
                None => return at,
            }
        }
        text.len()
    }

    const fn cost_in_text(self, character: char) -> usize {
        // Of an escape, the backslash is escaped once more, and so is what may follow it.
        let (short, long) = if self.is_clients { (3, 7) } else { (2, 6) };
        match character {
            '"' | '\\' if self.is_clients => 4,
            '"' | '\\' => 2,
            '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => short,
            '\0'..='\u{1f}' => long,
            other => other.len_utf8(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The bytes of an answer as MCP carries it, without the quotes around it.
    fn carried(json: &str) -> usize {
        Value::from(json).to_string().len() - 2
    }

    #[test]
    fn what_is_counted_is_what_is_written() {
        let text = "a\"b\\c\nd\te\u{1}f\u{7f}ä€𝄞\r\u{8}\u{c}\"\"\\\\";
        let json = Value::from(text).to_string();
        for is_clients in [false, true] {
            let room = Room { bytes: 0, limit: 0, is_clients };
            let written = if is_clients { carried(&json) } else { json.len() };
            assert_eq!(room.cost(&json), written);
            let quotes = if is_clients { 4 } else { 2 };
            let all = text.chars().map(|character| room.cost_in_text(character)).sum::<usize>();
            assert_eq!(all + quotes, written);
            for bytes in 0..written {
                let end = room.with(bytes).fitting(text);
                let part = &text[..end];
                let part = room.cost(&Value::from(part).to_string()) - quotes;
                assert!(part <= bytes, "{part} of {bytes}");
                let next = text[end..].chars().next().map_or(1, |next| room.cost_in_text(next));
                assert!(end == text.len() || part + next > bytes, "more would fit into {bytes}");
            }
        }
    }
}
