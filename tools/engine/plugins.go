package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pulumihost "github.com/pulumi/pulumi/pkg/v3/host"
	"github.com/pulumi/pulumi/pkg/v3/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
)

const (
	startTime = 30 * time.Second
	// youngest is the age below which a plugin is not replaced for what it answers: another may just have been refused.
	youngest = 5 * time.Second
	probeID  = "kube-system"
	probeURN = "urn:pulumi:probe::probe::kubernetes:core/v1:Namespace::probe"
)

// lostSight are texts of errors that show that the plugin's knowledge of the API server may be out of date.
var lostSight = regexp.MustCompile("unreachable|connection refused|connection reset|no route to host|i/o timeout|" +
	"no such host|x509:|Unauthorized|no matches for kind|the server could not find the requested resource|" +
	"did not contain a schema for")

// fleet has the plugin process that new operations use. A plugin can have one configuration only, so that another one
// takes its place for another configuration. One that was replaced ends when no operation uses it any more.
type fleet struct {
	path, scratch string
	context       *plugin.Context
	mutex         sync.Mutex
	current       *process
	living        sync.WaitGroup
}

// process is a running plugin. `key` is empty until it is configured.
type process struct {
	plugin.Provider
	client   pulumirpc.ResourceProviderClient
	command  *exec.Cmd
	began    time.Time
	ended    chan struct{}
	key      string
	users    sync.WaitGroup
	doubtful atomic.Bool
	broken   atomic.Bool
}

func newFleet(path, scratch string) (made *fleet, err error) {
	if err = os.MkdirAll(scratch, 0o700); err != nil {
		return nil, err
	}
	shared, err := pulumihost.New(context.Background(), nil, nil, nil, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	made = &fleet{path: path, scratch: scratch}
	made.context, err = plugin.NewContextWithHost(context.Background(), nil, nil, shared, scratch, scratch, nil, nil)
	return made, err
}

// lend returns the plugin with this configuration, or any plugin for a request without one. The caller has to end its use.
func (f *fleet) lend(ctx context.Context, asked *plugin.ConfigureRequest) (*process, error) {
	key, err := configurationKey(asked)
	if err != nil {
		return nil, err
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.current == nil || !f.current.usable() || (key != "" && f.current.key != "" && f.current.key != key) {
		if err := f.replace(); err != nil {
			return nil, err
		}
	}
	if key != "" && f.current.key == "" {
		if err := f.current.configure(ctx, *asked); err != nil {
			return nil, err
		}
		f.current.key = key
	}
	f.current.users.Add(1)
	return f.current, nil
}

// replace starts another plugin; the lock is held.
func (f *fleet) replace() error {
	old := f.current
	started, err := f.start()
	if err != nil {
		return err
	}
	f.current = started
	if old != nil {
		go func() {
			old.users.Wait()
			old.kill()
		}()
	}
	return nil
}

func (f *fleet) close() {
	f.mutex.Lock()
	if f.current != nil {
		f.current.kill()
	}
	f.mutex.Unlock()
	f.living.Wait()
	_ = os.RemoveAll(f.scratch)
}

// configurationKey also changes with the content of a kubeconfig that the inputs only name. It is empty for no request.
func configurationKey(asked *plugin.ConfigureRequest) (string, error) {
	if asked == nil {
		return "", nil
	}
	inputs := resource.ToResourcePropertyMap(asked.Inputs).Mappable()
	text, err := json.Marshal(inputs)
	if path, isText := inputs["kubeconfig"].(string); isText {
		content, _ := os.ReadFile(path) // what is no file is text itself
		text = append(text, content...)
	}
	return string(text), err
}

// start runs a plugin that the kernel ends with this process, and attaches to it.
func (f *fleet) start() (*process, error) {
	folder, err := os.MkdirTemp(f.scratch, "plugin-")
	if err != nil {
		return nil, err
	}
	started := &process{command: exec.Command(f.path, f.context.Host.ServerAddr()), began: time.Now(), ended: make(chan struct{})}
	started.command.Env = append(os.Environ(), "TMPDIR="+folder)
	started.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	port, err := f.launch(started, folder)
	if err != nil {
		return nil, err
	}
	connection, err := dial("127.0.0.1:"+port, grpc.WithChainUnaryInterceptor(started.listen))
	if err != nil {
		started.kill()
		return nil, err
	}
	f.living.Go(func() {
		<-started.ended
		_ = connection.Close()
	})
	started.client = pulumirpc.NewResourceProviderClient(connection)
	started.Provider = plugin.NewProviderWithClient(f.context, started.client, false)
	return started, nil
}

// launch returns the port that the plugin prints.
func (f *fleet) launch(started *process, folder string) (string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	started.command.Stdout = write
	failed := make(chan error)
	f.living.Go(func() {
		runtime.LockOSThread() // the death signal comes when the thread ends that started the child
		err := started.command.Start()
		_ = write.Close()
		failed <- err
		if err == nil {
			_ = started.command.Wait()
		}
		close(started.ended)
		_ = os.RemoveAll(folder)
	})
	if err := <-failed; err != nil {
		return "", err
	}
	_ = read.SetReadDeadline(time.Now().Add(startTime))
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		started.kill()
		return "", fmt.Errorf("the kubernetes plugin did not print its port: %w", err)
	}
	return strings.TrimSpace(line), nil
}

func (p *process) kill() { _ = p.command.Process.Kill() }

func (p *process) usable() bool {
	select {
	case <-p.ended:
		return false
	default:
		return !p.broken.Load() && (!p.doubtful.Load() || time.Since(p.began) < youngest)
	}
}

// configure gives the plugin its one configuration. A plugin that could not load the API server's schema then does not
// say so, stays so for ever and invents results of previews. A read shows it.
func (p *process) configure(ctx context.Context, asked plugin.ConfigureRequest) error {
	if _, err := p.Configure(ctx, asked); err != nil {
		p.broken.Store(true)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	_, err := p.client.Read(ctx, &pulumirpc.ReadRequest{Id: probeID, Urn: probeURN})
	p.broken.Store(err != nil && strings.Contains(err.Error(), "unreachable"))
	return nil
}

// listen notes answers that put the plugin in doubt.
func (p *process) listen(
	ctx context.Context, method string, asked, given any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, asked, given, connection, options...)
	if err != nil {
		p.doubt(err.Error())
	}
	if checked, isCheck := given.(*pulumirpc.CheckResponse); isCheck {
		for _, failure := range checked.Failures {
			p.doubt(failure.Reason)
		}
	}
	return err
}

func (p *process) doubt(text string) {
	if lostSight.MatchString(text) {
		p.doubtful.Store(true)
	}
}

// lentProvider is a plugin as one operation has it: with the operation's configuration, and not ended by it.
type lentProvider struct {
	plugin.Provider
	fleet *fleet
	used  *process
}

// Configure is called once, before any call about a resource.
func (l *lentProvider) Configure(
	ctx context.Context, asked plugin.ConfigureRequest,
) (plugin.ConfigureResponse, error) {
	running, err := l.fleet.lend(ctx, &asked)
	if err == nil {
		l.used.users.Done()
		l.used, l.Provider = running, running.Provider
	}
	return plugin.ConfigureResponse{}, err
}

func (l *lentProvider) Close() error                             { return nil }
func (l *lentProvider) SignalCancellation(context.Context) error { return nil }
