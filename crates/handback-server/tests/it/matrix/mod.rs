//! The attack matrix: whoever presents a continuation that is not theirs, not for this, or not good
//! any more, gets one of two answers (of handles: of three), to the byte; the audit knows why; and
//! the one whose it is does not notice.

mod edits;
mod present;
mod table;
mod tools;
pub(crate) mod wire;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};

use handback_token::TokenFingerprint;
use serde_json::{Value, json};

use self::present::{At, How, Minted, Seen};
use self::table::{Cell, Expected, Table};
use self::wire::Http;
use self::world::{People, Site, Start, Who, World};

/// Sealed tokens have ended, sessions have not.
const SOON_MS: i64 = 20 * 60 * 1000;

/// Everything has ended.
const LATE_MS: i64 = 2 * 60 * 60 * 1000;

/// Cells that are run.
const CELLS: usize = 215;

#[test]
fn nobody_else_and_nothing_else_and_not_again() {
    let (table, people, ring) = (Table::read(), People::new(), Site::ring());
    let site = Site::new(&ring, "one", &people);
    let other = Site::new(&ring, "other", &people);
    let mut run =
        Run { table: &table, people: &people, done: BTreeSet::new(), told: BTreeMap::new() };

    let world = site.start(Start::default());
    let elsewhere = other.start(Start::default());
    let baselines = run.own(&world);
    run.at_once(&world, &elsewhere, &baselines);
    run.revoked(&world, &baselines);
    run.strangers(&world);
    elsewhere.stop();

    let minted = run.minted(&world, "anonymous");
    world.stop();
    let world = site.start(Start { is_anonymous: true, ..Start::default() });
    for (cell, minted) in &minted {
        run.attack(&world, *cell, &[How::own(minted).by(Who::Anonymous)]);
    }
    world.stop();
    let world = site.start(Start::default());
    for (cell, minted) in &minted {
        run.untouched(&world, *cell, minted, &baselines);
    }

    let minted = run.minted(&world, "expired");
    world.stop();
    for (ahead_ms, late) in [(SOON_MS, false), (LATE_MS, true)] {
        let world = site.start(Start { ahead_ms, ..Start::default() });
        for (cell, minted) in &minted {
            if ["handle", "task", "session"].contains(&cell.kind) == late {
                run.attack(&world, *cell, &[How::own(minted)]);
            }
        }
        world.stop();
    }

    let wanted: BTreeSet<_> = table.to_run().collect();
    assert_eq!(wanted.len(), CELLS, "a cell that is not applicable any more says so here, too");
    let missed: Vec<_> = wanted.difference(&run.done).collect();
    assert!(missed.is_empty(), "nobody ran {missed:?}");
    assert_eq!(run.done, wanted);
}

/// What every continuation gives who may have it.
type Baselines = BTreeMap<(&'static str, &'static str), Value>;

struct Run<'a> {
    table: &'a Table,
    people: &'a People,
    done: BTreeSet<Cell>,
    /// What was told of one kind of continuation on one surface, by outcome.
    told: BTreeMap<(&'static str, &'static str, &'static str), String>,
}

