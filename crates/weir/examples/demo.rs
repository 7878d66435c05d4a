//! Runs one demo service alone: `cargo run --example demo -- inference-python`. The contract tests of `services/` start
//! it like any other inference service.

use std::process::exit;

use weir::config::DemoService;
use weir::demo::{self, Settings};

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let names = DemoService::ALL.map(DemoService::name).join(", ");
    let Some(service) = DemoService::ALL.into_iter().find(|service| service.name() == name) else {
        eprintln!("error: '{name}' is none of the demo services: {names}");
        exit(64);
    };
    let settings = Settings::from_env(|name| std::env::var_os(name)).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        exit(64);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let address = demo::start(service, settings).await.expect("a port of the loopback interface");
        println!("listening on http://{address}");
        std::future::pending::<()>().await;
    });
}
