//! Entries of API keys in Redis, for those who manage them.
//!
//! Each entry is a hash by the digest of its key. A hash of all ids says which digest belongs to which id. On a cluster the two are not in
//! one slot, so they are written one after the other: the id first, because a key whose id is not listed could be used and not be revoked.

use std::rc::Rc;

use auth::api_key::{Entry, Record, from_hex};

use super::remote_keys::Names;
use crate::redis::{Client, Cmd, Failure, Script, Value};

/// Changes fields of a hash that exists: nothing makes a half of an entry.
const CHANGE: &str =
    "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end redis.call('HSET', KEYS[1], unpack(ARGV)) return 1";
/// Ids that are read at once.
const BATCH: usize = 500;
/// A replica has so long to confirm a change, in milliseconds.
const REPLICATED_MS: u32 = 1_000;

/// What cannot be done with the entries in Redis.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Redis gives no response.
    #[error("{0}")]
    Redis(#[from] Failure),
    /// No key has this id.
    #[error("no key has the id `{0}`; `weir keys list` shows them")]
    UnknownId(String),
    /// What is there is not an entry, or cannot be one.
    #[error("the entry of `{id}`: {problem}")]
    Entry {
        /// Id of the key.
        id: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The id is taken.
    #[error("another key has the id `{0}`")]
    IdTaken(String),
}

/// The entries of one namespace.
pub struct KeyRegistry {
    client: Rc<Client>,
    names: Names,
    change: Script,
}

impl KeyRegistry {
    /// Entries that this client reaches, in the namespace of its Redis.
    pub fn new(client: Rc<Client>) -> Self {
        let names = Names::new(&client.redis().config().namespace);
        KeyRegistry { client, names, change: Script::new("keys-change", CHANGE) }
    }

    /// Adds an entry. Says whether it outlives a failover: a replica has it, or there is none to fail over to.
    ///
    /// # Errors
    /// [`RegistryError`]; the entry may have been added if Redis gave no response.
    pub async fn add(&self, entry: &Entry) -> Result<bool, RegistryError> {
        let wrong = |problem| RegistryError::Entry { id: entry.id.clone(), problem };
        let fields = entry.to_fields().map_err(wrong)?;
        let digest = from_hex(entry.sha256.as_bytes()).ok_or_else(|| wrong("`sha256` is not a digest".to_owned()))?;
        // What gateways will make of it.
        let bytes = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let read = Entry::from_fields(&entry.sha256, bytes).map_err(wrong)?;
        Record::of(read).map_err(wrong)?;
        let index = self.names.index();
        let mut list = Cmd::new();
        list.arg("HSETNX").arg(&index).arg(&entry.id).arg(&entry.sha256);
        if self.client.command(&index, &list).await? == Value::Int(0) {
            return Err(RegistryError::IdTaken(entry.id.clone()));
        }
        let name = self.names.entry(&digest);
        let mut set = Cmd::new();
        set.arg("HSET").arg(&name);
        for (field, value) in &fields {
            set.arg(field).arg(value);
        }
        self.client.command(&name, &set).await?;
        self.publish(&entry.sha256).await?;
        Ok(self.is_replicated(&name).await)
    }

    /// The entry with an id.
    ///
    /// # Errors
    /// [`RegistryError`]
    pub async fn get(&self, id: &str) -> Result<Entry, RegistryError> {
        let digest = self.digest_of(id).await?;
        self.entry(id, &digest).await?.ok_or_else(|| RegistryError::UnknownId(id.to_owned()))
    }

    /// All entries, by consumer and id; for those that cannot be read, their id and what is wrong.
    ///
    /// # Errors
    /// [`RegistryError::Redis`]
    pub async fn list(&self) -> Result<Vec<Result<Entry, RegistryError>>, RegistryError> {
        let index = self.names.index();
        let mut entries = Vec::new();
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = Cmd::new();
            scan.arg("HSCAN").arg(&index).arg(&cursor).arg("COUNT").arg(BATCH);
            let Value::Array(parts) = self.client.command(&index, &scan).await? else { break };
            let [Value::BulkString(next), Value::Array(pairs)] = &parts[..] else { break };
            for pair in pairs.chunks_exact(2) {
                let [Value::BulkString(id), Value::BulkString(digest)] = pair else { continue };
                let (id, digest) = (String::from_utf8_lossy(id), String::from_utf8_lossy(digest));
                match self.entry(&id, &digest).await {
                    Ok(Some(entry)) => entries.push(Ok(entry)),
                    // An id that was listed by somebody who got no further.
                    Ok(None) => {}
                    Err(RegistryError::Redis(failure)) => return Err(failure.into()),
                    Err(broken) => entries.push(Err(broken)),
                }
            }
            if next == b"0" {
                break;
            }
            cursor.clone_from(next);
        }
        entries.sort_by(|one, other| order(one).cmp(&order(other)));
        // A hash that grows while it is read may give an id twice.
        entries.dedup_by(|one, other| order(one) == order(other));
        Ok(entries)
    }

    /// Changes fields of an entry. Gateways that follow changes use it at once. Says whether the change outlives a failover, as [`Self::add`].
    ///
    /// # Errors
    /// [`RegistryError`]; the entry may have been changed if Redis gave no response.
    pub async fn change(&self, id: &str, fields: &[(&str, &str)]) -> Result<bool, RegistryError> {
        let digest = self.digest_of(id).await?;
        let name = self.name_of(id, &digest)?;
        let arguments: Vec<&[u8]> =
            fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]).collect();
        let changed = self.client.script(&self.change, &[&name], &arguments).await;
        if changed.map_err(|failure| self.explain(id, failure))? == Value::Int(0) {
            return Err(RegistryError::UnknownId(id.to_owned()));
        }
        self.publish(&digest).await?;
        Ok(self.is_replicated(&name).await)
    }

    /// Whether a replica has what was written last about `name`. Redis responds to a write before that: without it, the replica that takes
    /// over does not know that a key was revoked.
    async fn is_replicated(&self, name: &[u8]) -> bool {
        if !self.client.has_failover() {
            return true;
        }
        let mut wait = Cmd::new();
        wait.arg("WAIT").arg(1).arg(REPLICATED_MS);
        matches!(self.client.command(name, &wait).await, Ok(Value::Int(replicas)) if replicas > 0)
    }

    async fn publish(&self, message: &str) -> Result<(), RegistryError> {
        let channel = self.names.channel();
        let mut publish = Cmd::new();
        publish.arg("PUBLISH").arg(&channel).arg(message);
        self.client.command(channel.as_bytes(), &publish).await?;
        Ok(())
    }

    async fn digest_of(&self, id: &str) -> Result<String, RegistryError> {
        let index = self.names.index();
        let mut get = Cmd::new();
        get.arg("HGET").arg(&index).arg(id);
        match self.client.command(&index, &get).await? {
            Value::BulkString(digest) => Ok(String::from_utf8_lossy(&digest).into_owned()),
            _ => Err(RegistryError::UnknownId(id.to_owned())),
        }
    }

    fn name_of(&self, id: &str, digest: &str) -> Result<Vec<u8>, RegistryError> {
        let digest = from_hex(digest.as_bytes()).ok_or_else(|| RegistryError::Entry {
            id: id.to_owned(),
            problem: "what the list of ids has is not a digest".to_owned(),
        })?;
        Ok(self.names.entry(&digest))
    }

    async fn entry(&self, id: &str, digest: &str) -> Result<Option<Entry>, RegistryError> {
        let name = self.name_of(id, digest)?;
        let mut get = Cmd::new();
        get.arg("HGETALL").arg(&name);
        let value = self.client.command(&name, &get).await.map_err(|failure| self.explain(id, failure))?;
        let Value::Array(list) = value else { return Ok(None) };
        let pairs = list.chunks_exact(2).filter_map(|pair| match pair {
            [Value::BulkString(name), Value::BulkString(value)] => Some((&name[..], &value[..])),
            _ => None,
        });
        if list.is_empty() {
            return Ok(None);
        }
        let entry = Entry::from_fields(digest, pairs);
        Ok(Some(entry.map_err(|problem| RegistryError::Entry { id: id.to_owned(), problem })?))
    }

    #[expect(clippy::unused_self, reason = "reads as a step of the call")]
    fn explain(&self, id: &str, failure: Failure) -> RegistryError {
        match failure {
            Failure::Refused(error) if error.starts_with("WRONGTYPE") => {
                RegistryError::Entry { id: id.to_owned(), problem: "it is not a hash".to_owned() }
            }
            failure => failure.into(),
        }
    }
}

fn order(entry: &Result<Entry, RegistryError>) -> (&str, &str) {
    match entry {
        Ok(entry) => (&entry.consumer, &entry.id),
        Err(RegistryError::Entry { id, .. }) => ("", id),
        Err(_) => ("", ""),
    }
}
