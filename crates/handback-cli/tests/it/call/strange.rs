//! Servers that say what no server should say.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};

use crate::support::{Ran, Sandbox};

/// Clears the screen, rings, changes colours, turns the text round, deletes, and starts a line.
const STRANGE: &str = "a\u{1b}[2J\u{7}\u{9b}31m\u{202e}\u{7f}\r\nb c";

/// The same as a shell takes it.
const AS_A_WORD: &str = r"'a\u001b[2J\u0007\u009b31m\u202e\u007f  b c'";

/// What the command itself writes to terminals.
const COLOURS: [&str; 4] = ["\u{1b}[1m", "\u{1b}[1;31m", "\u{1b}[1;36m", "\u{1b}[0m"];

/// A status, the kind of its body, and the body.
type Said = (u16, &'static str, String);

fn said(body: &Value) -> Said {
    (200, "application/json", body.to_string())
}

/// An answer of MCP with this result.
fn message(result: &Value) -> Said {
    said(&json!({"jsonrpc": "2.0", "id": 1, "result": result}))
}

/// A server that says these things, one to each request; gives its address.
fn server(all: Vec<Said>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (status, kind, body) in all {
            let (mut stream, _) = listener.accept().unwrap();
            hear(&mut stream);
            let length = body.len();
            let head = format!("content-type: {kind}\r\ncontent-length: {length}");
            let answer =
                format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{head}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

/// Reads a request.
fn hear(stream: &mut TcpStream) {
    let (mut bytes, mut more) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return;
            }
        }
        let count = stream.read(&mut more).unwrap();
        assert!(count > 0, "half a request: {text}");
        bytes.extend_from_slice(&more[..count]);
    }
}

/// Runs `handback call` as on a terminal with colours, which takes all that is written to it.
fn call(url: &str, words: &str, typed: &[u8]) -> Ran {
    let sandbox = Sandbox::new().set("CLICOLOR_FORCE", "1");
    sandbox.run_with_stdin(&format!("call --url {url} {words}"), typed)
}

/// Runs it, and sees that a terminal shows all of it as it is.
#[track_caller]
fn shown(path: &str, all: Vec<Said>, words: &str, code: i32) -> Ran {
    let ran = call(&format!("{}{path}", server(all)), words, b"x\nx\nx\n").expect_code(code);
    let own = COLOURS.iter().fold(ran.all(), |text, colour| text.replace(colour, ""));
    let is_obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
    assert!(!own.contains(is_obeyed), "{words}: {own:?}");
    ran
}

#[test]
fn the_cursor_of_a_server_is_one_harmless_word() {
    let page = || said(&json!({"result": [1], "nextCursor": STRANGE}));
    let refused = || (400, "application/json", error());
    for (pages, words, code) in [
        (vec![page()], "t", 0),
        (vec![page()], "t --all --merge first-page", 0),
        (vec![page()], "t --all --max-pages 1", 1),
        (vec![page()], "t --all --max-pages 1 --merge lines", 1),
        (vec![page(), refused()], "t --all", 1),
        (vec![page(), refused()], "t --all --merge lines", 1),
    ] {
        let ran = shown("", pages, words, code);
        let wanted = format!("the same command with --cursor={AS_A_WORD}");
        assert!(ran.stderr.contains(&wanted), "{words}: {ran:?}");
    }
    let meta = json!({"dev.handback/nextCursor": STRANGE});
    let ran = shown("/mcp", vec![message(&json!({"content": [], "_meta": meta}))], "t", 0);
    assert!(ran.stderr.contains(AS_A_WORD), "{ran:?}");
}

