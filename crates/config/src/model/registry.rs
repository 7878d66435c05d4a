//! Services in a registry, which names their targets.

use std::fmt;
use std::sync::Arc;

/// A service in a registry, with everything that its targets are read with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Registry {
    /// The EndpointSlices of a Service of Kubernetes.
    Kubernetes(KubernetesService),
    /// The healthy instances of a service in Consul.
    Consul(ConsulService),
}

impl Registry {
    /// Name of the source, as it is shown.
    pub fn label(&self) -> String {
        match self {
            Registry::Kubernetes(service) => format!("kubernetes:{service}"),
            Registry::Consul(service) => format!("consul:{}", service.name),
        }
    }

    /// Name of the service in DNS: the host that certificates must be valid for, and that health checks have.
    pub fn host(&self) -> String {
        match self {
            Registry::Kubernetes(service) => format!("{}.{}.svc", service.name, service.namespace),
            Registry::Consul(service) => format!("{}.service.consul", service.name),
        }
    }
}

/// A port of a Service of Kubernetes; its ready endpoints are targets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesService {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Which of its ports.
    pub port: EndpointPort,
}

/// `NAMESPACE/SERVICE:PORT`.
impl fmt::Display for KubernetesService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.port)
    }
}

/// A port of endpoints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointPort {
    /// The number that endpoints listen on.
    Number(u16),
    /// The name that the Service gives it.
    Name(Arc<str>),
}

impl fmt::Display for EndpointPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointPort::Number(number) => number.fmt(f),
            EndpointPort::Name(name) => f.write_str(name),
        }
    }
}

/// A service in Consul.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsulService {
    /// Name.
    pub name: Arc<str>,
    /// URL of the agent, without a path.
    pub address: Arc<str>,
    /// Only instances with this tag.
    pub tag: Option<Arc<str>>,
    /// Datacenter; `None`: that of the agent.
    pub datacenter: Option<Arc<str>>,
    /// Token of the access control list.
    pub token: Option<Arc<str>>,
}

impl fmt::Debug for ConsulService {
    /// Leaves the token out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsulService")
            .field("name", &self.name)
            .field("address", &self.address)
            .field("tag", &self.tag)
            .field("datacenter", &self.datacenter)
            .finish_non_exhaustive()
    }
}
