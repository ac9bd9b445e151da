package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/model/ranks"
)

// Exchange is what an exchange of gradients costs each of some ranks.
type Exchange struct {
	Ranks     int     `json:"ranks"`
	RoundTrip float64 `json:"round_trip"` // seconds from a rank to another and back
	Counted   float64 `json:"counted"`    // bytes that a rank sends in a step, and receives
	Sent      float64 `json:"sent"`       // on the line of the rank that sends most, with all headers
	Received  float64 `json:"received"`   // on the line of the rank that receives most
	Predicted float64 `json:"predicted"`  // seconds, by the counted bytes with the headers of TCP and Ethernet, and two round trips
	Seconds   float64 `json:"seconds"`    // median of the steps, on the slowest rank; 0: not measured
}

const (
	gradient  = 1 << 20 // values
	lineRate  = 5e6     // bytes/s of a rank's line, each way
	rankSteps = 5       // that are measured, after one that is not
	rankPort  = 29500

	// On a line a segment of 1,448 bytes has headers of 66, and every second segment that comes is acknowledged by 66.
	onWire = (1448 + 66 + 66/2.) / 1448
)

// roundTrips are times from a rank to another and back: of one room, of two cities.
var roundTrips = []time.Duration{0, 20 * time.Millisecond}

// rankCommand is the argument by which this program is a rank.
const rankCommand = "rank"

// exchange measures steps of several ranks. Each is a process in a network namespace, with a line of limited rate.
func exchange(ctx context.Context, s sizes) (any, error) {
	if err := newNetwork(1).try(ctx); err != nil {
		return nil, fmt.Errorf("%w: it makes network namespaces, which needs root and iproute2: %w", errNotHere, err)
	}
	var out []Exchange
	for _, trip := range roundTrips {
		for _, world := range []int{1, 2, 4, 8} {
			e, err := exchangeOf(ctx, world, trip)
			if err != nil {
				return nil, fmt.Errorf("%d ranks: %w", world, err)
			}
			s.say("ranks: %d, %s apart and back: a rank sends %.2f MB in a step (%.2f MB counted), which takes %.3f s (%.3f s predicted)",
				world, trip, e.Sent/1e6, e.Counted/1e6, e.Seconds, e.Predicted)
			out = append(out, e)
		}
		out = append(out, predicted(256, trip))
	}
	return out, nil
}

// predicted counts an exchange: bytes take the time, and two round trips. In the first the ranks agree on what they add
// up. In the other the last shares travel to their owner, and the sum comes back.
func predicted(world int, trip time.Duration) Exchange {
	counted := 2 * float64(world-1) / float64(world) * 4 * gradient
	e := Exchange{Ranks: world, RoundTrip: trip.Seconds(), Counted: counted}
	if world > 1 {
		e.Predicted = counted*onWire/lineRate + 2*trip.Seconds()
	}
	return e
}

func exchangeOf(ctx context.Context, world int, trip time.Duration) (Exchange, error) {
	e := predicted(world, trip)
	if world == 1 {
		return e, nil
	}
	reports, err := inNetwork(ctx, world, trip, pass{World: world})
	for _, r := range reports {
		e.Sent, e.Received, e.Seconds = max(e.Sent, r.Sent), max(e.Received, r.Received), max(e.Seconds, r.median())
	}
	return e, err
}

// inNetwork runs ranks in a network of their own, and returns what they report.
func inNetwork(ctx context.Context, world int, trip time.Duration, p pass) (reports []rankReport, err error) {
	n := newNetwork(world)
	n.trip = trip
	defer func() { err = errors.Join(err, n.remove(context.WithoutCancel(ctx))) }()
	if err := n.make(ctx); err != nil {
		return nil, err
	}
	reports = make([]rankReport, world)
	all, running := errgroup.WithContext(ctx)
	for rank := range world {
		all.Go(func() (err error) {
			reports[rank], err = n.rank(running, rank, p)
			return err
		})
	}
	return reports, all.Wait()
}

// network is a bridge in a namespace of its own, to which each rank's namespace has a line.
type network struct {
	name  string
	ranks int
	trip  time.Duration // from a rank to another and back; 0: as fast as the lines are
	wires []*wire
}

// newNetwork returns a network whose names no other process has.
func newNetwork(ranks int) *network {
	return &network{name: fmt.Sprintf("ps%d", os.Getpid()), ranks: ranks}
}

func (n *network) space(rank int) string { return fmt.Sprintf("%s-%d", n.name, rank) }

func command(ctx context.Context, line string) error {
	words := strings.Fields(line)
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, bytes.TrimSpace(out))
	}
	return nil
}

