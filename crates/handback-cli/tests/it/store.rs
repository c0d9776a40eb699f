//! `handback store check`, and what a server says of a damaged data directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::streams::server::Server;
use crate::support::Sandbox;

/// A data directory with a stream in it, and the server gone.
fn stopped(sandbox: &Sandbox) -> PathBuf {
    let data = sandbox.path("data");
    let server = Server::start(sandbox, &data);
    server.create("a");
    for _ in 0..20 {
        let answer = server.ask("POST /v1/stream/a", &[("content-type", "text/plain")], b"line");
        assert_eq!(answer.status, 204);
    }
    server.kill();
    data
}

fn journal(data: &Path) -> File {
    File::options().write(true).open(data.join("store/fjall/0.jnl")).unwrap()
}

#[test]
fn wound_a6_a_server_refuses_a_cut_journal_and_says_what_to_do() {
    let sandbox = Sandbox::new();
    let data = stopped(&sandbox);
    let check = format!("store check --data {}", data.display());
    let whole = sandbox.json(&check);
    assert_eq!((&whole["is_whole"], &whole["is_proved"]), (&true.into(), &true.into()));
    assert!(sandbox.ok(&check).ends_with("The store is whole."));
    journal(&data).set_len(2_000).unwrap();
    let error = Server::try_start(&sandbox, &data).map(|_| ()).unwrap_err();
    let file = data.join("store/fjall/0.jnl").display().to_string();
    let wanted = format!("{file} was cut: it had 67108864 bytes, and has 2000");
    for part in
        [wanted.as_str(), "acknowledged writes are missing", "--accept-loss", "exit status: 1"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
    let ran = sandbox.run(&format!("{check} --output json")).expect_code(5);
    let damage = &ran.json()["damage"][0];
    assert_eq!((&damage["file"], &damage["found_bytes"]), (&file.into(), &2_000.into()));
    assert_eq!(damage["is_acceptable"], true);
    let ran = sandbox.run(&format!("{check} --accept-loss")).expect_code(0);
    assert!(ran.stdout.contains("The loss is accepted"), "{ran:?}");
    assert!(ran.stdout.contains("Revocations and redeemed tokens may be lost"), "{ran:?}");
    let losses = fs::read_to_string(data.join("store/losses.txt")).unwrap();
    assert!(losses.contains("fjall/0.jnl was cut"), "{losses}");
    let server = Server::start(&sandbox, &data);
    assert_eq!(server.ask("GET /healthz", &[], b"").status, 200);
    // A running server has the store.
    let ran = sandbox.run(&check).expect_code(1);
    assert!(ran.stderr.contains("in use by another process"), "{ran:?}");
}

#[test]
fn wound_a8_missing_files_of_the_data_directory_are_named() {
    let sandbox = Sandbox::new();
    let data = stopped(&sandbox);
    let names = [
        "keys.json",
        "wrapped/store.key",
        "wrapped/events.key",
        "wrapped/webhooks.key",
        "store/watermark",
        "store/fjall/version",
        "store/fjall/keyspaces/0/current",
        "store/fjall/keyspaces/3/current",
    ];
    for name in names {
        let (path, aside) = (data.join(name), sandbox.path("aside"));
        fs::rename(&path, &aside).unwrap();
        let error = Server::try_start(&sandbox, &data).map(|_| ()).unwrap_err();
        assert!(error.contains(&format!("{} is missing", path.display())), "{name}: {error}");
        assert!(!path.exists(), "{name} was made again");
        fs::rename(&aside, &path).unwrap();
    }
    drop(Server::start(&sandbox, &data));
}

#[test]
fn a_check_of_nothing_is_a_failure() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("store check").expect_code(1);
    assert!(ran.stderr.contains("there is no store in"), "{ran:?}");
    assert!(!sandbox.path(".local").exists());
}
