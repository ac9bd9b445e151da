// Package capacity computes the GPUs, cores, storage and memory that encode, group and train on a crawl of a given size
// within a given number of days.
//
// A [Request] holds the pairs, the days, a model's counts of operations, and a kind of GPU. A [Plan] holds the GPUs and
// processor cores of every stage, lanes, storage, traffic and memory, and lists the [Assumption] behind every figure.
//
// Guarantees:
//
//  1. A plan is a function of its request. The package reads no clock, environment or machine.
//  2. Every stage finishes within the requested days if the assumptions hold.
//  3. If no plan meets a request, the error names the value to change.
//
// Training begins after a tenth of the days. Half of that tenth fills the first group of every lane, and the other half
// closes these groups. Later groups are filled and closed while their lanes train on earlier ones.
//
// A plan has no reserve for queues, failures or slow networks.
package capacity

// Model holds the operations and the size of a model. A multiplication with its addition counts as two operations.
type Model struct {
	Name       string
	Encode     float64 // operations of a pair in the encoder
	Score      float64 // of the connection discriminator, per pair and epoch; 0: there is none
	Train      float64 // of a training step, per pair and epoch
	Dim        float64 // values of a vector
	Parameters float64
}

// GPU is a kind of GPU, with the figures of its data sheet.
type GPU struct {
	Name       string
	Operations float64 // per second, of dense products in bfloat16
	Bandwidth  float64 // bytes per second of its memory
	Memory     float64 // bytes
}

// Request describes the crawl and the time for it.
type Request struct {
	Pairs     float64
	Days      float64
	Epochs    float64
	Group     float64 // pairs of a group, GROUP_SIZE
	Lanes     int     // LANES; 0: as many as the stages need
	Batch     float64 // pairs of a mini-batch, BATCH_SIZE
	Space     float64 // pairs of a walk, SEARCH_SPACE
	Image     float64 // bytes of an image in the bucket
	TrainRate float64 // measured pairs/s of a GPU in training; 0: predicted from operations
	Model     Model
	GPU       GPU
}

// Stage holds the devices that a stage needs.
type Stage struct {
	Name     string
	GPUHours float64
	GPUs     int
	Cores    int     // of processors, in addition to the GPUs
	Rate     float64 // pairs/s of the stage, with every pair counted once for each epoch
}

// Plan is the answer to a request.
type Plan struct {
	Request Request
	Lanes   int
	Group   float64 // pairs of a group; fewer than requested if a lane has fewer
	Rounds  int     // groups of a lane, one after the other

	Fill, Close, Train float64 // seconds to fill the first groups, to close them, and to train
	Stages             []Stage
	IndexerCores       int // that close the groups in this time without GPUs

	Kept       float64 // bytes on all brokers, if records that are not needed are deleted
	Everything float64 // bytes on all brokers, if nothing is deleted
	Written    float64 // bytes/s that stages write, before replication
	Brokers    int

	Reads      float64 // bytes/s from the bucket
	ReadImages float64 // requests/s to the bucket

	IndexerMemory  float64 // bytes of all open groups
	ClosingMemory  float64 // additional bytes for each group that is closing
	IndexerDevice  float64 // bytes on the GPU that closes a group
	GrouperMemory  float64
	TrainerWeights float64 // bytes of weights, gradients and moments on each GPU
	Exchange       float64 // bytes/s that each GPU of the trainer sends, and as many that it receives; 0: there is one GPU

	Assumptions []Assumption
}
