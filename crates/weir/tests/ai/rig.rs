//! A gateway in front of a simulator.

use std::net::SocketAddr;

use serde_json::Value;
use simulator::Simulator;
use testkit::Weir;
use tokio::runtime::Runtime;

/// A simulator on threads of its own; ends when it is dropped.
pub(crate) struct Provider {
    simulator: Option<Simulator>,
    runtime: Option<Runtime>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into())
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let simulator = runtime.block_on(Simulator::start_at(address)).unwrap();
        Provider { simulator: Some(simulator), runtime: Some(runtime) }
    }

    /// What the metrics of its engine say from now on.
    pub(crate) fn set_metrics(&self, text: impl Into<String>) {
        self.simulator.as_ref().unwrap().ledger().set_metrics(text);
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.simulator.as_ref().unwrap().address()
    }

    pub(crate) fn ledger(&self) -> Value {
        self.simulator.as_ref().unwrap().ledger().to_json()
    }

    /// Calls of a model so far.
    pub(crate) fn calls(&self, model: &str) -> u64 {
        self.ledger()["calls"][model].as_u64().unwrap_or(0)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.simulator.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A gateway with two providers at the simulator, and the models that `models` adds.
pub(crate) fn gateway(provider: &Provider, top: &str, models: &str, route: &str) -> Weir {
    let url = format!("http://{}", provider.address());
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n\
         upstreams: {{sim: {{targets: [\"{url}\"]}}}}\n\
         {top}\
         providers:\n  openai: {{api: openai, upstream: sim, keys: [sk-openai-0123456789abcdef]}}\n  \
         claude: {{api: anthropic, upstream: sim, keys: [sk-ant-0123456789abcdef]}}\n\
         models:\n{models}routes:\n  - {{name: ai, match: {{path: /v1/*}}, ai: {{}}{route}}}\n"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}
