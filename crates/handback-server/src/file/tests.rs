use super::*;

fn parse(text: &str) -> Result<Settings, FileError> {
    Settings::parse(text, Path::new("/etc/handback"))
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let said = match parse(text).and_then(|settings| settings.check().map(|()| settings)) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(said, expected, "{text}");
}

#[test]
fn the_default_file_changes_nothing() {
    assert_eq!(parse(DEFAULT_TEXT).unwrap(), Settings::default());
    assert_eq!(parse("").unwrap(), Settings::default());
    Settings::default().check().unwrap();
}

/// Every value in the default file is the default, unless the text before it says that there is
/// none.
#[test]
fn the_default_file_tells_of_every_key() {
    let set = parse(&known::all_set()).unwrap();
    set.check().unwrap();
    let names = |settings: &Settings| {
        let mut names = Vec::new();
        let table = toml::Table::try_from(settings).unwrap();
        flatten(&toml::Value::Table(table), "", &mut names);
        names
    };
    let known = known::keys();
    for name in names(&set) {
        assert!(known.contains(&name), "{name} is not in the default file");
    }
    // What has a default has that one in the file.
    let default = Settings::default();
    assert_eq!(
        (set.listen, set.signing, set.memory),
        (default.listen, default.signing, default.memory)
    );
    assert_eq!(set.limits, default.limits);
    assert_eq!(set.held, default.held);
    assert_eq!(
        (set.tokens.cursor_ttl_s, set.tokens.state_ttl_s, set.tokens.resume_ttl_s),
        (default.tokens.cursor_ttl_s, default.tokens.state_ttl_s, default.tokens.resume_ttl_s)
    );
    assert_eq!(set.tokens().resume_ttl_s, handback_token::SealerConfig::default().resume_ttl_s);
    assert_eq!(set.limits(), crate::Limits::default());
    assert_eq!(set.identity.oidc.algorithms, default.identity.oidc.algorithms);
    assert_eq!(set.identity.oidc.skew_s, default.identity.oidc.skew_s);
    assert_eq!(set.identity.oidc.refresh_s, default.identity.oidc.refresh_s);
    assert_eq!(set.identity.oidc.min_refresh_s, default.identity.oidc.min_refresh_s);
    assert_eq!(set.identity.mode, default.identity.mode);
    assert_eq!(set.mcp, default.mcp);
    assert_eq!(
        (set.pages.default_size, set.pages.max_size),
        (default.pages.default_size, default.pages.max_size)
    );
    assert_eq!(set.long_poll_ms, default.long_poll_ms);
}

fn flatten(value: &toml::Value, path: &str, names: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(value, &path, names);
            }
        }
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            values.iter().for_each(|value| flatten(value, path, names));
        }
        _ => names.push(path.to_owned()),
    }
}

#[test]
fn an_unknown_key_is_an_error_with_a_hint() {
    let unknown = |text: &str| {
        let error = parse(text).unwrap_err();
        (error.to_string(), error.hint().unwrap())
    };
    let (said, hint) = unknown("lisen = \"127.0.0.1:1\"");
    assert_eq!(said, "the key lisen is not known");
    assert_eq!(hint, "perhaps listen was meant");
    assert_eq!(unknown("[limits]\nbody_byte = 1").1, "perhaps limits.body_bytes was meant");
    assert_eq!(unknown("issuer = \"x\"").1, "perhaps identity.oidc.issuer was meant");
    assert_eq!(
        unknown("[[permissions.rules]]\nalow = [\"a\"]"),
        (
            "the key permissions.rules.0.alow is not known".to_owned(),
            "perhaps permissions.rules.allow was meant".to_owned()
        )
    );
    assert_eq!(unknown("zzzzzzzzzzzz = 1").1, "`handback config default` shows every key");
    let (said, _) = unknown("lisen = 1\nmemry = true");
    assert_eq!(said, "the keys lisen, memry are not known");
}

