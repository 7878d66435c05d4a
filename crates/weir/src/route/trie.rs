//! Path templates and wildcards as a tree of segments.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::config::Segment;

/// Node of the tree: the place behind a segment.
#[derive(Debug)]
struct Node<C> {
    /// Literal segments that may follow.
    literals: Literals,
    /// What follows for any other segment that is not empty.
    parameter: Option<usize>,
    /// Templates that end here.
    ends: Vec<C>,
    /// Wildcards that begin here.
    wildcards: Vec<C>,
    /// Those of them that match the path that ends here too.
    below: Vec<C>,
}

/// Literal segments with the nodes behind them.
#[derive(Debug)]
enum Literals {
    /// Comparing a few is quicker than hashing one.
    Few(Box<[(Box<[u8]>, usize)]>),
    Many(LiteralMap),
}

type LiteralMap = HashMap<Box<[u8]>, usize, FixedState>;

impl Literals {
    fn new(literals: LiteralMap) -> Self {
        const FEW: usize = 4;
        if literals.len() <= FEW { Literals::Few(literals.into_iter().collect()) } else { Literals::Many(literals) }
    }

    fn get(&self, segment: &[u8]) -> Option<usize> {
        match self {
            Literals::Few(list) => list.iter().find(|(literal, _)| **literal == *segment).map(|&(_, node)| node),
            Literals::Many(map) => map.get(segment).copied(),
        }
    }
}

/// A tree of segments that holds values of type `C`.
#[derive(Debug)]
pub(super) struct Trie<C> {
    nodes: Vec<Node<C>>,
}

/// A tree that still grows.
#[derive(Debug)]
pub(super) struct Builder<C> {
    nodes: Vec<Growing<C>>,
}

#[derive(Debug)]
struct Growing<C> {
    literals: LiteralMap,
    parameter: Option<usize>,
    ends: Vec<C>,
    wildcards: Vec<C>,
    below: Vec<C>,
}

impl<C> Default for Builder<C> {
    fn default() -> Self {
        let mut builder = Builder { nodes: Vec::new() };
        builder.add_node();
        builder
    }
}

impl<C> Builder<C> {
    fn add_node(&mut self) -> usize {
        self.nodes.push(Growing {
            literals: LiteralMap::default(),
            parameter: None,
            ends: Vec::new(),
            wildcards: Vec::new(),
            below: Vec::new(),
        });
        self.nodes.len() - 1
    }

    /// Puts a value behind the segments of a pattern, beside those that are there.
    pub(super) fn insert<'s>(&mut self, segments: impl Iterator<Item = &'s Segment>, wildcard: bool, value: C) {
        let node = self.node(segments);
        if wildcard { node.wildcards.push(value) } else { node.ends.push(value) }
    }

    /// The same for a pattern that matches the path of its segments and everything below it.
    pub(super) fn insert_below<'s>(&mut self, segments: impl Iterator<Item = &'s Segment>, value: C)
    where
        C: Clone,
    {
        let node = self.node(segments);
        node.below.push(value.clone());
        node.wildcards.push(value);
    }

    fn node<'s>(&mut self, segments: impl Iterator<Item = &'s Segment>) -> &mut Growing<C> {
        let mut at = 0;
        for segment in segments {
            let known = match segment {
                Segment::Literal(text) => self.nodes[at].literals.get(text.as_bytes()).copied(),
                Segment::Param(_) => self.nodes[at].parameter,
            };
            let next = known.unwrap_or_else(|| self.add_node());
            match segment {
                Segment::Literal(text) => drop(self.nodes[at].literals.insert(text.as_bytes().into(), next)),
                Segment::Param(_) => self.nodes[at].parameter = Some(next),
            }
            at = next;
        }
        &mut self.nodes[at]
    }

    /// The tree, with the values of each place in order.
    pub(super) fn build<K: Ord>(self, order: impl Fn(&C) -> K) -> Trie<C> {
        let freeze = |mut node: Growing<C>| {
            node.ends.sort_by_key(&order);
            node.wildcards.sort_by_key(&order);
            node.below.sort_by_key(&order);
            Node {
                literals: Literals::new(node.literals),
                parameter: node.parameter,
                ends: node.ends,
                wildcards: node.wildcards,
                below: node.below,
            }
        };
        Trie { nodes: self.nodes.into_iter().map(freeze).collect() }
    }
}

/// A value that was found.
pub(super) struct Hit<'t, C> {
    pub(super) value: &'t C,
    /// Where in the path that which the wildcard matched begins; the end for a template.
    pub(super) rest_at: usize,
}

impl<C> Trie<C> {
    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && self.nodes[0].wildcards.is_empty()
    }

    /// The first value, in the order of precedence, that matches the path and is accepted: templates before wildcards; of two templates
    /// the one whose first different segment is a literal; of two wildcards the one with more segments, then likewise.
    ///
    /// Each node that fits the path is visited at most once.
    pub(super) fn find<'t>(&'t self, path: &[u8], accept: &mut impl FnMut(&C) -> bool) -> Option<Hit<'t, C>> {
        let mut search = Search { trie: self, path, accept, wildcard: None, no_wildcards: false };
        search.visit(0, Some(1), 0).or(search.wildcard.map(|(_, hit)| hit))
    }

    /// The first template, in the order of precedence, that matches the path and is accepted.
    pub(super) fn find_template<'t>(&'t self, path: &[u8], accept: &mut impl FnMut(&C) -> bool) -> Option<Hit<'t, C>> {
        Search { trie: self, path, accept, wildcard: None, no_wildcards: true }.visit(0, Some(1), 0)
    }
}

struct Search<'t, 'p, C, A> {
    trie: &'t Trie<C>,
    path: &'p [u8],
    accept: &'p mut A,
    /// The best wildcard so far, with its number of segments.
    wildcard: Option<(usize, Hit<'t, C>)>,
    no_wildcards: bool,
}

impl<'t, C, A: FnMut(&C) -> bool> Search<'t, '_, C, A> {
    /// Looks below a node. `at` is where the next segment begins, if the path goes on. The tree is as deep as the longest pattern of the
    /// file, and so is the recursion.
    fn visit(&mut self, node: usize, at: Option<usize>, depth: usize) -> Option<Hit<'t, C>> {
        let node = &self.trie.nodes[node];
        let Some(at) = at else {
            if let Some(value) = node.ends.iter().find(|value| (self.accept)(value)) {
                return Some(Hit { value, rest_at: self.path.len() });
            }
            if !self.no_wildcards
                && self.wildcard.as_ref().is_none_or(|(best, _)| depth > *best)
                && let Some(value) = node.below.iter().find(|value| (self.accept)(value))
            {
                self.wildcard = Some((depth, Hit { value, rest_at: self.path.len() }));
            }
            return None;
        };
        // Of two with the same number of segments the first that is visited has its literal further to the left.
        if !self.no_wildcards
            && self.wildcard.as_ref().is_none_or(|(best, _)| depth > *best)
            && let Some(value) = node.wildcards.iter().find(|value| (self.accept)(value))
        {
            self.wildcard = Some((depth, Hit { value, rest_at: at }));
        }
        let rest = &self.path[at..];
        let (segment, next) = match rest.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&rest[..slash], Some(at + slash + 1)),
            None => (rest, None),
        };
        if let Some(literal) = node.literals.get(segment)
            && let Some(hit) = self.visit(literal, next, depth + 1)
        {
            return Some(hit);
        }
        match node.parameter {
            Some(parameter) if !segment.is_empty() => self.visit(parameter, next, depth + 1),
            _ => None,
        }
    }
}
