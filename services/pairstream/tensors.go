package main

// tensorNames are the names of the commands that need libtorch or FAISS, which a build without cgo answers with a remedy.
var tensorNames = []string{
	"batches", "bootstrap", "demo", "eval", "faiss", "finetune", "plan", "replay", "run-manifest",
	"search", "settings", "up",
}
