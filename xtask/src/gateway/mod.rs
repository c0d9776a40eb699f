//! Published servers of the Model Context Protocol behind the gateway, driven by published clients,
//! and compared on the wire.
//!
//! A client goes through a plan (`interop/gateway/plans/`), once direct and once more, then through
//! `handback wrap`, with a recorder on either side of it, and once more with the newest revision that
//! the gateway speaks. Where a server knows HTTP, the same through `handback serve --upstream`. Direct
//! is compared with direct first: what differs there is the server's doing. Everything that is the
//! same counts as one check.

mod compare;
mod recording;
mod site;

use std::fs;

use anyhow::{Context, Result};

use self::compare::{Step, Verdict};
use self::site::{Handshake, Programs, Published, Site};
use crate::mcp;
use crate::process::Shell;
use crate::readme;
use crate::report::Tally;
use crate::scratch::Scratch;
use crate::sdk::{self, Sdk};
use crate::tools::SDK_VENV;

/// Where the servers, the plans and the scripts of the clients are.
pub(crate) const NPM_PACKAGE: &str = "interop/gateway";

const RECORDER: &str = "mcp-recorder";

/// The script of the TypeScript client, and what it is called among the packages that it imports.
const NPM_SCRIPT: &str = "client.js";
const NPM_SCRIPT_COPY: &str = "gateway-client.js";

const PYTHON_SCRIPT: &str = "client.py";

/// How much of two sides that differ is shown.
const SHOWN_MAX: usize = 400;

const SERVERS: [Published; 3] = [
    Published { name: "everything", args: &["stdio"], http: Some("streamableHttp") },
    Published { name: "filesystem", args: &["{folder}"], http: None },
    Published { name: "memory", args: &[], http: None },
];

/// Compares all servers as these clients see them.
pub(crate) fn check(shell: &Shell, clients: &[Sdk], tally: &mut Tally) -> Result<()> {
    let (recorder, handback) = (mcp::build(shell, RECORDER)?, readme::build(shell)?);
    for &sdk in clients {
        let (handback, recorder) = (handback.clone(), recorder.clone());
        let programs = Programs { handback, recorder, client: client(shell, sdk)? };
        for server in SERVERS {
            let label = format!("gateway: {}: {}", server.name, sdk.name());
            let scratch = Scratch::new(&format!("gateway-{}", server.name))?;
            let site = Site { shell, programs: &programs, server, scratch: &scratch };
            let mut own = Tally::default();
            if let Err(error) = compare(&site, &label, &mut own) {
                own.error(&label, &error);
            }
            println!("{label}: {own}");
            tally.add(own);
        }
    }
    Ok(())
}

/// The program that runs a client's script, and the script.
fn client(shell: &Shell, sdk: Sdk) -> Result<Vec<String>> {
    let folder = shell.config.root.join(NPM_PACKAGE);
    let words = match sdk {
        Sdk::Python => {
            let python = shell.config.venv_python(SDK_VENV.folder);
            // It warns of what the newest revision does not have any more.
            vec![python, "-W".into(), "ignore".into(), folder.join(PYTHON_SCRIPT)]
        }
        Sdk::TypeScript => {
            // Next to what it imports.
            let dir = shell.config.npm(sdk::NPM_PACKAGE);
            let script = dir.join(NPM_SCRIPT_COPY);
            fs::copy(folder.join(NPM_SCRIPT), &script)
                .with_context(|| format!("failed to copy {NPM_SCRIPT}"))?;
            vec![mcp::node(&dir)?, script]
        }
    };
    Ok(words.iter().map(|word| word.display().to_string()).collect())
}

/// All comparisons of one server with one client.
fn compare(site: &Site<'_>, label: &str, tally: &mut Tally) -> Result<()> {
    let plan = fs::read_to_string(site.plan()).context("failed to read the plan")?;
    let plan: Vec<Step> = serde_json::from_str(&plan).context("failed to read the plan")?;
    let mut count = |what: &str, verdict| count(tally, &format!("{label}: {what}"), verdict);
    let first = site.direct("first")?;
    count("direct", compare::direct(&plan, &first, &site.direct("second")?));
    let [front, back] = site.wrapped("wrap", Handshake::Legacy)?;
    count("wrap", compare::through(&plan, &first, &front));
    count("wrap, both sides", compare::hop(&front, &back));
    let [front, back] = site.wrapped("newer", Handshake::Auto)?;
    count("wrap, newer client", compare::hop_to_older(&front, &back));
    if let Some(argument) = site.server.http {
        let first = site.direct_http("http-first", argument)?;
        let second = site.direct_http("http-second", argument)?;
        count("direct, HTTP", compare::direct(&plan, &first, &second));
        let [front, back] = site.served("serve", argument)?;
        count("serve", compare::through(&plan, &first, &front));
        count("serve, both sides", compare::hop(&front, &back));
    }
    Ok(())
}

fn count(tally: &mut Tally, label: &str, verdict: Verdict) {
    for _ in 0..verdict.same {
        tally.pass();
    }
    for finding in verdict.findings {
        let sides = finding.sides.iter().map(|side| from_difference(side, &finding.sides));
        tally.fail(format!("{label}: {}", shortened(&finding.what)), sides.collect());
    }
}

/// A side from shortly before the place where the two differ.
fn from_difference(side: &str, sides: &[String; 2]) -> String {
    const BEFORE: usize = 40;
    let [first, second] = sides;
    let same = first.chars().zip(second.chars()).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(BEFORE);
    let shown: String = side.chars().skip(from).take(SHOWN_MAX).collect();
    format!("from character {from}: {shown}")
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_server_has_a_plan_that_says_why_answers_vary() {
        let root = Config::from_environment().unwrap().root;
        for server in SERVERS {
            let plan = root.join(NPM_PACKAGE).join(format!("plans/{}.json", server.name));
            let plan: Vec<Step> = serde_json::from_str(&fs::read_to_string(plan).unwrap()).unwrap();
            let varying = plan.iter().filter_map(|step| step.varies.as_deref());
            assert!(varying.clone().all(|why| !why.is_empty()));
            assert!(varying.count() * 4 < plan.len(), "{}: most is to be compared", server.name);
        }
    }

    #[test]
    fn shows_the_place_where_two_sides_differ() {
        let sides = [format!("{}a", "x".repeat(1000)), format!("{}b", "x".repeat(1000))];
        let shown = from_difference(&sides[1], &sides);
        assert_eq!(shown, format!("from character 960: {}b", "x".repeat(40)));
    }
}
