//! What was measured, as text.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

use crate::contenders::{ATD, BARE_SEALED, BARE_SIGNED, COOKIE, JWT, RMCP, SEALED, SIGNED};
use crate::measure::{Effort, Measured};

const BEGIN: &str = "<!-- tokens: written by `cargo xtask bench tokens` -->";
const END: &str = "<!-- tokens: end -->";

pub struct Report {
    pub results: Vec<(usize, Vec<Measured>)>,
    pub refusals: Vec<Measured>,
    pub effort: Effort,
}

fn find<'m>(measured: &'m [Measured], name: &str) -> Option<&'m Measured> {
    measured.iter().find(|measured| measured.name == name)
}

impl Report {
    /// Sizes and the set of contenders do not depend on the machine: they are checked in every run.
    pub fn check(&self) -> Result<()> {
        for (payload, measured) in &self.results {
            for name in [SEALED, SIGNED, RMCP] {
                find(measured, name).with_context(|| format!("{name} did not run"))?;
            }
            ensure!(
                (*payload == 48) <= find(measured, ATD).is_some(),
                "atd-runtime did not run on 48 bytes"
            );
        }
        let (_, standard) = self.results.first().context("nothing was measured")?;
        let sealed = find(standard, SEALED).context("not measured")?.characters;
        ensure!(sealed <= 96, "the standard cursor has {sealed} characters");
        ensure!(
            self.refusals.iter().all(|refusal| refusal.characters == 0),
            "something that is forged opened"
        );
        Ok(())
    }

    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{BEGIN}\n## Tokens\n");
        let _ = writeln!(
            out,
            "One round trip: bind the context, open the token that came in, seal the one that goes out. \
             Standard cursor: tool id of 24 characters, issuer of 32, subject of 24, argument fingerprint \
             (computed beforehand for all). `cargo xtask bench tokens`, release build, one thread, \
             contenders in turn, minimum and median of the batches. Ratios are of the minima: below 1 means \
             that the row is faster than the peer in that column. The bare rows are the two primitive calls \
             alone, without context, clock, text or allocation."
        );
        for (payload, measured) in &self.results {
            self.table(&mut out, *payload, measured);
        }
        self.refusal_table(&mut out);
        let _ = write!(out, "{END}");
        out
    }

    fn table(&self, out: &mut String, payload: usize, measured: &[Measured]) {
        let _ = writeln!(out, "\n### {payload} bytes of position\n");
        let peers = [RMCP, ATD, JWT, COOKIE, BARE_SEALED, BARE_SIGNED];
        let _ = writeln!(
            out,
            "| | characters | min ns | median ns | of rmcp rs2 | of ATD | of JWT | of cookie | of bare GCM-SIV | of bare HMAC |\n|---|---|---|---|---|---|---|---|---|---|"
        );
        for row in measured {
            let _ = write!(
                out,
                "| {} | {} | {:.0} | {:.0} |",
                row.name, row.characters, row.min_ns, row.median_ns
            );
            for peer in peers {
                let _ = match find(measured, peer) {
                    Some(peer) => write!(out, " {:.2} |", row.min_ns / peer.min_ns),
                    None => write!(out, " does not fit |"),
                };
            }
            out.push('\n');
        }
        let longest = measured.iter().map(|row| row.min_ns).fold(1.0, f64::max);
        let _ = writeln!(out, "\n```text");
        for row in measured {
            let bar = "█".repeat(((row.min_ns / longest * 60.0).round() as usize).max(1));
            let _ = writeln!(out, "{:<24} {bar} {:.0} ns", row.name, row.min_ns);
        }
        let _ = writeln!(out, "```");
    }

    fn refusal_table(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\n### What a refusal costs\n\nThe context is bound, the clock is read and the token is refused.\n\n| | min ns | median ns |\n|---|---|---|"
        );
        for row in &self.refusals {
            let _ = writeln!(out, "| {} | {:.0} | {:.0} |", row.name, row.min_ns, row.median_ns);
        }
        if self.effort.is_smoke {
            let _ = writeln!(out, "\nA smoke run: the times mean nothing.");
        }
    }
}

/// Puts the section into the file, in the place of the one that is there.
pub fn replace_section(path: &str, section: &str) -> Result<()> {
    let old = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let new = match (old.find(BEGIN), old.find(END)) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{section}{}", &old[..begin], &old[end + END.len()..])
        }
        _ => format!("{}\n\n{section}\n", old.trim_end()),
    };
    std::fs::write(path, new).with_context(|| format!("cannot write {path}"))
}
