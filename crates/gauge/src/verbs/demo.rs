//! `gauge demo`

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;

use crate::cli::{SYSTEM, print};

/// Serves a small API (examples/evaluations/demo.openapi.yaml), to try evaluations on.
#[derive(Args)]
pub(crate) struct Demo {
    /// Address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
}

impl Demo {
    pub(crate) fn run(self) -> ExitCode {
        let said = |address| {
            let _ = print(&format!("listening on http://{address}\n"));
        };
        match gauge::demo::serve(self.listen, said) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("gauge: cannot serve on {}: {error}", self.listen);
                ExitCode::from(SYSTEM)
            }
        }
    }
}
