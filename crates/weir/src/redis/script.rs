//! Lua scripts, sent once by their text and then by their digest.

use redis::Cmd;

/// A script. Its text is fixed when the program is built, so it is loaded into each server once, by the first call that the server does
/// not know it for.
#[derive(Debug)]
pub struct Script {
    /// Name, for messages.
    pub name: &'static str,
    text: &'static str,
    digest: String,
}

impl Script {
    /// A script with this text.
    pub fn new(name: &'static str, text: &'static str) -> Self {
        Script { name, text, digest: redis::Script::new(text).get_hash().to_owned() }
    }

    /// `EVALSHA`: by digest, for a server that has it. Arguments are appended.
    pub(super) fn by_digest(&self, keys: &[&[u8]]) -> Cmd {
        call("EVALSHA", &self.digest, keys)
    }

    /// `EVAL`: by text, which the server keeps.
    pub(super) fn by_text(&self, keys: &[&[u8]]) -> Cmd {
        call("EVAL", self.text, keys)
    }
}

fn call(command: &str, script: &str, keys: &[&[u8]]) -> Cmd {
    let mut cmd = Cmd::with_capacity(4 + 5 * keys.len(), script.len() + 64 + 80 * keys.len());
    cmd.arg(command).arg(script).arg(keys.len());
    for key in keys {
        cmd.arg(*key);
    }
    cmd
}
