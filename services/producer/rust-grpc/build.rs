//! Compiles the contract's proto file. protox is a compiler in Rust: no protoc is needed.

use std::{env, error::Error, fs, path::Path};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../proto/event_service.proto");
    let files = protox::compile(["event_service.proto"], ["../proto"])?;
    let descriptor = Path::new(&env::var("OUT_DIR")?).join("event_service.bin");
    fs::write(descriptor, files.encode_to_vec())?;
    tonic_prost_build::configure().build_client(false).compile_fds(files)?;
    Ok(())
}
