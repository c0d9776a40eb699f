//! What an agent is told first.

use std::fmt::Write as _;

use handback_page::aql::Operation;
use handback_token::Handle;

use super::keep::TEXT;
use super::part::{Part, Time};
use super::plan::{Unit, What};
use super::render::Other;
use super::show::Remark;

/// A longer pointer is not in the notice: nobody needs it to read.
const POINTER_BYTES: usize = 60;

/// What a notice says of other lists at most.
const OTHERS_BYTES: usize = 120;

/// How parts are read later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    /// The tool.
    pub(super) tool: &'a str,
    /// Whether it takes `offset` and `limit`.
    pub(super) offsets: bool,
}

/// A part, and what is said of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) part: &'a Part,
    pub(super) unit: &'a Unit,
    pub(super) remark: &'a Remark,
    /// How many blocks the result has.
    pub(super) blocks: u64,
    /// True if each of them is a media block.
    pub(super) is_all_media: bool,
    /// The number of the first media block that is not shown, where blocks are held together.
    pub(super) hidden: Option<u64>,
}

/// The facts of a notice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) lines: &'a [Line<'a>],
    /// What the upstream gave.
    pub(super) bytes: u64,
    pub(super) reading: Reading<'a>,
    /// No cut of `structuredContent` is valid.
    pub(super) invalid: bool,
}

/// Writes a notice.
pub(super) fn write(facts: &Facts<'_>) -> String {
    let parts = || facts.lines.iter().map(|line| line.part);
    let until = parts().map(|part| part.until_ms).min().unwrap_or_default();
    let mut out = format!(
        "CUT to fit: the whole result has {} bytes. Nothing is lost; it is held for you until {}{}:\n",
        facts.bytes,
        Time(until),
        match parts().all(|part| part.until_ms < part.until_at_most_ms) {
            true => " (longer while you read it)",
            false => "",
        }
    );
    for (number, line) in facts.lines.iter().enumerate() {
        let same = |other: &&Line<'_>| other.part.handle == line.part.handle;
        // What is held once is told once.
        if facts.lines.iter().take(number).any(|other| same(&other)) {
            continue;
        }
        let labels: Vec<_> = facts.lines.iter().filter(same).map(label).collect();
        let mut shown = facts.lines.iter().filter(same);
        let shown = shown.find(|line| *line.remark != Remark::NotShown).unwrap_or(line);
        let _ = writeln!(out, "- {}: {}{}", line.part.handle, labels.join(" and "), said(shown));
    }
    if facts.invalid {
        out.push_str(
            "No cut fits the tool's output schema: structuredContent is left out, and this is \
             marked as an error. The call was made; do not repeat it.\n",
        );
    }
    if let Some(line) = facts.lines.iter().find(|line| !is_only_media(line)) {
        read_on(facts, line.part, &mut out);
    }
    let media = |line: &Line<'_>| Some((media_id(line)?, line.part.handle));
    if let Some((id, handle)) = facts.lines.iter().find_map(media) {
        show_media(facts, handle, id, &mut out);
    }
    out
}

/// True if a part is media and nothing else: it has no words to search for.
fn is_only_media(line: &Line<'_>) -> bool {
    is_media(line) || (line.is_all_media && line.hidden.is_some())
}

/// The `id` of a media block in a part, if there is one that is not shown.
fn media_id(line: &Line<'_>) -> Option<u64> {
    if is_media(line) { Some(0) } else { line.hidden }
}

/// True if a part is a media block.
fn is_media(line: &Line<'_>) -> bool {
    matches!(line.unit.what, What::Media { .. })
}

/// The request that shows a media block.
fn show_media(facts: &Facts<'_>, handle: Handle, id: u64, out: &mut String) {
    let gap = if out.ends_with('\n') { "" } else { "\n" };
    let _ = write!(
        out,
        "{gap}To see one of the images or other media, call tool {}: {{\"operation\":\"{}\",\
         \"element_type\":\"{handle}\",\"params\":{{\"id\":{id}}}}}.",
        facts.reading.tool,
        Operation::GetElement.name(),
    );
}