#[test]
fn a_value_that_makes_no_sense_is_told_with_its_key_and_line() {
    check_refused("\nlisten = \"nowhere\"", "line 2: listen: invalid socket address syntax");
    check_refused(
        "[limits]\njson_depth = 0",
        "line 2: limits.json_depth: it must be from 1 to 128",
    );
    check_refused(
        "[limits]\njson_depth = -1",
        "line 2: limits.json_depth: it must be from 1 to 128",
    );
    check_refused(
        "origins = [\"app.example\"]",
        "line 1: origins[0]: an origin is a scheme and a host, such as https://app.example",
    );
    check_refused(
        "hosts = [\"a/b\"]",
        "line 1: hosts[0]: a host is a name and perhaps a port, such as tools.example:8443",
    );
    check_refused(
        "[identity.oidc]\nalgorithms = [\"HS256\"]",
        "line 2: identity.oidc.algorithms[0]: it is not an algorithm with a public key",
    );
    check_refused(
        "[identity.oidc]\nresource = \"http://tools.example\"",
        "line 2: identity.oidc.resource: it must be HTTPS: plain HTTP is for loopback addresses only",
    );
    check_refused(
        "[[permissions.rules]]\nallow = [\"\"]",
        "line 2: permissions.rules[0].allow[0]: the pattern is empty",
    );
    check_refused(
        "[[permissions.rules]]\nscopes = [\"a b\"]",
        "line 2: permissions.rules[0].scopes[0]: it is not a scope",
    );
}

#[test]
fn what_is_held_is_as_large_and_as_old_as_the_file_says() {
    let text = "[limits]\nresult_bytes = 2147483648\n\
                [held]\nbytes_per_caller = 2147483648\nidle_s = 60\nlongest_s = 120";
    let limits = parse(text).unwrap().limits();
    assert_eq!((limits.result_bytes, limits.held_bytes_per_caller), (2 << 30, 2 << 30));
    assert_eq!((limits.held_idle.as_secs(), limits.held_longest.as_secs()), (60, 120));
    check_refused(
        "[held]\nbytes_per_caller = 1000",
        "line 2: held.bytes_per_caller: it must be from 1048576 to 4294967295",
    );
}

