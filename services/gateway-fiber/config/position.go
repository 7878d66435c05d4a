package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// decode fills value, a pointer to a struct, from a JSON document and notes the position of each part of it. A key that value
// has no place for, or that comes twice, is an error; each error says line, column and path, such as routes[2].upstream.
func decode(document []byte, value any) (*positions, error) {
	at := &positions{document: document, offset: map[string]int{}}
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(document, new(json.RawMessage)), &syntax) {
		if int(syntax.Offset) == len(document) && strings.HasPrefix(syntax.Error(), "unexpected end") {
			return nil, at.errorAt(len(document), "", "the document ends too early")
		}
		return nil, at.errorAt(int(syntax.Offset)-1, "", syntax.Error())
	}
	walk := walker{decoder: json.NewDecoder(bytes.NewReader(document)), at: at}
	if err := walk.value("", reflect.TypeOf(value).Elem()); err != nil {
		return nil, err
	}
	err := json.Unmarshal(document, value)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		// The walk has checked the types, so what is left is a number out of range.
		return nil, at.errorAt(int(mismatch.Offset), mismatch.Field, fmt.Sprintf("%s does not fit", mismatch.Value))
	}
	if err != nil {
		return nil, err
	}
	return at, nil
}

// positions knows the byte offset of each value of a document by its path.
type positions struct {
	document []byte
	offset   map[string]int
}

// errorf reports what is wrong with the value at a path, or with the nearest part around it that the document has.
func (p *positions) errorf(path, format string, arguments ...any) error {
	offset, known := p.offset[path]
	for outer := path; !known && outer != ""; offset, known = p.offset[outer] {
		outer = outer[:max(0, strings.LastIndexAny(outer, ".["))]
	}
	return p.errorAt(offset, path, fmt.Sprintf(format, arguments...))
}

func (p *positions) errorAt(offset int, path, text string) error {
	before := p.document[:min(max(offset, 0), len(p.document))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	if path != "" {
		path += ": "
	}
	return fmt.Errorf("line %d, column %d: %s%s", line, column, path, text)
}

// walker reads a document, whose syntax is right, token by token beside the type that it is meant for.
type walker struct {
	decoder *json.Decoder
	at      *positions
}

func (w *walker) value(path string, want reflect.Type) error {
	token, start, err := w.token()
	if err != nil {
		return err
	}
	w.at.offset[path] = start
	if want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return w.object(path, start, want)
		}
		return w.array(path, start, want)
	case string:
		if want.Kind() != reflect.String {
			return w.at.errorAt(start, path, "want "+describe(want)+", not a string")
		}
	case float64:
		if want.Kind() != reflect.Int {
			return w.at.errorAt(start, path, "want "+describe(want)+", not a number")
		}
		if token != float64(int64(token)) {
			return w.at.errorAt(start, path, "want a whole number")
		}
	case bool:
		if want.Kind() != reflect.Bool {
			return w.at.errorAt(start, path, fmt.Sprintf("want %s, not %t", describe(want), token))
		}
	default:
		return w.at.errorAt(start, path, "want "+describe(want)+", not null")
	}
	return nil
}

func (w *walker) object(path string, start int, want reflect.Type) error {
	if want.Kind() != reflect.Struct && want.Kind() != reflect.Map {
		return w.at.errorAt(start, path, "want "+describe(want)+", not an object")
	}
	var seen []string
	for w.decoder.More() {
		token, keyStart, err := w.token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		member := key
		if path != "" {
			member = path + "." + key
		}
		if slices.Contains(seen, key) {
			return w.at.errorAt(keyStart, member, "this key comes twice")
		}
		seen = append(seen, key)
		var inner reflect.Type
		if want.Kind() == reflect.Map {
			inner = want.Elem()
		} else if inner = field(want, key); inner == nil {
			return w.at.errorAt(keyStart, member, "unknown key; there are: "+strings.Join(keys(want), ", "))
		}
		if err := w.value(member, inner); err != nil {
			return err
		}
	}
	_, _, err := w.token() // the closing brace
	return err
}

func (w *walker) array(path string, start int, want reflect.Type) error {
	if want.Kind() != reflect.Slice {
		return w.at.errorAt(start, path, "want "+describe(want)+", not an array")
	}
	for i := 0; w.decoder.More(); i++ {
		if err := w.value(fmt.Sprintf("%s[%d]", path, i), want.Elem()); err != nil {
			return err
		}
	}
	_, _, err := w.token() // the closing bracket
	return err
}

// token returns the next token and where it begins.
func (w *walker) token() (token json.Token, start int, err error) {
	start = int(w.decoder.InputOffset())
	for start < len(w.at.document) && strings.IndexByte(" \t\r\n,:", w.at.document[start]) >= 0 {
		start++
	}
	token, err = w.decoder.Token()
	return token, start, err
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	}
	return "a string"
}

// keys are the names that a struct's fields have in JSON.
func keys(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("json"))
	}
	return names
}

// field is the type of the field with that name in JSON, or nil. Unlike encoding/json it takes upper and lower case for different.
func field(t reflect.Type, key string) reflect.Type {
	if i := slices.Index(keys(t), key); i >= 0 {
		return t.Field(i).Type
	}
	return nil
}
