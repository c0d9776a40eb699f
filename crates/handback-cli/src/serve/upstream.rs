//! Servers to stand before, on the command line.

use handback_server::Upstream;
use handback_server::gateway::upstream::{Place, StartLimits, StderrUse, check_name};

/// Reads `NAME=URL` or `NAME=COMMAND`.
pub(crate) fn parse(text: &str) -> Result<Upstream, String> {
    let (name, place) = text.split_once('=').ok_or("it is written NAME=URL or NAME=COMMAND")?;
    check_name(name).map_err(|bad| bad.to_string())?;
    let (start, stderr) = (StartLimits::default(), StderrUse::Logged);
    if place.starts_with("http://") || place.starts_with("https://") {
        let place = Place::Http { url: place.to_owned(), headers: Vec::new() };
        return Ok(Upstream { name: name.to_owned(), place, is_shared: false, start, stderr });
    }
    let words = shlex::split(place).ok_or("the command has a quote that is not closed")?;
    let mut words = words.into_iter();
    let program = words.next().ok_or("there is no command")?;
    let place = Place::Command { program, args: words.collect(), env: Vec::new() };
    Ok(Upstream { name: name.to_owned(), place, is_shared: false, start, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_or_a_command() {
        let url = parse("shop=https://shop.example/mcp?x=1").unwrap();
        assert!(
            matches!(url.place, Place::Http { url, .. } if url == "https://shop.example/mcp?x=1")
        );
        let command = parse("files=npx -y 'a server' /home").unwrap();
        assert_eq!(command.name, "files");
        let Place::Command { program, args, .. } = command.place else { panic!("a command") };
        assert_eq!(
            (program.as_str(), args),
            ("npx", vec!["-y".into(), "a server".into(), "/home".into()])
        );
    }

    #[test]
    fn what_is_neither() {
        for wrong in
            ["", "x", "=x", "x=", "x=  ", "a b=c", "a__b=c", "a_=c", "handback=c", "x='c", "é=c"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&format!("{}=c", "x".repeat(33))).is_err());
    }
}
