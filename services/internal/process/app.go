package process

import (
	"errors"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
)

const (
	// MaxBodyBytes is how much of a request's body a service takes when nothing else is said: 32 MiB.
	MaxBodyBytes = 32 << 20
	// headBytes bounds a request's or a response's head; it is also the size of a connection's read buffer.
	headBytes = 16 << 10
	// keepAlive is how long a client's connection may idle.
	keepAlive = 75 * time.Second
	// readTime bounds how long a client may take to send one request, body included.
	readTime = 60 * time.Second
)

// HeadBytes is the largest head, of a request or of an upstream's response, that is read.
const HeadBytes = headBytes

// WriteTime bounds how long a client may take to read one response.
const WriteTime = 60 * time.Second

// NewApp makes a Fiber application with the settings that all services here share: paths are matched as they were sent, bodies
// up to bodyBytes are read whole, nothing is parsed before a handler reads it, and every failure is a short JSON response.
// writeTime bounds the writing of a response; one that is streamed is written for as long as it lasts.
func NewApp(name string, bodyBytes int, writeTime time.Duration) *fiber.App {
	return fiber.New(fiber.Config{
		AppName:                      name,
		BodyLimit:                    bodyBytes,
		CaseSensitive:                true,
		StrictRouting:                true,
		DisablePreParseMultipartForm: true,
		DisableStartupMessage:        true,
		ErrorHandler:                 answerError,
		IdleTimeout:                  keepAlive,
		ReadBufferSize:               headBytes,
		ReadTimeout:                  readTime,
		WriteTimeout:                 writeTime,
	})
}

// Health registers GET /healthz, which says that the process serves.
func Health(app *fiber.App, path, name string) {
	body := []byte(`{"ok":true,"service":"` + name + `"}`)
	app.Get(path, func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(body)
	})
}

// answerError turns what Fiber or a handler reports into {"error":"..."}. Texts below 500 come from the framework and may hold
// bytes of the request: the status speaks for them. A handler that knows more sends its own response.
func answerError(c *fiber.Ctx, err error) error {
	status, text := fiber.StatusInternalServerError, "internal error"
	var known *fiber.Error
	if errors.As(err, &known) {
		status, text = known.Code, known.Message
		if status < fiber.StatusInternalServerError {
			text = strings.ToLower(utils.StatusMessage(status))
		}
	}
	return AnswerError(c, status, text)
}

// AnswerError responds with a status and {"error": text}.
func AnswerError(c *fiber.Ctx, status int, text string) error {
	return c.Status(status).JSON(map[string]string{"error": text})
}
