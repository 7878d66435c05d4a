package main

import (
	"errors"
	"strings"
	"testing"

	"example.com/weir/producer/go-core"
)

func read(t *testing.T, body string) (item, *reader) {
	t.Helper()
	reader, err := newReader([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	one, err := reader.one()
	if err != nil {
		t.Fatal(body, err)
	}
	return one, reader
}

func TestAMemberOfAnotherTypeIsNoSyntaxError(t *testing.T) {
	for body, want := range map[string]core.Shape{"null": core.Absent, "1": core.Other, "1e999": core.Other, `"x"`: core.Other, "[1,{}]": core.Other, "false": core.Other} {
		if one, _ := read(t, body); one.shape != want {
			t.Error(body, one.shape)
		}
	}
	one, _ := read(t, `{"eventHeader":{"eventName":7,"createdDate":1e400},"eventBody":{"entities":{}}}`)
	header := one.event.Header
	if header.EventName != (core.Text{Shape: core.Number, Text: "7"}) || header.CreatedDate.Text != "1e400" || one.event.Body.Entities.Shape != core.Other {
		t.Errorf("%+v", one)
	}
}

func TestTheLastOfTwoMembersCounts(t *testing.T) {
	one, _ := read(t, `{"eventheader":0,"eventHeader":{"uuid":"u","eventName":"a","x":[1e999]},"eventHeader":{"eventName":"b\u00e9"},"y":{}}`)
	if header := one.event.Header; header.EventName.Text != "bé" || header.UUID.Shape != core.Absent || one.event.Body.Shape != core.Absent {
		t.Errorf("%+v", one)
	}
}

func TestAttributesStayAsTheyWereWritten(t *testing.T) {
	one, _ := read(t, `{"eventBody":{"entities":[{"updatedAttributes": {"a": 1.10, "b":1e400} },null,{"updatedAttributes":[]}]}}`)
	updates := one.event.Body.Entities.Updates
	if len(updates) != 3 || updates[0].Attributes.Text != `{"a": 1.10, "b":1e400}` || updates[1].Shape != core.Absent || updates[2].Attributes.Shape != core.Other {
		t.Errorf("%+v", updates)
	}
}

func TestWhatIsNotJSONIsMalformed(t *testing.T) {
	for _, body := range []string{"", " ", "{", "{}x", "{'a':1}", "[1,]", "[1 2]", "01", "{\"a\":\"\x01\"}", `{"a":"\ud800"}`, "\ufeff{}", "nul", "NaN", "{\"a\":\"\xff\"}", `{"eventBody":{"entities":[{"updatedAttributes":{"a":1.}}]}}`} {
		reader, err := newReader([]byte(body))
		if err == nil {
			_, err = reader.one()
		}
		if !errors.Is(err, errMalformed) {
			t.Errorf("%q: %v", body, err)
		}
	}
	nested := func(levels int) []byte { return []byte(strings.Repeat("[", levels) + strings.Repeat("]", levels)) }
	if _, err := newReader(nested(256)); err != nil {
		t.Error(err)
	}
	if _, err := newReader(nested(257)); !errors.Is(err, errDepth) {
		t.Error(err)
	}
}

func TestABodySaysWhetherItsAttributesNeedACloserLook(t *testing.T) {
	for body, want := range map[string]bool{"{}": false, `{"a":"\u0000"}`: true, strings.Repeat("[", 65) + strings.Repeat("]", 65): true} {
		if _, reader := read(t, body); reader.scanAttributes != want {
			t.Error(body)
		}
	}
}

func TestContentTypes(t *testing.T) {
	for kind, want := range map[string]bool{"": true, "application/json": true, "Application/JSON; charset=utf-8": true, "application/x+json": true, "text/plain": false, "application/jsonp": false, "text/x+json": false} {
		if isJSON(kind) != want {
			t.Error(kind)
		}
	}
}
