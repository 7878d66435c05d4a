package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/weir/producer/go-core"
	"example.com/weir/producer/go-grpc/eventpb"
)

// eventService is com.example.grpc.EventService.
type eventService struct {
	eventpb.UnimplementedEventServiceServer
	store       *core.Store
	metrics     *core.Metrics
	maxEntities int
}

func (s *eventService) ProcessEvent(ctx context.Context, request *eventpb.EventRequest) (*eventpb.EventResponse, error) {
	start := time.Now()
	entities, err := s.apply(ctx, request)
	if err == nil {
		s.metrics.Event(core.Stored, entities)
	} else {
		err = s.asStatus(ctx, err)
	}
	s.metrics.Finished("process_event", name(status.Code(err)), time.Since(start))
	if err != nil {
		return nil, err
	}
	return &eventpb.EventResponse{Success: true, Message: core.MessageStored}, nil
}

// apply stores the event; it gives the number of its entities.
func (s *eventService) apply(ctx context.Context, request *eventpb.EventRequest) (int, error) {
	submitted := submit(request)
	event, err := core.Check(&submitted, s.maxEntities, true)
	if err != nil {
		return 0, err
	}
	return len(event.IDs), s.store.Store(ctx, event)
}

// asStatus is the one place where an error becomes a gRPC status; it counts the event and logs what needs a look.
func (s *eventService) asStatus(ctx context.Context, err error) error {
	var refusal core.Refusal
	switch {
	case errors.As(err, &refusal):
		s.metrics.Event(core.Refused, 0)
		return status.Error(codes.InvalidArgument, refusal.Error())
	case errors.Is(err, core.ErrRefused):
		s.metrics.Event(core.Refused, 0)
		return status.Error(codes.InvalidArgument, core.MessageNotStorable)
	}
	s.metrics.Event(core.Failed, 0)
	switch {
	// Before the deadline: the wait for a connection has one too, which is not the call's.
	case errors.Is(err, core.ErrUnavailable):
		slog.WarnContext(ctx, "event not stored", "error", err.Error())
		return status.Error(codes.Unavailable, core.MessageUnavailable)
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "Deadline exceeded")
	case errors.Is(err, context.Canceled):
		return status.FromContextError(err).Err()
	}
	slog.ErrorContext(ctx, "event not stored", "error", err.Error())
	return status.Error(codes.Internal, core.MessageInternal)
}

func (s *eventService) HealthCheck(ctx context.Context, _ *eventpb.HealthRequest) (*eventpb.HealthResponse, error) {
	start := time.Now()
	answer := &eventpb.HealthResponse{Healthy: s.store.IsUp(ctx), Message: core.MessageHealthy}
	if !answer.Healthy {
		answer.Message = core.MessageUnavailable
	}
	s.metrics.Finished("health", name(codes.OK), time.Since(start))
	return answer, nil
}

func submit(request *eventpb.EventRequest) core.Submitted {
	var event core.Submitted
	if header := request.GetEventHeader(); header != nil {
		event.Header = core.Header{
			Shape:       core.Is,
			UUID:        core.TextFromProto(header.GetUuid()),
			EventName:   core.TextFromProto(header.GetEventName()),
			CreatedDate: core.TextFromProto(header.GetCreatedDate()),
			SavedDate:   core.TextFromProto(header.GetSavedDate()),
			EventType:   core.TextFromProto(header.GetEventType()),
		}
	}
	if body := request.GetEventBody(); body != nil {
		updates := make([]core.Update, len(body.GetEntities()))
		for i, entity := range body.GetEntities() {
			updates[i] = core.Update{
				Shape:      core.Is,
				EntityType: core.TextFromProto(entity.GetEntityType()),
				EntityID:   core.TextFromProto(entity.GetEntityId()),
				Attributes: core.Text{Shape: core.Is, Text: object(entity.GetUpdatedAttributes())},
			}
		}
		event.Body = core.Body{Shape: core.Is, Entities: core.Entities{Shape: core.Is, Updates: updates}}
	}
	return event
}

// name gives the codes that this service responds with, by the names of the gRPC documents.
func name(code codes.Code) string {
	switch code {
	case codes.OK:
		return "OK"
	case codes.Canceled:
		return "CANCELLED"
	case codes.InvalidArgument:
		return "INVALID_ARGUMENT"
	case codes.DeadlineExceeded:
		return "DEADLINE_EXCEEDED"
	case codes.Unavailable:
		return "UNAVAILABLE"
	}
	return "INTERNAL"
}

// recoverPanic keeps a panic in one call from ending the process.
func recoverPanic(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			slog.ErrorContext(ctx, "a call panicked", "panic", fmt.Sprint(panicked))
			err = status.Error(codes.Internal, core.MessageInternal)
		}
	}()
	return handle(ctx, request)
}
