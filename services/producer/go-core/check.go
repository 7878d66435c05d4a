package core

import (
	"fmt"
	"strings"
)

// nameChars is the number of characters that an entity's type or id may have; what the table's columns hold.
const nameChars = 255

// Shape is what a member of a JSON object turned out to be.
type Shape int

const (
	// Absent is a member that is missing, or null.
	Absent Shape = iota
	// Is is a member of the type that the contract says.
	Is
	// Number is a number where a string is wanted; a date may be one.
	Number
	// Other is a member of another type.
	Other
)

// Text is a scalar member: the text of a string, or a number as it was written.
type Text struct {
	Shape Shape
	Text  string
}

// TextFromProto is the member that a protobuf string is: without a presence of its own, so empty means absent.
func TextFromProto(text string) Text {
	if text == "" {
		return Text{}
	}
	return Text{Is, text}
}

// Submitted is an event as it came, its types known and nothing else.
type Submitted struct {
	Header Header
	Body   Body
}

// Header is eventHeader. Only the event's name is required.
type Header struct {
	Shape                                              Shape
	UUID, EventName, CreatedDate, SavedDate, EventType Text
}

// Body is eventBody.
type Body struct {
	Shape    Shape
	Entities Entities
}

// Entities is the array of updates.
type Entities struct {
	Shape   Shape
	Updates []Update
}

// Update is one of the entities. Attributes is the text of a JSON object.
type Update struct {
	Shape                Shape
	EntityType, EntityID Text
	Attributes           Text
}

// Event is an event that may be stored: a column each for the types, ids and attributes of its entities, as the statement
// wants them.
type Event struct {
	Types, IDs, Attributes []string
}

// Refusal is why an event is refused, in the words of the contract.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Check checks an event: header, then body, then entity by entity; the error is the first rule that it breaks, a Refusal.
// scanAttributes may be false only where the whole body was scanned already and neither a NUL nor more than AttributeDepth
// levels were found.
func Check(event *Submitted, maxEntities int, scanAttributes bool) (Event, error) {
	if err := checkHeader(&event.Header); err != nil {
		return Event{}, err
	}
	if event.Body.Shape == Other {
		return Event{}, Refusal("Invalid type: event_body must be an object")
	}
	if event.Body.Entities.Shape == Other {
		return Event{}, Refusal("Invalid type: entities must be an array")
	}
	updates := event.Body.Entities.Updates
	if len(updates) == 0 {
		return Event{}, Refusal("Event body must contain at least one entity")
	}
	if len(updates) > maxEntities {
		return Event{}, Refusal(fmt.Sprintf("Event body must not contain more than %d entities", maxEntities))
	}
	columns := make([]string, 3*len(updates))
	checked := Event{columns[:len(updates)], columns[len(updates) : 2*len(updates)], columns[2*len(updates):]}
	for i := range updates {
		update := &updates[i]
		if update.Shape != Is {
			return Event{}, Refusal("Invalid type: entity must be an object")
		}
		if err := checkName(update.EntityType, "entity_type", "Entity type"); err != nil {
			return Event{}, err
		}
		if err := checkName(update.EntityID, "entity_id", "Entity ID"); err != nil {
			return Event{}, err
		}
		attributes, err := checkAttributes(update.Attributes, scanAttributes)
		if err != nil {
			return Event{}, err
		}
		checked.Types[i], checked.IDs[i], checked.Attributes[i] = update.EntityType.Text, update.EntityID.Text, attributes
	}
	return checked, nil
}

func checkHeader(header *Header) error {
	if header.Shape == Other {
		return Refusal("Invalid type: event_header must be an object")
	}
	if err := checkText(header.EventName, "event_name"); err != nil {
		return err
	}
	if header.EventName.Text == "" {
		return Refusal("Event header event_name is required")
	}
	if err := checkText(header.UUID, "uuid"); err != nil {
		return err
	}
	if err := checkDate(header.CreatedDate, "created_date"); err != nil {
		return err
	}
	if err := checkDate(header.SavedDate, "saved_date"); err != nil {
		return err
	}
	return checkText(header.EventType, "event_type")
}

func checkText(text Text, name string) error {
	if text.Shape == Number || text.Shape == Other {
		return Refusal("Invalid type: " + name + " must be a string")
	}
	return nil
}

func checkDate(text Text, name string) error {
	readable := false
	switch text.Shape {
	case Absent:
		readable = true
	case Is:
		// The empty string is what a protobuf client sends for "none"; both protocols take it so.
		readable = text.Text == "" || IsDate(text.Text)
	case Number:
		readable = IsEpochMillis(text.Text)
	}
	if !readable {
		return Refusal("Invalid date: " + name)
	}
	return nil
}

func checkName(name Text, field, words string) error {
	if err := checkText(name, field); err != nil {
		return err
	}
	switch {
	case name.Text == "":
		return Refusal(words + " cannot be empty")
	case longerThan(name.Text, nameChars):
		return Refusal(words + " must not be longer than 255 characters")
	case strings.IndexByte(name.Text, 0) >= 0:
		return Refusal(words + " must not contain NUL")
	}
	return nil
}

func checkAttributes(attributes Text, scan bool) (string, error) {
	switch attributes.Shape {
	case Absent:
		return "{}", nil
	case Number, Other:
		return "", Refusal("Invalid type: updated_attributes must be an object")
	}
	if scan {
		found := ScanJSON([]byte(attributes.Text))
		if found.Depth > AttributeDepth+1 {
			return "", Refusal("Attributes must not be nested deeper than 64 levels")
		}
		if found.NUL {
			return "", Refusal("Attributes must not contain NUL")
		}
	}
	return attributes.Text, nil
}
