package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"

	"example.com/weir/producer/go-core"
)

// app is what every request needs.
type app struct {
	store    *core.Store
	metrics  *core.Metrics
	settings core.Settings
}

// routes are those of the contract, and /metrics.
func (a *app) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.RedirectTrailingSlash = false
	engine.HandleMethodNotAllowed = true
	engine.NoRoute(func(c *gin.Context) { fail(c, problem{http.StatusNotFound, "Not found"}) })
	engine.NoMethod(func(c *gin.Context) { fail(c, problem{http.StatusMethodNotAllowed, "Method not allowed"}) })
	engine.Use(gin.CustomRecoveryWithWriter(io.Discard, func(c *gin.Context, panicked any) {
		slog.Error("a request panicked", "panic", fmt.Sprint(panicked))
		fail(c, problem{http.StatusInternalServerError, core.MessageInternal})
	}))
	engine.Use(a.limitBody)
	engine.POST("/api/v1/events", a.counted("process_event", a.processEvent))
	engine.POST("/api/v1/events/bulk", a.counted("process_events", a.processEvents))
	engine.GET("/api/v1/events/health", a.counted("health", a.health))
	engine.HEAD("/api/v1/events/health", a.counted("health", a.health))
	engine.GET("/metrics", gin.WrapH(a.metrics.Handler()))
	return engine
}

// problem is any response that is not a success.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

func fail(c *gin.Context, p problem) {
	c.JSON(p.status, gin.H{"error": p.text, "status": p.status})
}

type storedAnswer struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}

type healthAnswer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type bulkAnswer struct {
	Success          bool        `json:"success"`
	Message          string      `json:"message"`
	ProcessedCount   int         `json:"processedCount"`
	FailedCount      int         `json:"failedCount"`
	BatchID          string      `json:"batchId"`
	ProcessingTimeMs int64       `json:"processingTimeMs"`
	Errors           []bulkError `json:"errors"`
}

type bulkError struct {
	Index int    `json:"index"`
	Error string `json:"error"`
}

// clientDisconnected is the code of a request whose client disconnected before its response (nginx's, there is no registered one).
const clientDisconnected = 499

// counted counts a request once its response is complete. One whose client disconnected is logged in one line.
func (a *app) counted(operation string, handle func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		err := handle(c)
		code := c.Writer.Status()
		// A body that is late ends the context too.
		if errors.Is(err, errAborted) || code != http.StatusRequestTimeout && c.Request.Context().Err() != nil {
			code = clientDisconnected
			slog.WarnContext(c.Request.Context(), "request aborted", "operation", operation)
		}
		a.metrics.Finished(operation, strconv.Itoa(code), time.Since(start))
	}
}

// limitBody gives a body its time, also one that no handler reads: net/http reads the rest of it, and resets the deadline at its end.
func (a *app) limitBody(c *gin.Context) {
	if c.Request.Body != http.NoBody {
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(a.settings.BodyTimeout))
	}
}

func (a *app) processEvent(c *gin.Context) error {
	err := func() error {
		body, err := a.read(c)
		if err != nil {
			return err
		}
		reader, err := newReader(body)
		if err != nil {
			return err
		}
		read, err := reader.one()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Request.Context(), a.settings.RequestTimeout)
		defer cancel()
		return a.apply(ctx, &read, reader.scanAttributes)
	}()
	if err != nil {
		fail(c, asProblem(err))
		return err
	}
	c.JSON(http.StatusOK, storedAnswer{true, core.MessageStored})
	return nil
}

func (a *app) processEvents(c *gin.Context) error {
	answer, err := a.bulk(c)
	if err != nil {
		fail(c, asProblem(err))
		return err
	}
	c.JSON(http.StatusOK, answer)
	return nil
}

func (a *app) bulk(c *gin.Context) (bulkAnswer, error) {
	start := time.Now()
	body, err := a.read(c)
	if err != nil {
		return bulkAnswer{}, err
	}
	reader, err := newReader(body)
	if err != nil {
		return bulkAnswer{}, err
	}
	items, shape, err := reader.many()
	switch {
	case err != nil:
		return bulkAnswer{}, err
	case shape != core.Is:
		return bulkAnswer{}, core.Refusal("Request body must be an array of events")
	case len(items) == 0:
		return bulkAnswer{}, core.Refusal("Request body must contain at least one event")
	case len(items) > a.settings.MaxEvents:
		return bulkAnswer{}, core.Refusal(fmt.Sprintf("Request body must not contain more than %d events", a.settings.MaxEvents))
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.settings.RequestTimeout)
	defer cancel()
	failures, stoppedBy := a.applyAll(ctx, items, reader.scanAttributes)
	if len(failures) == len(items) && stoppedBy != nil || errors.Is(stoppedBy, context.Canceled) {
		return bulkAnswer{}, stoppedBy
	}
	answer := bulkAnswer{
		Success:          len(failures) == 0,
		Message:          "All events processed successfully",
		ProcessedCount:   len(items) - len(failures),
		FailedCount:      len(failures),
		BatchID:          uuid.NewString(),
		ProcessingTimeMs: (time.Since(start) + time.Millisecond - 1).Milliseconds(),
		Errors:           failures,
	}
	if !answer.Success {
		answer.Message = fmt.Sprintf("%d of %d events failed", len(failures), len(items))
	}
	return answer, nil
}

