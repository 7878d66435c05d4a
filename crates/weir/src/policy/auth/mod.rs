//! Authentication and authorisation: who sends a request, and whether they may.
//!
//! From the configuration to a verdict:
//!
//! - [`Authenticators`] belongs to a configuration and is made once for all workers. What files hold (keys, users, key sets) is read
//!   with the configuration, so that a broken file refuses it, and followed from then on: a changed file is in force within a second.
//! - [`WorkerAuth`] is one worker's part: tokens that were verified a moment ago, and counts.
//! - A request shows [`credentials`]; [`WorkerAuth::check`] finds the first alternative of the route whose credentials are all there, and that
//!   one decides. A bad credential is never replaced by a good one of another kind.
//! - [`RouteEdits`] is what the upstream sees of it: credentials are removed, parts of the identity are written. Fields that any
//!   authenticator writes are removed from what clients send on every route ([`ForgedNames`]).
//!
//! What holds or does not hold is decided in the crate `auth`, which knows no sockets, files or clocks.

mod authorizer;
mod certificates;
mod changes;
mod credentials;
mod edits;
mod explain;
mod ext_authz;
mod fetch;
mod issuer;
mod key_registry;
mod passwords;
mod remote_keys;
mod shared;
mod worker;

pub use crate::config::{ForgedNames, is_same_folded};
pub use authorizer::{Denied, Passed, Question, Response, Subject, Verdict, Verdicts};
pub use certificates::ClientCertificate;
pub use changes::Changes;
pub use credentials::Head;
pub use edits::RouteEdits;
pub use ext_authz::Called;
pub use key_registry::{KeyRegistry, RegistryError};
pub use shared::Authenticators;
pub use worker::{WorkerAuth, merge};
