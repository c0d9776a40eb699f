//! The list of an issue tracker: an array, newest first, with long bodies.

use serde::{Deserialize, Serialize};

use super::time;
use crate::prose::Prose;
use crate::random::Random;

/// How many there are: about 2 MB.
const COUNT: u64 = 1_400;

/// The number of the oldest one.
const FIRST_NUMBER: u64 = 17_001;

/// When the oldest one was opened: 2025-06-02.
const START_S: i64 = 1_748_822_400;

/// Seconds between two of them, on average.
const PACE_S: u64 = 20_000;

/// An issue that is not closed was touched last within so many seconds after it was opened.
const QUIET_S: u64 = 200 * 86_400;

/// The one with an error code that no other one has.
const CODED: u64 = 17_846;

/// The one of somebody who paid double, told in other words.
const DOUBLE: u64 = 17_393;

/// What tells it from all others to somebody who understands it.
pub(crate) const PAID_DOUBLE: &str = "the card was billed two times for a single renewal";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Issue {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) state: String,
    pub(crate) labels: Vec<String>,
    pub(crate) user: User,
    pub(crate) assignee: Option<User>,
    pub(crate) milestone: Option<String>,
    pub(crate) comments: u64,
    pub(crate) reactions: u64,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) closed_at: Option<String>,
    pub(crate) html_url: String,
    pub(crate) body: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) login: String,
    pub(crate) id: u64,
    pub(crate) html_url: String,
}

/// All of them.
pub(crate) fn all() -> Vec<Issue> {
    let mut random = Random::new(0x1551);
    let mut opened = START_S;
    let mut issues: Vec<_> = (0..COUNT)
        .map(|place| {
            opened = opened.saturating_add_unsigned(random.between(60, 2 * PACE_S));
            issue(FIRST_NUMBER + place, opened, &mut random)
        })
        .collect();
    issues.reverse();
    issues
}

/// What the tool gives.
pub(crate) fn text() -> String {
    serde_json::to_string(&all()).unwrap_or_default()
}

fn issue(number: u64, opened: i64, random: &mut Random) -> Issue {
    let is_open = random.chance(38);
    let touched = opened.saturating_add_unsigned(random.low(QUIET_S));
    let assignee = random.chance(70).then(|| user(random.pick(ASSIGNEES)));
    Issue {
        number,
        title: PROSE.fill(random.pick(TITLES), random),
        state: if is_open { "open" } else { "closed" }.to_owned(),
        labels: labels(random),
        user: user(&format!("{}{}", random.pick(REPORTERS), random.below(60))),
        assignee,
        milestone: random.chance(45).then(|| random.pick(MILESTONES).to_owned()),
        comments: random.low(64),
        reactions: random.low(30),
        created_at: time(opened),
        updated_at: time(touched),
        closed_at: (!is_open).then(|| time(touched)),
        html_url: format!("https://tracker.example/harbour/desk/issues/{number}"),
        body: body(number, random),
    }
}

fn user(login: &str) -> User {
    let id = login.bytes().fold(7, |id: u64, byte| id * 31 % 1_000_003 + u64::from(byte));
    User { login: login.to_owned(), id, html_url: format!("https://tracker.example/{login}") }
}

fn labels(random: &mut Random) -> Vec<String> {
    let mut labels: Vec<_> =
        (0..random.between(0, 3)).map(|_| random.pick(LABELS).to_owned()).collect();
    labels.sort();
    labels.dedup();
    labels
}

fn body(number: u64, random: &mut Random) -> String {
    let mut parts = vec![PROSE.paragraph(random.between(2, 5), random)];
    if number == DOUBLE {
        parts.push(format!(
            "My aunt called today: {PAID_DOUBLE}, and the second amount did not come back since. \
             She wants to hear from somebody."
        ));
    }
    let steps = (1..=random.between(2, 5)).map(|n| format!("{n}. {}", PROSE.sentence(random)));
    parts.push(format!("### Steps\n\n{}", steps.collect::<Vec<_>>().join("\n")));
    if random.chance(60) {
        let code = if number == CODED { 7731 } else { random.between(1000, 6999) };
        parts.push(format!("### Log\n\n```\n{}\n```", trace(code, random)));
    } else if number == CODED {
        parts.push("The window shows E-7731 and closes.".to_owned());
    }
    parts.push(PROSE.paragraph(random.between(1, 4), random));
    parts.join("\n\n")
}

fn trace(code: u64, random: &mut Random) -> String {
    let mut lines = vec![PROSE.fill("error: E-", random) + &code.to_string()];
    let frame = "   at {component}::{action} ({file}:{#})";
    lines.extend((0..random.between(3, 9)).map(|_| PROSE.fill(frame, random)));
    lines.join("\n")
}

