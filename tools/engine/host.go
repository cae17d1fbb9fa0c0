package main

import (
	"context"
	"errors"
	"sync"

	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/env"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

var errNotHere = errors.New("the resident engine has the Kubernetes plugin and the client's program, and nothing else")

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
	connected, err := connectProgram(asked.Program)
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
		return nil, errNotHere
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
