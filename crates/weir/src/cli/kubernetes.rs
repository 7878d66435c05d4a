//! `weir kubernetes`: a controller of the Gateway API.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use kubernetes::client::{Access, ApiError, Client};
use kubernetes::controller::{self, Follow, LeaseSettings, Refused};
use kubernetes::objects::Key;
use kubernetes::translate::{Addresses, ServiceType, Services, Settings, Translation};
use weir::config::LoadError;
use weir::observe::messages::Messages;
use weir::server::managed::{Made, Managed, Refusal};
use weir::server::reload::Controller;
use weir::server::{Options, Source};

use super::{BAD_CONFIGURATION, UNREADABLE};

#[derive(Args)]
pub(crate) struct Kubernetes {
    /// Settings of everything that objects do not say: `admin`, `access_log`, `server`, `telemetry`; without `listen`, `upstreams` and `routes`.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Classes with this `controllerName` are served.
    #[arg(long, value_name = "NAME", default_value = "weir.dev/gateway")]
    controller: String,
    /// Give each Gateway an address of this network and bind it, instead of sharing one address: for machines without Services.
    #[arg(long, value_name = "NETWORK")]
    addresses: Option<IpNet>,
    /// Address that all Gateways share.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", conflicts_with = "addresses")]
    bind: IpAddr,
    /// First port of the shared address: each port of each Gateway has one of its own from there on.
    #[arg(long, value_name = "PORT", default_value_t = 20000, conflicts_with = "addresses")]
    first_port: u16,
    /// Make a Service for each Gateway that leads to the pods with these labels, written NAME=VALUE,NAME=VALUE: those of Weir itself. Needs --lease where several processes run.
    #[arg(long, value_name = "LABELS", value_parser = labels, conflicts_with = "addresses")]
    services: Option<Labels>,
    /// Type of these Services.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t, requires = "services")]
    service_type: Type,
    /// Namespace of the pods, where the Services are made; without it that of this pod.
    #[arg(long, value_name = "NAMESPACE", requires = "services")]
    namespace: Option<String>,
    /// URL of the API server; without it the environment and the service account of the pod say where it is.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Authorities of the API server's certificate, with --server.
    #[arg(long, value_name = "FILE", requires = "server")]
    ca: Option<PathBuf>,
    /// File with the token for the API server, with --server.
    #[arg(long, value_name = "FILE", requires = "server")]
    token: Option<PathBuf>,
    /// Lease that decides which of several processes writes statuses and Services, as NAMESPACE/NAME; without it each process writes them.
    #[arg(long, value_name = "LEASE")]
    lease: Option<String>,
}

/// Labels of pods.
#[derive(Clone)]
struct Labels(BTreeMap<String, String>);

fn labels(text: &str) -> Result<Labels, String> {
    let one = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{pair}` is not a label; write NAME=VALUE")),
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Labels)
}

/// How Services are reached.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Type {
    #[default]
    #[value(name = "LoadBalancer")]
    LoadBalancer,
    #[value(name = "NodePort")]
    NodePort,
    #[value(name = "ClusterIP")]
    ClusterIp,
}

/// Where the kubelet writes the namespace of a pod.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Kubernetes {
    pub(crate) fn run(self) -> ExitCode {
        let messages = Messages::start();
        let settings_text = match &self.config {
            None => String::new(),
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) => {
                    eprintln!("weir: cannot read {}: {error}", path.display());
                    return ExitCode::from(UNREADABLE);
                }
            },
        };
        let made = self.client().and_then(|client| Ok((client, self.lease()?, self.services()?)));
        let (client, lease, services) = match made {
            Ok(made) => made,
            Err(error) => {
                eprintln!("weir: {error}");
                return ExitCode::from(BAD_CONFIGURATION);
            }
        };
        let addresses = match self.addresses {
            Some(network) => Addresses::Bare(network),
            None => Addresses::Shared { bind: self.bind, first_port: self.first_port, services },
        };
        let settings = Settings { controller: self.controller, addresses };
        let managed = Managed::new(
            settings_text,
            Box::new(move |controller, shutdown| {
                Box::pin(controller::run(client, settings, lease, Gateway(controller), shutdown))
            }),
        );
        crate::serve_source(Source::Managed(managed), Options::default(), &messages)
    }

    fn client(&self) -> Result<Client, ApiError> {
        let access = match &self.server {
            Some(url) => Access::of_url(url, self.ca.clone(), self.token.clone())?,
            None => Access::of_pod(|name| std::env::var(name).ok())?,
        };
        Client::new(access)
    }

    fn services(&self) -> Result<Option<Services>, ApiError> {
        let Some(Labels(pods)) = &self.services else { return Ok(None) };
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => std::fs::read_to_string(NAMESPACE)
                .map_err(|_| {
                    ApiError::Request(
                        "this is not a pod of a cluster; name the namespace of the pods with --namespace".to_owned(),
                    )
                })?
                .trim()
                .to_owned(),
        };
        let kind = match self.service_type {
            Type::LoadBalancer => ServiceType::LoadBalancer,
            Type::NodePort => ServiceType::NodePort,
            Type::ClusterIp => ServiceType::ClusterIp,
        };
        Ok(Some(Services { namespace, pods: pods.clone(), kind }))
    }

    fn lease(&self) -> Result<Option<LeaseSettings>, ApiError> {
        let Some(text) = &self.lease else { return Ok(None) };
        let Some((namespace, name)) = text.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
            return Err(ApiError::Request(format!("`{text}` is not a lease; write NAMESPACE/NAME")));
        };
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "weir".to_owned());
        let identity = format!("{host}-{}", std::process::id());
        Ok(Some(LeaseSettings { key: Key::new(namespace, name), identity }))
    }
}

/// The process that serves what the controller makes.
struct Gateway(Arc<Controller>);

impl Follow for Gateway {
    async fn apply(&self, translation: &Translation) -> Result<(), Refused> {
        let made = Made { document: translation.document.clone(), files: translation.files.clone() };
        let before = self.0.managed().map_or(0, Managed::settings_lines);
        let result = self.0.manage(made.clone(), translation.endpoints.clone()).await;
        result.map_err(|refusal| {
            let mut refused = Refused { message: refusal.to_string(), ..Refused::default() };
            match refusal {
                Refusal::Configuration(LoadError::Invalid(problems)) => {
                    let names = made.text().1;
                    for (line, message) in problems.lines() {
                        if let Some(name) = names.get(&line.saturating_sub(before)) {
                            refused.routes.entry(name.clone()).or_insert(message);
                        }
                    }
                }
                Refusal::Configuration(_) => {}
                Refusal::Listen { bind, why } => {
                    let listen = translation.document["listen"].as_array().into_iter().flatten();
                    let named = listen.filter(|item| item["bind"] == *bind).filter_map(|item| item["name"].as_str());
                    refused.binds.extend(named.map(|name| (name.to_owned(), why.clone())));
                }
            }
            refused
        })
    }

    fn set_endpoints(&self, endpoints: BTreeMap<String, Vec<SocketAddr>>) {
        self.0.set_endpoints(endpoints);
    }
}

#[cfg(test)]
mod tests {
    use super::labels;

    #[test]
    fn labels_are_pairs() {
        let read = |text: &str| labels(text).map(|labels| labels.0.into_iter().collect::<Vec<_>>()).ok();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read("app.kubernetes.io/name=weir,app=edge"),
            Some(vec![pair("app", "edge"), pair("app.kubernetes.io/name", "weir")])
        );
        assert_eq!((read(""), read("app"), read("=a"), read("a=b,"), read("a=")), (None, None, None, None, None));
    }
}
