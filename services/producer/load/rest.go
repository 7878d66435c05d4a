package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

type restUser struct {
	client     http.Client
	url        string
	options    options
	attributes map[string]string
}

func newRestUser(o options, attributes map[string]string) (user, error) {
	transport := &http.Transport{
		MaxConnsPerHost:     1,
		MaxIdleConnsPerHost: 1,
		DialContext:         func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
	}
	client := http.Client{Transport: transport, Timeout: 30 * time.Second}
	return &restUser{client, "http://" + o.address + "/api/v1/events", o, attributes}, nil
}

func (u *restUser) send(ctx context.Context, n int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body(u.attributes, u.options, n)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := u.client.Do(request)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(answer), `"success":true`) {
		return fmt.Errorf("%d %s", response.StatusCode, answer)
	}
	return nil
}

func (u *restUser) close() { u.client.CloseIdleConnections() }
