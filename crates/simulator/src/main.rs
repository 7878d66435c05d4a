//! `simulator [ADDRESS]`: serves until it is interrupted; port 0 takes a free one. The address is printed on standard output.

use std::process::ExitCode;

fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    match run(&address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simulator: cannot serve on {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(address: &str) -> std::io::Result<()> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        tokio::select! {
            result = simulator::serve(listener, Default::default()) => result,
            result = tokio::signal::ctrl_c() => result,
        }
    })
}
