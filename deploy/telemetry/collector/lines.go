package main

import (
	"context"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// config of the exporter `lines`: it appends to a file what it gets, a line of OTLP's JSON for each call.
type config struct {
	Path string `mapstructure:"path"`
}

// lines writes calls as they come, so that a test sees each at once. The file exporter of the contributed components would do, but a
// module that its tests need cannot be had from every proxy.
type lines struct {
	mutex sync.Mutex
	file  *os.File
}

func (l *lines) write(line []byte, err error) error {
	if err != nil {
		return err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	_, err = l.file.Write(append(line, '\n'))
	return err
}

func open(of component.Config) (*lines, error) {
	file, err := os.OpenFile(of.(*config).Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return &lines{file: file}, err
}

func newLines() exporter.Factory {
	traces := func(ctx context.Context, set exporter.Settings, of component.Config) (exporter.Traces, error) {
		to, err := open(of)
		if err != nil {
			return nil, err
		}
		push := func(_ context.Context, all ptrace.Traces) error {
			return to.write((&ptrace.JSONMarshaler{}).MarshalTraces(all))
		}
		return exporterhelper.NewTraces(ctx, set, of, push)
	}
	metrics := func(ctx context.Context, set exporter.Settings, of component.Config) (exporter.Metrics, error) {
		to, err := open(of)
		if err != nil {
			return nil, err
		}
		push := func(_ context.Context, all pmetric.Metrics) error {
			return to.write((&pmetric.JSONMarshaler{}).MarshalMetrics(all))
		}
		return exporterhelper.NewMetrics(ctx, set, of, push)
	}
	stable := component.StabilityLevelStable
	return exporter.NewFactory(component.MustNewType("lines"), func() component.Config { return &config{} },
		exporter.WithTraces(traces, stable), exporter.WithMetrics(metrics, stable))
}
