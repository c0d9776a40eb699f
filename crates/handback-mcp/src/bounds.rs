//! How long and how deep a body may be.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use handback_wire::depth::depth;
use http_body_util::BodyExt as _;
use hyper::body::Body;

/// Bytes of a body at most: far more than arguments need, little to hold.
pub const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Objects and arrays inside of each other at most. rmcp reads messages by recursion, and copies
/// what is nested several times.
pub const MAX_JSON_DEPTH: usize = 32;

/// Why a body is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is longer than allowed.
    #[error("the body is longer than {MAX_BODY_BYTES} bytes")]
    TooLong,
    /// It is nested deeper than allowed.
    #[error("the body is nested deeper than {MAX_JSON_DEPTH} levels")]
    TooDeep,
    /// It took longer than allowed.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// It did not arrive.
    #[error("the body did not arrive")]
    Broken,
}

/// How long a body may take to come in: who sends it byte by byte holds a place that others want.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// Takes a body in, as far as it is allowed to go.
///
/// # Errors
///
/// [`BodyError`]. One that says beforehand that it is too long is not read.
pub async fn collect<B>(body: B) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
        return Err(BodyError::TooLong);
    }
    let mut body = std::pin::pin!(body);
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if data.len() > MAX_BODY_BYTES - whole.len() - first.len() {
            return Err(BodyError::TooLong);
        }
        // Most bodies come in one piece, which is not copied.
        if whole.is_empty() && first.is_empty() {
            first = data;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    let whole = if whole.is_empty() { first } else { whole.freeze() };
    if depth(&whole) > MAX_JSON_DEPTH {
        return Err(BodyError::TooDeep);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    async fn in_pieces(pieces: Vec<Vec<u8>>) -> Result<Bytes, BodyError> {
        let pieces = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(piece.into())));
        collect(StreamBody::new(stream::iter(pieces))).await
    }

    fn nested(depth: usize) -> Vec<u8> {
        [vec![b'['; depth], vec![b']'; depth]].concat()
    }

    #[tokio::test]
    async fn takes_a_body_in_any_number_of_pieces() {
        assert_eq!(in_pieces(vec![]).await.unwrap(), "");
        assert_eq!(in_pieces(vec![b"{}".to_vec()]).await.unwrap(), "{}");
        let pieces = [&b"{"[..], b"", b"\"a\":", b"1}"].map(<[u8]>::to_vec).to_vec();
        assert_eq!(in_pieces(pieces).await.unwrap(), r#"{"a":1}"#);
    }

    #[tokio::test]
    async fn stops_where_it_gets_too_long() {
        let most = vec![b' '; MAX_BODY_BYTES];
        assert_eq!(in_pieces(vec![most.clone()]).await.unwrap().len(), MAX_BODY_BYTES);
        let refused = in_pieces(vec![most.clone(), vec![b' ']]).await;
        assert_eq!(refused, Err(BodyError::TooLong));
        let announced = Full::new(Bytes::from([most, vec![b' ']].concat()));
        assert_eq!(collect(announced).await, Err(BodyError::TooLong));
    }

    #[tokio::test]
    async fn stops_where_it_gets_too_deep() {
        assert!(in_pieces(vec![nested(MAX_JSON_DEPTH)]).await.is_ok());
        let refused = in_pieces(vec![nested(MAX_JSON_DEPTH + 1)]).await;
        assert_eq!(refused, Err(BodyError::TooDeep));
    }
}
