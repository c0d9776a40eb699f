//! Items as a table for people.

use std::fmt::{self, Write as _};

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The widest cell, in columns of a terminal.
const MAX_CELL_WIDTH: usize = 40;

/// How many columns are drawn; the rest is counted.
const MAX_COLUMNS: usize = 16;

/// Draws items, one line each. Columns are the members of the items in the order in which they
/// are met; an item that is no object has one cell. Where there are no columns, nothing is drawn.
pub(crate) fn draw<'a>(items: impl Iterator<Item = &'a str>) -> Result<String, serde_json::Error> {
    let items = items.map(members).collect::<Result<Vec<_>, _>>()?;
    let columns = columns(&items);
    if columns.is_empty() {
        return Ok(String::new());
    }
    let shown: Vec<&str> = columns.iter().copied().take(MAX_COLUMNS).collect();
    let rows: Vec<Vec<String>> =
        items.iter().map(|item| shown.iter().map(|name| cell(item, name)).collect()).collect();
    let header: Vec<String> = shown.iter().map(|name| plain(name)).collect();
    let width = |number: usize| {
        let cells = rows.iter().chain([&header]).filter_map(|row| row.get(number));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    let is_number = |name: &&str| {
        let mut values = items.iter().filter_map(|item| member(item, name));
        values.all(|json| {
            json == "null" || json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        })
    };
    let right: Vec<bool> = shown.iter().map(is_number).collect();
    let mut out = String::new();
    let mut line = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .zip(widths.iter().zip(&right))
            .map(|(cell, (width, right))| {
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                if *right { padding + cell } else { format!("{cell}{padding}") }
            })
            .collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    };
    line(&header);
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    line(&rule);
    rows.iter().for_each(|row| line(row));
    if columns.len() > shown.len() {
        let _ = writeln!(out, "({} more columns)", columns.len() - shown.len());
    }
    Ok(out)
}

/// The members of an item, in its own order, their values unread: a double is not what every number
/// is.
type Members<'a> = Vec<(String, &'a RawValue)>;

/// The name of the column of items that are no objects.
const VALUE: &str = "value";

fn members(item: &str) -> Result<Members<'_>, serde_json::Error> {
    struct InOrder;

    impl<'de> Visitor<'de> for InOrder {
        type Value = Members<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = access.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }

    if item.starts_with('{') {
        return serde_json::Deserializer::from_str(item).deserialize_map(InOrder);
    }
    Ok(vec![(VALUE.to_owned(), serde_json::from_str(item)?)])
}

fn columns<'a>(items: &'a [Members<'_>]) -> Vec<&'a str> {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in items.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    columns
}

/// The JSON of a member.
fn member<'a>(item: &Members<'a>, name: &str) -> Option<&'a str> {
    item.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.get())
}

fn cell(item: &Members<'_>, name: &str) -> String {
    match member(item, name) {
        None | Some("null") => String::new(),
        Some(json) if json.starts_with('"') => plain(&text(json)),
        Some(json) if json.starts_with('{') => match tagged(json) {
            Some(text) => plain(&text),
            None => plain(json),
        },
        Some(json) => plain(json),
    }
}

/// The text that is in quotes.
fn text(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

/// Values that JSON does not hold are shown without their tag.
fn tagged(json: &str) -> Option<String> {
    let members = members(json).ok()?;
    let [(tag, value)] = members.as_slice() else { return None };
    if !tag.starts_with('$') || !value.get().starts_with('"') {
        return None;
    }
    let text = text(value.get());
    Some(if tag == "$blob" { format!("blob {text}") } else { text })
}

/// Text as a terminal can show it on one line: nothing that moves the cursor or hides.
fn plain(text: &str) -> String {
    let visible = |c: char| {
        let mut bytes = [0; 4];
        let encoded = c.encode_utf8(&mut bytes).as_bytes();
        let is_space = matches!(c, '\n' | '\r' | '\t');
        if is_space || crate::text::printable(encoded).is_none() { ' ' } else { c }
    };
    let mut shown = String::new();
    let mut width = 0;
    for c in text.chars().map(visible) {
        let more = c.width().unwrap_or(0);
        if width + more > MAX_CELL_WIDTH {
            // Room for the sign that something is missing.
            while shown.width() >= MAX_CELL_WIDTH {
                shown.pop();
            }
            shown.push('…');
            break;
        }
        width += more;
        shown.push(c);
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn items_are_drawn_as_lines() {
        let items = [
            r#"{"name":"Ada","id":1,"tags":["x"]}"#,
            r#"{"name":null,"id":200,"big":{"$integer":"9007199254740993"}}"#,
            r#"{"name":"a\u001b[31mred\nline","id":3,"data":{"$blob":"aGk"}}"#,
        ];
        insta::assert_snapshot!(draw(items.into_iter()).unwrap());
    }

    #[test]
    fn long_cells_are_cut_and_columns_counted() {
        let wide: Map<String, Value> =
            (0..20).map(|n| (format!("c{n:02}"), "x".repeat(100).into())).collect();
        let drawn = draw([Value::Object(wide).to_string().as_str()].into_iter()).unwrap();
        assert!(drawn.contains(&format!("{}…", "x".repeat(39))));
        assert!(drawn.ends_with("(4 more columns)\n"));
        assert_eq!(draw(["17", "\"x\""].into_iter()).unwrap(), "value\n─────\n17\nx\n");
        assert!(draw(["{"].into_iter()).is_err());
    }

    #[test]
    fn numbers_are_shown_as_they_are_written() {
        let item = r#"{"id":9007199254740993,"x":12345678901234567890123,"y":0.1000000000000000055,"z":1.10,"e":-1E400}"#;
        let drawn = draw([item].into_iter()).unwrap();
        for text in ["9007199254740993", "12345678901234567890123", "0.1000000000000000055", "1.10"]
        {
            assert!(drawn.contains(&format!("{text} ")), "{drawn}");
        }
        assert!(drawn.ends_with("-1E400\n"), "{drawn}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let items = [r#"{"日本":"広い","n":1}"#, r#"{"日本":"e\u0301","n":22}"#];
        assert_eq!(
            draw(items.into_iter()).unwrap(),
            "日本   n\n────  ──\n広い   1\ne\u{301}     22\n"
        );
        let long = format!("{{\"a\":\"{}\"}}", "広".repeat(30));
        let drawn = draw([long.as_str()].into_iter()).unwrap();
        assert!(drawn.ends_with(&format!("\n{}…\n", "広".repeat(19))), "{drawn}");
    }

    #[test]
    fn where_there_is_nothing_nothing_is_drawn() {
        assert_eq!(draw([].into_iter()).unwrap(), "");
        assert_eq!(draw(["{}", "{}"].into_iter()).unwrap(), "");
    }
}
