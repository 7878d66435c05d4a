package main

import (
	"strings"
	"testing"
)

func one(value string) string { return object(map[string]string{"k": value}) }

func TestWhatParsesAsJSONIsStoredAsSuch(t *testing.T) {
	for _, value := range []string{"0", "-1.50", "1e5", "true", "false", "null", "{}", `{"a":[1,"x"]}`, "[]", " 42\n"} {
		if got := one(value); got != `{"k":`+value+`}` {
			t.Errorf("%q: %s", value, got)
		}
	}
}

func TestAnythingElseIsAString(t *testing.T) {
	for value, want := range map[string]string{
		"": `""`, "red": `"red"`, `"quoted"`: `"\"quoted\""`, "007": `"007"`, "+1": `"+1"`, "NaN": `"NaN"`, "True": `"True"`, "1 2": `"1 2"`,
		"{'a':1}": `"{'a':1}"`, "tab\t": `"tab\u0009"`, `["\ud800"]`: `"[\"\\ud800\"]"`,
	} {
		if got := one(value); got != `{"k":`+want+`}` {
			t.Errorf("%q: %s", value, got)
		}
	}
}

func TestWhatNestsDeeperThanABodyMayIsNotParsed(t *testing.T) {
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	if got := one(nested(256)); got != `{"k":`+nested(256)+`}` {
		t.Error("256 levels are parsed")
	}
	if got := one(nested(257)); got != `{"k":"`+nested(257)+`"}` {
		t.Error("257 levels are a string")
	}
}
