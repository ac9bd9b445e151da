package stream

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// TestLanesAreRedistributed lets one owner of all lanes become three and one again, under load.
func TestLanesAreRedistributed(t *testing.T) {
	b := startBroker(t, BrokerOptions{})
	const lanes, n = 6, 600
	all := []int{0, 1, 2, 3, 4, 5}
	send := func(l *Log, from, to int) {
		var m []message
		for i := from; i < to; i++ {
			m = append(m, pair(i%lanes, fmt.Sprint("pair ", i)))
		}
		put(t, l, m...)
	}
	open := func(namespace string) *Log {
		cfg := testConfig(b.Addr(), namespace, lanes)
		cfg.BatchBytes = 1000
		return openLog(t, cfg)
	}
	ends := func(n int) map[schemas.Topic]int64 {
		return map[schemas.Topic]int64{schemas.Embeddings: int64(n/lanes - 1)}
	}

	l := open("moving")
	var mu sync.Mutex
	made := make(map[int]int) // how often each lane was begun anew
	owner := func() (*stageRun, *Counters) {
		spec, c := batcherSpec(), new(Counters)
		inner := spec.New
		spec.Counters = c
		spec.New = func(lane int, state []byte) (Stage, error) {
			mu.Lock()
			defer mu.Unlock()
			made[lane]++
			return inner(lane, state)
		}
		return start(l, spec), c
	}
	first, _ := owner()
	send(l, 0, n)
	awaitSeqs(t, l, ends(n), all...)
	second, sc := owner()
	third, tc := owner()
	sent := n
	await(t, "all owners have work", func() bool {
		send(l, sent, sent+lanes)
		sent += lanes
		return sc.In.Load() > 0 && tc.In.Load() > 0
	})
	second.stop(t)
	third.stop(t)
	send(l, sent, sent+n)
	sent += n
	awaitSeqs(t, l, ends(sent), all...)
	first.stop(t)

	quiet := open("quiet")
	send(quiet, 0, sent)
	r := start(quiet, batcherSpec())
	awaitSeqs(t, quiet, ends(sent), all...)
	r.stop(t)
	for _, lane := range all {
		if got, want := digest(t, l, schemas.Embeddings, lane), digest(t, quiet, schemas.Embeddings, lane); got != want {
			t.Errorf("lane %d: %s\nwith one owner: %s", lane, got, want)
		}
	}
	kept := 0
	for _, n := range made {
		if n == 1 {
			kept++
		}
	}
	if kept < lanes/3 {
		t.Errorf("lanes were begun anew %v times: want that the first owner keeps at least %d", made, lanes/3)
	}
}

func TestBalancer(t *testing.T) {
	member := func(id string, held ...int) kafka.GroupMember {
		b := new(balancer)
		b.hold(held)
		data, err := b.UserData()
		if err != nil {
			t.Fatal(err)
		}
		return kafka.GroupMember{ID: id, UserData: data}
	}
	for name, c := range map[string]struct {
		lanes   int
		members []kafka.GroupMember
		want    map[string][]int
	}{
		"one":                     {3, []kafka.GroupMember{member("a")}, map[string][]int{"a": {0, 1, 2}}},
		"two, even":               {4, []kafka.GroupMember{member("a"), member("b")}, map[string][]int{"a": {0, 1}, "b": {2, 3}}},
		"order does not count":    {4, []kafka.GroupMember{member("b"), member("a")}, map[string][]int{"a": {0, 1}, "b": {2, 3}}},
		"two, odd":                {3, []kafka.GroupMember{member("a"), member("b")}, map[string][]int{"a": {0, 2}, "b": {1}}},
		"more members than lanes": {1, []kafka.GroupMember{member("a"), member("b")}, map[string][]int{"a": {0}, "b": nil}},
		"a newcomer":              {4, []kafka.GroupMember{member("a"), member("b", 0, 1, 2, 3)}, map[string][]int{"a": {2, 3}, "b": {0, 1}}},
		"odd lane stays":          {3, []kafka.GroupMember{member("a"), member("b", 0, 1, 2)}, map[string][]int{"a": {2}, "b": {0, 1}}},
		"one leaves":              {4, []kafka.GroupMember{member("b", 2, 3)}, map[string][]int{"b": {2, 3, 0, 1}}},
		"two claim the same":      {4, []kafka.GroupMember{member("a", 1, 2), member("b", 1, 2)}, map[string][]int{"a": {1, 2}, "b": {0, 3}}},
		"claims what is not":      {2, []kafka.GroupMember{member("a", 7), member("b", 0)}, map[string][]int{"a": {1}, "b": {0}}},
		"foreign user data":       {2, []kafka.GroupMember{{ID: "a", UserData: []byte{0xff}}, member("b", 0)}, map[string][]int{"a": {1}, "b": {0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var partitions []kafka.Partition
			for i := range c.lanes {
				partitions = append(partitions, kafka.Partition{Topic: "pairs", ID: i})
			}
			got := new(balancer).AssignGroups(c.members, partitions)
			for id, want := range c.want {
				if !slices.Equal(got[id]["pairs"], want) {
					t.Errorf("%s gets %v, want %v", id, got[id]["pairs"], want)
				}
			}
		})
	}
}
