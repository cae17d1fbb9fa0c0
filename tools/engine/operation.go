package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/pulumi/pulumi/pkg/v3/backend"
	"github.com/pulumi/pulumi/pkg/v3/backend/display"
	"github.com/pulumi/pulumi/pkg/v3/backend/diy"
	"github.com/pulumi/pulumi/pkg/v3/engine"
	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	"github.com/pulumi/pulumi/pkg/v3/util/cancel"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag"
	"github.com/pulumi/pulumi/sdk/v3/go/common/diag/colors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
)

const (
	runtimeName = "resident"
	pluginName  = "kubernetes"
	parallel    = 32
)

var discard = diag.DefaultSink(io.Discard, io.Discard, diag.FormatOptions{Color: colors.Never})

// perform runs one operation and writes its events to the connection.
func (s *server) perform(ctx context.Context, asked request, connection *net.UnixConn) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("the resident engine failed: %v", panicked)
		}
	}()
	project := &workspace.Project{
		Name: tokens.PackageName(asked.Project), Runtime: workspace.NewProjectRuntimeInfo(runtimeName, nil),
	}
	stack, err := findStack(ctx, asked, project)
	if err != nil {
		return err
	}
	update, err := prepare(asked, project)
	if err != nil {
		return err
	}
	path, end, err := openEventLog(connection)
	if err != nil {
		return err
	}
	defer end()
	update.Opts.Display.EventLogPath = path
	update.Scopes = scopes{ctx}
	opened, err := s.open(asked)
	if err != nil {
		return err
	}
	defer opened.release()
	update.Opts.Engine.HostFactory = func(context.Context, diag.Sink, diag.Sink, plugin.DebugContext) (plugin.Host, error) {
		return opened, nil
	}
	return execute(context.WithoutCancel(ctx), asked.Operation, stack, update)
}

func execute(ctx context.Context, name string, stack backend.Stack, update backend.UpdateOperation) (err error) {
	switch name {
	case "up":
		_, err = backend.UpdateStack(ctx, stack, update, nil)
	case "preview":
		_, _, err = backend.PreviewStack(ctx, stack, update, nil)
	case "refresh":
		_, err = backend.RefreshStack(ctx, stack, update)
	case "destroy":
		_, err = backend.DestroyStack(ctx, stack, update)
	default:
		err = fmt.Errorf("the resident engine has no operation %q", name)
	}
	return err
}

func findStack(ctx context.Context, asked request, project *workspace.Project) (backend.Stack, error) {
	store, err := diy.New(ctx, discard, asked.Backend, project)
	if err != nil {
		return nil, err
	}
	name, err := store.ParseStackReference(fmt.Sprintf("organization/%s/%s", asked.Project, asked.Stack))
	if err != nil {
		return nil, err
	}
	stack, err := store.GetStack(ctx, name)
	if err == nil && stack == nil {
		err = fmt.Errorf("no stack named '%s' found", asked.Stack)
	}
	return stack, err
}

func prepare(asked request, project *workspace.Project) (backend.UpdateOperation, error) {
	key := dataKey(asked.Key)
	manager, err := key.OfType(context.Background(), asked.Secrets, asked.SecretsState)
	if err != nil {
		return backend.UpdateOperation{}, err
	}
	return backend.UpdateOperation{
		Proj:               project,
		Root:               asked.Folder,
		M:                  &backend.UpdateMetadata{Environment: map[string]string{}},
		SecretsManager:     manager,
		SecretsProvider:    key,
		StackConfiguration: backend.StackConfiguration{Config: config.Map{}, Decrypter: manager.Decrypter()},
		Opts: backend.UpdateOptions{
			AutoApprove: true,
			SkipPreview: true,
			Engine:      engine.UpdateOptions{Parallel: parallel, ParallelDiff: true, SkipPluginPreInstall: true},
			Display: display.Options{
				Color: colors.Never, SummaryJSON: true, SuppressPermalink: true, Stdout: io.Discard, Stderr: io.Discard,
			},
		},
	}, nil
}

// scopes cancels an operation when its context ends. The end of an operation ends the engine's goroutines too, which
// would otherwise wait for a cancellation for ever.
type scopes struct{ context.Context }

type scope struct {
	context *cancel.Context
	source  *cancel.Source
	forget  func() bool
}

func (s scopes) NewScope(context.Context, chan<- engine.Event, bool) backend.CancellationScope {
	cancellation, source := cancel.NewContext(context.WithoutCancel(s.Context))
	return &scope{cancellation, source, context.AfterFunc(s.Context, func() { source.Cancel() })}
}

func (s *scope) Context() *cancel.Context { return s.context }

func (s *scope) Close() {
	s.forget()
	s.source.Terminate()
}

// openEventLog returns the path of a pipe that Pulumi takes for the file of its event log; what it writes goes to the
// connection. The caller ends it, which waits for the last event.
func openEventLog(connection io.Writer) (path string, end func(), err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer read.Close()
		if _, err := io.Copy(connection, read); err != nil {
			_, _ = io.Copy(io.Discard, read) // nobody hears it, and the engine must not wait
		}
	}()
	return fmt.Sprintf("/proc/self/fd/%d", write.Fd()), func() {
		_ = write.Close()
		<-done
	}, nil
}
