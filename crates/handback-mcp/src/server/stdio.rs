//! MCP on standard input and output, for the one who started the process.

use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::stdio;
use tokio::io::{AsyncRead, AsyncWrite};

use super::McpServer;

/// Why a client was not served.
#[derive(Debug, thiserror::Error)]
#[error("MCP on standard input ended: {0}")]
#[non_exhaustive]
pub struct StdioError(String);

impl McpServer {
    /// Serves the client at the other end until it closes its end. The server must know its caller:
    /// [`McpServer::for_caller`].
    ///
    /// # Errors
    ///
    /// [`StdioError`] if the client does not speak the protocol, or something broke.
    pub async fn serve_stdio(self) -> Result<(), StdioError> {
        self.serve_io(stdio()).await
    }

    /// The same over other pipes.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn serve_io<R, W>(self, pipes: (R, W)) -> Result<(), StdioError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let failed = |error: &dyn std::fmt::Display| StdioError(error.to_string());
        let running = match serve_server(self, pipes).await {
            Ok(running) => running,
            // Who wants to know what a server can do asks that, and leaves.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            // Its own words repeat the whole message.
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                return Err(failed(&"the client did not introduce itself"));
            }
            Err(error) => return Err(failed(&error)),
        };
        running.waiting().await.map(drop).map_err(|error| failed(&error))
    }
}
