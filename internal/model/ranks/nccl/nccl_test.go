package nccl

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// Ranks of tests are processes of their own, as NCCL wants it. Their settings travel in the environment.
const (
	rankVariable, worldVariable     = "PAIRSTREAM_TEST_RANK", "PAIRSTREAM_TEST_WORLD"
	addressVariable, roundsVariable = "PAIRSTREAM_TEST_ADDRESS", "PAIRSTREAM_TEST_ROUNDS"
)

func TestMain(m *testing.M) {
	if os.Getenv(rankVariable) == "" {
		os.Exit(m.Run())
	}
	if err := beRank(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func number(variable string) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		panic(variable + ": " + err.Error())
	}
	return n
}

// beRank adds up parts with the other ranks, and prints what comes out. After a loss it begins again.
func beRank() error {
	o := torchtest.On(torch.WorkerOptions{})
	options := ranks.Options{
		Rank: number(rankVariable), World: number(worldVariable), Address: os.Getenv(addressVariable), Token: "secret",
		Silence: time.Minute, Wait: time.Minute, Transport: Transport{o.Device}, Log: slog.New(slog.DiscardHandler),
	}
	for {
		err := sums(context.Background(), options, number(roundsVariable))
		if !errors.Is(err, ranks.ErrLost) {
			return err
		}
		fmt.Println("lost:", err)
	}
}

// sums joins the others and adds up a part in each round.
func sums(ctx context.Context, o ranks.Options, rounds int) (err error) {
	var sum func(own ranks.Part) (ranks.Part, error)
	var leave func(error) bool
	if o.Rank == 0 {
		l, err := ranks.Lead(ctx, o)
		if err != nil {
			return err
		}
		leave = l.Close
		sum = func(own ranks.Part) (ranks.Part, error) {
			return l.Sum(ctx, own, func([][]byte) ([]byte, error) { return nil, nil })
		}
	} else {
		m, err := ranks.Join(ctx, o)
		if err != nil {
			return err
		}
		leave = m.Close
		sum = func(own ranks.Part) (ranks.Part, error) { return m.Sum(ctx, own) }
	}
	defer func() { leave(err) }()
	for round := range rounds {
		own := ranks.Part{Vectors: share(o.World, round, o.Rank)}
		begin := time.Now()
		all, err := sum(own)
		if err != nil {
			return err
		}
		fmt.Println("round", round, digest(all.Vectors), time.Since(begin))
	}
	return nil
}

// share draws the vectors of a rank. Some are missing, and sums of such values depend on the order of additions.
func share(world, round, rank int) (vectors [][]float32) {
	r := rand.New(rand.NewPCG(uint64(round*world+rank), 7))
	for i, n := range []int{1, 0, 5, 3<<20 + 3, 17, 4, 64} {
		if i == 4 || i == 2 && rank%2 == 0 || i == 5 && rank > 0 || i == 6 && rank == world-1 {
			vectors = append(vectors, nil) // of nobody, of some, of rank 0 alone, of all but the last
			continue
		}
		v := make([]float32, n)
		for k := range v {
			v[k] = math.Float32frombits(r.Uint32() &^ (1 << 30)) // of any size below 2, subnormal ones among them
		}
		if n > 0 {
			v[n-1] = float32(math.Copysign(0, -1)) // on all ranks that have one: adding a zero would change it
		}
		vectors = append(vectors, v)
	}
	return vectors
}

// wanted adds the shares of ranks from to to along the tree, one half and then the other.
func wanted(shares [][][]float32) [][]float32 {
	if len(shares) == 1 {
		return shares[0]
	}
	half := 1
	for 2*half < len(shares) {
		half *= 2
	}
	left, right := wanted(shares[:half]), wanted(shares[half:])
	for i := range left {
		switch {
		case left[i] == nil:
			left[i] = right[i]
		case right[i] != nil:
			for k := range left[i] {
				left[i][k] += right[i][k]
			}
		}
	}
	return left
}

