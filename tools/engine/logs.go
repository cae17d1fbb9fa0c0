package main

import (
	"context"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/common/diag"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// sinks take the messages of one operation: those that stay, and those that show what it does at the moment.
type sinks struct{ messages, status diag.Sink }

func (s sinks) take(said *pulumirpc.LogRequest) {
	sink := s.messages
	if said.Ephemeral {
		sink = s.status
	}
	sink.Logf(severities[said.Severity], diag.StreamMessage(resource.URN(said.Urn), said.Message, said.StreamId))
}

var severities = map[pulumirpc.LogSeverity]diag.Severity{
	pulumirpc.LogSeverity_DEBUG:   diag.Debug,
	pulumirpc.LogSeverity_INFO:    diag.Info,
	pulumirpc.LogSeverity_WARNING: diag.Warning,
	pulumirpc.LogSeverity_ERROR:   diag.Error,
}

// engineListener is the engine as the program of one operation sees it, or as the plugins of all operations do, whose
// messages nobody takes.
type engineListener struct {
	pulumirpc.UnimplementedEngineServer
	address string
	take    func(*pulumirpc.LogRequest)
	cancel  chan bool
	done    <-chan error
}

func openListener(take func(*pulumirpc.LogRequest)) (*engineListener, error) {
	made := &engineListener{take: take, cancel: make(chan bool)}
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: made.cancel,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterEngineServer(server, made)
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	made.address, made.done = fmt.Sprintf("127.0.0.1:%d", handle.Port), handle.Done
	return made, nil
}

func (l *engineListener) close() {
	close(l.cancel)
	<-l.done
}

func (l *engineListener) Log(_ context.Context, said *pulumirpc.LogRequest) (*emptypb.Empty, error) {
	l.take(said)
	return &emptypb.Empty{}, nil
}
