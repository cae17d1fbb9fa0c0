package main

import (
	"context"
	"errors"

	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// program is a language runtime that a client serves, as behind the command line's `--client`. Without an address it is
// the runtime of an operation that runs no program. Pulumi's own connection to a client stays open when the operation
// has ended; this one is closed.
type program struct {
	plugin.LanguageRuntime
	connection *grpc.ClientConn
	listener   *engineListener
}

func connectProgram(address string, to sinks) (*program, error) {
	if address == "" {
		return &program{}, nil
	}
	listener, err := openListener(to.take)
	if err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(
		address, grpc.WithTransportCredentials(insecure.NewCredentials()), rpcutil.GrpcChannelOptions(),
	)
	if err != nil {
		listener.close()
		return nil, err
	}
	client := pulumirpc.NewLanguageRuntimeClient(connection)
	return &program{plugin.NewLanguageRuntimeClient(runtimeName, client), connection, listener}, nil
}

func (p *program) close() {
	if p.connection != nil {
		_ = p.connection.Close()
		p.listener.close()
	}
}

// Run tells the program the engine's address, as the first argument.
func (p *program) Run(ctx context.Context, info plugin.RunInfo) (string, bool, error) {
	if p.connection == nil {
		return "", false, errors.New("this operation has no program")
	}
	info.Args = []string{p.listener.address}
	return p.LanguageRuntime.Run(ctx, info)
}

// GetRequiredPackages names none: the one plugin is here already.
func (p *program) GetRequiredPackages(
	context.Context, plugin.ProgramInfo,
) ([]workspace.PackageDescriptor, []workspace.PackageSpec, error) {
	return nil, nil, nil
}

func (p *program) GetPluginInfo(context.Context) (plugin.PluginInfo, error) {
	return plugin.PluginInfo{}, nil
}
func (p *program) Cancel(context.Context) error { return nil }
func (p *program) Close() error                 { return nil }
