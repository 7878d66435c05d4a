//! Writes a made-up campaign into DIR/raw, for `gauge recompute DIR`: what a report looks like with everything in it (a ranking with ties, an A/A control, a search, noise,
//! a gateway that fails its attestation, one with errors, one that is not on the machine). The figures are drawn from distributions, not measured.

use std::path::PathBuf;
use std::process::ExitCode;

#[path = "../tests/made_up/mod.rs"]
mod made_up;

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: made_up_campaign DIR");
        return ExitCode::from(64);
    };
    match made_up::write_raw(&dir, &made_up::campaign()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}
