package core

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// dates are the contract suite's own cases.
func dates(t *testing.T) (cases struct {
	Read, Refused               []string
	NumbersRead, NumbersRefused []json.Number
}) {
	text, err := os.ReadFile(filepath.Join("..", "contract", "cases", "dates.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string][]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	texts := func(name string) (out []string) {
		for _, value := range raw[name] {
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return out
	}
	numbers := func(name string) (out []json.Number) {
		for _, value := range raw[name] {
			out = append(out, json.Number(value))
		}
		return out
	}
	cases.Read, cases.Refused = texts("read"), texts("refused")
	cases.NumbersRead, cases.NumbersRefused = numbers("numbers read"), numbers("numbers refused")
	return cases
}

func TestDates(t *testing.T) {
	cases := dates(t)
	if len(cases.Read) == 0 || len(cases.NumbersRefused) == 0 {
		t.Fatal("no cases")
	}
	for _, text := range cases.Read {
		// The empty date is "none", which the rules know and the parser does not.
		if text != "" && !IsDate(text) {
			t.Errorf("%q is a date", text)
		}
	}
	for _, text := range cases.Refused {
		if IsDate(text) {
			t.Errorf("%q is no date", text)
		}
	}
	for _, number := range cases.NumbersRead {
		if !IsEpochMillis(number.String()) {
			t.Errorf("%s is a date", number)
		}
	}
	for _, number := range cases.NumbersRefused {
		if IsEpochMillis(number.String()) {
			t.Errorf("%s is no date", number)
		}
	}
}

func TestScan(t *testing.T) {
	for text, want := range map[string]Scan{
		`1`:                            {},
		`{"a":[{}],"[[[[":"}{{{\"[["}`: {Depth: 3},
		`]]][`:                         {Depth: 1},
		`{"a":"x\u0000"}`:              {Depth: 1, NUL: true},
		`{"a":"\\u0000"}`:              {Depth: 1},
		`"\ud83d\ude00"`:               {},
		`"\ud83d"`:                     {LoneSurrogate: true},
		`"\ude00"`:                     {LoneSurrogate: true},
		`"\ud83d\u0041"`:               {LoneSurrogate: true},
		`"\ud83d\ud83d\ude00"`:         {LoneSurrogate: true},
		`"\u00`:                        {},
		`"\`:                           {},
		`"\u12g4\u0000"`:               {NUL: true},
		strings.Repeat("[", 9) + `"`:   {Depth: 9},
	} {
		if found := ScanJSON([]byte(text)); found != want {
			t.Errorf("%s: %+v, not %+v", text, found, want)
		}
	}
}

func FuzzScanAndQuote(f *testing.F) {
	f.Add(`"\ud83d`)
	f.Fuzz(func(t *testing.T, text string) {
		ScanJSON([]byte(text))
		var out strings.Builder
		WriteQuoted(&out, text)
		var back string
		if err := json.Unmarshal([]byte(out.String()), &back); err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		if want := strings.ToValidUTF8(text, "�"); strings.ToValidUTF8(back, "�") != want && !strings.Contains(want, "�") {
			t.Fatalf("%q came back as %q", text, back)
		}
	})
}

func update(kind, id, attributes string) Update {
	return Update{Is, Text{Is, kind}, Text{Is, id}, Text{Is, attributes}}
}

func submitted(updates ...Update) *Submitted {
	return &Submitted{Header{Shape: Is, EventName: Text{Is, "x"}}, Body{Is, Entities{Is, updates}}}
}

func TestCheckKeepsTheOrderOfEntities(t *testing.T) {
	event, err := Check(submitted(update("b", "2", "{}"), Update{Shape: Is, EntityType: Text{Is, "a"}, EntityID: Text{Is, "1"}}), 3, true)
	if err != nil || !slices.Equal(event.Types, []string{"b", "a"}) || !slices.Equal(event.IDs, []string{"2", "1"}) || !slices.Equal(event.Attributes, []string{"{}", "{}"}) {
		t.Errorf("%+v %v", event, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	long := strings.Repeat("é", 256)
	nested := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
	}
	if _, err := Check(submitted(update(long[:510], long[:510], nested(64))), 1, true); err != nil {
		t.Error(err)
	}
	for want, event := range map[string]*Submitted{
		"Event header event_name is required":                 {},
		"Invalid type: event_header must be an object":        {Header: Header{Shape: Other}},
		"Event body must contain at least one entity":         submitted(),
		"Event body must not contain more than 1 entities":    submitted(update("a", "1", "{}"), update("a", "2", "{}")),
		"Entity type cannot be empty":                         submitted(update("", "", "{}")),
		"Entity ID must not be longer than 255 characters":    submitted(update("a", long, "{}")),
		"Entity ID must not contain NUL":                      submitted(update("a", "\x00", "{}")),
		"Attributes must not be nested deeper than 64 levels": submitted(update("a", "1", nested(65))),
		"Attributes must not contain NUL":                     submitted(update("a", "1", `{"a":"\u0000"}`)),
		"Invalid type: entity must be an object":              submitted(Update{}),
	} {
		_, err := Check(event, 1, true)
		var refusal Refusal
		if !errors.As(err, &refusal) || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

func TestSettings(t *testing.T) {
	read := func(name, value string) (Settings, error) {
		get := func(variable string) string {
			if variable == name {
				return value
			}
			return ""
		}
		return readSettings(get, "SERVER_PORT", 9083, 0)
	}
	settings, err := read("", "")
	if err != nil || settings.Port != 9083 || settings.PoolSize != 10 || settings.MaxBodyBytes != 1<<20 || settings.Address(80) != "127.0.0.1:80" {
		t.Errorf("%+v %v", settings, err)
	}
	timeouts := []time.Duration{settings.HeadTimeout, settings.BodyTimeout, settings.IdleTimeout, settings.RequestTimeout}
	if want := []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, time.Minute}; !slices.Equal(timeouts, want) {
		t.Errorf("timeouts: %v", timeouts)
	}
	for _, bad := range [][2]string{
		{"HEAD_TIMEOUT_MS", "0"}, {"BODY_TIMEOUT_MS", "3600001"}, {"IDLE_TIMEOUT_MS", "60s"}, {"REQUEST_TIMEOUT_MS", "-1"},
		{"SERVER_PORT", "http"}, {"SERVER_PORT", "65536"}, {"SERVER_PORT", "+1"}, {"DATABASE_POOL_SIZE", "0"}, {"DATABASE_POOL_SIZE", "-1"},
		{"MAX_BODY_BYTES", "1MiB"}, {"MAX_BODY_BYTES", "99999999999999999999"}, {"SHUTDOWN_TIMEOUT_MS", "0"}, {"HOST", "localhost:80"}, {"LOG_LEVEL", "loud"},
	} {
		var variable *BadVariable
		if _, err := read(bad[0], bad[1]); !errors.As(err, &variable) || variable.Name != bad[0] {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, err := read("DATABASE_URL", "mysql://u:secret@x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestClassify(t *testing.T) {
	for code, want := range map[string]error{
		"08006": ErrUnavailable, "40P01": ErrUnavailable, "53300": ErrUnavailable, "57014": ErrUnavailable, "25006": ErrUnavailable,
		"22003": ErrRefused, "22P05": ErrRefused, "42P01": ErrFailed, "23505": ErrFailed, "25001": ErrFailed,
	} {
		if got := classify(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s: %v, not %v", code, got, want)
		}
	}
	if got := classify(errors.New("connection reset by peer")); got != ErrUnavailable {
		t.Error(got)
	}
}
