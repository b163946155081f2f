package upstream_test

import (
	"testing"

	"github.com/lwango/lwango/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
