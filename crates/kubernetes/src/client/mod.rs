//! The API of Kubernetes over HTTP/1.1: lists, watches, and writes of statuses and of one lease.

mod access;
mod error;
mod kubeconfig;
mod lines;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

pub use access::{Access, Material};
pub use error::ApiError;
use lines::Lines;

use crate::objects::{Key, Object};

/// How long a request may take other than a watch.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a watch lasts; then another one goes on where it ended.
const WATCH_SECONDS: u64 = 290;
/// Objects of one page of a list.
const PAGE: usize = 500;
/// Bytes of a response other than of a watch.
const MAX_BODY: usize = 256 << 20;
/// Bytes of an error in place of a watch.
const MAX_STATUS: usize = 64 << 10;
/// Events after which others that share the thread get their time.
const YIELD: usize = 32;
/// Pages of a list beyond those that its objects need: a server may send small ones.
const MORE_PAGES: usize = 64;

/// A client of an API server.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    access: Access,
    /// Bytes of a response other than of a watch.
    max_body: usize,
    connector: Option<TlsConnector>,
    /// The connection of requests that are no watch.
    idle: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// Which objects of a kind.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Where they are listed.
    path: String,
    /// What is behind the other parts of the query: empty, or from `&` on.
    query: String,
}

impl Selection {
    /// All of a kind that are of use.
    pub fn all<T: Object>() -> Self {
        Selection { path: T::PATH.to_owned(), query: selector::<T>().to_owned() }
    }

    /// Those of a namespace with a label.
    pub fn labelled<T: Object>(namespace: &str, label: &str, value: &str) -> Self {
        let (base, kind) = T::PATH.rsplit_once('/').unwrap_or_default();
        let labels = encode(&format!("{label}={value}"));
        Selection {
            path: format!("{base}/namespaces/{}/{kind}", encode(namespace)),
            query: format!("&labelSelector={labels}"),
        }
    }
}

/// A list of objects, and the version that a watch goes on from.
#[derive(Debug)]
pub struct Listed<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The version of the list.
    pub version: String,
}

/// What a watch says.
#[derive(Debug, PartialEq)]
pub enum Event<T> {
    /// The server has begun to tell what changes.
    Begun,
    /// An object is there, or changed.
    Applied(T),
    /// There is no such object.
    Deleted(T),
    /// An object is there, or changed, that cannot be read: as if it were not there.
    Unreadable(Key),
    /// Nothing changed up to this version.
    Bookmark(String),
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    items: Vec<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Client {
    /// A client that gets in by `access`.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub fn new(access: Access) -> Result<Self, ApiError> {
        Client::bounded(access, MAX_BODY)
    }

    /// A client that reads at most so many bytes of a response other than of a watch.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn bounded(access: Access, max_body: usize) -> Result<Self, ApiError> {
        let connector = access.tls()?.map(TlsConnector::from);
        Ok(Client { shared: Arc::new(Shared { access, max_body, connector, idle: Mutex::default() }) })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, ApiError> {
        let Shared { access, connector, .. } = &*self.shared;
        let stream = TcpStream::connect((&*access.host, access.port)).await?;
        stream.set_nodelay(true)?;
        match connector {
            None => spawn(TokioIo::new(stream)).await,
            Some(connector) => {
                let name = access.server_name()?;
                spawn(TokioIo::new(connector.connect(name, stream).await?)).await
            }
        }
    }

    fn request(&self, method: &Method, path: &str, media: &str, body: Bytes) -> Result<Request<Full<Bytes>>, ApiError> {
        let access = &self.shared.access;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", access.base))
            .header(header::HOST, access.authority())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("weir/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = access.token()? {
            // The text of an error of a field could hold what the field does.
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value =
                value.map_err(|_| ApiError::Request("the token has characters that no token has".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, media);
        }
        request.body(Full::new(body)).map_err(|error| ApiError::Request(error.to_string()))
    }

    /// Sends a request over the kept connection, or over a new one; returns the body as JSON.
    ///
    /// # Errors
    /// No connection, or a status other than success.
    pub async fn call(&self, method: Method, path: &str, media: &str, body: Option<&Value>) -> Result<Value, ApiError> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let exchange = async {
            let mut idle = self.shared.idle.lock().await;
            let kept = idle.take().filter(|sender| !sender.is_closed());
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            let request = self.request(&method, path, media, body.clone())?;
            let response = match sender.send_request(request).await {
                Ok(response) => response,
                // The server may have closed it meanwhile.
                Err(_) => {
                    sender = self.connect().await?;
                    sender.send_request(self.request(&method, path, media, body)?).await?
                }
            };
            let result = read(response, self.shared.max_body).await;
            if result.as_ref().err().is_none_or(ApiError::is_response) {
                *idle = Some(sender);
            }
            result
        };
        tokio::time::timeout(TIMEOUT, exchange).await.map_err(|_| ApiError::Timeout)?
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn list<T: Object>(&self) -> Result<Listed<T>, ApiError> {
        self.list_of(&Selection::all::<T>(), usize::MAX).await
    }

    /// Those that are selected, at most so many.
    ///
    /// # Errors
    /// As [`Client::call`]; more objects.
    pub async fn list_of<T: Object>(&self, selection: &Selection, most: usize) -> Result<Listed<T>, ApiError> {
        let Selection { path, query } = selection;
        let (mut items, mut count) = (Vec::new(), 0);
        let mut next = String::new();
        let most_pages = most.div_ceil(PAGE).saturating_add(MORE_PAGES);
        for _ in 0..most_pages {
            let from = if next.is_empty() { String::new() } else { format!("&continue={}", encode(&next)) };
            let path = format!("{path}?limit={PAGE}{query}{from}");
            let page = self.call(Method::GET, &path, "", None).await?;
            let page: Page = serde_json::from_value(page).map_err(ApiError::Json)?;
            count += page.items.len();
            // One object that cannot be read is no reason to do without the others.
            items.extend(page.items.into_iter().filter_map(|item| read_object(item).ok()));
            if count > most {
                return Err(ApiError::Request(format!(
                    "the list has more than {most} objects of the kind {}",
                    T::KIND
                )));
            }
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(Listed { items, version: page.metadata.resource_version });
            }
        }
        Err(ApiError::Request(format!("the list of the kind {} has more than {most_pages} pages", T::KIND)))
    }

