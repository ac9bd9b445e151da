package kafka

import (
	"slices"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestBalancer(t *testing.T) {
	member := func(id string, held ...int) kafka.GroupMember {
		b := new(balancer)
		b.hold(held)
		data := must.Get(b.UserData())(t)
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