impl Run<'_> {
    fn at<'w>(&'w self, world: &'w World, surface: &'static str) -> At<'w> {
        At { world, people: self.people, surface }
    }

    fn cells(&self, attack: &str) -> Vec<Cell> {
        self.table.to_run().filter(|cell| cell.attack == attack).collect()
    }

    /// Whoever it was handed out to uses it, once and once more.
    fn own(&mut self, world: &World) -> Baselines {
        let mut baselines = Baselines::new();
        for cell in self.cells("own") {
            let at = self.at(world, cell.surface);
            let minted = self.at(world, made_at(cell)).mint(cell.kind, Who::Alice);
            let first = at.present(cell.kind, &How::own(&minted));
            let second = at.present(cell.kind, &How::own(&minted));
            for (seen, attack) in [(&first, "own"), (&second, "own_again")] {
                let cell = Cell { attack, ..cell };
                assert_eq!(self.table.expected(cell), &Expected::Works, "{cell:?}");
                assert_eq!(seen.outcome, "works", "{cell:?}: {seen:?}");
                assert_eq!(seen.result, first.result, "{cell:?}");
                self.done.insert(cell);
            }
            let is_kept = cell.kind == "request_state";
            assert_eq!((first.is_replay, second.is_replay), (false, is_kept), "{cell:?}");
            baselines.insert((cell.kind, cell.surface), first.result);
        }
        baselines
    }

    /// The attacks for which nothing has to happen first.
    fn at_once(&mut self, world: &World, elsewhere: &World, baselines: &Baselines) {
        for attack in ["other_person", "other_tool", "other_arguments", "edited"] {
            for cell in self.cells(attack) {
                let minted = self.at(world, made_at(cell)).mint(cell.kind, Who::Alice);
                let edited = edited(cell, &minted);
                let own = How::own(&minted);
                let how = match attack {
                    "other_person" => vec![own.by(Who::Bob)],
                    "other_tool" => vec![How { other_tool: true, ..own }],
                    "other_arguments" => vec![How { other_arguments: true, ..own }],
                    _ => edited.iter().map(How::own).collect(),
                };
                self.attack(world, cell, &how);
                self.untouched(world, cell, &minted, baselines);
            }
        }
        for cell in self.cells("other_audience") {
            let mut minted = self.at(elsewhere, made_at(cell)).mint(cell.kind, Who::Alice);
            let own = self.at(world, made_at(cell)).mint(cell.kind, Who::Alice);
            minted.of.clone_from(&own.of);
            self.attack(world, cell, &[How::own(&minted)]);
            self.untouched(world, cell, &own, baselines);
        }
        for cell in self.cells("replayed") {
            let minted = self.at(world, made_at(cell)).mint(cell.kind, Who::Alice);
            let used = self.used(world, cell, &minted);
            self.attack(world, cell, &[How { other_answers: true, ..How::own(&minted) }]);
            let seen = self.at(world, cell.surface).present(cell.kind, &How::own(&used));
            assert_eq!(seen.outcome, "works", "{cell:?}: {seen:?}");
            assert_eq!(seen.result, baselines[&(cell.kind, cell.surface)], "{cell:?}");
        }
    }

    /// Uses what may be used once; gives what is good afterwards.
    fn used(&self, world: &World, cell: Cell, minted: &Minted) -> Minted {
        let at = self.at(world, cell.surface);
        let mut minted = minted.clone();
        for _ in 0..2 {
            let seen = at.present(cell.kind, &How::own(&minted));
            assert_eq!(seen.outcome, "works", "{cell:?}: {seen:?}");
            if let Some(next) = seen.next {
                minted.text = next;
            }
        }
        minted
    }

    /// An operator takes back what was handed out, and gives it again: a session by its id, ids of
    /// events by the key that they are sealed with, everything else by a cut-off.
    fn revoked(&mut self, world: &World, baselines: &Baselines) {
        let minted = self.minted(world, "revoked");
        // Sessions end with the cut-off, too.
        let begun = world.sessions.take();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let before = json!({"before_ms": world.now_ms()});
        let (one_by_one, at_once): (Vec<_>, Vec<_>) =
            minted.into_iter().partition(|(cell, _)| ["session", "event_id"].contains(&cell.kind));
        let number = self.revoke(world, &before);
        for (cell, minted) in &at_once {
            self.attack(world, *cell, &[How::own(minted)]);
        }
        self.lift(world, number);
        world.sessions.replace(begun);
        for (cell, minted) in &at_once {
            self.untouched(world, *cell, minted, baselines);
        }
        for (cell, minted) in &one_by_one {
            let number = self.revoke(
                world,
                &match cell.kind {
                    "session" => json!({"session": minted.text}),
                    _ => json!({"key": 0}),
                },
            );
            self.attack(world, *cell, &[How::own(minted)]);
            self.lift(world, number);
            self.untouched(world, *cell, minted, baselines);
        }
    }

    fn revoke(&self, world: &World, what: &Value) -> u64 {
        let answer = self.operate(world, "POST /v1/revocations", &what.to_string());
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["number"].as_u64().unwrap()
    }

    fn lift(&self, world: &World, number: u64) {
        let answer = self.operate(world, &format!("DELETE /v1/revocations/{number}"), "");
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    fn operate(&self, world: &World, line: &str, body: &str) -> Http {
        let bearer = self.people.bearer(Who::Operator);
        wire::http(world, line, &[("authorization", bearer.as_deref())], body)
    }

    /// Where callers are identified, who is not gets no further, whatever they present.
    fn strangers(&self, world: &World) {
        let mut told: BTreeMap<_, String> = BTreeMap::new();
        for cell in self.cells("own").into_iter().filter(|cell| cell.surface == "http") {
            let at = self.at(world, cell.surface);
            let minted = at.mint(cell.kind, Who::Alice);
            let seen = at.present(cell.kind, &How::own(&minted).by(Who::Anonymous));
            assert!(seen.raw.starts_with("HTTP/1.1 401 "), "{cell:?}: {seen:?}");
            assert_eq!(told.entry(cell.surface).or_insert_with(|| seen.raw.clone()), &seen.raw);
        }
    }

    fn minted(&self, world: &World, attack: &str) -> Vec<(Cell, Minted)> {
        let mint = |cell: Cell| (cell, self.at(world, made_at(cell)).mint(cell.kind, Who::Alice));
        self.cells(attack).into_iter().map(mint).collect()
    }

    /// Presents something in some ways, which all have the outcome that the cell has.
    fn attack(&mut self, world: &World, cell: Cell, ways: &[How<'_>]) {
        assert!(!ways.is_empty(), "{cell:?}");
        for how in ways.iter().take(1) {
            if cell.surface == "mcp_2025_11_25" {
                // What this leaves behind is the attacker's.
                self.at(world, cell.surface).session(how.who);
            }
        }
        let rows = (!makes_rows(cell)).then(|| world.rows());
        for how in ways {
            let len = world.audit_len();
            let seen = self.at(world, cell.surface).present(cell.kind, how);
            match self.table.expected(cell) {
                Expected::Works => assert_eq!(seen.outcome, "works", "{cell:?}: {seen:?}"),
                Expected::NotApplicable => panic!("{cell:?} is run"),
                Expected::Refused { outcome, audit } => {
                    assert_eq!(seen.outcome, outcome, "{cell:?}: {how:?} {seen:?}");
                    self.check_told(cell, &seen);
                    check_audit(cell, how, audit, &world.audit_since(len));
                }
            }
        }
        if let Some(rows) = rows {
            let after = world.rows();
            let both = rows.iter().chain(&after);
            let is_new = |row: &&_| !rows.contains(row) || !after.contains(row);
            let changed: Vec<_> = both.filter(is_new).collect();
            assert!(changed.is_empty(), "{cell:?} changed {changed:?}");
        }
        self.done.insert(cell);
    }

    /// Refusals of one kind are equal, whatever the attack was.
    fn check_told(&mut self, cell: Cell, seen: &Seen) {
        let kind = (cell.kind, cell.surface, seen.outcome);
        let told = self.told.entry(kind).or_insert_with(|| seen.raw.clone());
        assert_eq!(told, &seen.raw, "{cell:?} is told apart");
        assert!(!seen.raw.is_empty(), "{cell:?}");
    }

    /// After an attack, whose it is can use it as ever.
    fn untouched(&self, world: &World, cell: Cell, minted: &Minted, baselines: &Baselines) {
        let surface = made_at(cell);
        let seen = self.at(world, surface).present(cell.kind, &How::own(minted));
        assert_eq!(seen.outcome, "works", "after {cell:?}: {seen:?}");
        assert_eq!(seen.result, baselines[&(cell.kind, surface)], "after {cell:?}");
        assert!(!seen.is_replay, "{cell:?} used it up");
    }
}

/// Where the victim of an attack has it from. The socket has one peer, who tries what another person
/// got elsewhere; the list of plain HTTP has no other list beside it; and clients of the old era are
/// not given state, but may bring it, as well as tasks.
fn made_at(cell: Cell) -> &'static str {
    match (cell.kind, cell.surface, cell.attack) {
        (_, "socket", "other_person") => "http",
        ("list_cursor", "http", "other_tool") => "mcp_2026_07_28",
        ("request_state" | "task", "mcp_2025_11_25", _) => "mcp_2026_07_28",
        _ => cell.surface,
    }
}