// applyAll applies events one after the other, so that a later one wins where two name the same attribute. Once the
// database is away, or the time is over, the rest is not tried: each would only wait for the same response. Once the client has
// disconnected nothing more is applied.
func (a *app) applyAll(ctx context.Context, items []item, scanAttributes bool) (failures []bulkError, stoppedBy error) {
	failures = []bulkError{}
	for index := range items {
		err := stoppedBy
		if err != nil {
			a.metrics.Event(core.Failed, 0)
		} else {
			err = a.apply(ctx, &items[index], scanAttributes)
		}
		switch {
		case errors.Is(err, context.Canceled):
			return failures, err
		case errors.Is(err, core.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
			stoppedBy = err
		}
		if err != nil {
			failures = append(failures, bulkError{index, asProblem(err).text})
		}
	}
	return failures, stoppedBy
}

func (a *app) apply(ctx context.Context, read *item, scanAttributes bool) error {
	entities, err := a.store1(ctx, read, scanAttributes)
	var refusal core.Refusal
	switch {
	case err == nil:
		a.metrics.Event(core.Stored, entities)
	case errors.As(err, &refusal) || errors.Is(err, core.ErrRefused):
		a.metrics.Event(core.Refused, 0)
	default:
		a.metrics.Event(core.Failed, 0)
		if ctx.Err() != nil {
			break
		}
		level := slog.LevelError
		if errors.Is(err, core.ErrUnavailable) {
			level = slog.LevelWarn
		}
		slog.Log(ctx, level, "event not stored", "error", err.Error())
	}
	return err
}

func (a *app) store1(ctx context.Context, read *item, scanAttributes bool) (entities int, err error) {
	if read.shape != core.Is {
		return 0, core.Refusal("Event must be an object")
	}
	event, err := core.Check(&read.event, a.settings.MaxEntities, scanAttributes)
	if err != nil {
		return 0, err
	}
	return len(event.IDs), a.store.Store(ctx, event)
}

// asProblem is the one place where an error becomes HTTP.
func asProblem(err error) problem {
	var (
		ready   problem
		refusal core.Refusal
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.Is(err, errMalformed), errors.Is(err, errDepth):
		return problem{http.StatusBadRequest, err.Error()}
	case errors.As(err, &refusal):
		return problem{http.StatusUnprocessableEntity, refusal.Error()}
	case errors.Is(err, core.ErrRefused):
		return problem{http.StatusUnprocessableEntity, core.MessageNotStorable}
	case errors.Is(err, errAborted):
		// Nobody may be left to see this.
		return problem{http.StatusBadRequest, errMalformed.Error()}
	case errors.Is(err, core.ErrUnavailable):
		return problem{http.StatusServiceUnavailable, core.MessageUnavailable}
	case errors.Is(err, context.DeadlineExceeded):
		return problem{http.StatusServiceUnavailable, core.MessageTimedOut}
	}
	return problem{http.StatusInternalServerError, core.MessageInternal}
}

// errAborted is a body that did not arrive whole: its client disconnected.
var errAborted = errors.New("the client disconnected")

// oversizeReads is how many times the limit is read, and dropped, of a body that is too large, before the connection is given up.
const oversizeReads = 8

// read reads a body up to the limit, which says that it is JSON, or says nothing. It is read also where it will not be used:
// a response while the body is still on its way is one that a client may never see.
func (a *app) read(c *gin.Context) ([]byte, error) {
	limit := int64(a.settings.MaxBodyBytes)
	var (
		body []byte
		err  error
	)
	if length := c.Request.ContentLength; length >= 0 && length <= limit {
		body = make([]byte, length)
		_, err = io.ReadFull(c.Request.Body, body)
	} else {
		body, err = io.ReadAll(io.LimitReader(c.Request.Body, limit+1))
	}
	tooLarge := int64(len(body)) > limit
	if tooLarge {
		_, err = io.CopyN(io.Discard, c.Request.Body, limit*(oversizeReads-1))
		if err == nil {
			c.Header("Connection", "close")
		} else if err == io.EOF {
			err = nil
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.Header("Connection", "close")
		return nil, problem{http.StatusRequestTimeout, "Request body did not arrive before the timeout"}
	case err != nil:
		return nil, errAborted
	}
	switch {
	case tooLarge:
		return nil, problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("Request body must not be larger than %d bytes", limit)}
	case !isJSON(c.GetHeader("Content-Type")):
		return nil, problem{http.StatusUnsupportedMediaType, "Content-Type must be application/json"}
	}
	return body, nil
}

// isJSON takes application/json, application/*+json, with or without parameters, or no type at all.
func isJSON(contentType string) bool {
	essence, _, _ := strings.Cut(contentType, ";")
	essence = strings.ToLower(strings.TrimSpace(essence))
	return essence == "" || essence == "application/json" ||
		strings.HasPrefix(essence, "application/") && strings.HasSuffix(essence, "+json")
}

func (a *app) health(c *gin.Context) error {
	if a.store.IsUp(c.Request.Context()) {
		c.JSON(http.StatusOK, healthAnswer{"healthy", core.MessageHealthy})
	} else {
		c.JSON(http.StatusServiceUnavailable, healthAnswer{"unhealthy", core.MessageUnavailable})
	}
	return nil
}
