package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// listing is a line of `pairstream --help`.
type listing struct {
	name, short string
	example     string // without the program's name
	rare        bool   // only its group's help lists it
	tensors     bool   // it needs libtorch or FAISS
}

// group is a heading of `pairstream --help`. `pairstream help ID` lists all of its commands.
type group struct {
	id, title string
	entries   []listing
}

// groups holds every command, in the order of the help.
var groups = []group{
	{"run", "Run the pipeline", []listing{
		{
			name: "demo", short: "run the whole pipeline on one machine and show the result", tensors: true,
			example: "demo --data /data/shards",
		},
		{
			name: "up", short: "run all stages in this process, with the embedded broker unless KAFKA_BROKERS is set", tensors: true,
			example: "up --config pairstream.toml",
		},
		{name: "broker", short: "run the embedded broker by itself, for one machine", example: "broker --data data/broker"},
		{name: "topics", short: "create or check the topics of the namespace", rare: true, example: "topics check"},
	}},
	{"feed", "Feed pairs into it", []listing{
		{
			name: "synth", short: "write shards of captioned scenes: drawn pictures whose true captions are known",
			example: "synth --scenes 1000 scenes",
		},
		{
			name: "fetch", short: "download the images of a list into tars, and publish them",
			example: "fetch laion.parquet --out s3://crawl/laion/",
		},
		{name: "produce", short: "publish the pairs of WebDataset tars, by reference", example: "produce /data/shards --final"},
		{name: "ingest", short: "take pairs by HTTP: POST /v1/pairs", example: "ingest --max-lag 10000"},
		{name: "seal", short: "close the open group of a lane, or of all lanes", example: "seal --lane 0"},
		{
			name: "vocab", short: "make a WordPiece vocabulary from captions", rare: true,
			example: "vocab /data/shards --out vocab.txt",
		},
	}},
	{"watch", "Watch it", []listing{
		{name: "status", short: "show the progress of every stage in every lane, and dead letters", example: "status --watch"},
		{
			name: "progress", short: "print the reports of training: losses, learning rate, evaluations",
			example: "progress --follow --kind eval",
		},
		{
			name: "console", short: "serve web pages that show the run: flow, training, groups, pairs, connections",
			example: "console --data data",
		},
		{
			name: "report", short: "write one page that shows a run: curves, before and after, connections, examples",
			example: "report --out report.html",
		},
		{
			name: "healthcheck", short: "check the health of the service at HEALTH_ADDR or HTTP_ADDR", rare: true,
			example: "healthcheck /readyz",
		},
	}},
	{"judge", "Judge what it made", []listing{
		{
			name: "eval", short: "measure a checkpoint's retrieval, matching and use as Con-D, or a run's negatives", tensors: true,
			example: "eval --checkpoint data/bootstrap.safetensors --holdout 500 /data/shards",
		},
		{
			name: "compare", short: "show runs side by side: settings, models, evaluations, losses, connections",
			example: "compare run.json other.json --html page.html",
		},
		{
			name: "connections", short: "write the connections of a run as WebDataset tars, for `produce`",
			example: "connections --above 0.9 --out connections",
		},
		{
			name: "search", short: "answer searches over the segments of all closed groups, at LIVE_ADDR", rare: true, tensors: true,
			example: "search --config pairstream.toml",
		},
		{
			name: "faiss", short: "write the closed groups in SEGMENTS_ROOT as indexes that FAISS reads", rare: true, tensors: true,
			example: "faiss indexes",
		},
	}},
	{"train", "Train and measure", []listing{
		{
			name: "bootstrap", short: "train a first model on a slice of the data, for the encoder, Con-D and the trainer", tensors: true,
			example: "bootstrap --out data/bootstrap.safetensors /data/shards",
		},
		{
			name: "finetune", short: "fine-tune a model for retrieval, as the papers make Con-D", tensors: true,
			example: "finetune --checkpoint data/bootstrap.safetensors --out data/finetuned.safetensors /data/shards",
		},
		{
			name: "batches", short: "write the mini-batches of a finished data set into Parquet files, without Kafka", tensors: true,
			example: "batches --out plan --weights data/bootstrap.safetensors /data/shards",
		},
	}},
	{"operate", "Operate it", []listing{
		{
			name: "plan", short: "compute the GPUs, cores, lanes, storage and memory that a crawl needs", tensors: true,
			example: "plan --pairs 1e9 --days 30 --gpu h100",
		},
		{
			name: "settings", short: "list every setting with its default and meaning", tensors: true,
			example: "settings --recipe mafa --toml",
		},
		{name: "dead-letters", short: "list, show or put back records that stages have set aside", example: "dead-letters list"},
		{name: "lanes", short: "show lanes that are parked or wait, find the damage, and skip it", example: "lanes list"},
		{
			name: "forget", short: "take images back: out of training, live search and the console",
			example: "forget --url taken-back.txt",
		},
		{
			name: "run-manifest", short: "describe a finished run: offsets, settings, models, digests of every lane", tensors: true,
			example: "run-manifest --out run.json",
		},
		{
			name: "replay", short: "repeat a run in another namespace, and report the first record that differs", tensors: true,
			example: "replay run.json --namespace again",
		},
	}},
}

// addCommands adds the commands to root, in the order of groups.
func addCommands(root *cobra.Command, commands ...*cobra.Command) {
	cobra.EnableCommandSorting = false
	byName := map[string]*cobra.Command{}
	for _, cmd := range commands {
		byName[cmd.Name()] = cmd
	}
	ids := make([]string, 0, len(groups))
	for _, g := range groups {
		ids = append(ids, g.id)
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title + ":"})
		for _, e := range g.entries {
			if cmd := byName[e.name]; cmd != nil {
				cmd.Short, cmd.GroupID, cmd.Hidden = e.short, g.id, e.rare
				cmd.Example = "  pairstream " + e.example
				root.AddCommand(cmd)
			}
		}
		root.AddCommand(&cobra.Command{Use: g.id, Short: g.title, Long: g.list(), Hidden: true})
	}
	root.Long = root.Short + ".\nThe help of each group also lists rare commands: `pairstream help " + strings.Join(ids, "|") + "`."
	root.InitDefaultHelpFlag()
	root.Flags().Lookup("help").Hidden = true // the last line of the help tells of it
	root.SetHelpCommandGroupID(ids[0])
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		cmd.Hidden = cmd.Hidden || cmd.Name() == "help"
	}
}

// list returns the commands of a group as its help shows them, with the rare ones.
func (g group) list() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", g.title)
	for _, e := range g.entries {
		fmt.Fprintf(&b, "  %-12s %s\n", e.name, e.short)
	}
	b.WriteString("\n`pairstream COMMAND --help` explains a command.")
	return b.String()
}

// tensorNames returns the names of the commands that need libtorch or FAISS.
func tensorNames() []string {
	var names []string
	for _, g := range groups {
		for _, e := range g.entries {
			if e.tensors {
				names = append(names, e.name)
			}
		}
	}
	return names
}

// onlyReads reports whether a command changes no record, so that it may run with settings that no longer hold.
func onlyReads(cmd *cobra.Command) bool {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	switch path {
	case "vocab", "plan", "settings", "run-manifest", "dead-letters list", "dead-letters show", "lanes list", "lanes look":
		return true
	}
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd.GroupID == "watch" || cmd.GroupID == "judge"
}
