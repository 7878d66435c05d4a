//! What names mean: types, traits, resource types and security schemes of the document itself, of the libraries that it
//! uses, and of the description that everything belongs to.

use crate::diagnostic::Code;
use crate::tree::Node;

/// Names of a description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) root: Node<'a>,
}

impl<'a> Scope<'a> {
    /// The declaration called `name` in one of the sections `kinds`, as seen from the document in which `from` stands.
    pub(super) fn find(&self, kinds: &[&str], name: &str, from: Node<'a>) -> Result<Node<'a>, (Code, String)> {
        let own = from.document_root();
        for root in [own, self.root] {
            if let Some(found) = section(root, kinds, name) {
                return Ok(found);
            }
            if let Some((library, rest)) = name.split_once('.')
                && let Some(path) = root.given("uses").and_then(|u| u.given(library))
            {
                let library_root = match path.str() {
                    Some(file) => path.set().file(path.doc(), file)?,
                    None => path,
                };
                return section(library_root, kinds, rest).ok_or_else(|| {
                    (
                        Code::BadReference,
                        format!(
                            "the library '{library}' ({}) has no '{rest}' in its {}",
                            library_root.file(),
                            kinds[0]
                        ),
                    )
                });
            }
        }
        Err((Code::BadReference, format!("there is no '{}' in {}", crate::tree::parse::short(name), kinds[0])))
    }

    /// Whether `node` stands directly in a `types` section, so that its key is a type's name.
    pub(super) fn is_named_type(&self, node: Node<'a>) -> bool {
        let pointer = node.pointer();
        pointer
            .strip_prefix("#/types/")
            .or_else(|| pointer.strip_prefix("#/schemas/"))
            .is_some_and(|rest| !rest.contains('/'))
    }
}

/// `name` in a section, which is a mapping or, as in RAML 0.8, a list of mappings.
fn section<'a>(root: Node<'a>, kinds: &[&str], name: &str) -> Option<Node<'a>> {
    kinds
        .iter()
        .filter_map(|kind| root.given(kind))
        .find_map(|section| section.get(name).or_else(|| section.items().find_map(|item| item.get(name))))
}