func commands(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if err := command(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// make makes the namespaces and lines.
func (n *network) make(ctx context.Context) error {
	// Queues are long enough to lose nothing. BBR, the default of some machines, shares a line badly among many
	// connections.
	rate := fmt.Sprintf("rate %dbit burst 32kb latency 2s", int(8*lineRate))
	if err := commands(ctx, "ip netns add "+n.name, "ip -n "+n.name+" link add hub type bridge", "ip -n "+n.name+" link set hub up"); err != nil {
		return err
	}
	for rank := range n.ranks {
		space, line := n.space(rank), fmt.Sprintf("line%d", rank)
		if err := command(ctx, "ip netns add "+space); err != nil {
			return err
		}
		if err := n.join(ctx, space, line); err != nil {
			return err
		}
		if err := commands(ctx,
			fmt.Sprintf("ip -n %s link set %s master hub up", n.name, line),
			fmt.Sprintf("ip -n %s addr add 10.77.0.%d/24 dev line", space, rank+1),
			"ip -n "+space+" link set line up",
			"ip netns exec "+space+" sysctl -q -w net.ipv4.tcp_congestion_control=reno",
			fmt.Sprintf("tc -n %s qdisc add dev line root tbf %s", space, rate),
			fmt.Sprintf("tc -n %s qdisc add dev %s root tbf %s", n.name, line, rate),
		); err != nil {
			return err
		}
	}
	return nil
}

// join lays a line from the hub to a rank. A way from rank to rank and back takes four of them.
func (n *network) join(ctx context.Context, space, line string) error {
	if n.trip == 0 {
		return command(ctx, fmt.Sprintf("ip -n %s link add %s type veth peer name line netns %s", n.name, line, space))
	}
	w, err := newWire([2]string{n.name, space}, [2]string{line, "line"}, n.trip/4)
	if err == nil {
		n.wires = append(n.wires, w)
	}
	return err
}

// try says why this machine has no such network.
func (n *network) try(ctx context.Context) error {
	return errors.Join(n.make(ctx), n.remove(ctx))
}

// remove removes what is there of the network.
func (n *network) remove(ctx context.Context) error {
	var problems []error
	for _, w := range n.wires {
		problems = append(problems, w.close())
	}
	for rank := range n.ranks {
		if _, err := os.Stat("/run/netns/" + n.space(rank)); err == nil {
			problems = append(problems, command(ctx, "ip netns del "+n.space(rank)))
		}
	}
	if _, err := os.Stat("/run/netns/" + n.name); err == nil {
		problems = append(problems, command(ctx, "ip netns del "+n.name))
	}
	return errors.Join(problems...)
}

// rankReport is what a rank says of its steps.
type rankReport struct {
	Sent, Received float64 // bytes on its line, a step
	Seconds        []float64
}

func (r rankReport) median() float64 {
	slices.Sort(r.Seconds)
	return r.Seconds[len(r.Seconds)/2]
}

// rank runs a rank in its namespace.
func (n *network) rank(ctx context.Context, rank int, p pass) (r rankReport, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	seat, err := json.Marshal(map[string]any{"Rank": rank, "Pass": p})
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, "ip", "netns", "exec", n.space(rank), self, rankCommand, string(seat))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		return r, fmt.Errorf("rank %d: %w", rank, err)
	}
	return r, nil
}

// join joins a rank to the others. end waits until all ranks have made their steps.
func join(ctx context.Context, rank, world int) (sum func(ranks.Part) (ranks.Part, error), end func() error, leave func(error) bool, err error) {
	o := ranks.Options{
		Rank: rank, World: world, Address: fmt.Sprintf("10.77.0.1:%d", rankPort), Port: rankPort, Token: "simulation",
		Silence: time.Minute, Wait: time.Minute, Log: slog.New(slog.DiscardHandler),
	}
	if rank > 0 {
		member, err := ranks.Join(ctx, o)
		if err != nil {
			return nil, nil, nil, err
		}
		sum = func(own ranks.Part) (ranks.Part, error) { return member.Sum(ctx, own) }
		return sum, func() error { return member.Tell([]byte("it has made its steps")) }, member.Close, nil
	}
	leader, err := ranks.Lead(ctx, o)
	if err != nil {
		return nil, nil, nil, err
	}
	sum = func(own ranks.Part) (ranks.Part, error) {
		return leader.Sum(ctx, own, func([][]byte) ([]byte, error) { return nil, nil })
	}
	end = func() (err error) {
		for other := 1; other < world && err == nil; other++ {
			_, err = leader.Hear(ctx, other)
		}
		return err
	}
	return sum, end, leader.Close, nil
}

// stepsOf times some steps.
func stepsOf(ctx context.Context, p pass, sum func(ranks.Part) (ranks.Part, error)) (r rankReport, err error) {
	own := make([]float32, gradient)
	if err = p.step(ctx, own, sum); err != nil { // all are there and have begun
		return r, err
	}
	received, sent, err := onLine()
	if err != nil {
		return r, err
	}
	for range rankSteps {
		began := time.Now()
		if err = p.step(ctx, own, sum); err != nil {
			return r, err
		}
		r.Seconds = append(r.Seconds, time.Since(began).Seconds())
	}
	nowReceived, nowSent, err := onLine()
	r.Received, r.Sent = (nowReceived-received)/rankSteps, (nowSent-sent)/rankSteps
	return r, err
}

// onLine returns the bytes that have come and gone on this namespace's line.
func onLine() (received, sent float64, err error) {
	raw, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		name, counts, _ := strings.Cut(strings.TrimSpace(line), ":")
		if fields := strings.Fields(counts); name == "line" && len(fields) > 8 {
			received, err = strconv.ParseFloat(fields[0], 64)
			if err == nil {
				sent, err = strconv.ParseFloat(fields[8], 64)
			}
			return received, sent, err
		}
	}
	return 0, 0, errors.New("this namespace has no line")
}
