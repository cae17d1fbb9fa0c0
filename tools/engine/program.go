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

// program is a language runtime that a client serves, as behind the command line's `--client`, except that it gets no
// address for messages: its error is the result of Run. Without an address it is the runtime of an operation that runs no
// program. Pulumi's own connection to a client stays open when the operation has ended; this one is closed.
type program struct {
	plugin.LanguageRuntime
	connection *grpc.ClientConn
}

func connectProgram(address string) (*program, error) {
	if address == "" {
		return &program{}, nil
	}
	connection, err := dial(address)
	if err != nil {
		return nil, err
	}
	client := pulumirpc.NewLanguageRuntimeClient(connection)
	return &program{plugin.NewLanguageRuntimeClient(runtimeName, client), connection}, nil
}

func dial(address string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	unencrypted := grpc.WithTransportCredentials(insecure.NewCredentials())
	return grpc.NewClient(address, append(options, unencrypted, rpcutil.GrpcChannelOptions())...)
}

func (p *program) close() {
	if p.connection != nil {
		_ = p.connection.Close()
	}
}

func (p *program) Run(ctx context.Context, info plugin.RunInfo) (string, bool, error) {
	if p.connection == nil {
		return "", false, errors.New("this operation has no program")
	}
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
