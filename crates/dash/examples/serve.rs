//! Serves the dashboard of a folder of runs: `serve FOLDER [ADDRESS]`. For work on the page itself;
//! people use `rocstar dash`.

use std::path::PathBuf;

use rocstar_dash::{Access, Folder, serve};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "runs".to_owned()));
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7070".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    let stop = CancellationToken::new();
    let serving = serve(listener, Folder::open(&folder)?, Access::default(), None, stop.clone());
    let stopping = async {
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    };
    tokio::join!(serving, stopping);
    Ok(())
}