/// How to read on.
fn read_on(facts: &Facts<'_>, part: &Part, out: &mut String) {
    let Reading { tool, offsets } = facts.reading;
    let name = Operation::name;
    let paging = if offsets { "offset, limit" } else { "first, after" };
    let is_text = |line: &Line<'_>| line.part.kind == TEXT;
    let texts = facts.lines.iter().filter(|line| is_text(line)).count();
    let others = facts.lines.iter().filter(|line| !is_only_media(line)).count();
    let ids = match texts {
        0 => "item number from 0",
        all if all == others => "line number from 1",
        _ => "item number from 0, line number from 1",
    };
    let _ = write!(
        out,
        "Ask it with tool {tool}: {{\"operation\":\"{}\",\"element_type\":\"{}\",\"params\":\
         {{\"query\":\"WORDS\"}}}}. Also {} (filter, sort, fields), {} (filter), {} (id: {ids}), \
         {} ({paging}). Pass it on unread: {{\"$held\":HANDLE}}, or the text \"$held:HANDLE\", \
         as an argument of another tool.",
        name(Operation::SearchElements),
        part.handle,
        name(Operation::QueryElements),
        name(Operation::CountElements),
        name(Operation::GetElement),
        name(Operation::ListElements),
    );
}

/// Which part of the result it is.
fn label(line: &Line<'_>) -> String {
    let inside = match short(&line.part.inside.to_string()) {
        Some(inside) => format!(" {inside}"),
        None => String::new(),
    };
    let label = match line.unit.what {
        What::Structured => "structuredContent".to_owned(),
        What::Text { .. } if line.blocks == 1 => "text".to_owned(),
        What::Text { block } => format!("text {}", block + 1),
        What::Block { block } => format!("block {}", block + 1),
        What::Media { block } => match &line.part.media {
            Some(media) => format!("block {} ({media})", block + 1),
            None => format!("block {}", block + 1),
        },
        What::Content => "content".to_owned(),
        What::Whole => "the whole result".to_owned(),
        What::Member => line.unit.path.tokens().join("/"),
    };
    label + &inside
}

/// What is shown of it.
fn said(line: &Line<'_>) -> String {
    let Part { shown, total, bytes, kind, items, .. } = line.part;
    let unit = match (line.unit.what, *kind) {
        (What::Content, _) => "blocks",
        (_, TEXT) => "lines",
        _ => "items",
    };
    let place = match short(&items.to_string()) {
        Some(items) => format!(" at {items}"),
        None => String::new(),
    };
    let others = match line.remark {
        Remark::NotShown if is_media(line) => {
            return format!(", a link stands for it, {bytes} bytes");
        }
        Remark::NotShown => return format!(", not shown here, {bytes} bytes"),
        Remark::Outline(outline, others) => {
            let others = also(others);
            return format!(", {bytes} bytes without a list; it has {outline}{others}");
        }
        Remark::Others(others) => also(others),
        Remark::Plain => String::new(),
    };
    let why = match (*shown, *kind) {
        (0, TEXT) => " in full",
        (0, _) if *total > 0 => ": the first one alone does not fit",
        _ => "",
    };
    format!(", {shown} of {total} {unit}{place} shown{why}, {bytes} bytes{others}")
}

/// Other lists that are cut.
fn also(others: &[Other]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let mut out = "; also cut:".to_owned();
    let mut comma = "";
    for Other { name, shown, total } in others {
        let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
        let one = match name.as_str() {
            // An array in an array, or the document itself.
            "" => format!("{comma} {shown} of {total} inside"),
            name => format!("{comma} {shown} of {total} of '{name}'"),
        };
        if out.len() + one.len() > OTHERS_BYTES {
            out.push_str(" and others");
            break;
        }
        out.push_str(&one);
        comma = ",";
    }
    out
}

/// A pointer that is neither empty nor long.
fn short(pointer: &str) -> Option<&str> {
    (!pointer.is_empty() && pointer.len() <= POINTER_BYTES).then_some(pointer)
}
