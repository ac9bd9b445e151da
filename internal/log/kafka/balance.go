package kafka

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go"
)

// balancer assigns lanes so that the owners' numbers of lanes differ by at most one. An owner keeps as many of its
// lanes as it can, because a lane that changes hands is rebuilt from the start of its open group. Every member lists
// its lanes in its user data.
type balancer struct {
	mu   sync.Mutex
	held []int
}

// ProtocolName implements kafka.GroupBalancer.
func (*balancer) ProtocolName() string { return "pairstream-sticky" }

// UserData implements kafka.GroupBalancer.
func (b *balancer) UserData() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var data []byte
	for _, lane := range b.held {
		data = binary.AppendUvarint(data, uint64(lane))
	}
	return data, nil
}

func (b *balancer) hold(lanes []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = slices.Clone(lanes)
}

// AssignGroups implements kafka.GroupBalancer. All members subscribe to the same single topic.
func (*balancer) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	members = slices.SortedFunc(slices.Values(members), func(a, b kafka.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	topic, free := "", make(map[int]bool)
	for _, p := range partitions {
		topic, free[p.ID] = p.Topic, true
	}
	lanes := make([][]int, len(members))
	quota := func(extra bool) int { // the number of lanes of a member when all are shared out
		n := len(partitions) / len(members)
		if extra {
			n++
		}
		return n
	}
	larger := len(partitions) % len(members) // this many members have one lane more
	for i, m := range members {
		for _, lane := range heldLanes(m.UserData) {
			if n := len(lanes[i]); free[lane] && (n < quota(false) || n == quota(false) && larger > 0) {
				if n == quota(false) {
					larger--
				}
				lanes[i] = append(lanes[i], lane)
				delete(free, lane)
			}
		}
	}
	rest := make([]int, 0, len(free))
	for lane := range free {
		rest = append(rest, lane)
	}
	slices.Sort(rest)
	for _, extra := range []bool{false, true} {
		for i := range members {
			for len(rest) > 0 && len(lanes[i]) < quota(extra) {
				lanes[i] = append(lanes[i], rest[0])
				rest = rest[1:]
			}
		}
	}
	assignments := make(kafka.GroupMemberAssignments, len(members))
	for i, m := range members {
		assignments[m.ID] = map[string][]int{topic: lanes[i]}
	}
	return assignments
}

func heldLanes(data []byte) []int {
	var lanes []int
	for len(data) > 0 {
		lane, n := binary.Uvarint(data)
		if n <= 0 {
			return nil // another program's data: the member counts as having no lanes
		}
		lanes = append(lanes, int(lane))
		data = data[n:]
	}
	return lanes
}
