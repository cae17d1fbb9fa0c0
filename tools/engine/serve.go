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

const longestRequest = 1 << 20

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
	// Program is the address of the language runtime of `up` and `preview`.
	Program string `json:"program"`
	// Key decrypts the stack's secrets; empty for a stack of a passphrase.
	Key []byte `json:"key"`
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
	mutex   sync.Mutex
	running map[string]*update
	ending  bool
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
func isOwn(connection *net.UnixConn) bool {
	own := false
	raw, err := connection.SyscallConn()
	if err == nil {
		err = raw.Control(func(descriptor uintptr) {
			peer, err := syscall.GetsockoptUcred(int(descriptor), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
			own = err == nil && int(peer.Uid) == os.Geteuid()
		})
	}
	return err == nil && own
}

func (s *server) answer(asked request, connection *net.UnixConn, given *answer) error {
	switch asked.Operation {
	case "status":
		given.Status = s.status()
		return nil
	case "end":
		s.end(asked.Stack)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := s.begin(asked.Stack, cancel); err != nil {
		return err
	}
	defer s.finish(asked.Stack)
	go func() {
		_, _ = io.Copy(io.Discard, connection)
		cancel()
	}()
	return s.perform(ctx, asked, connection)
}

func (s *server) begin(stack string, cancel context.CancelFunc) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.ending {
		return errors.New("the resident engine ends; the next one repairs it")
	}
	if s.running[stack] != nil {
		return errors.New("the stack is currently locked by an operation of this resident engine")
	}
	s.running[stack] = &update{cancel, make(chan struct{})}
	return nil
}

func (s *server) finish(stack string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	close(s.running[stack].done)
	delete(s.running, stack)
}

func (s *server) end(stack string) {
	s.mutex.Lock()
	running := s.running[stack]
	s.mutex.Unlock()
	if running != nil {
		running.cancel()
		<-running.done
	}
}

func (s *server) cancelAll() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ending = true
	for _, running := range s.running {
		running.cancel()
	}
}

func (s *server) status() map[string]int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return map[string]int{
		"goroutines": runtime.NumGoroutine(), "plugins": int(s.plugins.alive.Load()), "running": len(s.running),
	}
}
