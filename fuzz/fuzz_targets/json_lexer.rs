//! The lexer says what `serde_json` says of a document, however it is cut, and its tokens make the same
//! document. The first byte says how it is cut.
#![no_main]

use handback_fuzz::pieces::pieces;
use handback_wire::json::{Lexer, NotJson, Oddities, Sink, Token, Unescape};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;

/// Longer numbers are odd, whatever they are.
const LONGEST_NUMBER: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let Some((seed, bytes)) = data.split_first() else { return };
    let lexed = lex(&[bytes]);
    for seed in [1, *seed] {
        // Of several faults, another may be told.
        assert_eq!(lex(&pieces(bytes, seed)).ok(), lexed.as_ref().ok().cloned());
    }
    let is_json = serde_json::from_slice::<&RawValue>(bytes).is_ok();
    match (lexed, serde_json::from_slice::<Value>(bytes)) {
        (Ok((copy, texts, oddities)), Ok(value)) => {
            assert!(is_json && (!oddities.any() || bytes.len() > LONGEST_NUMBER));
            if !oddities.too_deep {
                assert_eq!(serde_json::from_slice::<Value>(&copy).expect("JSON"), value);
                let expected = texts_of(&copy);
                assert!(oddities.lone_surrogate || texts == expected);
            }
        }
        (Ok((_, _, oddities)), Err(_)) => {
            assert!(oddities.any() && (is_json || oddities.too_deep));
        }
        (Err(error), _) => assert!(!is_json, "{error}"),
    }
});

/// Writes what it takes, and what texts and names stand for.
#[derive(Default)]
struct Copy {
    out: Vec<u8>,
    open: Vec<Token>,
    text: Option<(Vec<u8>, Unescape)>,
    texts: Vec<Option<Vec<u8>>>,
}

impl Sink for Copy {
    fn begin(&mut self, token: Token, _at: u64) {
        match token {
            Token::Object => self.out.push(b'{'),
            Token::Array => self.out.push(b'['),
            _ => {}
        }
        self.open.push(token);
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        if matches!(self.open.last(), Some(Token::Text | Token::Name)) {
            self.text
                .get_or_insert_with(|| (Vec::new(), Unescape::new()))
                .0
                .extend_from_slice(bytes);
        }
    }

    fn end(&mut self, token: Token, _at: u64) {
        assert_eq!(self.open.pop(), Some(token));
        if let Some((quoted, mut unescape)) = self.text.take() {
            let inside = &quoted[1..quoted.len() - 1];
            let mut text = Vec::new();
            let is_whole = unescape.push(inside, &mut text).and_then(|()| unescape.finish());
            self.texts.push(is_whole.ok().map(|()| text));
        }
        if matches!(self.out.last(), Some(b',')) && token.is_container() {
            self.out.pop();
        }
        match token {
            Token::Object => self.out.push(b'}'),
            Token::Array => self.out.push(b']'),
            _ => {}
        }
        self.out.push(if token == Token::Name { b':' } else { b',' });
    }
}

type Lexed = (Vec<u8>, Vec<Option<Vec<u8>>>, Oddities);

fn lex(pieces: &[&[u8]]) -> Result<Lexed, NotJson> {
    let (mut lexer, mut copy) = (Lexer::new(), Copy::default());
    for piece in pieces {
        lexer.feed(piece, &mut copy)?;
    }
    let oddities = lexer.finish(&mut copy)?;
    assert!(copy.open.is_empty());
    copy.out.pop();
    Ok((copy.out, copy.texts, oddities))
}

/// All texts of a document in its order, as `serde_json` reads them.
fn texts_of(json: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut rest = json;
    let mut texts = Vec::new();
    while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
        rest = &rest[at..];
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<String>();
        let text = stream.next().expect("a text").expect("a text");
        texts.push(Some(text.into_bytes()));
        rest = &rest[stream.byte_offset()..];
    }
    texts
}
