// A process that holds Pulumi's engine and one Kubernetes plugin, and runs the operations of many stacks.
//
// It does what one `pulumi up`, `preview`, `refresh` or `destroy` does, by Pulumi's own packages and so with the same
// state, locks and history, without starting a command line for each. Requests arrive at a Unix socket (serve.go). The
// end of stdin and a signal cancel the running operations and end the process.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	prSetPdeathsig = 1
	// protocol changes when an older daemon or an older program would misunderstand the other.
	protocol = 2
)

func main() {
	if len(os.Args) != 4 {
		fail(fmt.Errorf("usage: %s SOCKET PLUGIN SCRATCH-FOLDER", os.Args[0]))
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetPdeathsig, uintptr(syscall.SIGINT), 0)
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(socket, pluginPath, scratch string) error {
	plugins, err := newFleet(pluginPath, scratch)
	if err != nil {
		return err
	}
	defer plugins.close()
	listener, err := listen(socket)
	if err != nil {
		return err
	}
	if err := reportReady(); err != nil {
		return err
	}
	server := &server{plugins: plugins, running: map[string]*update{}}
	go func() {
		awaitEnd()
		_ = listener.Close()
		server.cancelAll()
	}()
	server.accept(listener)
	return nil
}

// reportReady prints one line. Nobody reads what Pulumi's packages print after it.
func reportReady() (err error) {
	if _, err = fmt.Println("ready", protocol); err == nil {
		os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	return err
}

func awaitEnd() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		signals <- syscall.SIGINT
	}()
	<-signals
}
