//! `handback.toml`: found, checked, and outweighed.

use crate::streams::server::Server;
use crate::support::Sandbox;

#[test]
fn the_default_file_is_good_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let text = sandbox.ok("config default");
    sandbox.write("handback.toml", &text);
    let checked = sandbox.json("config check handback.toml");
    assert_eq!(checked, sandbox.json("config check"));
    assert_eq!(checked["listen"], "127.0.0.1:8420");
    assert_eq!(checked["limits"]["connections"], 10_000);
}

#[test]
fn what_is_printed_is_a_file_of_the_same_meaning() {
    let sandbox = Sandbox::new();
    sandbox.write("a.toml", "listen = \"127.0.0.1:9\"\n[collections]\nx = \"csv:x.csv\"\n");
    let shown = sandbox.ok("config check a.toml");
    sandbox.write("b.toml", &shown);
    assert_eq!(sandbox.ok("config check b.toml"), shown);
}

#[test]
fn flags_outweigh_the_environment_and_that_the_file() {
    let sandbox = Sandbox::with_ring().set("HANDBACK_CONFIG", "handback.toml");
    sandbox.write("handback.toml", "listen = \"127.0.0.1:1\"\ndata = \"from-file\"\n");
    assert_eq!(sandbox.json("config check")["listen"], "127.0.0.1:1");
    let sandbox = sandbox.set("HANDBACK_LISTEN", "127.0.0.1:2").set("HANDBACK_DATA", "from-env");
    let checked = sandbox.json("config check");
    assert_eq!((&checked["listen"], &checked["data"]), (&"127.0.0.1:2".into(), &"from-env".into()));
    let server = Server::start(&sandbox, &sandbox.path("from-flag"));
    assert_ne!(server.address.port(), 2);
    assert!(sandbox.path("from-flag/store").exists());
    assert!(!sandbox.path("from-file").exists() && !sandbox.path("from-env/store").exists());
}

#[test]
fn a_file_in_the_data_directory_is_found() {
    let sandbox = Sandbox::with_ring();
    sandbox.write(".local/share/handback/handback.toml", "long_poll_ms = 7\n");
    assert_eq!(sandbox.json("config check")["long_poll_ms"], 7);
}

#[test]
fn a_server_does_not_start_on_a_file_that_is_wrong() {
    let sandbox = Sandbox::with_ring();
    for (text, said) in [
        ("lisen = \"127.0.0.1:1\"", "perhaps listen was meant"),
        ("listen = \"0.0.0.0:0\"", "loopback addresses only"),
        ("[identity]\nmode = \"static\"", "identity.static.file"),
        ("[tls]\ncertificate = \"c.pem\"", "tls.key"),
        ("[collections]\nx = \"postgres://u:hunter2@h/d\"", "a database is followed by #"),
        ("x = ", "line 1"),
    ] {
        sandbox.write("wrong.toml", text);
        for line in ["serve --config wrong.toml", "config check wrong.toml"] {
            let ran = sandbox.run(line).expect_code(1);
            assert!(ran.stderr.contains(said), "{text}: {}", ran.stderr);
            assert!(!ran.all().contains("hunter2"));
        }
    }
    sandbox.run("serve --config none.toml").expect_code(1);
}

#[test]
fn passwords_are_not_printed() {
    let sandbox = Sandbox::new();
    sandbox.write("a.toml", "[collections]\nx = \"postgres://u:hunter2@h/d#t\"\n");
    for line in ["config check a.toml", "config check a.toml --output json"] {
        let ran = sandbox.run(line).expect_code(0);
        assert!(!ran.all().contains("hunter2") && ran.stdout.contains("#t"), "{ran:?}");
    }
}
