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
    /// `Cache-Control` of what is read, such as max-age=60
    #[arg(long, value_name = "VALUE")]
    cache_control: Option<String>,
    /// Respond to every path, and do what fields of requests say: the upstream of profile checks
    #[arg(long, hide = true)]
    probe: bool,
}

impl Demo {
    pub(crate) fn run(self) -> ExitCode {
        let said = |address| {
            let _ = print(&format!("listening on http://{address}\n"));
        };
        match gauge::demo::serve(
            self.listen,
            gauge::demo::Options { cache_control: self.cache_control, probe: self.probe },
            said,
        ) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("gauge: cannot serve on {}: {error}", self.listen);
                ExitCode::from(SYSTEM)
            }
        }
    }
}
