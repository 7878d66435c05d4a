//! Compression of responses.

use std::sync::Arc;

use compress::{Coding, MediaTypes};

use super::Resolver;
use crate::raw;
use crate::raw::CompressAlso;
use crate::raw::shape::{OrNone, Spanned};
use crate::{Compression, RouteAuth};

impl Resolver<'_> {
    /// The compression of a route. What `defaults` say is checked once, with [`default_compression`](Self::default_compression).
    pub(super) fn compression(
        &mut self,
        raw: &raw::Route,
        auth: &RouteAuth,
        forwards: bool,
        default: Option<&Arc<Compression>>,
    ) -> Option<Arc<Compression>> {
        let edits = &raw.headers.response;
        let written = edits.set.iter().chain(edits.add.iter()).map(|(name, _)| name);
        let codings: Vec<_> =
            written.filter(|name| name.eq_ignore_ascii_case("content-encoding")).map(|name| name.origin).collect();
        let default_also = self.file.defaults.compress.as_option().map(|raw| &raw.0.also);
        let Some(own) = &raw.compress else {
            let is_safe = auth.is_open() || default_also.is_some_and(|also| has(also, CompressAlso::Auth));
            let inherited = default.filter(|_| forwards && is_safe).cloned();
            for origin in codings.into_iter().filter(|_| inherited.is_some()) {
                let message = "`Content-Encoding` is written by `compress` of `defaults`; one of the two (`compress: none` switches compression off here)";
                self.problem(origin, message);
            }
            return inherited;
        };
        let compress = own.as_option()?;
        if !forwards {
            self.problem(own.origin, "only routes with an `upstream` or a `split` have responses to compress");
        }
        if !auth.is_open() && !has(&compress.0.also, CompressAlso::Auth) {
            let message = "the length of compressed responses can tell what is secret in them (BREACH), and this route has `auth`; write `compress: {also: [auth]}` if that is safe here, or `compress: none`";
            self.problem(own.origin, message);
        }
        for origin in codings {
            self.problem(origin, "`compress` writes `Content-Encoding` too; remove one of the two");
        }
        Some(Arc::new(self.one_compression(compress)))
    }

    pub(super) fn default_compression(&mut self) -> Option<Arc<Compression>> {
        let file = self.file;
        match &file.defaults.compress {
            OrNone::None => None,
            OrNone::Some(raw) => Some(Arc::new(self.one_compression(raw))),
        }
    }

    fn one_compression(&mut self, raw: &Spanned<raw::Compress>) -> Compression {
        let raw::CompressMapping { codings, min, types, levels, also } = &raw.0;
        let mut found = Vec::new();
        for name in &codings.value {
            let coding = match name.value {
                raw::Coding::Zstd => Coding::Zstd,
                raw::Coding::Br => Coding::Brotli,
                raw::Coding::Gzip => Coding::Gzip,
            };
            if found.contains(&coding) {
                self.problem(name.origin, format!("`{}` is named twice", coding.name()));
            }
            found.push(coding);
        }
        if found.is_empty() {
            self.problem(raw.origin, "`codings` is empty; `compress: none` switches compression off");
        }
        let levels = [(Coding::Zstd, &levels.zstd), (Coding::Brotli, &levels.br), (Coding::Gzip, &levels.gzip)];
        for (coding, level) in levels {
            let range = coding.levels();
            if !range.contains(level) {
                let message = format!("a level of `{}` is from {} to {}", coding.name(), range.start(), range.end());
                self.problem(level.origin, message);
            }
        }
        let mut media_types = MediaTypes::default();
        if types.is_empty() {
            self.problem(raw.origin, "`types` is empty; `compress: none` switches compression off");
        }
        for text in &types.value {
            let added = media_types.add(text);
            self.check(text.origin, added);
        }
        Compression {
            codings: found,
            levels: levels.map(|(_, level)| level.value),
            min_bytes: min.0,
            types: media_types,
            with_set_cookie: has(also, CompressAlso::SetCookie),
        }
    }
}

fn has(also: &[Spanned<CompressAlso>], one: CompressAlso) -> bool {
    also.iter().any(|named| named.value == one)
}
