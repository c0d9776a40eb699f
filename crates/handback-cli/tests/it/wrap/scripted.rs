//! A server whose answers a test writes, to the byte.

use serde_json::{Value, json};

use super::World;
use crate::mcp_client::{Client, Era};
use crate::support::Sandbox;

/// A world without a server.
pub(super) fn world() -> World {
    let world = World::with(Sandbox::new());
    world.sandbox.write("scripted.py", include_str!("scripted.py"));
    world
}

/// What the server of this name answers from now on.
pub(super) fn script(world: &World, name: &str, answers: &Value) {
    world.sandbox.write(&format!("{name}.json"), &answers.to_string());
}

/// The words that start the server of this name.
pub(super) fn command(world: &World, name: &str) -> Vec<String> {
    let path = |name: &str| world.sandbox.path(name).to_str().unwrap().to_owned();
    let mut words = ["/usr/bin/env", "PATH=/usr/local/bin:/usr/bin:/bin", "python3"]
        .map(str::to_owned)
        .to_vec();
    words.extend([path("scripted.py"), path(&format!("{name}.json")), path("record")]);
    words
}

/// A client of `handback wrap` before the server of this name, which the gateway calls so as well.
pub(super) fn wrapped(world: &World, name: &str, era: Era, flags: &[&str]) -> Client {
    let command = command(world, name);
    let mut words = vec!["wrap", "--name", name];
    words.extend(flags);
    words.push("--");
    words.extend(command.iter().map(String::as_str));
    Client::of(&world.sandbox, &words, era, json!({})).greeted()
}

/// A client of `handback serve --stdio` before servers of these names.
pub(super) fn served(world: &World, names: &[&str], era: Era, flags: &[&str]) -> Client {
    let upstream = |name: &&str| format!("{name}={}", command(world, name).join(" "));
    let upstreams: Vec<_> = names.iter().map(upstream).collect();
    let mut words = vec!["--no-demo"];
    words.extend(flags);
    words.extend(upstreams.iter().flat_map(|one| ["--upstream", one.as_str()]));
    Client::start(&world.sandbox, &words, era, json!({}))
}

/// A list of tools with these names.
pub(super) fn tools(names: &[&str]) -> String {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    json!({"tools": names.iter().map(tool).collect::<Vec<_>>()}).to_string()
}

/// All tools that a client sees.
pub(super) fn listed(client: &mut Client) -> Vec<Value> {
    let (mut tools, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.ask("tools/list", params);
        tools.extend(page["tools"].as_array().unwrap().iter().cloned());
        match &page["nextCursor"] {
            Value::Null => return tools,
            cursor => params = json!({"cursor": cursor}),
        }
    }
}

/// The names of all tools that a client sees.
pub(super) fn names(client: &mut Client) -> Vec<String> {
    let tools = listed(client);
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The same result as a server of the newer era gives it.
pub(super) fn result(era: Era, json: &str) -> String {
    match era {
        Era::Older => json.to_owned(),
        Era::Newest => format!("{},\"resultType\":\"complete\"}}", json.strip_suffix('}').unwrap()),
    }
}
