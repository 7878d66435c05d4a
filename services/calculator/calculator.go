package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"weir/services/internal/process"
)

// operations by the last segment of their path.
var operations = map[string]func(lhs, rhs float64) (float64, error){
	"add": func(lhs, rhs float64) (float64, error) { return lhs + rhs, nil },
	"sub": func(lhs, rhs float64) (float64, error) { return lhs - rhs, nil },
	"mul": func(lhs, rhs float64) (float64, error) { return lhs * rhs, nil },
	"div": func(lhs, rhs float64) (float64, error) {
		if rhs == 0 {
			return 0, errors.New("division by zero")
		}
		return lhs / rhs, nil
	},
}

// newCalculator makes the application: GET /api/add, sub, mul, div?lhs=&rhs= responds with a plain number.
func newCalculator() *fiber.App {
	app := process.NewApp(name, process.MaxBodyBytes, process.WriteTime)
	process.Health(app, "/healthz", name)
	for operation, compute := range operations {
		app.Get("/api/"+operation, func(c *fiber.Ctx) error {
			result, err := calculate(c, compute)
			if err != nil {
				return c.Status(fiber.StatusBadRequest).SendString(err.Error())
			}
			return c.SendString(result)
		})
	}
	return app
}

func calculate(c *fiber.Ctx, compute func(lhs, rhs float64) (float64, error)) (string, error) {
	lhs, err := number(c, "lhs")
	if err != nil {
		return "", err
	}
	rhs, err := number(c, "rhs")
	if err != nil {
		return "", err
	}
	result, err := compute(lhs, rhs)
	if err != nil {
		return "", err
	}
	if math.IsInf(result, 0) {
		return "", errors.New("the result is out of range")
	}
	return format(result), nil
}

// number reads a parameter: a finite decimal number.
func number(c *fiber.Ctx, name string) (float64, error) {
	text := c.Query(name) // valid only within the handler; the error below holds a copy
	if text == "" {
		return 0, fmt.Errorf("%s is missing", name)
	}
	value, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is out of range", name)
	}
	if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
		return 0, fmt.Errorf("%s is not a number: %q", name, text)
	}
	return value, nil
}

// format writes the shortest decimal that reads back as the same number, without an exponent up to 21 digits, as JavaScript does.
func format(value float64) string {
	if value == 0 {
		return "0" // also for -0
	}
	if size := math.Abs(value); size < 1e-6 || size >= 1e21 {
		return strconv.FormatFloat(value, 'e', -1, 64)
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}
