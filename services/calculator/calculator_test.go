package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"weir/services/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m, main) }

func TestResults(t *testing.T) {
	app := newCalculator()
	for target, want := range map[string]string{
		"/api/add?lhs=8&rhs=2":                                "200 10",
		"/api/sub?lhs=8&rhs=2":                                "200 6",
		"/api/mul?lhs=8&rhs=2":                                "200 16",
		"/api/div?lhs=8&rhs=2":                                "200 4",
		"/api/div?lhs=1&rhs=3":                                "200 0.3333333333333333",
		"/api/sub?lhs=2&rhs=8":                                "200 -6",
		"/api/mul?lhs=-1&rhs=0":                               "200 0",
		"/api/add?lhs=1e3&rhs=.5":                             "200 1000.5",
		"/api/mul?lhs=1000000&rhs=1000000":                    "200 1000000000000",
		"/api/mul?lhs=1e15&rhs=1e15":                          "200 1e+30",
		"/api/div?lhs=1&rhs=1e9":                              "200 1e-09",
		"/api/add?rhs=2&lhs=%2B8":                             "200 10",
		"/api/div?lhs=1&rhs=0":                                "400 division by zero",
		"/api/div?lhs=0&rhs=-0":                               "400 division by zero",
		"/api/add?lhs=8":                                      "400 rhs is missing",
		"/api/add":                                            "400 lhs is missing",
		"/api/add?lhs=&rhs=1":                                 "400 lhs is missing",
		"/api/add?lhs=eight&rhs=2":                            `400 lhs is not a number: "eight"`,
		"/api/add?lhs=8&rhs=2x":                               `400 rhs is not a number: "2x"`,
		"/api/add?lhs=NaN&rhs=2":                              `400 lhs is not a number: "NaN"`,
		"/api/add?lhs=Inf&rhs=2":                              `400 lhs is not a number: "Inf"`,
		"/api/add?lhs=1e999&rhs=2":                            "400 lhs is out of range",
		"/api/mul?lhs=1e308&rhs=1e308":                        "400 the result is out of range",
		"/api/pow?lhs=8&rhs=2":                                `404 {"error":"not found"}`,
		"/api/add/?lhs=8&rhs=2":                               `404 {"error":"not found"}`,
		"/healthz":                                            `200 {"ok":true,"service":"calculator"}`,
		"/api/add?lhs=" + strings.Repeat("1", 400) + "&rhs=2": "400 lhs is out of range",
	} {
		answer, err := app.Test(httptest.NewRequest(http.MethodGet, target, nil))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		if got := answer.Status[:4] + string(body); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
		if strings.HasPrefix(target, "/api/") && answer.StatusCode != 404 && answer.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: content type %q", target, answer.Header.Get("Content-Type"))
		}
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	answer, err := newCalculator().Test(httptest.NewRequest(http.MethodPost, "/api/add?lhs=8&rhs=2", nil))
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 405 || answer.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("status %d, Allow %q", answer.StatusCode, answer.Header.Get("Allow"))
	}
}

// Fiber's strings are views of a buffer that the next request reuses: no response may hold another's numbers.
func TestConcurrentRequestsKeepTheirNumbers(t *testing.T) {
	p := harness.Start(t, nil, "-port", "0")
	var wait sync.WaitGroup
	for _, number := range []string{"1", "22", "333", "4444"} {
		wait.Go(func() {
			for range 200 {
				answer, err := http.Get(p.URL + "/api/add?lhs=" + number + "&rhs=x" + number)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				if want := `rhs is not a number: "x` + number + `"`; string(body) != want {
					t.Errorf("got %q, want %q", body, want)
				}
			}
		})
	}
	wait.Wait()
}