/// Whether something of the attacker's own changes on the way: a session begins, or is used.
fn makes_rows(cell: Cell) -> bool {
    matches!((cell.kind, cell.attack), ("event_id", "other_arguments" | "expired"))
}

fn edited(cell: Cell, minted: &Minted) -> Vec<Minted> {
    let texts = match cell.kind {
        _ if cell.attack != "edited" => Vec::new(),
        "handle" => edits::of_handle(&minted.text),
        // A frame with a longer one is no frame.
        "resume_token" => {
            edits::of(&minted.text).into_iter().filter(|text| text.len() <= 512).collect()
        }
        _ => edits::of(&minted.text),
    };
    texts.into_iter().map(|text| Minted { text, of: minted.of.clone() }).collect()
}

/// The exact reason is written down, with who it was and a fingerprint of what was presented.
fn check_audit(cell: Cell, how: &How<'_>, reasons: &[String], lines: &[Value]) {
    let surface = match cell.surface {
        "mcp_2026_07_28" | "mcp_2025_11_25" => "mcp",
        other => other,
    };
    let subject = match how.who {
        _ if surface == "socket" => Some(rustix::process::getuid().as_raw().to_string()),
        Who::Alice => Some("alice".to_owned()),
        Who::Bob => Some("bob".to_owned()),
        Who::Operator | Who::Anonymous => None,
    };
    let text = &how.minted.text;
    let has_print = text.len() <= 512;
    let presented = has_print.then(|| TokenFingerprint::of(text).to_string());
    let is_it = |line: &&Value| {
        line["reason"].as_str().is_some_and(|reason| reasons.iter().any(|known| known == reason))
            && line["surface"] == surface
            && line["subject"].as_str() == subject.as_deref()
            && (presented.is_none() || line["presented"].as_str() == presented.as_deref())
    };
    assert!(lines.iter().any(|line| is_it(&line)), "{cell:?}: {reasons:?} is not in {lines:#?}");
    let written = lines.iter().map(Value::to_string).collect::<String>();
    // Less is a part of anything.
    assert!(text.len() < 20 || !written.contains(text), "{cell:?} is in the audit itself");
}
