//! Items as a table for people.

use std::fmt::{self, Write as _};

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::{Map, Value};

/// The widest cell, in characters.
const MAX_CELL_CHARS: usize = 40;

/// How many columns are drawn; the rest is counted.
const MAX_COLUMNS: usize = 16;

/// Draws items, one line each. Columns are the members of the items in the order in which they
/// are met; an item that is no object has one cell.
pub(crate) fn draw<'a>(items: impl Iterator<Item = &'a str>) -> Result<String, serde_json::Error> {
    let items = items.map(members).collect::<Result<Vec<_>, _>>()?;
    let columns = columns(&items);
    let shown: Vec<&str> = columns.iter().copied().take(MAX_COLUMNS).collect();
    let rows: Vec<Vec<String>> =
        items.iter().map(|item| shown.iter().map(|name| cell(item, name)).collect()).collect();
    let header: Vec<String> = shown.iter().map(|name| plain(name)).collect();
    let width = |number: usize| {
        let cells = rows.iter().chain([&header]).filter_map(|row| row.get(number));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    let is_number = |name: &&str| {
        let mut values = items.iter().filter_map(|item| member(item, name));
        values.all(|value| value.is_number() || value.is_null())
    };
    let right: Vec<bool> = shown.iter().map(is_number).collect();
    let mut out = String::new();
    let mut line = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .zip(widths.iter().zip(&right))
            .map(|(cell, (width, right))| {
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
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

/// The members of an item, in its own order.
type Members = Vec<(String, Value)>;

/// The name of the column of items that are no objects.
const VALUE: &str = "value";

fn members(item: &str) -> Result<Members, serde_json::Error> {
    struct InOrder;

    impl<'de> Visitor<'de> for InOrder {
        type Value = Members;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
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

fn columns(items: &[Members]) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in items.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    columns
}

fn member<'a>(item: &'a Members, name: &str) -> Option<&'a Value> {
    item.iter().rfind(|(known, _)| known == name).map(|(_, value)| value)
}

fn cell(item: &Members, name: &str) -> String {
    match member(item, name) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => plain(text),
        Some(Value::Object(members)) => plain(&tagged(members)),
        Some(value) => plain(&value.to_string()),
    }
}

/// Values that JSON does not hold are shown without their tag.
fn tagged(members: &Map<String, Value>) -> String {
    match members.iter().next() {
        Some((tag, Value::String(text))) if members.len() == 1 && tag.starts_with('$') => {
            if tag == "$blob" { format!("blob {text}") } else { text.clone() }
        }
        _ => Value::Object(members.clone()).to_string(),
    }
}

/// Text as a terminal can show it on one line: nothing that moves the cursor or hides.
fn plain(text: &str) -> String {
    let visible = |c: char| {
        let mut bytes = [0; 4];
        let encoded = c.encode_utf8(&mut bytes).as_bytes();
        let is_space = matches!(c, '\n' | '\r' | '\t');
        if is_space || crate::text::printable(encoded).is_none() { ' ' } else { c }
    };
    let mut shown: String = text.chars().take(MAX_CELL_CHARS).map(visible).collect();
    if text.chars().nth(MAX_CELL_CHARS).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
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
}
