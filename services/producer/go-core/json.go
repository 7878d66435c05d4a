package core

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// BodyDepth is the number of levels of arrays and objects that a whole request body may have.
	BodyDepth = 256
	// AttributeDepth is the number of levels that the attributes of one entity may have, the object of attributes itself
	// not counted.
	AttributeDepth = 64
)

// Scan holds what a JSON text may contain that a parser lets pass and PostgreSQL's jsonb does not.
type Scan struct {
	// Depth is the deepest nesting of arrays and objects.
	Depth int
	// NUL says that a string holds \u0000, which jsonb cannot store.
	NUL bool
	// LoneSurrogate says that a string holds half of a surrogate pair, which is no Unicode text (RFC 8259 §8.2).
	LoneSurrogate bool
}

// ScanJSON reads text once, as a lexer would. It is total: what is not JSON gives findings that mean nothing, and a parser
// says so.
func ScanJSON(text []byte) Scan {
	var found Scan
	depth := 0
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = scanString(text, at+1, &found) - 1
		case '{', '[':
			depth++
			found.Depth = max(found.Depth, depth)
		case '}', ']':
			depth = max(0, depth-1)
		}
	}
	return found
}

// scanString reads the string whose first byte is at at; it gives the place after the closing quote.
func scanString(text []byte, at int, found *Scan) int {
	for at < len(text) {
		switch {
		case text[at] == '"':
			return at + 1
		case text[at] != '\\':
			at++
			continue
		case at+1 >= len(text) || text[at+1] != 'u':
			at += 2
			continue
		}
		unit, known := codeUnit(text, at)
		at += 6
		switch {
		case !known:
		case unit == 0:
			found.NUL = true
		case unit >= 0xD800 && unit <= 0xDFFF:
			low, known := codeUnit(text, at)
			if unit <= 0xDBFF && known && low >= 0xDC00 && low <= 0xDFFF {
				at += 6
			} else {
				found.LoneSurrogate = true
			}
		}
	}
	return len(text)
}

// codeUnit is the UTF-16 unit that \uXXXX at at names.
func codeUnit(text []byte, at int) (uint64, bool) {
	if at+6 > len(text) || text[at] != '\\' || text[at+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[at+2:at+6]), 16, 16)
	return unit, err == nil
}

// WriteQuoted writes text as a JSON string.
func WriteQuoted(out *strings.Builder, text string) {
	const hex = "0123456789abcdef"
	out.WriteByte('"')
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out.WriteString(text[start:i])
		start = i + 1
		if c >= ' ' {
			out.WriteByte('\\')
			out.WriteByte(c)
		} else {
			out.WriteString(`\u00`)
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&15])
		}
	}
	out.WriteString(text[start:])
	out.WriteByte('"')
}

// longerThan says whether text has more than limit characters.
func longerThan(text string, limit int) bool {
	return len(text) > limit && utf8.RuneCountInString(text) > limit
}
