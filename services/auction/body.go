package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// member is what a body may hold under a name. read gets the decoder at its value.
type member struct {
	required bool
	read     func(*json.Decoder) error
}

// readObject reads a request's body: one JSON object of the members given, no other and none twice. The value of each is read as it
// arrives; an error of it is the client's, and follows its name.
func readObject(w http.ResponseWriter, r *request, limit int64, members map[string]member) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refuse(http.StatusUnsupportedMediaType, "the body must be JSON, with Content-Type: application/json")
	}
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", limit)
	if r.ContentLength > limit {
		return tooLarge
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	decoder.UseNumber()
	err := readMembers(decoder, members)
	var exceeded *http.MaxBytesError
	var syntax *json.SyntaxError
	var network interface{ Timeout() bool }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exceeded):
		return tooLarge
	case errors.As(err, &network) && network.Timeout():
		return refuse(http.StatusRequestTimeout, "the body did not arrive before the deadline")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(http.StatusBadRequest, "the body ends before its JSON does")
	case errors.As(err, &syntax):
		return refuse(http.StatusBadRequest, "the body is not JSON: %w at byte %d", err, decoder.InputOffset())
	default:
		return err
	}
}

func readMembers(decoder *json.Decoder, members map[string]member) error {
	if token, err := decoder.Token(); err != nil {
		return err
	} else if token != json.Delim('{') {
		return refuse(http.StatusBadRequest, "the body must be a JSON object")
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		key := token.(string) // which the decoder makes sure of
		member, known := members[key]
		if !known {
			return refuse(http.StatusBadRequest, "there is no member %.100q; there are %s", key, names(members))
		}
		if seen[key] {
			return refuse(http.StatusBadRequest, "%s is given twice", key)
		}
		seen[key] = true
		if err := member.read(decoder); err != nil {
			var wrong *badValue
			if errors.As(err, &wrong) {
				return refuse(http.StatusBadRequest, "%s%s", key, wrong.text)
			}
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return err
	}
	for key, member := range members {
		if member.required && !seen[key] {
			return refuse(http.StatusBadRequest, "%s is missing", key)
		}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		if err != nil {
			return err
		}
		return refuse(http.StatusBadRequest, "something follows the JSON object")
	}
	return nil
}

func names(members map[string]member) string {
	var all []string
	for key := range members {
		all = append(all, key)
	}
	return strings.Join(sorted(all), ", ")
}

// badValue says what is wrong with a member's value; the text continues the member's name.
type badValue struct{ text string }

func (b *badValue) Error() string { return b.text }

func bad(format string, arguments ...any) error {
	return &badValue{fmt.Sprintf(format, arguments...)}
}

// text reads a string of least to most characters, each of which must be allowed.
func text(into *string, least, most int, what string, allowed func(rune) bool) func(*json.Decoder) error {
	return func(decoder *json.Decoder) error {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		value, isText := token.(string)
		if length := utf8.RuneCountInString(value); !isText || length < least || length > most {
			return bad(" must be a string of %d to %d characters", least, most)
		}
		if strings.ContainsFunc(value, func(c rune) bool { return !allowed(c) }) {
			return bad(" must hold only %s", what)
		}
		*into = value
		return nil
	}
}

// whole reads a whole number from least to most; 1e3 and 5.0 are whole, as JSON Schema has it.
func whole(into *int64, least, most int64) func(*json.Decoder) error {
	return func(decoder *json.Decoder) error {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		text, isNumber := token.(json.Number)
		value, err := strconv.ParseInt(text.String(), 10, 64)
		if err != nil {
			// Every whole number up to 2^53 is exact as a float, and most is below.
			float, _ := text.Float64()
			if value = int64(float); float64(value) != float {
				isNumber = false
			}
		}
		if !isNumber || value < least || value > most {
			return bad(" must be a whole number from %d to %d", least, most)
		}
		*into = value
		return nil
	}
}
