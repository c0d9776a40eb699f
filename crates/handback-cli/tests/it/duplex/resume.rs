//! Connections that follow others.

use std::sync::{Arc, Barrier};

use handback_stream::duplex::{ClientFrame, Code, Format, ServerFrame, Welcome};

use super::client::{Client, Heard, again, hello, texts};
use crate::streams::server::Server;
use crate::support::Sandbox;

fn server(sandbox: &Sandbox) -> Server {
    Server::start(sandbox, &sandbox.path("data"))
}

/// Where a connection is cut.
const CUTS: [&str; 7] =
    ["welcomed", "acknowledged", "sent", "acked", "event", "event kept", "closed"];

#[test]
fn a_connection_goes_on_wherever_the_one_before_was_cut() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for format in [Format::Json, Format::Protobuf] {
        for cut in CUTS {
            let key = format!("{format:?}-{}", cut.replace(' ', "-"));
            let (mut client, welcome) = Client::open(&server, "echo", format, hello(&key));
            let mut kept = Vec::new();
            let place = CUTS.iter().position(|known| *known == cut).unwrap();
            if place >= 1 {
                client.ack(None);
            }
            if place >= 2 {
                client.chunk(0, "0");
            }
            if place == 3 {
                client.acked(0);
            }
            if place >= 4 {
                kept = client.events(1);
            }
            if place >= 5 {
                client.ack(Some(&kept[0].0));
            }
            if place >= 6 {
                client.chunk(1, "1");
                client.say(&ClientFrame::Close);
                client.acked(1);
            }
            client.cut();
            let last = kept.last().map(|(id, _)| id.as_str());
            let hello = again(&key, &welcome.token, last);
            let (mut client, welcome) = Client::open(&server, "echo", format, hello);
            assert_eq!(welcome.event_id.as_deref(), last);
            let closed = cut == "closed";
            for seqno in welcome.next_seqno..3 {
                if !closed {
                    client.chunk(seqno, seqno.to_string());
                }
            }
            client.say(&ClientFrame::Close);
            let rest = client.rest();
            assert_eq!(rest.ends.len(), 1, "{cut}: {rest:?}");
            let all = [texts(&kept), rest.texts()].concat();
            let expected: &[&str] = if closed { &["0", "1"] } else { &["0", "1", "2"] };
            assert_eq!(all, expected, "{cut}");
        }
    }
}

#[test]
fn who_is_superseded_hears_so_and_has_no_effect() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut first, welcome) = Client::open(&server, "echo", Format::Json, hello("k"));
    first.chunk(0, "first");
    first.events(1);
    let hello = again("k", &welcome.token, None);
    let (mut second, later) = Client::open(&server, "echo", Format::Json, hello);
    assert_eq!((later.generation, later.next_seqno), (2, 1));
    for frame in [
        ClientFrame::Chunk { seqno: 1, data: "zombie".into() },
        ClientFrame::Close,
        ClientFrame::Abort,
    ] {
        let _ = first.try_say(&frame);
    }
    let rest = first.rest();
    assert_eq!((rest.errors, rest.close), (vec![Code::Superseded], Some(4403)));
    assert_eq!((rest.acks, rest.ends), (vec![], vec![]));
    second.chunk(1, "second");
    second.say(&ClientFrame::Close);
    assert_eq!(second.rest().texts(), ["first", "second"]);
    assert_eq!(server.read("__duplex/echo/k/in"), "firstsecond");
}

/// The place of a connection that is still there, after the others were told.
fn survivors(clients: Vec<(Client, Welcome)>) -> usize {
    let last = clients.iter().map(|(_, welcome)| welcome.generation).max().unwrap();
    let mut survivors = 0;
    for (mut client, welcome) in clients {
        if welcome.generation == last {
            client.chunk(welcome.next_seqno, format!("{last};"));
            client.acked(welcome.next_seqno);
            survivors += 1;
            continue;
        }
        match client.hear() {
            Heard::Frame(ServerFrame::Error { code: Code::Superseded, .. }) => {}
            Heard::Frame(ServerFrame::Event(_)) => {
                assert_eq!(client.rest().errors, [Code::Superseded]);
            }
            other => panic!("generation {} of {last}: {other:?}", welcome.generation),
        }
    }
    survivors
}

#[test]
fn a_client_may_go_on_by_headers_alone() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let open = |headers: &[(&str, &str)]| {
        let mut client = Client::connect(&server, "echo", Format::Protobuf, headers).unwrap();
        match client.frame() {
            ServerFrame::Welcome(welcome) => (client, *welcome),
            other => panic!("{other:?}"),
        }
    };
    let key = ("x-idempotency-key", "headers");
    let (mut client, _) = open(&[key]);
    // More than flow control would let through.
    for seqno in 0..100 {
        client.chunk(seqno, seqno.to_string());
    }
    let events = client.events(100);
    client.cut();
    let (mut client, welcome) = open(&[key, ("x-idempotency-event-id", &events[49].0)]);
    assert_eq!((welcome.next_seqno, welcome.generation), (100, 2));
    assert_eq!(client.events(50), events[50..]);
    client.cut();
    // Without the last event all of them come again.
    let (mut client, _) = open(&[key]);
    assert_eq!(client.events(100), events);
    client.say(&ClientFrame::Close);
    let rest = client.rest();
    assert_eq!((rest.events, rest.ends.len()), (vec![], 1));
    // The hello was said already.
    let (mut client, _) = open(&[("x-idempotency-key", "hello")]);
    client.say(&ClientFrame::Hello(hello("hello")));
    assert_eq!(client.rest().errors, [Code::Malformed]);
}