    /// Follows the objects of a kind from a version on, until the server ends it. Each event comes with its version.
    ///
    /// # Errors
    /// No connection; [`ApiError::is_expired`]: the version is too old, list again.
    pub async fn watch<T: Object>(&self, version: &str, each: impl FnMut(Event<T>, String)) -> Result<(), ApiError> {
        self.watch_of(&Selection::all::<T>(), version, each).await
    }

    /// Follows those that are selected.
    ///
    /// # Errors
    /// As [`Client::watch`].
    pub async fn watch_of<T: Object>(
        &self,
        selection: &Selection,
        version: &str,
        mut each: impl FnMut(Event<T>, String),
    ) -> Result<(), ApiError> {
        let Selection { path, query } = selection;
        let path = format!(
            "{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}{query}",
            encode(version)
        );
        let begun = async {
            let mut sender = self.connect().await?;
            let response = sender.send_request(self.request(&Method::GET, &path, "", Bytes::new())?).await?;
            Ok::<_, ApiError>((sender, response))
        };
        let (_sender, response) = tokio::time::timeout(TIMEOUT, begun).await.map_err(|_| ApiError::Timeout)??;
        if !response.status().is_success() {
            let status = tokio::time::timeout(TIMEOUT, read(response, MAX_STATUS)).await;
            return Err(status.map_err(|_| ApiError::Timeout)?.err().unwrap_or(ApiError::Timeout));
        }
        each(Event::Begun, String::new());
        let mut body = pin!(response.into_body());
        let mut lines = Lines::default();
        // A server that goes silent for longer than a watch lasts is not there any more.
        let silence = Duration::from_secs(WATCH_SECONDS + 30);
        while let Some(frame) = tokio::time::timeout(silence, body.frame()).await.map_err(|_| ApiError::Timeout)? {
            let Ok(data) = frame?.into_data() else { continue };
            for (number, line) in lines.push(&data)?.into_iter().enumerate() {
                if number % YIELD == YIELD - 1 {
                    tokio::task::yield_now().await;
                }
                let event: RawEvent = serde_json::from_slice(&line).map_err(ApiError::Json)?;
                let version = event.object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                let version = version.unwrap_or_default().to_owned();
                match event.kind.as_str() {
                    "ADDED" | "MODIFIED" => {
                        each(read_object(event.object).map_or_else(Event::Unreadable, Event::Applied), version);
                    }
                    "DELETED" => {
                        each(read_object(event.object).map_or_else(Event::Unreadable, Event::Deleted), version);
                    }
                    "BOOKMARK" => each(Event::Bookmark(version.clone()), version),
                    _ => return Err(ApiError::of_status(&event.object, 500)),
                }
            }
        }
        Ok(())
    }
}

/// An object of the kind, or which one it is that cannot be read.
fn read_object<T: Object>(value: Value) -> Result<T, Key> {
    T::deserialize(&value).map_err(|error| {
        let text = |name: &str| value.pointer(name).and_then(Value::as_str).unwrap_or_default();
        let key = Key::new(text("/metadata/namespace"), text("/metadata/name"));
        tracing::warn!(kind = T::KIND, object = %key, %error, "an object cannot be read and is left out");
        key
    })
}

/// Secrets are of many kinds, and only one is of use: the others are never sent here.
fn selector<T: Object>() -> &'static str {
    if T::KIND == "Secret" { "&fieldSelector=type%3Dkubernetes.io%2Ftls" } else { "" }
}

async fn spawn<I>(io: I) -> Result<SendRequest<Full<Bytes>>, ApiError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await?;
    tokio::spawn(async move {
        // How it ended is told to whoever waits for a response.
        let _ = connection.await;
    });
    Ok(sender)
}

/// The body of a response as JSON.
async fn read(response: Response<Incoming>, most: usize) -> Result<Value, ApiError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), most).collect().await;
    let body = body.map_err(|error| ApiError::Request(error.to_string()))?.to_bytes();
    let value: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if status.is_success() { Ok(value) } else { Err(ApiError::of_status(&value, status.as_u16())) }
}

/// A text as a value of a query.
fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