#[test]
fn keys_that_do_not_go_together_are_refused() {
    check_refused("[held]\nidle_s = 90000", "held.idle_s: it is longer than longest_s");
    check_refused(
        "[limits]\ninput_bytes = 16777216\n\
         [identity]\nmode = \"static\"\n[identity.static]\nfile = \"f\"",
        "limits.input_bytes: a caller's share of it is less than limits.body_bytes",
    );
    check_refused("[limits]\ninput_bytes = 16777216", "nothing");
    let identified = "[identity]\nmode = \"static\"\n[identity.static]\nfile = \"f\"";
    check_refused(
        &format!("unix_socket = \"s\"\n[limits]\ninput_bytes = 67108864\n{identified}"),
        "limits.input_bytes: a caller's share of it is less than a frame of the UNIX socket may have \
         (10 MiB)",
    );
    check_refused(
        "unix_socket = \"s\"\n[limits]\ninput_bytes = 8388608",
        "limits.input_bytes: a caller's share of it is less than a frame of the UNIX socket may have \
         (10 MiB)",
    );
    check_refused(
        &format!("[limits]\nbody_bytes = 1024\ninput_bytes = 4194304\n{identified}"),
        "limits.input_bytes: a caller's share of it is less than a frame of a WebSocket may have \
         (1 MiB)",
    );
    let appends = |body: u32, share: u32| {
        let limits =
            format!("input_bytes = 4294967295\nbody_bytes = {body}\ncaller_share = {share}");
        format!("[limits]\n{limits}\n{identified}")
    };
    for (body, share) in [(4_194_304, 16), (67_108_864, 16), (1_048_576, 64)] {
        check_refused(
            &appends(body, share),
            "limits.caller_share: a caller's share of the 64 MiB that may wait to be written is less \
             than an append with limits.body_bytes (4 MiB at most)",
        );
    }
    check_refused(
        &appends(1_024, 1_000),
        "limits.caller_share: a caller's share of the 64 MiB that may wait to be written is less than \
         the chunks of one duplex (512 KiB)",
    );
    for (body, share) in [(4_194_304, 15), (67_108_864, 15), (1_048_576, 63), (1_024, 128)] {
        check_refused(&appends(body, share), "nothing");
    }
    check_refused("[limits]\ncaller_share = 1000", "nothing");
    check_refused("[tls]\nkey = \"k\"", "tls.certificate: a key needs its certificate");
    check_refused("[tls]\ncertificate = \"c\"", "tls.key: a certificate needs its key");
    check_refused("[identity]\nmode = \"static\"", "identity.static.file: mode static needs it");
    check_refused("[identity]\nmode = \"oidc\"", "identity.oidc.issuer: mode oidc needs it");
    let oidc = "[identity]\nmode = \"oidc\"\n[identity.oidc]\nresource = \"https://t.example\"\n";
    check_refused(
        &format!("{oidc}issuer = \"http://id.example\""),
        "identity.oidc.issuer: it must be HTTPS: plain HTTP is for loopback addresses only",
    );
    check_refused(
        &format!("{oidc}issuer = \"https://id.example\"\nalgorithms = []"),
        "identity.oidc: no algorithm is allowed",
    );
    check_refused(&format!("{oidc}issuer = \"https://id.example\""), "nothing");
    check_refused(
        "memory = true\ndata = \"d\"",
        "memory: what is kept in memory has no data directory",
    );
    check_refused(
        "listen = \"0.0.0.0:1\"",
        "listen: without identities the server listens on loopback addresses only",
    );
    check_refused(
        &format!("listen = \"0.0.0.0:1\"\n{oidc}issuer = \"https://id.example\""),
        "hosts: others reach this address: name the hosts by which they ask",
    );
    check_refused(
        "[[permissions.rules]]\nsubjects = [\"a\"]",
        "permissions.rules: a rule has tools to allow or to deny",
    );
    check_refused("[pages]\ndefault_size = 200", "pages.default_size: it is larger than max_size");
    check_refused("[pages.presets.x]\nsize = 200", "pages.presets: a size is larger than max_size");
}

#[test]
fn paths_are_relative_to_the_file() {
    let settings = parse(
        "data = \"d\"\nkeys = \"/k\"\n[collections]\na = \"sqlite:shop.db#orders\"\n\
        b = \"csv:/x.csv\"\nc = \"postgres://u:secret@h/d#t\"",
    )
    .unwrap();
    assert_eq!(settings.data.as_deref(), Some(Path::new("/etc/handback/d")));
    assert_eq!(settings.keys.as_deref(), Some(Path::new("/k")));
    assert_eq!(settings.collections["a"].as_str(), "sqlite:/etc/handback/shop.db#orders");
    assert_eq!(settings.collections["b"].as_str(), "csv:/x.csv");
    assert_eq!(settings.collections["c"].as_str(), "postgres://u:secret@h/d#t");
}

#[test]
fn secrets_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "Bearer k\n").unwrap();
    std::fs::write(folder.path().join("url"), "http://h/mcp\n").unwrap();
    let text = format!(
        "[upstreams.a]\nurl = \"file:url\"\nheaders = {{ A = \"file:key\", B = \"file:{}\" }}\n\
         [upstreams.b]\ncommand = [\"x\"]\nenv = {{ C = \"file:./key\", D = \"key\" }}\n",
        folder.path().join("key").display()
    );
    let settings = Settings::parse(&text, folder.path()).unwrap();
    let places = settings.upstreams(&|_| None).unwrap().into_iter().map(|one| one.place);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for place in places {
        match place {
            handback_gateway::upstream::Place::Http { url, headers } => {
                assert_eq!(url, "http://h/mcp");
                assert_eq!(headers, [pair("A", "Bearer k"), pair("B", "Bearer k")]);
            }
            handback_gateway::upstream::Place::Command { env, .. } => {
                assert_eq!(env, [pair("C", "Bearer k"), pair("D", "key")]);
            }
        }
    }
}