func digest(vectors [][]float32) string {
	h := sha256.New()
	for _, v := range vectors {
		fmt.Fprintln(h, v != nil, len(v))
		raw := make([]byte, 0, 4*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// process is a rank.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// start starts a rank. All share this machine's GPUs, so each says that it is on a host of its own.
func start(t *testing.T, rank, world, rounds int, address string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprint(rankVariable, "=", rank), fmt.Sprint(worldVariable, "=", world), fmt.Sprint(roundsVariable, "=", rounds),
		addressVariable+"="+address, fmt.Sprint("NCCL_HOSTID=rank", rank), "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1")
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	return &process{cmd, bufio.NewScanner(out)}
}

// until reads lines until one begins with a text, or all. It returns the digests of the last tries' rounds.
func (p *process) until(text string) (digests []string, lines []string) {
	for p.lines.Scan() {
		line := p.lines.Text()
		lines = append(lines, line)
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "lost"):
			digests = nil
		case fields[0] == "round":
			digests = append(digests, fields[2])
		}
		if text != "" && strings.HasPrefix(line, text) {
			break
		}
	}
	return digests, lines
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func onGPU(t *testing.T) {
	t.Helper()
	if !torchtest.OnGPU() {
		t.Skipf("%s=cuda runs this where there is a GPU", torchtest.Variable)
	}
}

// finish waits for ranks, and compares what each has added up in its last try with the tree's sums.
func finish(t *testing.T, world, rounds int, all []*process) {
	t.Helper()
	for rank, p := range all {
		digests, lines := p.until("")
		if err := p.cmd.Wait(); err != nil || len(digests) != rounds {
			t.Errorf("rank %d: %v, %d rounds, want %d: %s", rank, err, len(digests), rounds, strings.Join(lines[max(0, len(lines)-5):], "\n"))
			continue
		}
		t.Log("rank", rank, lines[len(lines)-1])
		for round, got := range digests {
			var shares [][][]float32
			for rank := range world {
				shares = append(shares, share(world, round, rank))
			}
			if want := digest(wanted(shares)); got != want {
				t.Errorf("rank %d of %d: the sum of round %d is %s, want %s", rank, world, round, got, want)
			}
		}
	}
}

// All ranks get the bits of the sum along the tree, whatever their number.
func TestSumIsThatOfTheTree(t *testing.T) {
	onGPU(t)
	const rounds = 3
	for _, world := range []int{2, 3, 4, 8} {
		address := freeAddress(t)
		var all []*process
		for rank := range world {
			all = append(all, start(t, rank, world, rounds, address))
		}
		finish(t, world, rounds, all)
	}
}

// A rank that is killed ends the group on all others. They make another one with its successor, and get the same sums.
func TestARankIsKilled(t *testing.T) {
	onGPU(t)
	const world, rounds = 3, 60
	address := freeAddress(t)
	var all []*process
	for rank := range world {
		all = append(all, start(t, rank, world, rounds, address))
	}
	all[1].until("round 5")
	must.Do(t, all[1].cmd.Process.Kill())
	_ = all[1].cmd.Wait() // it was killed
	all[1] = start(t, 1, world, rounds, address)
	for _, rank := range []int{0, 2} {
		if _, lines := all[rank].until("lost"); !strings.HasPrefix(lines[len(lines)-1], "lost: rank 1 (") {
			t.Errorf("rank %d says %q, want the loss of rank 1", rank, lines[len(lines)-1])
		}
	}
	finish(t, world, rounds, all)
}

// Where there is no NCCL, or no GPU, an error says so.
func TestWithoutAGPU(t *testing.T) {
	if torchtest.OnGPU() {
		t.Skip("this machine has a GPU")
	}
	id, err := Transport{"cuda"}.NewID()
	if err == nil { // the library is there
		_, err = Transport{"cuda"}.Open(t.Context(), id, 0, 2)
	}
	if err == nil || !strings.Contains(err.Error(), "RANK_EXCHANGE=tcp") || !strings.HasPrefix(err.Error(), "nccl: ") {
		t.Errorf("without a GPU: %v", err)
	}
	if _, err := (Transport{"cuda"}).Open(t.Context(), []byte("short"), 0, 2); err == nil || !strings.Contains(err.Error(), "an id of 5 bytes, want 128") {
		t.Errorf("an id that is too short: %v", err)
	}
}
