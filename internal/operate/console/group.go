package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

const (
	groupsShown    = 200
	clustersAPage  = 8
	nounsShown     = 60
	batchesAPage   = 60
	randomOfSheet  = 6
	histogramWide  = 280
	histogramTall  = 80
	mostOfClusters = 60
)

func (s *Server) groupsPage(w http.ResponseWriter, r *http.Request) error {
	groups, err := s.o.Index.Groups(r.Context(), groupsShown)
	if err != nil {
		return err
	}
	return s.answer(w, r, "groups.html", page{Title: "Groups", Path: "/groups", Data: groups})
}

type groupView struct {
	*index.Group
	Manifest *schemas.Group
	Missing  string
	Sheets   []sheet
	From     int
	Next     int // of the clusters; 0: these are the last
	Clusters int64
	Nouns    []noun
	AllNouns int
	Graphs   []histogram
	Epochs   []index.Epoch
	Epoch    int32
	Batches  []index.Batch
	More     int // first batch of the next page; 0: there is none
}

type sheet struct {
	index.Sheet
	Rows []sheetRow
}

type sheetRow struct {
	Name  string
	Pairs []*index.Pair
}

type noun struct {
	Word  string
	Count int64
	Share float64
}

type histogram struct {
	Title, Low, High, Unit string
	Bars                   []bar
	Median                 string
}

func (s *Server) groupPage(w http.ResponseWriter, r *http.Request) error {
	q := query{Request: r}
	id, from := q.group(), q.form("clusters", 0, mostOfClusters)
	if q.err != nil {
		return q.err
	}
	g, err := s.o.Index.Group(r.Context(), id)
	if err != nil {
		return err
	}
	v := &groupView{Group: g, From: int(from)}
	if g.Offset >= 0 {
		if v.Manifest, err = record[*schemas.Group](r.Context(), s.records, schemas.Groups, int(id.Lane), g.Offset); err != nil {
			if r.Context().Err() != nil {
				return err
			}
			v.Missing = "The log did not return the manifest: " + clip(200, err.Error())
		}
	}
	if err := s.sheets(r.Context(), v); err != nil {
		return err
	}
	v.nouns()
	v.histograms()
	if err := s.groupBatches(r, v); err != nil {
		return err
	}
	return s.answer(w, r, "group.html", page{Title: "Group " + id.String(), Path: "/groups", Data: v})
}

func (s *Server) sheets(ctx context.Context, v *groupView) error {
	list, err := s.o.Index.Sheets(ctx, v.N, v.From, clustersAPage+1)
	if err != nil {
		return err
	}
	if len(list) > clustersAPage {
		list, v.Next = list[:clustersAPage], v.From+clustersAPage
	}
	for _, c := range list {
		out := sheet{Sheet: c}
		random, err := s.o.Index.ClusterMates(ctx, v.N, c.Cluster, 0, randomOfSheet) // a lane is in random order
		if err != nil {
			return err
		}
		nearest, err := s.o.Index.Members(ctx, v.N, c.Nearest)
		if err != nil {
			return err
		}
		farthest, err := s.o.Index.Members(ctx, v.N, c.Farthest)
		if err != nil {
			return err
		}
		out.Rows = []sheetRow{{"Nearest to the centroid", nearest}, {"Random", random}, {"Farthest", farthest}}
		v.Sheets = append(v.Sheets, out)
	}
	return nil
}

// nouns lists the objects by how many images show them.
func (v *groupView) nouns() {
	if v.Manifest == nil {
		return
	}
	v.AllNouns, v.Clusters = len(v.Manifest.Nouns), int64(v.Manifest.Clusters)
	most := int64(1)
	for at, n := range v.Stats.Nouns {
		if at >= 0 && int(at) < len(v.Manifest.Nouns) {
			v.Nouns = append(v.Nouns, noun{Word: v.Manifest.Nouns[at], Count: n})
			most = max(most, n)
		}
	}
	slices.SortFunc(v.Nouns, func(a, b noun) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word)) })
	v.Nouns = v.Nouns[:min(len(v.Nouns), nounsShown)]
	for i := range v.Nouns {
		v.Nouns[i].Share = 100 * float64(v.Nouns[i].Count) / float64(most)
	}
}

func (v *groupView) histograms() {
	sim := v.Stats.Sim
	low, high := 0, len(sim)
	for low < high-1 && sim[low] == 0 {
		low++
	}
	for high > low+1 && sim[high-1] == 0 {
		high--
	}
	edge := func(i int) string { return fmt.Sprintf("%.3g", float64(i)*2/float64(len(sim))-1) }
	v.graph("Similarity v·t of a pair", edge(low), edge(high), "", sim[low:high], func(i int) string { return edge(low+i) + " to " + edge(low+i+1) })
	whole := func(i int) string { return inspect.Count(int64(i)) }
	if n := len(v.Stats.SE); n > 0 {
		v.graph("Equivalent images (SE) of an image", "0", whole(n-1), "images", v.Stats.SE, whole)
	}
	last := len(v.Stats.Objects)
	for last > 2 && v.Stats.Objects[last-1] == 0 {
		last--
	}
	v.graph("Objects in obj(v)", "0", whole(last-1), "objects", v.Stats.Objects[:last], whole)
}

func (v *groupView) graph(title, low, high, unit string, counts []int64, label func(int) string) {
	all, seen := int64(0), int64(0)
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return
	}
	h := histogram{Title: title, Low: low, High: high, Unit: unit, Bars: bars(counts, histogramWide, histogramTall, label)}
	for i, n := range counts {
		if seen += n; 2*seen >= all {
			h.Median = label(i)
			break
		}
	}
	v.Graphs = append(v.Graphs, h)
}

func (s *Server) groupBatches(r *http.Request, v *groupView) (err error) {
	if v.Epochs, err = s.o.Index.Epochs(r.Context(), v.N); err != nil || len(v.Epochs) == 0 {
		return err
	}
	q := query{Request: r}
	v.Epoch = int32(q.form("epoch", int64(v.Epochs[len(v.Epochs)-1].Epoch), 1<<31-1))
	from := q.form("batches", 0, 1<<31-1)
	if q.err != nil {
		return q.err
	}
	v.Batches, err = s.o.Index.GroupBatches(r.Context(), v.N, v.Epoch, int(from), batchesAPage+1)
	if len(v.Batches) > batchesAPage {
		v.Batches, v.More = v.Batches[:batchesAPage], int(v.Batches[batchesAPage].Sequence)
	}
	return err
}
