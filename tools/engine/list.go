package main

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// list is a program that has run already: the requests that its resources would make. Where one needs the URN or the id of
// an earlier resource, which only the engine knows, it has the mark, the resource's number and what of it.
type list struct {
	Mark      string          `json:"mark"`
	Resources []*registration `json:"resources"`
	monitor   pulumirpc.ResourceMonitorClient
	names     *regexp.Regexp
}

// registration is one of a list. What the engine has answered stands in it when `done` is closed.
type registration struct {
	Request json.RawMessage  `json:"request"`
	Outputs *structpb.Struct `json:"outputs"`
	done    chan struct{}
	answer  map[string]string
}

// run registers each resource when those that it names are registered. An engine that takes no more has said why itself.
func (l *list) run(ctx context.Context, address string) error {
	connection, err := dial(address)
	if err != nil {
		return err
	}
	defer connection.Close()
	l.monitor = pulumirpc.NewResourceMonitorClient(connection)
	l.names = regexp.MustCompile(regexp.QuoteMeta(l.Mark) + `(\d+)\.(urn|id)`)
	for _, each := range l.Resources {
		each.done = make(chan struct{})
	}
	group, waiting := errgroup.WithContext(ctx)
	for _, each := range l.Resources {
		group.Go(func() error { return l.register(waiting, each) })
	}
	if err = group.Wait(); err == nil {
		_, err = l.monitor.SignalAndWaitForShutdown(ctx, &emptypb.Empty{})
	}
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

func (l *list) register(ctx context.Context, made *registration) error {
	text := l.names.ReplaceAllFunc(made.Request, func(name []byte) []byte { return l.answered(ctx, name) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	asked := &pulumirpc.RegisterResourceRequest{}
	if err := protojson.Unmarshal(text, asked); err != nil {
		return err
	}
	answer, err := l.monitor.RegisterResource(ctx, asked)
	if err != nil {
		return err
	}
	made.answer = map[string]string{"urn": answer.Urn, "id": cmp.Or(answer.Id, plugin.UnknownStringValue)}
	close(made.done)
	if made.Outputs != nil {
		outputs := &pulumirpc.RegisterResourceOutputsRequest{Urn: answer.Urn, Outputs: made.Outputs}
		_, err = l.monitor.RegisterResourceOutputs(ctx, outputs)
	}
	return err
}

// answered waits for the resource of a name and returns what the name stands for.
func (l *list) answered(ctx context.Context, name []byte) []byte {
	parts := l.names.FindSubmatch(name)
	number, _ := strconv.Atoi(string(parts[1]))
	named := l.Resources[min(number, len(l.Resources)-1)]
	select {
	case <-named.done:
	case <-ctx.Done():
	}
	text, _ := json.Marshal(named.answer[string(parts[2])])
	return text[1 : len(text)-1]
}
