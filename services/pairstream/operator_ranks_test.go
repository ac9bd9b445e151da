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

// loseRank ends rank 1 in the midst of training, and starts another one in its place at once, or none. Once all ranks were
// there, rank 0 ends and names it, unless the training has just come to its end.
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
	if !strings.Contains(lost.log.String(), "training with rank 0") {
		return // rank 0 may still wait for it, or for the one that comes in its place
	}
	select {
	case <-first.done:
	case <-time.After(silence):
		w.fatalf("rank 1 has ended, and rank 0 goes on alone")
	}
	if first.err != nil && !strings.Contains(first.err.Error(), "rank 1 ") {
		w.fatalf("rank 1 has ended, and rank 0 ends with %v", first.err)
	}
}

// lostRank finds what a trainer says that has lost another one, or has not found it at the start.
func lostRank(text string) bool {
	return strings.Contains(text, "when all ranks are back") || strings.Contains(text, "RANK_JOIN_TIMEOUT")
}

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
