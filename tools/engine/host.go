package main

import (
	"errors"
	"sync"

	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag"
	"github.com/pulumi/pulumi/sdk/v3/go/common/env"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

var errNotHere = errors.New("the resident engine has the Kubernetes plugin and the client's program, and nothing else")

// host gives one operation its plugins. They outlive the operation, so nothing that ends the operation reaches them.
type host struct {
	address string
	plugins *fleet
	sinks   sinks
	program *program
	mutex   sync.Mutex
	lent    []*lentProvider
}

func (s *server) open(asked request, to sinks) (*host, error) {
	connected, err := connectProgram(asked.Program, to)
	if err != nil {
		return nil, err
	}
	return &host{address: s.plugins.engine, plugins: s.plugins, sinks: to, program: connected}, nil
}

func (h *host) release() {
	if h != nil {
		h.program.close()
		for _, provider := range h.lent {
			provider.used.users.Done()
		}
	}
}

func (h *host) ServerAddr() string { return h.address }

func (h *host) Log(severity diag.Severity, urn resource.URN, text string, stream int32) {
	h.sinks.messages.Logf(severity, diag.StreamMessage(urn, text, stream))
}

func (h *host) LogStatus(severity diag.Severity, urn resource.URN, text string, stream int32) {
	h.sinks.status.Logf(severity, diag.StreamMessage(urn, text, stream))
}

func (h *host) Provider(_ *plugin.Context, wanted workspace.PluginDescriptor, _ env.Env) (plugin.Provider, error) {
	if wanted.Name != pluginName {
		return nil, errNotHere
	}
	provider, err := h.plugins.lend()
	if err != nil {
		return nil, err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.lent = append(h.lent, provider)
	return provider, nil
}

func (h *host) LanguageRuntime(*plugin.Context, string) (plugin.LanguageRuntime, error) {
	return h.program, nil
}

func (h *host) PolicyAnalyzer(
	*plugin.Context, tokens.QName, string, *plugin.PolicyAnalyzerOptions,
) (plugin.Analyzer, error) {
	return nil, errNotHere
}

func (h *host) ProviderFromPath(*plugin.Context, string, env.Env) (plugin.Provider, error) {
	return nil, errNotHere
}

func (h *host) ResolvePlugin(*plugin.Context, workspace.PluginDescriptor) (*workspace.PluginInfo, error) {
	return nil, errNotHere
}

func (h *host) Loader(*plugin.Context) (*plugin.GrpcServer, error)   { return nil, nil }
func (h *host) Mapper(*plugin.Context) (*plugin.GrpcServer, error)   { return nil, nil }
func (h *host) Resolver(*plugin.Context) (*plugin.GrpcServer, error) { return nil, nil }
func (h *host) StartDebugging(plugin.DebuggingInfo) error            { return nil }
func (h *host) AttachDebugger(plugin.DebugSpec) bool                 { return false }
func (h *host) ReleaseContext(*plugin.Context) error                 { return nil }
func (h *host) SignalCancellation() error                            { return nil }
func (h *host) Close() error                                         { return nil }