#[test]
fn event_ids_are_of_this_duplex_and_not_earlier_than_the_token_says() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let (mut client, welcome) = Client::open(&server, "echo", Format::Json, hello("k"));
    for seqno in 0..3 {
        client.chunk(seqno, seqno.to_string());
    }
    let events = client.events(3);
    client.ack(Some(&events[1].0));
    client.cut();
    // The token was made when nothing was kept.
    let first = |token: &_, event: &str| {
        let hello = again("k", token, Some(event));
        Client::try_open(&server, "echo", Format::Json, hello).map_err(|(code, _)| code)
    };
    let beyond = "0000000000000000_0000000000000099";
    for bad in [beyond, "", "7", "0000000000000000_-000000000000001", &events[0].0[1..]] {
        assert_eq!(first(&welcome.token, bad).err(), Some(Code::Invalid), "{bad}");
    }
    let (client, later) = first(&welcome.token, &events[1].0).ok().unwrap();
    client.cut();
    // This one was made when two were kept.
    assert_eq!(first(&later.token, &events[0].0).err(), Some(Code::Invalid));
    let (mut client, _) = first(&later.token, &events[2].0).ok().unwrap();
    client.say(&ClientFrame::Close);
    assert_eq!(client.rest().events, []);
}

#[test]
fn only_what_was_sent_can_be_acknowledged() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for bad in ["0000000000000000_0000000000000099", "", "7", "x"] {
        let key = format!("k{}", bad.len());
        let (mut client, _) = Client::open(&server, "echo", Format::Json, hello(&key));
        client.chunk(0, "x");
        client.events(1);
        client.ack(Some(bad));
        let rest = client.rest();
        assert_eq!((rest.errors, rest.close), (vec![Code::Invalid], Some(4400)), "{bad}");
    }
}

#[test]
fn of_many_at_once_one_is_left_and_the_others_are_told() {
    let sandbox = Sandbox::new();
    let server = Arc::new(server(&sandbox));
    for round in 0..20 {
        let key = format!("k{round}");
        let barrier = Arc::new(Barrier::new(4));
        let open = || {
            let (server, barrier, key) = (Arc::clone(&server), Arc::clone(&barrier), key.clone());
            std::thread::spawn(move || {
                let mut client = Client::connect(&server, "echo", Format::Json, &[]).unwrap();
                barrier.wait();
                client.say(&ClientFrame::Hello(hello(&key)));
                match client.frame() {
                    ServerFrame::Welcome(welcome) => (client, *welcome),
                    other => panic!("{other:?}"),
                }
            })
        };
        let threads: Vec<_> = (0..4).map(|_| open()).collect();
        let clients: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let mut generations: Vec<_> = clients.iter().map(|(_, w)| w.generation).collect();
        generations.sort_unstable();
        assert_eq!(generations, [1, 2, 3, 4], "round {round}");
        assert_eq!(survivors(clients), 1);
        assert_eq!(server.read(&format!("__duplex/echo/{key}/in")), "4;");
    }
}

#[test]
fn nothing_is_missed_when_a_handler_writes_while_a_connection_takes_over() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    for round in 0..60 {
        let key = format!("k{round}");
        let (mut first, welcome) = Client::open(&server, "echo", Format::Protobuf, hello(&key));
        for seqno in 0..8 {
            first.chunk(seqno, seqno.to_string());
        }
        first.say(&ClientFrame::Close);
        // It is not cut: its handler goes on while the next one comes.
        let hello = again(&key, &welcome.token, None);
        let (mut second, welcome) = Client::open(&server, "echo", Format::Protobuf, hello);
        for seqno in welcome.next_seqno..8 {
            let _ = second.try_say(&ClientFrame::Chunk { seqno, data: seqno.to_string().into() });
        }
        let _ = second.try_say(&ClientFrame::Close);
        let rest = second.rest();
        // Who took over in the middle may find that the first one has closed since.
        if rest.errors != [Code::Closed] {
            assert_eq!(rest.ends.len(), 1, "round {round}: {rest:?}");
            let all: Vec<_> = (0..8).map(|seqno| seqno.to_string()).collect();
            assert_eq!(rest.texts(), all, "round {round}");
        }
    }
}

#[test]
fn a_refused_event_id_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let server = server(&sandbox);
    let hello = handback_stream::duplex::Hello {
        event_id: Some("0000000000000000_0000000000000005".to_owned()),
        ..hello("new")
    };
    let refused = Client::try_open(&server, "echo", Format::Json, hello).err().unwrap();
    assert_eq!(refused.0, Code::Invalid);
    for side in ["in", "out"] {
        let line = format!("HEAD /v1/stream/__duplex/echo/new/{side}");
        assert_eq!(server.ask(&line, &[], b"").status, 404, "{side}");
    }
}
