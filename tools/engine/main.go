// A process that holds Pulumi's engine and one Kubernetes plugin, and runs the operations of many stacks.
//
// It does what one `pulumi up`, `preview`, `refresh` or `destroy` does, by Pulumi's own packages and so with the same
// state, locks and history, without starting a command line for each. Requests arrive at a Unix socket (serve.go). The
// end of stdin and a signal cancel the running operations and end the process.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// protocol changes when an older daemon or an older program would misunderstand the other.
const protocol = 3

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatalf("usage: %s SOCKET PLUGIN SCRATCH-FOLDER", os.Args[0])
	}
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGINT), 0, 0, 0)
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
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
	if _, err := fmt.Println("ready", protocol); err != nil {
		return err
	}
	os.Stdout, _ = os.OpenFile(os.DevNull, os.O_WRONLY, 0) // nobody reads what Pulumi's packages print after it
	signals, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	ctx, stop := context.WithCancel(signals)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	server := &server{plugins: plugins, context: ctx}
	server.accept(listener)
	return nil
}
