// What runs in a container on the devnet's real node: a static program that serves, dials, eats memory and more.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const usage = `standin serve [PORT|udp:[ADDRESS:]PORT]...   answer HTTP (and UDP datagrams) on each port; the default. In a URL
                                   ?wait=SECONDS delays the answer, ?unread=SECONDS the reading of the request's
                                   body, ?status=CODE is the answer's status, ?header=BYTES adds a header so long
standin pause                      wait for a signal and reap children
standin get URL...                 print each answer
standin dial [udp:|ping:]ADDRESS... print OPEN or CLOSED for each
standin resolve NAME...            print the addresses of each name
standin poll URL MILLISECONDS SECONDS [HOST]   ask again and again; print how many answers failed at the end or at a signal
standin probe MILLISECONDS SECONDS [udp:]ADDRESS...   the same with dials: how often, first and last one opened
standin eat MIB                    keep so much memory
standin write FILE MIB             write so much
standin forks COUNT                start so many sleeping children
standin burn SECONDS               use a processor
standin exit STATUS                end with this status after a line on stderr`

func main() {
	verb, rest := "serve", []string{}
	if len(os.Args) > 1 {
		verb, rest = os.Args[1], os.Args[2:]
	}
	verbs := map[string]func([]string){
		"serve": serve, "pause": pause, "get": get, "dial": dial, "resolve": resolve, "poll": poll, "probe": probe,
		"eat": eat, "write": write, "forks": forks, "burn": burn, "exit": exit,
	}
	act, known := verbs[verb]
	if !known {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	act(rest)
}

func untilSignal() os.Signal {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	return <-ended
}

func signalled() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	return ctx
}

func over(end time.Time, signalled context.Context) bool {
	return signalled.Err() != nil || !time.Now().Before(end)
}

func pause([]string) {
	go func() {
		for {
			if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil {
				time.Sleep(time.Second)
			}
		}
	}()
	untilSignal()
}

func serve(ports []string) {
	if len(ports) == 0 {
		ports = []string{"80"}
	}
	host, _ := os.Hostname()
	version := os.Getenv("STANDIN_VERSION")
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Printf("%s %s %s from %s host %s\n", time.Now().Format(time.RFC3339Nano), r.Method, r.URL.Path, r.RemoteAddr, r.Host)
		answerAsAsked(w, r)
		fmt.Fprintf(w, "hello from %s, host %s, to %s, version %s\n", host, r.Host, r.RemoteAddr, version)
	})
	for _, port := range ports {
		if number, udp := strings.CutPrefix(port, "udp:"); udp {
			go echo(number, host)
			continue
		}
		go func() { fmt.Println(http.ListenAndServe(":"+port, mux)) }()
	}
	fmt.Println("serving", ports, "as", host)
	fmt.Println("ended by", untilSignal())
}

// The query chooses the answer, as the usage says.
func answerAsAsked(w http.ResponseWriter, r *http.Request) {
	time.Sleep(secondsOf(r, "unread"))
	io.Copy(io.Discard, r.Body)
	time.Sleep(secondsOf(r, "wait"))
	if length, err := strconv.Atoi(r.URL.Query().Get("header")); err == nil {
		w.Header().Set("X-Long", strings.Repeat("x", min(max(length, 0), 1<<20)))
	}
	if status, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
		w.WriteHeader(status)
	}
}

func secondsOf(r *http.Request, name string) time.Duration {
	seconds, _ := strconv.ParseFloat(r.URL.Query().Get(name), 64)
	return time.Duration(seconds * float64(time.Second))
}

func echo(port, host string) {
	if !strings.Contains(port, ":") {
		port = ":" + port
	}
	connection, err := net.ListenPacket("udp", port)
	if err != nil {
		fmt.Println(err)
		return
	}
	buffer := make([]byte, 2048)
	for {
		count, from, err := connection.ReadFrom(buffer)
		if err != nil {
			return
		}
		connection.WriteTo([]byte(host+": "+string(buffer[:count])), from)
	}
}

func get(urls []string) {
	client := http.Client{Timeout: 3 * time.Second}
	for _, url := range urls {
		answer, err := client.Get(url)
		if err != nil {
			fmt.Println(url, "ERROR", err)
			continue
		}
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
		answer.Body.Close()
		fmt.Println(url, answer.StatusCode, strings.TrimSpace(string(body)))
	}
}

func dial(addresses []string) {
	results := make([]chan string, len(addresses))
	for i, address := range addresses {
		results[i] = make(chan string, 1)
		go func() { results[i] <- try(address) }()
	}
	for i, address := range addresses {
		fmt.Println(<-results[i], address)
	}
}

func try(address string) string {
	if target, udp := strings.CutPrefix(address, "udp:"); udp {
		return tryDatagram(target)
	}
	if target, ping := strings.CutPrefix(address, "ping:"); ping {
		return tryPing(target)
	}
	connection, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil {
		if strings.Contains(err.Error(), "refused") {
			return "REFUSED"
		}
		return "CLOSED"
	}
	connection.Close()
	return "OPEN"
}

func tryDatagram(address string) string {
	connection, err := net.Dial("udp", address)
	if err != nil {
		return "CLOSED"
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(2 * time.Second))
	connection.Write([]byte("hello"))
	if _, err := connection.Read(make([]byte, 100)); err != nil {
		if strings.Contains(err.Error(), "refused") {
			return "REFUSED"
		}
		return "CLOSED"
	}
	return "OPEN"
}

// An echo request by a datagram socket: it needs net.ipv4.ping_group_range and no capability.
func tryPing(address string) string {
	ip := net.ParseIP(address).To4()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, syscall.IPPROTO_ICMP)
	if ip == nil || err != nil {
		return "FORBIDDEN"
	}
	defer syscall.Close(fd)
	wait := syscall.Timeval{Sec: 2}
	syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait)
	to := &syscall.SockaddrInet4{}
	copy(to.Addr[:], ip)
	if syscall.Sendto(fd, []byte{8, 0, 0, 0, 0, 0, 0, 1}, 0, to) != nil {
		return "CLOSED"
	}
	answer := make([]byte, 100)
	if n, _, err := syscall.Recvfrom(fd, answer, 0); err != nil || n == 0 || answer[0] != 0 {
		return "CLOSED"
	}
	return "OPEN"
}

func resolve(names []string) {
	for _, name := range names {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
		found, err := net.DefaultResolver.LookupHost(ctx, name)
		done()
		fmt.Println(name, found, err)
	}
}

func poll(arguments []string) {
	pause, _ := strconv.Atoi(arguments[1])
	seconds, _ := strconv.ParseFloat(arguments[2], 64)
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	asked, failed := 0, 0
	signalled := signalled()
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); !over(end, signalled); asked++ {
		request, _ := http.NewRequest("GET", arguments[0], nil)
		if len(arguments) > 3 {
			request.Host = arguments[3]
		}
		answer, err := client.Do(request)
		if err != nil || answer.StatusCode != 200 {
			failed++
			fmt.Println(time.Now().Format(time.RFC3339Nano), "failed", err)
		}
		if err == nil {
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	fmt.Println("asked", asked, "failed", failed)
}

// Dials start at a steady pace: one that hangs does not delay the next.
func probe(arguments []string) {
	pause, _ := strconv.Atoi(arguments[0])
	seconds, _ := strconv.ParseFloat(arguments[1], 64)
	signalled := signalled()
	var all sync.WaitGroup
	for _, address := range arguments[2:] {
		all.Add(1)
		go func() {
			defer all.Done()
			probeOne(address, time.Duration(pause)*time.Millisecond, time.Now().Add(time.Duration(seconds*float64(time.Second))), signalled)
		}()
	}
	all.Wait()
}

func probeOne(address string, pause time.Duration, end time.Time, signalled context.Context) {
	var dials sync.WaitGroup
	var lock sync.Mutex
	asked, opened := 0, []time.Time{}
	for ; !over(end, signalled); asked++ {
		start := time.Now()
		dials.Add(1)
		go func() {
			defer dials.Done()
			if try(address) == "OPEN" {
				lock.Lock()
				defer lock.Unlock()
				opened = append(opened, start)
			}
		}()
		time.Sleep(pause)
	}
	dials.Wait()
	first, last := "never", "never"
	if len(opened) > 0 {
		slices.SortFunc(opened, time.Time.Compare)
		first, last = opened[0].Format(time.RFC3339Nano), opened[len(opened)-1].Format(time.RFC3339Nano)
	}
	fmt.Println("asked", asked, "opened", len(opened), "first", first, "last", last, address)
}

func eat(arguments []string) {
	mib, _ := strconv.Atoi(arguments[0])
	kept := make([][]byte, 0, mib)
	for i := range mib {
		block := make([]byte, 1<<20)
		for j := range block {
			block[j] = 1
		}
		kept = append(kept, block)
		if i%16 == 0 {
			fmt.Println("ate", i, "MiB")
		}
	}
	fmt.Println("ate all", len(kept))
	untilSignal()
}

func write(arguments []string) {
	mib, _ := strconv.Atoi(arguments[1])
	file, err := os.Create(arguments[0])
	block := make([]byte, 1<<20)
	for i := 0; err == nil && i < mib; i++ {
		_, err = file.Write(block)
	}
	if err == nil {
		err = file.Sync()
	}
	fmt.Println("wrote", arguments[1], "MiB:", err)
	if err != nil {
		os.Exit(1)
	}
}

func forks(arguments []string) {
	count, _ := strconv.Atoi(arguments[0])
	started := 0
	for ; started < count; started++ {
		if _, err := os.StartProcess("/proc/self/exe", []string{"standin", "pause"}, &os.ProcAttr{}); err != nil {
			fmt.Println("no more:", err)
			break
		}
	}
	fmt.Println("started", started)
}

func burn(arguments []string) {
	seconds, _ := strconv.ParseFloat(arguments[0], 64)
	var turns uint64
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(end); {
		turns++
	}
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	fmt.Printf("burnt %d.%06d s of CPU in %.1f s\n", used.Utime.Sec, used.Utime.Usec, seconds)
}

func exit(arguments []string) {
	status, _ := strconv.Atoi(arguments[0])
	fmt.Fprintln(os.Stderr, "ending with", status)
	os.Exit(status)
}
