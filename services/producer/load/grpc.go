package main

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"example.com/weir/producer/go-grpc/eventpb"
)

type grpcUser struct {
	connection *grpc.ClientConn
	client     eventpb.EventServiceClient
	options    options
	attributes map[string]string
}

func newGrpcUser(o options, attributes map[string]string) (user, error) {
	connection, err := grpc.NewClient("passthrough:///"+o.address, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &grpcUser{connection, eventpb.NewEventServiceClient(connection), o, attributes}, nil
}

func (u *grpcUser) send(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	values := maps.Clone(u.attributes)
	values["n"] = strconv.FormatInt(n, 10)
	entities := make([]*eventpb.EntityUpdate, u.options.entities)
	for i := range entities {
		entities[i] = &eventpb.EntityUpdate{EntityType: entityTypes[i%len(entityTypes)], EntityId: key(u.options, n), UpdatedAttributes: values}
	}
	answer, err := u.client.ProcessEvent(ctx, &eventpb.EventRequest{
		EventHeader: &eventpb.EventHeader{
			Uuid: "6f1c1c1e-1d2b-4d8e-9f0a-" + strconv.FormatInt(100_000_000_000+n, 10), EventName: "LoanPaymentSubmitted",
			CreatedDate: "2024-01-15T10:30:00Z", SavedDate: "2024-01-15T10:30:05Z", EventType: "LoanPaymentSubmitted",
		},
		EventBody: &eventpb.EventBody{Entities: entities},
	})
	if err == nil && !answer.GetSuccess() {
		return errors.New("OK without success")
	}
	return err
}

func (u *grpcUser) close() { u.connection.Close() }
