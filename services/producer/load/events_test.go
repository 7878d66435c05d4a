package main

import (
	"encoding/json"
	"testing"
)

func TestAnEventHasAboutTheSizeThatWasAskedFor(t *testing.T) {
	for _, size := range []int{400, 4096, 8192, 32768, 65536} {
		for _, entities := range []int{1, 2} {
			o := options{bytes: size, entities: entities}
			if got := len(body(makeAttributes(size, entities), o, 7)); got < size*85/100 || got > size*130/100 {
				t.Errorf("%d bytes wanted with %d entities, %d made", size, entities, got)
			}
		}
	}
}

func TestEveryEventHasItsOwnEntitiesUnlessKeysSaySo(t *testing.T) {
	if key(options{}, 12_345) != "load-12345" || key(options{keys: 100}, 12_345) != "load-45" {
		t.Error("keys")
	}
	var event struct {
		EventBody struct {
			Entities []struct{ EntityType, EntityID string }
		}
	}
	if err := json.Unmarshal(body(makeAttributes(400, 2), options{entities: 2}, 3), &event); err != nil || len(event.EventBody.Entities) != 2 || event.EventBody.Entities[0].EntityType == event.EventBody.Entities[1].EntityType {
		t.Error(event, err)
	}
}
