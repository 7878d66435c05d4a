package config

import (
	"cmp"
	"slices"
	"strings"
)

// Pattern of a path: "/a" exactly, "/a/{id}" with a parameter for one segment or a part of it, "/a/*" for "/a/" and all below.
type Pattern struct {
	// Parts are constants and names of parameters in turn, beginning with a constant.
	Parts []string
	// Wildcard: the last constant ends with a slash, and everything below it matches.
	Wildcard bool
}

// maxParams is Fiber's limit.
const maxParams = 30

func (p *parser) pattern(path, text string) Pattern {
	var pattern Pattern
	switch {
	case text == "":
		p.fail(path, "the path is missing")
		return pattern
	case text[0] != '/':
		p.fail(path, "%q does not begin with a slash", text)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`?#\"<>`, r) }):
		p.fail(path, "%q holds a character that a path cannot hold as it is: write it as %%XX", text)
	}
	text, pattern.Wildcard = strings.CutSuffix(text, "/*")
	if pattern.Wildcard {
		text += "/"
	}
	if strings.Contains(text, "*") {
		p.fail(path, "* may stand only at the end, after a slash")
	}
	pattern.Parts = p.parts(path, text)
	for i := 1; i < len(pattern.Parts); i += 2 {
		next := ""
		if i+1 < len(pattern.Parts) {
			next = pattern.Parts[i+1]
		}
		if slices.Contains(pattern.Params()[:i/2], pattern.Parts[i]) {
			p.fail(path, "the parameter {%s} comes twice", pattern.Parts[i])
		}
		switch {
		case next == "" && i+2 < len(pattern.Parts):
			p.fail(path, "{%s} and {%s} need something between them", pattern.Parts[i], pattern.Parts[i+2])
		case next != "" && strings.IndexByte("/-.:", next[0]) < 0:
			p.fail(path, "after {%s} must come one of / - . : or the end", pattern.Parts[i])
		}
	}
	if len(pattern.Params()) > maxParams {
		p.fail(path, "more than %d parameters", maxParams)
	}
	return pattern
}

// parts splits "/a/{id}/b" into "/a/", "id", "/b".
func (p *parser) parts(path, text string) []string {
	constant, rest, found := strings.Cut(text, "{")
	parts := []string{constant}
	for found {
		name, after, closed := strings.Cut(rest, "}")
		if !closed || name == "" || strings.ContainsAny(name, "{/") {
			p.fail(path, "%q has a { that does not begin a {name}", text)
			return parts
		}
		constant, rest, found = strings.Cut(after, "{")
		parts = append(parts, name)
		if constant != "" || found {
			parts = append(parts, constant)
		}
	}
	if strings.Contains(constant, "}") {
		p.fail(path, "%q has a } without a {", text)
	}
	return parts
}

// Params are the names of the parameters.
func (pattern Pattern) Params() []string {
	var names []string
	for i := 1; i < len(pattern.Parts); i += 2 {
		names = append(names, pattern.Parts[i])
	}
	return names
}

// Fixed is the constant beginning, up to the first parameter or the wildcard.
func (pattern Pattern) Fixed() string { return pattern.Parts[0] }

// shape is equal for patterns that match the same paths.
func (pattern Pattern) shape() string {
	var b strings.Builder
	for i, part := range pattern.Parts {
		if i%2 == 1 {
			part = "{}"
		}
		b.WriteString(part)
	}
	if pattern.Wildcard {
		b.WriteByte('*')
	}
	return b.String()
}

// compare orders patterns from the one to try first: exact paths, then templates, then wildcards; among each the one that says
// more, segment by segment from the left ("/a/b/{x}" before "/a/{x}/b"), and the longer before the shorter.
func (pattern Pattern) compare(other Pattern) int {
	rank := func(x Pattern) int {
		switch {
		case x.Wildcard:
			return 2
		case len(x.Parts) > 1:
			return 1
		}
		return 0
	}
	if order := cmp.Compare(rank(pattern), rank(other)); order != 0 {
		return order
	}
	mine, theirs := strings.Split(pattern.shape(), "/"), strings.Split(other.shape(), "/")
	for i := range min(len(mine), len(theirs)) {
		open := func(segment string) int { return strings.Count(segment, "{}") + 2*strings.Count(segment, "*") }
		if order := cmp.Compare(open(mine[i]), open(theirs[i])); order != 0 {
			return order
		}
	}
	return -cmp.Compare(len(mine), len(theirs))
}

func (p *parser) rewrite(path string, file rawRewrite, pattern Pattern) Rewrite {
	var rewrite Rewrite
	check := func(key, text string) {
		if text == "" || text[0] != '/' {
			p.fail(path+"."+key, "%q does not begin with a slash", text)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`?#\"<>*`, r) }) {
			p.fail(path+"."+key, "%q holds a character that a path cannot hold as it is: write it as %%XX", text)
		}
	}
	switch {
	case (file.Path == nil) == (file.Prefix == nil):
		p.fail(path, "want either path or prefix")
	case file.Path != nil:
		check("path", *file.Path)
		rewrite.Path = p.parts(path+".path", *file.Path)
		for i := 1; i < len(rewrite.Path); i += 2 {
			if !slices.Contains(pattern.Params(), rewrite.Path[i]) {
				p.fail(path+".path", "the route's path has no parameter {%s}", rewrite.Path[i])
			}
		}
	default:
		check("prefix", *file.Prefix)
		if p.err == nil {
			// "/v2" for "/v1/*": the slash before the rest stays, "/" for it strips.
			fixed := pattern.Fixed()
			rewrite.Prefix = *file.Prefix
			rewrite.Strip = len(fixed)
			if strings.HasSuffix(fixed, "/") {
				rewrite.Prefix = strings.TrimSuffix(rewrite.Prefix, "/") + "/"
			}
		}
	}
	return rewrite
}