const ASSIGNEES: &[&str] = &[
    "amara-k",
    "bjorn",
    "chidi-o",
    "dlopez",
    "elif",
    "fionn",
    "gitta",
    "hiroko",
    "ines",
    "jovana",
    "kwame",
    "lindqvist",
    "mehmet",
    "nadia-p",
];

const REPORTERS: &[&str] = &["user", "ops", "dev", "qa", "acct", "night", "hello", "tess", "rob"];

const LABELS: &[&str] = &[
    "bug",
    "regression",
    "performance",
    "docs",
    "question",
    "ui",
    "api",
    "sync",
    "security",
    "good first issue",
    "wontfix",
    "needs info",
    "billing",
    "windows",
    "linux",
    "macos",
];

const MILESTONES: &[&str] = &["2025.3", "2025.4", "2026.1", "2026.2", "2026.3"];

const TITLES: &[&str] = &[
    "{component} {fault} after update to {version}",
    "{component}: {action} {fault}",
    "{fault} when I {do} in {component}",
    "{component} should let me {do}",
    "Cannot {do} on {system}",
    "{action} in {component} is slow with {#} rows",
    "Please document how to {do}",
    "{component} {fault} on {system} {version}",
];

const PROSE: Prose = Prose {
    sentences: &[
        "After the update to {version} the {component} {fault} as soon as I {do}.",
        "I expected that the {component} would {do} without asking.",
        "This happens on {system} with version {version}, and not before.",
        "If I {do} twice, the {component} {fault} every time.",
        "The battery was charged and the network was fine, so that is not it.",
        "We {do} about {#} times a day, so this is a real problem for the team.",
        "With {#} rows in the table the {action} takes {#} ms; with ten rows it is at once.",
        "The log has `{component}.{action}` {#} times within a second.",
        "A colleague on {system} sees the same, but only in the {component}.",
        "I have looked into {file} and the {action} seems to ignore the setting.",
        "Turning the {component} off and on again helps for about {#} minutes.",
        "The documentation says that {action} is done once, but it is done for every row.",
        "It may be related to the change of the {component} in {version}.",
        "Our payload has {#} members and is sent again after a time-out.",
        "Please tell me if there is a setting for that, or whether we should {do} instead.",
        "Before {version} the {action} was kept in {file}; now it is gone after a restart.",
        "The invoice view of the {component} shows double lines in the header on {system}.",
        "Nothing is written to {file} while the {component} {fault}.",
        "There is a workaround: {do}, then open the {component} again.",
        "I can give access to a test account with {#} entries if that helps.",
        "The {component} asks for the card of the contact twice when I {do}.",
        "Memory goes up by {#} MB for each {action} and never comes down.",
    ],
    gaps: &[
        (
            "component",
            &[
                "calendar",
                "importer",
                "exporter",
                "search",
                "editor",
                "scheduler",
                "mailer",
                "sync",
                "invoice view",
                "report builder",
                "login page",
                "attachments",
                "webhooks",
                "audit log",
                "mobile app",
                "dashboard",
                "contact list",
                "print preview",
                "archive",
            ],
        ),
        (
            "action",
            &[
                "refresh", "save", "merge", "parse", "render", "upload", "retry", "validate",
                "index", "load", "flush", "rename", "restore", "filter", "sort",
            ],
        ),
        (
            "fault",
            &[
                "crashes",
                "hangs",
                "loses the last entry",
                "shows an empty page",
                "is very slow",
                "ignores the time zone",
                "fails with an error",
                "duplicates rows",
                "flickers",
                "forgets its settings",
                "does not respond",
                "shows the wrong total",
            ],
        ),
        (
            "do",
            &[
                "open a large file",
                "drag an entry",
                "change the language",
                "log out",
                "undo",
                "select all rows",
                "paste from a table",
                "switch the account",
                "scroll quickly",
                "close the window",
                "attach a picture",
                "share a view",
                "add a second user",
                "print to PDF",
                "filter by owner",
            ],
        ),
        (
            "system",
            &["Windows 11", "Windows Server", "Ubuntu", "Fedora", "macOS", "Android", "iOS"],
        ),
        ("version", &["4.8.0", "4.8.1", "4.9.0", "4.9.2", "5.0.0", "5.0.1", "5.1.0"]),
        (
            "file",
            &[
                "core/sync.rs",
                "ui/table.tsx",
                "jobs/queue.rs",
                "api/routes.rs",
                "ui/login.tsx",
                "core/merge.rs",
                "store/cache.rs",
                "mail/send.rs",
                "import/csv.rs",
            ],
        ),
    ],
};
