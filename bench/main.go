// Command bench measures a chat turn with one tool call, every message
// durably committed, through Steward and through a bare loop side by side:
// same machine, same run, in turns. The model server, the bare loop and
// Steward each are a process of their own.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"steward/bench/fakemodel"
)

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "child-") {
		if err := child(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "fewer turns and windows: a check that it runs, not a measurement")
	only := flag.String("only", "", "turns, or long: one part of it")
	flag.Parse()
	var err error
	if *only != "long" {
		err = run(*short)
	}
	if err == nil && *only != "turns" {
		err = runLong(*short)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// child runs one of the processes: the model server, or a contender that
// takes orders on its standard input.
func child(kind string, args []string) error {
	if kind == "child-model" {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println("http://" + ln.Addr().String() + "/v1")
		go http.Serve(ln, fakemodel.Handler("math__multiply"))
		_, err = io.Copy(io.Discard, os.Stdin) // until the parent is gone
		return err
	}
	if strings.HasPrefix(kind, "child-serve-") {
		return serveWS(kind, args[0], args[1])
	}
	open := map[string]func(dir, model string) (contender, error){
		"child-bare": openBare, "child-bare-ws": openRemote("child-serve-bare"),
		"child-steward": openSteward, "child-steward-ws": openRemote("child-serve-steward"),
	}[kind]
	if open == nil || len(args) != 2 {
		return fmt.Errorf("no such child")
	}
	c, err := open(args[0], args[1])
	if err != nil {
		return err
	}
	return serve(c)
}

// process is a child that takes orders.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	in    *json.Encoder
	out   *bufio.Scanner
}

func start(kind string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{kind}, args...)...)
	cmd.Stderr = os.Stderr
	w, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out := bufio.NewScanner(r)
	out.Buffer(nil, 1<<20)
	return &process{cmd, w, json.NewEncoder(w), out}, nil
}

func (p *process) line() (string, error) {
	if !p.out.Scan() {
		return "", fmt.Errorf("%s ended: %v", p.cmd.Args[1], p.out.Err())
	}
	return p.out.Text(), nil
}

func (p *process) do(o order) (report, error) {
	if err := p.in.Encode(o); err != nil {
		return report{}, err
	}
	l, err := p.line()
	if err != nil {
		return report{}, err
	}
	var r report
	return r, json.Unmarshal([]byte(l), &r)
}

// stop ends the process as it likes to end: when it is told nothing more.
func (p *process) stop() {
	p.stdin.Close()
	p.cmd.Wait()
}

func run(short bool) error {
	model, err := start("child-model")
	if err != nil {
		return err
	}
	defer model.stop()
	url, err := model.line()
	if err != nil {
		return err
	}
	windows := 7
	afters := []int{10, 100, 1000}
	if short {
		windows, afters = 3, []int{5, 20}
	}
	about, err := machine()
	if err != nil {
		return err
	}
	fmt.Println(about)
	fmt.Println("A turn: user message, tool call, result, answer; two model calls; four messages durably committed.")
	fmt.Println("Each figure is the median of", windows, "windows, bare and Steward in turns; the ratio is the median of the windows' ratios.")
	fmt.Println()
	fmt.Println("| through | conversations | after turns | CPU ms/turn bare | Steward | ratio | p50 ms bare | Steward | ratio | p99 ms bare | Steward | turns/s bare | Steward |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	var tails []string
	for _, through := range []string{"runtime", "WebSocket"} {
		for _, convs := range []int{1, 32} {
			lines, err := pair(url, through, convs, afters, windows, short)
			if err != nil {
				return err
			}
			tails = append(tails, lines...)
		}
	}
	fmt.Println()
	fmt.Println("| through | conversations | turns each | memory MB bare (RSS) | Steward (RSS) | Steward (live heap) | disk B/turn bare | Steward | of it content | Steward beyond content, first and last stretch |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	fmt.Println(strings.Join(tails, "\n"))
	return nil
}

// pair measures both contenders in turns.
func pair(url, through string, convs int, afters []int, windows int, short bool) ([]string, error) {
	suffix := ""
	if through == "WebSocket" {
		suffix = "-ws"
		afters = afters[:1]
	}
	var ps [2]*process
	for i, kind := range []string{"child-bare", "child-steward"} {
		dir, err := os.MkdirTemp("", "steward-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if ps[i], err = start(kind+suffix, dir, url); err != nil {
			return nil, err
		}
		defer ps[i].stop()
	}
	full := 20
	if convs == 1 || through == "WebSocket" { // its CPU is read in steps of 10 ms
		full = 100
	}
	if short {
		full = 5
	}
	window := full
	done := 0
	var disks [2][]report
	for n, after := range afters {
		if n+1 < len(afters) { // the windows must not reach the next mark
			window = min(window, (afters[n+1]-after)/windows)
		} else {
			window = full
		}
		var got [2][]report
		for i := range ps {
			if _, err := ps[i].do(order{Conversations: convs, Turns: after - done}); err != nil {
				return nil, err
			}
		}
		done = after
		for range windows {
			for i := range ps {
				r, err := ps[i].do(order{Conversations: convs, Turns: window})
				if err != nil {
					return nil, err
				}
				got[i] = append(got[i], r)
			}
			done += window
		}
		fmt.Println(row(through, convs, after, got))
		for i := range ps {
			r, err := ps[i].do(order{Disk: true})
			if err != nil {
				return nil, err
			}
			r.Turns = done
			disks[i] = append(disks[i], r)
		}
	}
	return []string{memoryRow(through, convs, done, disks)}, nil
}

func row(through string, convs, after int, got [2][]report) string {
	med := func(i int, f func(report) float64) float64 {
		var v []float64
		for _, r := range got[i] {
			v = append(v, f(r))
		}
		return median(v)
	}
	ratio := func(f func(report) float64) float64 {
		var v []float64
		for i := range got[0] {
			v = append(v, f(got[1][i])/f(got[0][i]))
		}
		return median(v)
	}
	cpu := func(r report) float64 { return r.CPU }
	p50 := func(r report) float64 { return r.P50 }
	p99 := func(r report) float64 { return r.P99 }
	rate := func(r report) float64 { return r.Rate }
	return fmt.Sprintf("| %s | %d | %d | %.3f | %.3f | **%.2f** | %.2f | %.2f | **%.2f** | %.2f | %.2f | %.0f | %.0f |",
		through, convs, after, med(0, cpu), med(1, cpu), ratio(cpu), med(0, p50), med(1, p50), ratio(p50),
		med(0, p99), med(1, p99), med(0, rate), med(1, rate))
}

func memoryRow(through string, convs, turns int, d [2][]report) string {
	last := len(d[0]) - 1
	per := func(r report) float64 { return float64(r.DiskBytes) / float64(r.Turns*convs) }
	stretch := func(a, b report) float64 {
		return float64(b.DiskBytes-a.DiskBytes-(b.Content-a.Content)) / float64((b.Turns-a.Turns)*convs)
	}
	steward := d[1]
	firstStretch := stretch(report{}, steward[0])
	lastStretch := firstStretch
	if last > 0 {
		lastStretch = stretch(steward[last-1], steward[last])
	}
	return fmt.Sprintf("| %s | %d | %d | %.0f | %.0f | %.1f | %.0f | %.0f | %.0f | %.0f, %.0f |", through, convs, turns,
		d[0][last].RSS, steward[last].RSS, steward[last].Heap, per(d[0][last]), per(steward[last]),
		float64(steward[last].Content)/float64(turns*convs), firstStretch, lastStretch)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
