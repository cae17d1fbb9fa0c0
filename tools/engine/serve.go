package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const longestRequest = 1 << 26

// request is the one line that a client sends. When it closes its writing side, or goes away, the operation is
// cancelled.
type request struct {
	// Operation is up, preview, refresh or destroy. `end` cancels the operation of the stack and waits for its end,
	// `status` reports figures of the process.
	Operation string `json:"operation"`
	Project   string `json:"project"`
	Stack     string `json:"stack"`
	// Folder is the stack's own, with its settings file.
	Folder  string `json:"folder"`
	Backend string `json:"backend"`
	// Program is the address of the language runtime of `up` and `preview`, or List is what it would register.
	Program string `json:"program"`
	List    *list  `json:"list"`
	// Secrets and SecretsState are the type and state of the stack's secrets manager. Key decrypts them; empty for a
	// stack of a passphrase.
	Secrets      string          `json:"secrets"`
	SecretsState json.RawMessage `json:"secrets_state"`
	Key          []byte          `json:"key"`
}

// answer is the last line that a client gets. The lines before it are engine events, as `--event-log` writes them.
type answer struct {
	Ended  bool           `json:"ended"`
	Error  string         `json:"error,omitempty"`
	Status map[string]int `json:"status,omitempty"`
}

// server runs at most one operation a stack.
type server struct {
	plugins *fleet
	context context.Context
	running sync.Map // of *update, by the name of the stack
}

// update is a running operation.
type update struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// listen opens the socket in its folder, which only this user may enter. The working folder changes to it, since the
// address of a Unix socket has at most 107 bytes.
func listen(socket string) (*net.UnixListener, error) {
	folder, name := filepath.Dir(socket), filepath.Base(socket)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Chmod(folder, 0o700), os.Chdir(folder)); err != nil {
		return nil, err
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
}

// accept returns when the listener is closed and every connection has ended.
func (s *server) accept(listener *net.UnixListener) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		connection, err := listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // too many open files, for example: others will be closed
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(100 * time.Millisecond)
		default:
			open.Go(func() { s.serve(connection) })
		}
	}
}

func (s *server) serve(connection *net.UnixConn) {
	defer connection.Close()
	if !isOwn(connection) {
		return
	}
	line, err := bufio.NewReader(io.LimitReader(connection, longestRequest)).ReadBytes('\n')
	if err != nil {
		return
	}
	var asked request
	given := answer{Ended: true}
	if err = json.Unmarshal(line, &asked); err == nil {
		err = s.answer(asked, connection, &given)
	}
	if err != nil {
		given.Error = err.Error()
	}
	_ = json.NewEncoder(connection).Encode(given) // a client that has gone needs no answer
}

// isOwn tells whether a process of this user is at the other end.
func isOwn(connection *net.UnixConn) (own bool) {
	raw, err := connection.SyscallConn()
	if err == nil {
		_ = raw.Control(func(descriptor uintptr) {
			peer, err := syscall.GetsockoptUcred(int(descriptor), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
			own = err == nil && int(peer.Uid) == os.Geteuid()
		})
	}
	return own
}

func (s *server) answer(asked request, connection *net.UnixConn, given *answer) error {
	switch asked.Operation {
	case "status":
		running := 0
		s.running.Range(func(any, any) bool {
			running++
			return true
		})
		given.Status = map[string]int{"goroutines": runtime.NumGoroutine(), "running": running}
		return nil
	case "end":
		if found, isRunning := s.running.Load(asked.Stack); isRunning {
			found.(*update).cancel()
			<-found.(*update).done
		}
		return nil
	}
	if s.context.Err() != nil {
		return errors.New("the resident engine ends; the next one repairs it")
	}
	ctx, cancel := context.WithCancel(s.context)
	defer cancel()
	began := &update{cancel, make(chan struct{})}
	if _, isLocked := s.running.LoadOrStore(asked.Stack, began); isLocked {
		return errors.New("the stack is currently locked by an operation of this resident engine")
	}
	defer close(began.done)
	defer s.running.Delete(asked.Stack)
	go func() {
		_, _ = io.Copy(io.Discard, connection)
		cancel()
	}()
	return s.perform(ctx, asked, connection)
}
