package core

import (
	"math"
	"strconv"
	"strings"
)

// epochRange is the number of milliseconds either side of 1970 that a date may name: the range of ECMAScript's Date.
const epochRange = 8.64e15

// IsDate says whether text names a moment: epoch milliseconds written as a JSON number, or ISO 8601 in its extended form,
// a date alone or a date and a time with or without a zone.
func IsDate(text string) bool {
	if isJSONNumber(text) {
		return IsEpochMillis(text)
	}
	c := cursor(text)
	return c.iso()
}

// IsEpochMillis says whether a JSON number is a moment in milliseconds.
func IsEpochMillis(number string) bool {
	millis, err := strconv.ParseFloat(number, 64)
	return err == nil && math.Abs(millis) <= epochRange
}

// isJSONNumber is the grammar of RFC 8259 §6.
func isJSONNumber(text string) bool {
	c := cursor(strings.TrimPrefix(text, "-"))
	whole := c.digits()
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if c.take(".") && c.digits() == "" {
		return false
	}
	if c.take("eE") {
		c.take("+-")
		if c.digits() == "" {
			return false
		}
	}
	return c == ""
}

// cursor is the text that is still to be read.
type cursor string

// iso reads YYYY-MM-DD, then nothing or T, t or a space and hh:mm, hh:mm:ss or hh:mm:ss.f (one to nine digits, comma or
// point), then nothing, Z, ±hh, ±hhmm or ±hh:mm.
func (c *cursor) iso() bool {
	year, ok := c.number(4, 0, 9999)
	if !ok || !c.take("-") {
		return false
	}
	month, ok := c.number(2, 1, 12)
	if !ok || !c.take("-") {
		return false
	}
	if _, ok = c.number(2, 1, daysIn(year, month)); !ok {
		return false
	}
	return *c == "" || c.take("Tt ") && c.clock() && c.zone()
}

func (c *cursor) clock() bool {
	if _, ok := c.number(2, 0, 23); !ok || !c.take(":") {
		return false
	}
	if _, ok := c.number(2, 0, 59); !ok {
		return false
	}
	if !c.take(":") {
		return true
	}
	if _, ok := c.number(2, 0, 59); !ok {
		return false
	}
	if c.take(".,") {
		fraction := c.digits()
		return len(fraction) >= 1 && len(fraction) <= 9
	}
	return true
}

func (c *cursor) zone() bool {
	if !c.take("+-") {
		c.take("Zz")
		return *c == ""
	}
	if _, ok := c.number(2, 0, 23); !ok {
		return false
	}
	if c.take(":") || *c != "" {
		if _, ok := c.number(2, 0, 59); !ok {
			return false
		}
	}
	return *c == ""
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// take passes over one byte when it is one of any.
func (c *cursor) take(any string) bool {
	if *c == "" || strings.IndexByte(any, (*c)[0]) < 0 {
		return false
	}
	*c = (*c)[1:]
	return true
}

// digits passes over the longest run of digits.
func (c *cursor) digits() string {
	n := 0
	for n < len(*c) && (*c)[n] >= '0' && (*c)[n] <= '9' {
		n++
	}
	run := string((*c)[:n])
	*c = (*c)[n:]
	return run
}

// number passes over exactly width digits that name a number from low to high.
func (c *cursor) number(width, low, high int) (int, bool) {
	if len(*c) < width {
		return 0, false
	}
	value := 0
	for _, digit := range []byte((*c)[:width]) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		value = value*10 + int(digit-'0')
	}
	*c = (*c)[width:]
	return value, value >= low && value <= high
}
