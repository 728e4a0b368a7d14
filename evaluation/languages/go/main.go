package main

import (
	"answer"
	"bassline/wire"
)

func main() {
	wire.Serve(answer.Bassline_())
}
