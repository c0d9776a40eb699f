//! Tables, bars, aims, and the section of a document that is replaced.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::spread::Spread;

/// The widest bar of a plot.
const BAR_WIDTH: u32 = 60;

/// The bound of a ratio.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a bound has two sides")]
pub enum Aim {
    /// It is to be this or more.
    AtLeast(f64),
    /// It is to be this or less.
    AtMost(f64),
}

impl Aim {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

/// A ratio with its range; a missed aim is said.
#[must_use]
pub fn judged(ratio: Spread, aim: Option<Aim>) -> String {
    let Spread { median, min, max } = ratio;
    let digits = if median < 10.0 { 2 } else { 0 };
    let missed = aim.is_some_and(|aim| !aim.is_met(median));
    let note = if missed { ", **missed**" } else { "" };
    format!("{median:.digits$} ({min:.digits$} to {max:.digits$}){note}")
}

/// The text of a cell, which may have nothing to say.
#[must_use]
pub fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

/// Adds a line.
pub fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// Adds a row of a table.
pub fn row(out: &mut String, cells: &[String]) {
    line(out, &format!("| {} |", cells.join(" | ")));
}

/// A number with commas.
#[must_use]
pub fn grouped(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut out = sign.to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// Adds a plot with a bar for each number.
pub fn bars(out: &mut String, numbers: &[(String, f64)], digits: usize, unit: &str) {
    let most = numbers.iter().map(|(_, number)| *number).fold(0.0, f64::max);
    let width = numbers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    line(out, "\n```text");
    for (name, number) in numbers {
        let bar: String = (0..BAR_WIDTH)
            .take_while(|&at| f64::from(at) < f64::from(BAR_WIDTH) * number / most)
            .map(|_| '█')
            .collect();
        line(out, &format!("{name:<width$}  {bar} {} {unit}", grouped(*number, digits)));
    }
    line(out, "```");
}

/// What the machine does, as the average load of the last minute.
#[must_use]
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// How many cores there are.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, std::num::NonZero::get)
}

/// The lines around the section of a document that a benchmark writes.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Markers {
    /// The first line of the section.
    pub begin: &'static str,
    /// The last line of it.
    pub end: &'static str,
}

impl Markers {
    /// Puts the section into the file, in the place of the one that is there, or at the end.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn replace(self, path: &Path, section: &str) -> Result<()> {
        let name = path.display();
        let old = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        std::fs::write(path, self.replaced(&old, section))
            .with_context(|| format!("cannot write {name}"))
    }

    fn replaced(self, old: &str, section: &str) -> String {
        let between = old.split_once(self.begin).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(self.end)?;
            Some((before, after))
        });
        match between {
            Some((before, after)) => format!("{before}{section}{after}"),
            None => format!("{}\n\n{section}\n", old.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!(grouped(20_532.4, 0), "20,532");
        assert_eq!(grouped(532.0, 0), "532");
        assert_eq!(grouped(1234.567, 2), "1,234.57");
        assert_eq!(grouped(-123.4, 0), "-123");
    }

    #[test]
    fn a_missed_aim_is_said() {
        let ratio = Spread { median: 0.93, min: 0.9, max: 1.1 };
        assert_eq!(judged(ratio, Some(Aim::AtLeast(0.85))), "0.93 (0.90 to 1.10)");
        assert_eq!(judged(ratio, Some(Aim::AtLeast(1.0))), "0.93 (0.90 to 1.10), **missed**");
        assert_eq!(judged(ratio, Some(Aim::AtMost(1.2))), "0.93 (0.90 to 1.10)");
    }

    #[test]
    fn the_longest_bar_is_that_of_the_greatest() {
        let mut out = String::new();
        bars(&mut out, &[("a".to_owned(), 30.0), ("long".to_owned(), 15.0)], 0, "ms");
        let widths: Vec<usize> = out.lines().map(|line| line.matches('█').count()).collect();
        assert_eq!(widths, [0, 0, 60, 30, 0]);
    }

    #[test]
    fn the_section_is_replaced_and_the_rest_stays() {
        let markers = Markers { begin: "<!-- x -->", end: "<!-- x: end -->" };
        let section = "<!-- x -->\nnew\n<!-- x: end -->";
        let old = "# A\n<!-- x -->\nold\n<!-- x: end -->\nafter\n";
        assert_eq!(markers.replaced(old, section), format!("# A\n{section}\nafter\n"));
        assert_eq!(markers.replaced("# A\n", section), format!("# A\n\n{section}\n"));
    }
}
