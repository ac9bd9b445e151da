//go:build cgo

package main

import (
	"maps"
	"net"
	"strconv"
	"strings"
	"time"
)

// joinRanks starts the trainers beside rank 0. Rank 0 alone has a folder and the first weights.
func (w *world) joinRanks() {
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	w.check(err)
	w.env["MASTER_PORT"] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	w.check(l.Close())
	w.joinRank()
}

// joinRank starts the trainer beside rank 0.
func (w *world) joinRank() {
	environ := maps.Clone(w.env)
	environ["RANK"], environ["CHECKPOINT_DIR"], environ["TRAIN_INIT"] = "1", "/nowhere", "/nowhere"
	w.ranks = append(w.ranks, w.launch(&member{stage: "trainer", rank: "rank 1", namespace: w.here.name}, environ))
}

// changeRanks goes on with two trainers, or with one again.
func (w *world) changeRanks() {
	world := "2"
	if w.env["WORLD_SIZE"] == world {
		world = "1"
	}
	w.set("WORLD_SIZE", world, []string{"trainer"})
}

// loseRank ends rank 1 in the midst of training, and starts another one in its place at once, or none. Rank 0 waits for
// it. If none comes, rank 0 ends and names it, and all ranks begin again.
func (w *world) loseRank(comesBack bool) {
	if len(w.ranks) == 0 || len(w.members["trainer"]) == 0 {
		return
	}
	first, lost := w.members["trainer"][0], w.ranks[len(w.ranks)-1]
	if first.ended() || lost.ended() {
		return
	}
	w.ranks = nil
	lost.cancel()
	<-lost.done
	if comesBack {
		w.joinRank()
	}
}

// lostRank finds what a trainer says that has waited for another one in vain.
func lostRank(text string) bool { return strings.Contains(text, "RANK_JOIN_TIMEOUT") }

// endRanks wants every rank that has trained with rank 0 to end as it does: in order.
func (w *world) endRanks() {
	for _, m := range w.ranks {
		if !strings.Contains(m.log.String(), "training with rank 0") {
			continue
		}
		select {
		case <-m.done:
		case <-time.After(silence):
			w.fatalf("rank 0 has ended, and the %s has not", m.name())
		}
		if m.err != nil {
			w.fatalf("training has come to its end, and the %s ends with %v", m.name(), m.err)
		}
	}
}
