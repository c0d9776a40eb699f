//! Sends numbered chunks to the handler `echo`, and prints what comes back.
//!
//! `cargo run -p handback-client --example echo -- URL DIRECTORY KEY COUNT`. Kill it, or the server,
//! and run it again: every number is printed once.

use std::io::Write as _;
use std::time::Duration;

use handback_client::Keys;
use handback_client::duplex::{Duplex, DuplexOptions, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [url, directory, key, count] = args.as_slice() else {
        return Err("URL DIRECTORY KEY COUNT".into());
    };
    let count: u32 = count.parse()?;
    let options = DuplexOptions::new(url)
        .handler("echo")
        .idempotency_key(key)
        .verify(Keys::Server)
        .state(directory, Settings::persistent());
    let duplex = Duplex::open(options).await?;
    let send = async {
        for number in duplex.next_seqno().await?..count {
            duplex.send(number.to_string()).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        duplex.close().await
    };
    let receive = async {
        while let Some(event) = duplex.next_event().await? {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(event.data()).and_then(|()| out.write_all(b"\n"));
            drop(out);
            duplex.ack(&event).await?;
        }
        Ok(())
    };
    tokio::try_join!(send, receive)?;
    Ok(())
}
