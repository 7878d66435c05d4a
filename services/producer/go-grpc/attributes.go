package main

import (
	"encoding/json"
	"strings"

	"example.com/weir/producer/go-core"
)

// object is the text of the JSON object that a map of attributes is stored as.
func object(attributes map[string]string) string {
	size := 2
	for key, value := range attributes {
		size += len(key) + len(value) + 6
	}
	var out strings.Builder
	out.Grow(size)
	out.WriteByte('{')
	for key, value := range attributes {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		core.WriteQuoted(&out, key)
		out.WriteByte(':')
		if isStructured(value) {
			out.WriteString(value)
		} else {
			core.WriteQuoted(&out, value)
		}
	}
	out.WriteByte('}')
	return out.String()
}

// isStructured says whether text is a JSON number, boolean, null, object or array; a quoted JSON string is not.
func isStructured(text string) bool {
	start := strings.TrimLeft(text, " \t\r\n")
	if start == "" || strings.IndexByte("-0123456789tfn{[", start[0]) < 0 {
		return false
	}
	// Half a surrogate pair is a text that JSON's grammar passes and no store takes. What nests deeper than a whole REST
	// body may is not parsed at all.
	found := core.ScanJSON([]byte(text))
	return !found.LoneSurrogate && found.Depth <= core.BodyDepth && json.Valid([]byte(text))
}
