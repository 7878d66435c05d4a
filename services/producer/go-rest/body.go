package main

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"example.com/weir/producer/go-core"
)

// A body that is not a usable JSON text; refused with 400.
var (
	errMalformed = errors.New("Malformed JSON")
	errDepth     = errors.New("JSON must not be nested deeper than 256 levels")
)

// item is one element of a body: an event, or something that is none.
type item struct {
	shape core.Shape
	event core.Submitted
}

// reader reads a body in one pass. A member of a type that the contract does not know is noted, not an error: the
// rules decide in their own order. A name that is given twice means its last value.
//
// encoding/json is not used because it takes a name in any case of letters and needs a pass for every level that it keeps
// as it was written.
type reader struct {
	*jsontext.Decoder
	// scanAttributes says that the attributes need the closer look that the body as a whole did not rule out.
	scanAttributes bool
}

func newReader(body []byte) (*reader, error) {
	if !utf8.Valid(body) {
		return nil, errMalformed
	}
	found := core.ScanJSON(body)
	if found.Depth > core.BodyDepth {
		return nil, errDepth
	}
	if found.LoneSurrogate {
		return nil, errMalformed
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	return &reader{decoder, found.NUL || found.Depth > core.AttributeDepth}, nil
}

// end says whether nothing but white space is left.
func (r *reader) end() error {
	if _, err := r.ReadToken(); err != io.EOF {
		return errMalformed
	}
	return nil
}

// one reads a body of one event.
func (r *reader) one() (item, error) {
	read, err := r.item()
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return item{}, errMalformed
	}
	return read, nil
}

// many reads a body of an array of events.
func (r *reader) many() ([]item, core.Shape, error) {
	var items []item
	shape, err := r.array(func() error {
		read, err := r.item()
		items = append(items, read)
		return err
	})
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return nil, core.Other, errMalformed
	}
	return items, shape, nil
}

func (r *reader) item() (item, error) {
	var read item
	var err error
	read.shape, err = r.object(func(name string) (err error) {
		switch name {
		case "eventHeader":
			read.event.Header, err = r.header()
		case "eventBody":
			read.event.Body, err = r.body()
		default:
			err = r.SkipValue()
		}
		return err
	})
	return read, err
}

func (r *reader) header() (core.Header, error) {
	var header core.Header
	var err error
	header.Shape, err = r.object(func(name string) (err error) {
		switch name {
		case "uuid":
			header.UUID, err = r.text()
		case "eventName":
			header.EventName, err = r.text()
		case "createdDate":
			header.CreatedDate, err = r.text()
		case "savedDate":
			header.SavedDate, err = r.text()
		case "eventType":
			header.EventType, err = r.text()
		default:
			err = r.SkipValue()
		}
		return err
	})
	return header, err
}

func (r *reader) body() (core.Body, error) {
	var body core.Body
	var err error
	body.Shape, err = r.object(func(name string) error {
		if name != "entities" {
			return r.SkipValue()
		}
		var entities core.Entities
		var err error
		entities.Shape, err = r.array(func() error {
			update, err := r.update()
			entities.Updates = append(entities.Updates, update)
			return err
		})
		body.Entities = entities
		return err
	})
	return body, err
}

func (r *reader) update() (core.Update, error) {
	var update core.Update
	var err error
	update.Shape, err = r.object(func(name string) (err error) {
		switch name {
		case "entityType":
			update.EntityType, err = r.text()
		case "entityId":
			update.EntityID, err = r.text()
		case "updatedAttributes":
			update.Attributes, err = r.attributes()
		default:
			err = r.SkipValue()
		}
		return err
	})
	return update, err
}

// object reads an object member by member; anything else is passed over, and the shape says what it was.
func (r *reader) object(member func(name string) error) (core.Shape, error) {
	switch r.PeekKind() {
	case '{':
	case 'n':
		return core.Absent, r.SkipValue()
	default:
		return core.Other, r.SkipValue()
	}
	if _, err := r.ReadToken(); err != nil {
		return core.Other, err
	}
	for r.PeekKind() == '"' {
		name, err := r.ReadToken()
		if err == nil {
			err = member(name.String())
		}
		if err != nil {
			return core.Other, err
		}
	}
	_, err := r.ReadToken()
	return core.Is, err
}

// array reads an array element by element; anything else is passed over, and the shape says what it was.
func (r *reader) array(element func() error) (core.Shape, error) {
	switch r.PeekKind() {
	case '[':
	case 'n':
		return core.Absent, r.SkipValue()
	default:
		return core.Other, r.SkipValue()
	}
	if _, err := r.ReadToken(); err != nil {
		return core.Other, err
	}
	for {
		switch r.PeekKind() {
		case ']':
			_, err := r.ReadToken()
			return core.Is, err
		case jsontext.KindInvalid:
			_, err := r.ReadToken()
			if err == nil {
				err = errMalformed
			}
			return core.Other, err
		}
		if err := element(); err != nil {
			return core.Other, err
		}
	}
}

// text reads a scalar: a string, or a number as it was written.
func (r *reader) text() (core.Text, error) {
	switch r.PeekKind() {
	case '"':
		token, err := r.ReadToken()
		if err != nil {
			return core.Text{}, err
		}
		return core.Text{Shape: core.Is, Text: token.String()}, nil
	case '0':
		value, err := r.ReadValue()
		return core.Text{Shape: core.Number, Text: string(value)}, err
	case 'n':
		return core.Text{}, r.SkipValue()
	}
	return core.Text{Shape: core.Other}, r.SkipValue()
}

// attributes reads an object as it was written.
func (r *reader) attributes() (core.Text, error) {
	switch r.PeekKind() {
	case '{':
		value, err := r.ReadValue()
		return core.Text{Shape: core.Is, Text: string(value)}, err
	case 'n':
		return core.Text{}, r.SkipValue()
	}
	return core.Text{Shape: core.Other}, r.SkipValue()
}