/// A server that says these things, one to each request, and hands on the bodies that it got.
fn recorder(all: Vec<Said>) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::channel();
    thread::spawn(move || {
        for (status, kind, body) in all {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim_end().to_ascii_lowercase();
                if let Some(bytes) = line.strip_prefix("content-length: ") {
                    length = bytes.parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut got = vec![0; length];
            stream.read_exact(&mut got).unwrap();
            sender.send(serde_json::from_slice(&got).unwrap()).unwrap();
            let length = body.len();
            let head = format!("content-type: {kind}\r\ncontent-length: {length}");
            let answer =
                format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{head}\r\n\r\n{body}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, bodies)
}

#[test]
fn wound_a13_the_printed_command_answers_questions_of_any_name() {
    let names = ["sure", "-x", "--all", "a=b", "\"q\"", "it's $(touch pwned) `id`; x", STRANGE, ""];
    for state in ["s", "-s", "--all", "a b=$HOME'", STRANGE] {
        let form = json!({
            "type": "form",
            "message": "m",
            "schema": {"required": [STRANGE], "properties": {STRANGE: {"enum": [STRANGE]}}},
        });
        let mut questions: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), form.clone())).collect();
        questions
            .insert("u=".to_owned(), json!({"type": "url", "message": "m", "url": "http://u"}));
        let asks = said(&json!({"inputRequests": questions, "requestState": state}));
        let (url, bodies) = recorder(vec![asks, said(&json!({"result": 7}))]);
        let sandbox = Sandbox::new();
        let ran = sandbox.run(&format!("call --url {url} t")).expect_code(0);
        let (_, command) = ran.stdout.split_once("To answer:\n  ").unwrap();
        let command = command.strip_suffix('\n').unwrap();
        assert!(!command.contains(|c: char| c.is_control() || c == '\u{202e}'), "{command:?}");
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env_clear().current_dir(sandbox.path(""));
        let again = Ran::of(shell.stdin(Stdio::null()).output().unwrap()).expect_code(0);
        assert_eq!(again.stdout.trim(), "7", "{again:?}");
        assert!(!sandbox.path("pwned").exists());
        let (_, answered) = (bodies.recv().unwrap(), bodies.recv().unwrap());
        assert_eq!(answered["requestState"], state);
        let answer = json!({"action": "accept", "content": {STRANGE: STRANGE}});
        for name in names {
            assert_eq!(answered["inputResponses"][name], answer, "{name:?} in {answered}");
        }
        assert_eq!(answered["inputResponses"]["u="], json!({"action": "accept"}), "{answered}");
    }
}

fn error() -> String {
    json!({"error": {"code": STRANGE, "message": STRANGE}}).to_string()
}

#[test]
fn the_words_of_a_server_are_no_commands_to_a_terminal() {
    let form = json!({
        "type": "form",
        "message": STRANGE,
        "schema": {
            "required": [STRANGE],
            "properties": {STRANGE: {"type": STRANGE, "description": STRANGE}, "b": {"enum": [STRANGE]}},
        },
    });
    let asks = said(&json!({"inputRequests": {STRANGE: form}, "requestState": STRANGE}));
    let other = said(&json!({
        "inputRequests": {
            "a": {"type": "url", "message": STRANGE, "url": STRANGE},
            "b": {"type": STRANGE},
        },
        "requestState": "s",
    }));
    let fails = json!({"isError": true, "error": {"message": STRANGE, "data": {"a": STRANGE}}});
    let list = said(&json!({"tools": [{"id": STRANGE, "description": STRANGE}]}));
    let one = said(&json!({"id": STRANGE, "description": STRANGE}));
    let told = format!(
        "event: progress\ndata: {}\n\nevent: log\ndata: {}\n\nevent: result\ndata: {}\n\n",
        json!({"done": 1, "message": STRANGE}),
        json!({"level": STRANGE, "data": STRANGE}),
        json!({"result": STRANGE}),
    );
    let told = (200, "text/event-stream", told);
    let result = said(&json!({"result": {STRANGE: STRANGE}}));
    for (answers, words, code) in [
        (vec![result.clone()], "t", 0),
        (vec![said(&json!({"result": [STRANGE]}))], "t --all --merge lines", 0),
        (vec![said(&fails)], "t", 1),
        (vec![(400, "application/json", error())], "t", 1),
        (vec![(502, "text/plain", STRANGE.to_owned())], "t", 1),
        (vec![asks.clone()], "t", 0),
        (vec![asks, result], "t --interactive", 0),
        (vec![other.clone()], "t", 0),
        (vec![other], "t --interactive", 0),
        (vec![list], "--list", 0),
        (vec![one], "t --describe", 0),
        (vec![told], "t --progress", 0),
    ] {
        shown("", answers.clone(), words, code);
        // The same, for programs.
        shown("", answers, &format!("{words} --output json"), code);
    }
}

#[test]
fn a_success_that_is_no_message_is_told() {
    let page = || (200, "text/html", "<html>\u{1b}[2J</html>".to_owned());
    let ran = shown("/mcp", vec![page()], "t", 1);
    assert!(ran.stderr.contains("whether the call was made is not known"), "{ran:?}");
    assert!(ran.stderr.contains("look before you repeat it"), "{ran:?}");
    // With a key it is asked again.
    let good = message(&json!({"content": [{"type": "text", "text": "[17]"}]}));
    let ran = shown("/mcp", vec![page(), good], "t --idempotency-key k", 0);
    assert_eq!(ran.json(), json!([17]));
}
