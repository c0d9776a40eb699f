//! Crashes at every step of a commit, by seed: what was told is there, and is there once.

use std::collections::BTreeMap;

use handback_stream::{Command, Refusal, Reply};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::disk::{Server, append, by, name};

/// Someone who appends numbers, one after the other, and sends one again until it is told that it
/// is there.
#[derive(Clone, Debug, Default)]
struct Client {
    epoch: u64,
    seq: u64,
    /// What it was told is there.
    acked: Vec<String>,
    /// What it counts.
    next: u64,
}

impl Client {
    fn text(&self, id: usize) -> String {
        format!("{id}:{}", self.next)
    }
}

#[test]
fn what_was_acknowledged_is_there_once_whenever_the_server_dies() {
    for seed in 0..300 {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut server = Server::new();
    server.create("s");
    server.create("t");
    let mut clients = vec![Client::default(); 3];
    for _ in 0..120 {
        let mut sent = Vec::new();
        for _ in 0..rng.random_range(0..5) {
            let id = rng.random_range(0..clients.len());
            // One that is not told yet is sent again as it was.
            let client = &clients[id];
            let content = client.text(id);
            let tag = by(&format!("p{id}"), client.epoch, client.seq);
            let path = ["s", "t", "s"][id];
            let command = Command::Append(append(path, &content).producer(tag));
            server.hub.submit(0, command, server.now);
            sent.push(id);
        }
        server.now += 1;
        match rng.random_range(0..10) {
            // Dies before anything is written.
            0 => server.restart(),
            // Dies with everything written and nothing told.
            1 => {
                if let Some(write) = server.hub.take_write(server.now) {
                    server.disk.write(write);
                }
                server.restart();
            }
            // Tells some, and dies: the others never learn of it.
            2 => {
                let replies = server.commit();
                let told = rng.random_range(0..=replies.len());
                hear(&mut clients, &sent, replies.into_iter().take(told));
                server.restart();
            }
            _ => {
                let replies = server.commit();
                hear(&mut clients, &sent, replies.into_iter());
            }
        }
        // At times a client starts anew with another epoch, having asked what is there.
        if rng.random_range(0..20) == 0 {
            let id = rng.random_range(0..clients.len());
            let path = ["s", "t", "s"][id];
            let there = server.disk.data(server.id(path));
            let client = &mut clients[id];
            if there.contains(&client.text(id)) {
                client.acked.push(client.text(id));
                client.next += 1;
            }
            client.epoch += 1;
            client.seq = 0;
        }
        check(&server, &clients, seed);
    }
}

fn hear(clients: &mut [Client], sent: &[usize], replies: impl Iterator<Item = Reply>) {
    // The first reply to a client in a round is about what it sent; the rest are about retries.
    let mut first = BTreeMap::new();
    for (id, reply) in sent.iter().zip(replies) {
        match reply {
            Reply::Appended(_) => {
                first.entry(*id).or_insert(());
            }
            // The epoch was never heard of, and did not start with 0: cannot happen here.
            Reply::Refused(refusal @ (Refusal::Gap { .. } | Refusal::StaleEpoch { .. })) => {
                panic!("{refusal:?}")
            }
            other => panic!("{other:?}"),
        }
    }
    for id in first.into_keys() {
        let client = &mut clients[id];
        client.acked.push(client.text(id));
        client.next += 1;
        client.seq += 1;
    }
}

fn check(server: &Server, clients: &[Client], seed: u64) {
    for path in ["s", "t"] {
        let there = server.disk.data(server.id(path));
        for (id, client) in clients.iter().enumerate() {
            if ["s", "t", "s"][id] != path {
                continue;
            }
            let mine: Vec<_> =
                there.iter().filter(|text| text.starts_with(&format!("{id}:"))).collect();
            let upto = mine.len();
            let expected: Vec<_> = (0..upto).map(|number| format!("{id}:{number}")).collect();
            assert_eq!(mine, expected.iter().collect::<Vec<_>>(), "seed {seed}");
            assert!(upto >= client.acked.len(), "seed {seed}: an acknowledged append is lost");
            assert!(upto <= client.acked.len() + 1, "seed {seed}");
        }
    }
}

#[test]
fn what_is_seen_is_never_taken_back() {
    for seed in 0..100 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut server = Server::new();
        server.create("s");
        let mut seen = 0;
        for number in 0..100 {
            let command = Command::Append(append("s", &number.to_string()));
            server.hub.submit(0, command, server.now);
            match rng.random_range(0..4) {
                0 => server.restart(),
                1 => {
                    let _ = server.hub.take_write(server.now);
                    server.restart();
                }
                2 => {
                    if let Some(write) = server.hub.take_write(server.now) {
                        server.disk.write(write);
                    }
                    server.restart();
                }
                _ => {
                    server.commit();
                }
            }
            let number = server.views[&name("s").id()].number;
            assert!(number >= seen, "seed {seed}");
            seen = number;
        }
    }
}
