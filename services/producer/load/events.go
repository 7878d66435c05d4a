package main

import (
	"encoding/json"
	"strconv"
	"strings"
)

var entityTypes = []string{"Car", "Loan", "LoanPayment", "ServiceRecord"}

// makeAttributes fills an event of about so many bytes with named texts of 60 characters.
func makeAttributes(bytes, entities int) map[string]string {
	const header, width = 330, 60
	attributes := map[string]string{"status": "active"}
	left := (bytes - header) / entities
	for i := 0; left > 0; i++ {
		size := min(left, width)
		attributes["attribute_"+strconv.Itoa(i)] = strings.Repeat("x", size)
		left -= width + len(`"attribute_00":"",`)
	}
	return attributes
}

// key is the id of entity i of event n.
func key(o options, n int64) string {
	if o.keys > 0 {
		n %= o.keys
	}
	return "load-" + strconv.FormatInt(n, 10)
}

// body is event n as REST sends it.
func body(attributes map[string]string, o options, n int64) []byte {
	type entity struct {
		Type       string         `json:"entityType"`
		ID         string         `json:"entityId"`
		Attributes map[string]any `json:"updatedAttributes"`
	}
	values := map[string]any{"n": n}
	for name, value := range attributes {
		values[name] = value
	}
	entities := make([]entity, o.entities)
	for i := range entities {
		entities[i] = entity{entityTypes[i%len(entityTypes)], key(o, n), values}
	}
	text, err := json.Marshal(map[string]any{
		"eventHeader": map[string]any{
			"uuid": "6f1c1c1e-1d2b-4d8e-9f0a-" + strconv.FormatInt(100_000_000_000+n, 10), "eventName": "LoanPaymentSubmitted",
			"createdDate": "2024-01-15T10:30:00Z", "savedDate": "2024-01-15T10:30:05Z", "eventType": "LoanPaymentSubmitted",
		},
		"eventBody": map[string]any{"entities": entities},
	})
	if err != nil {
		panic(err) // maps of texts and numbers have a JSON form
	}
	return text
}
