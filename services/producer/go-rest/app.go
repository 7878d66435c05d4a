package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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

// counted counts a request once its response is complete.
func (a *app) counted(operation string, handle gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		handle(c)
		a.metrics.Finished(operation, strconv.Itoa(c.Writer.Status()), time.Since(start))
	}
}

func (a *app) processEvent(c *gin.Context) {
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
		return a.apply(c.Request.Context(), &read, reader.scanAttributes)
	}()
	if err != nil {
		fail(c, asProblem(err))
		return
	}
	c.JSON(http.StatusOK, storedAnswer{true, core.MessageStored})
}

func (a *app) processEvents(c *gin.Context) {
	answer, err := a.bulk(c)
	if err != nil {
		fail(c, asProblem(err))
		return
	}
	c.JSON(http.StatusOK, answer)
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
	failures, databaseAway := a.applyAll(c.Request.Context(), items, reader.scanAttributes)
	if len(failures) == len(items) && databaseAway {
		return bulkAnswer{}, core.ErrUnavailable
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
// database is away the rest is not tried: each would only wait for the same response. Once the client has disconnected nothing more is
// applied; what was not tried counts as failed.
func (a *app) applyAll(ctx context.Context, items []item, scanAttributes bool) (failures []bulkError, databaseAway bool) {
	failures = []bulkError{}
	for index := range items {
		if ctx.Err() != nil {
			for range items[index:] {
				a.metrics.Event(core.Failed, 0)
			}
			break
		}
		err := core.ErrUnavailable
		if databaseAway {
			a.metrics.Event(core.Failed, 0)
		} else {
			err = a.apply(ctx, &items[index], scanAttributes)
			databaseAway = errors.Is(err, core.ErrUnavailable)
		}
		if err != nil {
			failures = append(failures, bulkError{index, asProblem(err).text})
		}
	}
	return failures, databaseAway
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
		level := slog.LevelError
		if errors.Is(err, core.ErrUnavailable) || ctx.Err() != nil {
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
	case errors.Is(err, core.ErrUnavailable):
		return problem{http.StatusServiceUnavailable, core.MessageUnavailable}
	}
	return problem{http.StatusInternalServerError, core.MessageInternal}
}

// read reads a body up to the limit, which says that it is JSON, or says nothing. It is read also where it will not be used:
// a response while the body is still on its way is one that a client may never see.
func (a *app) read(c *gin.Context) ([]byte, error) {
	limit := int64(a.settings.MaxBodyBytes)
	tooLarge := problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("Request body must not be larger than %d bytes", limit)}
	if c.Request.ContentLength > limit {
		c.Header("Connection", "close")
		return nil, tooLarge
	}
	limited := http.MaxBytesReader(c.Writer, c.Request.Body, limit)
	var (
		body    []byte
		err     error
		overrun *http.MaxBytesError
	)
	if c.Request.ContentLength >= 0 {
		body = make([]byte, c.Request.ContentLength)
		_, err = io.ReadFull(limited, body)
	} else {
		body, err = io.ReadAll(limited)
	}
	switch {
	case errors.As(err, &overrun):
		return nil, tooLarge
	case err != nil:
		return nil, errMalformed
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

func (a *app) health(c *gin.Context) {
	if a.store.IsUp(c.Request.Context()) {
		c.JSON(http.StatusOK, healthAnswer{"healthy", core.MessageHealthy})
	} else {
		c.JSON(http.StatusServiceUnavailable, healthAnswer{"unhealthy", core.MessageUnavailable})
	}
}
