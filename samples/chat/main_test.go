package main

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/sampletest"
)

func TestMain(m *testing.M) { sampletest.Main(m, main) }

// patience is how long a test waits for what must come. It is not spent when things go well.
const patience = 20 * time.Second