#[test]
fn passwords_are_neither_shown_nor_told() {
    let text = "[collections]\nc = \"postgres://u:secret@h/d#t\"\n";
    let settings = parse(text).unwrap();
    let shown = format!("{settings:?}{}", toml::to_string(&settings).unwrap());
    assert!(!shown.contains("secret") && shown.contains("postgres://…#t"), "{shown}");
    for wrong in
        ["c = [\"postgres://u:secret@h/d#t\"]", "c = \"postgres://u:secret@h", "c = {\"secret\"}"]
    {
        let error = parse(&format!("[collections]\n{wrong}\n")).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

#[test]
fn keys_in_addresses_of_servers_are_not_shown() {
    let text = "[upstreams.a]\nurl = \"https://user:secret@h/mcp?key=secret\"\n\
                [upstreams.b]\nurl = \"env:B_URL\"\n[upstreams.c]\nurl = \"http://h/mcp\"\n";
    let settings = parse(text).unwrap();
    let shown = format!("{settings:?}{}", toml::to_string(&settings).unwrap());
    assert!(!shown.contains("secret"), "{shown}");
    for url in ["https://…@h/mcp?…", "env:B_URL", "http://h/mcp"] {
        assert_eq!(shown.matches(url).count(), 2, "{url}: {shown}");
    }
    let environment = |name: &str| (name == "B_URL").then(|| "https://k@b/mcp".to_owned());
    let urls = settings.upstreams(&environment).unwrap().into_iter().map(|one| match one.place {
        handback_gateway::upstream::Place::Http { url, .. } => url,
        other => panic!("{other:?}"),
    });
    let expected = ["https://user:secret@h/mcp?key=secret", "https://k@b/mcp", "http://h/mcp"];
    assert_eq!(urls.collect::<Vec<_>>(), expected);
    let error = settings.upstreams(&|_| None).unwrap_err().to_string();
    assert!(error.contains("there is no variable B_URL"), "{error}");
}

#[test]
fn what_is_shown_can_be_read_again() {
    let settings = parse(&known::all_set()).unwrap();
    let shown = toml::to_string(&settings).unwrap();
    assert_eq!(parse(&shown).unwrap(), settings);
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    assert_eq!(parse(&"#".repeat(MAX_FILE_BYTES + 1)).unwrap_err(), FileError::TooLarge);
}

#[test]
fn rules_become_permissions() {
    let settings =
        parse("[[permissions.rules]]\nallow = [\"shop.*\"]\ndeny = [\"*.delete\"]\n").unwrap();
    let permissions = settings.permissions().unwrap();
    let caller = handback_identity::Caller::unauthenticated();
    let none: [&str; 0] = [];
    assert!(permissions.allows(&caller, "shop.list", &none));
    assert!(!permissions.allows(&caller, "shop.delete", &none));
    assert!(!permissions.allows(&caller, "bank.list", &none));
}

proptest::proptest! {
    /// Whatever a file has in it, it is read or refused in a few lines, and what is read is checked
    /// without a panic.
    #[test]
    fn a_damaged_file_is_read_or_refused(
        edits: Vec<(proptest::sample::Index, char)>, cut: proptest::sample::Index,
    ) {
        let mut text: Vec<char> = known::all_set().chars().collect();
        for (at, character) in edits.iter().take(5) {
            let at = at.index(text.len());
            text[at] = *character;
        }
        if cut.index(3) == 0 {
            text.truncate(cut.index(text.len()));
        }
        match parse(&text.into_iter().collect::<String>()) {
            Ok(settings) => drop(settings.check()),
            Err(error) => proptest::prop_assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn secrets_are_known_by_their_variables() {
    let text = "[collections]\norders = \"postgres://db/shop#orders\"\n\
                [upstreams.a]\nurl = \"http://a/\"\nheaders = { x = \"env:A\", y = \"plain\" }\n\
                [upstreams.b]\ncommand = [\"b\"]\nenv = { C = \"env:B\", D = \"file:/env:X\" }\n";
    assert_eq!(parse(text).unwrap().secret_variables(), ["A", "B", "PGPASSWORD"]);
    assert!(Settings::default().secret_variables().is_empty());
}
