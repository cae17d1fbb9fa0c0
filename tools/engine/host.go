package main

import (
	"context"
	"errors"
	"sync"

	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/env"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// host gives one operation its plugins. They outlive the operation, so nothing that ends the operation reaches them. The
// rest is Pulumi's own host, which all operations share.
type host struct {
	plugin.Host
	plugins *fleet
	program *program
	mutex   sync.Mutex
	lent    []*lentProvider
}

func (s *server) open(asked request) (*host, error) {
	connected, err := connectProgram(asked)
	if err != nil {
		return nil, err
	}
	return &host{Host: s.plugins.context.Host, plugins: s.plugins, program: connected}, nil
}

func (h *host) release() {
	h.program.close()
	for _, provider := range h.lent {
		provider.used.users.Done()
	}
}

func (h *host) Provider(_ *plugin.Context, wanted workspace.PluginDescriptor, _ env.Env) (plugin.Provider, error) {
	if wanted.Name != pluginName {
		return nil, errors.New("the resident engine has the Kubernetes plugin and the program, and nothing else")
	}
	running, err := h.plugins.lend(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	lent := &lentProvider{running.Provider, h.plugins, running}
	h.lent = append(h.lent, lent)
	return lent, nil
}

func (h *host) LanguageRuntime(*plugin.Context, string) (plugin.LanguageRuntime, error) {
	return h.program, nil
}

func (h *host) ReleaseContext(*plugin.Context) error { return nil }
func (h *host) SignalCancellation() error            { return nil }
func (h *host) Close() error                         { return nil }

// program is a language runtime that a client serves, as behind the command line's `--client`, except that it gets no
// address for messages: its error is the result of Run. Without an address it is the runtime of an operation that runs no
// program. Pulumi's own connection to a client stays open when the operation has ended; this one is closed.
type program struct {
	plugin.LanguageRuntime
	connection *grpc.ClientConn
	list       *list
}

func connectProgram(asked request) (*program, error) {
	if asked.Program == "" {
		return &program{list: asked.List}, nil
	}
	connection, err := dial(asked.Program)
	if err != nil {
		return nil, err
	}
	client := pulumirpc.NewLanguageRuntimeClient(connection)
	return &program{plugin.NewLanguageRuntimeClient(runtimeName, client), connection, nil}, nil
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
	if p.list != nil {
		return "", false, p.list.run(ctx, info.MonitorAddress)
	}
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
