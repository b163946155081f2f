package timeoutwheel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func FuzzWheel(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		// The model is quadratic; longer inputs find nothing that these do not.
		drive(t, data[:min(len(data), 4096)])
	})
}

func TestAgainstModel(t *testing.T) {
	rounds := uint64(3000)
	if testing.Short() {
		rounds = 300
	}
	for seed := range rounds {
		random := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 50+random.IntN(2000))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { drive(t, data) }) {
			return
		}
	}
}
